"""A run's directory when the run continues in it, also after a kill."""

import os
import signal
import socket
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from danish_asr.base.config_tree import Tree, merge
from danish_asr.base.errors import EXIT_STOPPED, RunError
from danish_asr.base.files import LOCK_FILE, to_yaml
from danish_asr.recipe.run.run_directory import (
    best_step,
    check_continuation,
    check_model,
    check_processes,
    checkpoint_scores,
    checkpoint_steps,
    completion,
    files_of_model,
    fit_to_processes,
    locked,
    meant_checkpoint,
    resumable_steps,
    tidy,
    validations,
    weights_digest,
)
from tests.running import RECIPE, arguments, start, train, wait_for

LONG = [
    f"regime.{key}=4000"
    for key in ("num_steps", "validate_every_n_steps", "checkpoint_every_n_steps")
]


def content(run: Path) -> dict[Path, Any]:
    return {
        file: (file.stat().st_mtime_ns, file.read_bytes())
        for file in run.rglob("*")
        if file.is_file() and file.name != LOCK_FILE
    }


@pytest.mark.slow
def test_a_second_run_is_refused_and_a_killed_launcher_ends_its_processes(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TRAPS, training: torchrun, killed, leaves its processes training."""
    run = tmp_path / "run"
    process = start(RECIPE, arguments(run, dataset, *LONG), processes=2)
    wait_for((run / "metrics" / "train.jsonl").is_file, process)
    workers = [
        int(pid)
        for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ]
    assert len(workers) == 2
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    before = content(run)
    try:
        assert train(run, dataset, *LONG) == 2
        assert content(run) == before
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        process.kill()
    message = f"process {workers[0]} on {socket.gethostname()} is writing in {run}"
    assert message in capsys.readouterr().err
    process.communicate(timeout=120)  # until the last process has closed its output
    (step,) = checkpoint_steps(run)
    assert 0 < step < 4000
    assert train(run, dataset, *LONG, "trainer.max_wall_minutes=1e-6") == EXIT_STOPPED
    assert checkpoint_steps(run)[-1] == step + 1


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a checkpoint to continue from, after one with a model only."""
    run = tmp_path / "run"
    for folder in ("checkpoints/step_1/model", "checkpoints/step_2/trainer", "metrics"):
        (run / folder).mkdir(parents=True)
    return run


def row(step: int) -> str:
    return f'{{"Step": {step}, "Word Error Rate (WER)": {10 - step}, "Lapse Time": 2.5}}\n'


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, None),
        ({"trainer": {"newer": 0}}, None),
        ({"trainer": {"newer": 1}}, "trainer.newer was 0 and is now 1"),
        ({"regime": {"num_steps": 3}}, None),
        ({"regime": {"num_steps": 1}}, "regime.num_steps must be at least 2"),
        ({"regime": {"num_steps": None}}, None),
        ({"dataset": {"name": "other"}}, "dataset.name was 'mine' and is now 'other'"),
        ({"common": {"threads": 2}}, None),
        ({"common": {"seed": 2}}, "common.seed was 1 and is now 2"),
        ({"regime": {"score_metric": "cer"}}, "regime.score_metric was None"),
    ],
)
def test_a_run_continues_with_its_configuration_and_the_defaults_of_newer_keys(
    run: Path, changes: Tree, refused: str | None
) -> None:
    before: Tree = {"regime": {"num_steps": 2}, "dataset": {"name": "mine"}, "common": {"seed": 1}}
    (run / "config.yaml").write_text(to_yaml(before))
    with pytest.raises(RunError, match=refused) if refused else nullcontext():
        check_continuation(run, merge(before, changes), {"trainer": {"newer": 0}})


def test_a_folder_with_other_files_is_no_run_and_may_have_a_model(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).touch()
    check_continuation(tmp_path, {}, {})
    (tmp_path / "anna.wav").touch()
    with pytest.raises(RunError, match=f"model.path={tmp_path}"):
        check_continuation(tmp_path, {}, {})
    (tmp_path / "environment.json").touch()
    check_continuation(tmp_path, {}, {})


BEFORE: Tree = {"regime": {"num_steps": 8, "num_data_epochs": None}, "dataset": {"name": "mine"}}


def only_a_model(run: Path, step: int, before: Tree = BEFORE) -> None:
    """Give a run a last checkpoint without the state of its training."""
    (run / "checkpoints" / f"step_{step}" / "model").mkdir(parents=True)
    (run / "config.yaml").write_text(to_yaml(before))


@pytest.mark.parametrize(
    ("step", "changes"),
    [
        (4, {}),  # killed before its end
        (8, {"dataset": {"name": "other"}}),
        (8, {"regime": {"num_steps": 16}}),
        (8, {"regime": {"num_steps": None, "num_data_epochs": 2}}),
    ],
)
def test_a_run_whose_last_checkpoint_is_only_a_model_is_not_trained_over(
    run: Path, step: int, changes: Tree
) -> None:
    only_a_model(run, step)
    now = merge(BEFORE, changes)
    with pytest.raises(RunError, match=f"step_{step}.*model.path={run}.*step_2") as refused:
        check_continuation(run, now, {})
    assert ("dataset.name" in str(refused.value)) == ("dataset" in changes)
    with nullcontext() if "dataset" not in changes else pytest.raises(RunError):
        check_continuation(run, now, {}, stopped_early=True)


def test_a_run_of_models_only_is_complete_at_its_last_step_and_continues_from_a_later_state(
    run: Path,
) -> None:
    only_a_model(run, 4)
    (run / "checkpoints" / "step_2" / "trainer").rmdir()
    with pytest.raises(RunError, match=f"step_4.*model.path={run}"):
        check_continuation(run, BEFORE, {})
    only_a_model(run, 8)
    check_continuation(run, BEFORE, {})
    (run / "metrics").rmdir()  # an average
    with pytest.raises(RunError, match=f"model.path={run}"):
        check_continuation(run, BEFORE, {})
    for step in (2, 9):
        (run / "checkpoints" / f"step_{step}" / "trainer").mkdir(parents=True)
    check_continuation(run, merge(BEFORE, {"regime": {"num_steps": 9}}), {})


def test_a_run_of_models_only_has_ended_after_its_epochs_where_it_has_a_card(run: Path) -> None:
    epochs = merge(BEFORE, {"regime": {"num_steps": None, "num_data_epochs": 2}})
    only_a_model(run, 8, epochs)
    with pytest.raises(RunError, match=f"model.path={run}"):
        check_continuation(run, epochs, {})
    (run / "cards").mkdir()
    (run / "cards" / "run.yaml").touch()
    check_continuation(run, epochs, {})
    with pytest.raises(RunError, match=f"model.path={run}"):
        check_continuation(run, merge(epochs, {"regime": {"num_data_epochs": 3}}), {})


@pytest.mark.parametrize("cut", ['{"Step": 2, "Wo', '{"Step": 2}', "\0\0\n", '{"Stop": 1}\n'])
def test_metrics_after_the_last_checkpoint_are_dropped(run: Path, cut: str) -> None:
    """TRAPS, data reading: upstream's metrics files hold steps twice after a kill."""
    train, valid = (run / "metrics" / f"{name}.jsonl" for name in ("train", "valid"))
    train.write_text(row(1) + row(2) + row(3))
    valid.write_text(row(1) + cut)
    half = run / "checkpoints" / "step_137.tmp" / "model"
    half.mkdir(parents=True)
    (run / "checkpoints" / "step_138").touch()
    assert (checkpoint_steps(run), resumable_steps(run)) == ([1, 2], [2])
    tidy(run)
    assert (train.read_text(), valid.read_text()) == (row(1) + row(2), row(1))
    assert not half.parent.exists()


def test_metrics_up_to_a_last_checkpoint_that_is_only_a_model_are_kept(run: Path) -> None:
    only_a_model(run, 3)
    valid = run / "metrics" / "valid.jsonl"
    assert validations(run) == []
    valid.write_text(row(1) + row(3) + row(4))
    assert [found["Step"] for found in validations(run)] == [1, 3]
    tidy(run)
    assert valid.read_text() == row(1) + row(3)


@pytest.mark.parametrize("damaged", [b"", b"\0\0\0", b"-4\xff"])
def test_a_damaged_score_counts_as_absent_and_is_deleted_when_the_run_continues(
    run: Path, damaged: bytes
) -> None:
    scores = run / "checkpoints" / "scores"
    scores.mkdir()
    (scores / "step_2.txt").write_text("-40.5\n")
    (scores / "step_1.txt").write_bytes(damaged)
    assert checkpoint_scores(run) == {2: -40.5}
    tidy(run)
    assert [file.name for file in scores.iterdir()] == ["step_2.txt"]


@pytest.mark.parametrize(
    ("scores", "best"),
    [({1: -30.0, 2: -40.0, 9: -1.0}, 1), ({1: -40.0, 2: -40.0}, 2), ({2: -1.0}, 2), ({}, 2)],
)
def test_a_directory_means_the_best_checkpoint_of_its_run_or_the_one_it_is(
    run: Path, scores: dict[int, float], best: int
) -> None:
    (run / "checkpoints" / "scores").mkdir()
    for step, score in scores.items():
        (run / "checkpoints" / "scores" / f"step_{step}.txt").write_text(str(score))
    assert best_step(run) == best
    assert meant_checkpoint(run) == (run, best)
    assert meant_checkpoint(run / "checkpoints" / "step_2") == (run, 2)
    assert meant_checkpoint(run / "checkpoints" / "step_1" / "model") == (run, 1)
    for other in (run / "metrics", run / "checkpoints" / "scores"):
        assert meant_checkpoint(other) is None


def test_the_files_of_a_model_are_those_of_its_run_or_of_hugging_face(
    run: Path, tmp_path: Path
) -> None:
    predictions = run / "eval" / "best" / "test" / "predictions.jsonl"
    predictions.parent.mkdir(parents=True)
    for file in (predictions, predictions.with_name("evaluation.json")):
        file.touch()
    for path in (run, run / "checkpoints" / "step_1"):
        files = files_of_model(path)
        assert {run / "checkpoints", run / "cards", predictions} <= {*files}
        assert predictions.with_name("evaluation.json") in files
    hub = tmp_path / "hub"
    hub.mkdir()
    for name in ("config.json", "vocab.json", "README.md"):
        (hub / name).touch()
    named = {file.name for file in files_of_model(hub) if file.exists()}
    assert named == {"config.json", "vocab.json"}
    assert files_of_model("omniASR_CTC_300M") == []


def test_a_model_is_a_directory_or_a_name_and_no_path_that_is_neither(run: Path) -> None:
    assert check_model(run) == run
    assert check_model("omniASR_CTC_300M") == Path("omniASR_CTC_300M")
    (run / "config.yaml").touch()
    for path in (run / "config.yaml", "outputs/none"):
        with pytest.raises(RunError, match=str(path)):
            check_model(path)


def test_the_digest_of_weights_is_of_their_content_alone(tmp_path: Path) -> None:
    assert weights_digest(tmp_path, 1) is None
    for step, name, value in ((1, "sdp_00", b"a"), (2, "other", b"a"), (3, "sdp_00", b"b")):
        folder = tmp_path / "checkpoints" / f"step_{step}" / "model" / "pp_00"
        folder.mkdir(parents=True)
        with ZipFile(folder / f"{name}.pt", "w") as archive:
            archive.writestr(f"{name}/data/0", value)
    one, moved, other = (weights_digest(tmp_path, step) for step in (1, 2, 3))
    assert one == moved != other
    assert len(str(one)) == 16


def test_a_run_is_complete_at_its_last_step_or_where_nothing_can_continue(run: Path) -> None:
    assert completion(run.parent / "new", 2) is None
    assert completion(run, 3) is completion(run, None) is None
    for at_end in (2, 1):
        assert "regime.num_steps" in str(completion(run, at_end))
    only_a_model(run, 4)
    assert f"model.path={run}" in str(completion(run, 8))


def saved_by(run: Path, processes: int, *, sharded: bool = False) -> Path:
    """Give the checkpoint of step 2 the files of so many processes."""
    step = run / "checkpoints" / "step_2"
    for rank in range(processes):
        parts = ["trainer/rank", "data_reader/dp"]
        parts += ["model/pp_00/tp_00/sdp"] if sharded or rank == 0 else []
        for part in parts:
            file = step / f"{part}_0{rank}.pt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{part} {rank}")
    return step


def test_more_processes_take_the_state_of_the_first_and_fewer_leave_the_rest(run: Path) -> None:
    fit_to_processes(run, 3)
    step = saved_by(run, 2)
    assert not (step / "trainer" / "rank_02.pt").exists()
    for processes in (1, 3):
        fit_to_processes(run, processes)
        for part in ("trainer/rank", "data_reader/dp"):
            files = sorted(step.glob(f"{part}_*.pt"))
            saved = [f"{part} {number}" for number in (0, 1, 0)]
            assert [file.read_text() for file in files] == saved[: max(processes, 2)]


def test_a_sharded_run_continues_with_its_processes_and_another_says_what_a_step_takes(
    run: Path,
) -> None:
    assert check_processes(run, 4) is None
    saved_by(run, 2)
    assert check_processes(run, 2) is None
    assert "num_batches is 0.5 times" in str(check_processes(run, 4))
    saved_by(run, 2, sharded=True)
    assert check_processes(run, 2) is None
    with pytest.raises(RunError, match="Continue with 2"):
        check_processes(run, 4)


def test_the_first_process_alone_has_the_lock_of_a_run_until_its_end(
    tmp_path: Path,
) -> None:
    for rank, there in ((0, True), (1, False)):
        with locked(tmp_path, rank):
            assert (tmp_path / LOCK_FILE).exists() == there
        assert not (tmp_path / LOCK_FILE).exists()
