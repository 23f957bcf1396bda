"""A run's directory when the run continues in it, also after a kill."""

import os
import signal
import socket
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.config_tree import Tree, merge
from danish_asr.base.errors import EXIT_STOPPED, RunError
from danish_asr.base.files import LOCK_FILE, to_yaml
from danish_asr.recipe.run.run_directory import (
    check_continuation,
    checkpoint_scores,
    checkpoint_steps,
    resumable_steps,
    tidy,
    validations,
)
from tests.running import RECIPE, arguments, start, train, wait_for

LONG = [f"regime.{key}=4000" for key in ("num_steps", "validate_every_n_steps")]


LONG += ["regime.checkpoint_every_n_steps=4000"]


def content(run: Path) -> dict[Path, Any]:
    return {
        file: (file.stat().st_mtime_ns, file.read_bytes())
        for file in run.rglob("*")
        if file.is_file() and file.name != LOCK_FILE
    }


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
        ({"dataset": {"name": "other"}}, "dataset.name was 'mine' and is now 'other'"),
        ({"common": {"seed": 3}}, "common.seed was None and is now 3"),
        ({"common": {"torch": {"num_threads": 3}}}, None),
    ],
)
def test_a_run_continues_with_its_configuration_and_the_defaults_of_newer_keys(
    run: Path, changes: Tree, refused: str | None
) -> None:
    before = {"regime": {"num_steps": 2}, "dataset": {"name": "mine"}}
    (run / "config.yaml").write_text(to_yaml(before))
    with pytest.raises(RunError, match=refused) if refused else nullcontext():
        check_continuation(run, merge(before, changes), {"trainer": {"newer": 0}})


def test_a_folder_with_other_files_is_no_run_and_may_have_a_model(tmp_path: Path) -> None:
    (tmp_path / "anna.wav").touch()
    with pytest.raises(RunError, match=f"model.path={tmp_path}"):
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
    with pytest.raises(RunError, match=f"step_{step}.*model.path={run}.*step_2"):
        check_continuation(run, merge(BEFORE, changes), {})


def test_a_run_without_any_state_of_its_training_is_complete_at_its_last_step_alone(
    run: Path,
) -> None:
    only_a_model(run, 4)
    (run / "checkpoints" / "step_2" / "trainer").rmdir()
    with pytest.raises(RunError, match=f"step_4.*model.path={run}"):
        check_continuation(run, BEFORE, {})
    only_a_model(run, 8)
    check_continuation(run, BEFORE, {})


def test_a_run_continues_from_the_last_of_several_checkpoints(run: Path) -> None:
    only_a_model(run, 4)
    with pytest.raises(RunError, match="step_4"):
        check_continuation(run, BEFORE, {})
    (run / "checkpoints" / "step_6" / "trainer").mkdir(parents=True)
    check_continuation(run, BEFORE, {})


def test_an_average_is_not_trained_over_also_at_the_last_step(run: Path) -> None:
    only_a_model(run, 8)
    (run / "metrics").rmdir()
    with pytest.raises(RunError, match=f"model.path={run}"):
        check_continuation(run, BEFORE, {})


def test_a_run_of_models_only_has_ended_after_its_epochs_where_it_has_a_card(run: Path) -> None:
    epochs = merge(BEFORE, {"regime": {"num_steps": None, "num_data_epochs": 2}})
    only_a_model(run, 8, epochs)
    with pytest.raises(RunError, match=f"model.path={run}"):
        check_continuation(run, epochs, {})
    (run / "cards").mkdir()
    (run / "cards" / "run.yaml").touch()
    check_continuation(run, epochs, {})
    longer = merge(epochs, {"regime": {"num_data_epochs": 3}})
    with pytest.raises(RunError, match=f"model.path={run}"):
        check_continuation(run, longer, {})


def test_validations_and_metrics_of_a_run_of_models_only_are_kept(run: Path) -> None:
    only_a_model(run, 4)
    train, valid = (run / "metrics" / f"{name}.jsonl" for name in ("train", "valid"))
    train.write_text(row(2) + row(4) + row(5))
    valid.write_text(row(2) + row(4))
    assert [found["Step"] for found in validations(run)] == [2, 4]
    tidy(run)
    assert (train.read_text(), valid.read_text()) == (row(2) + row(4), row(2) + row(4))


@pytest.mark.parametrize("cut", ['{"Step": 2, "Wo', '{"Step": 2}', "\0\0\n", '{"Stop": 1}\n'])
def test_metrics_after_the_last_checkpoint_are_dropped(run: Path, cut: str) -> None:
    """TRAPS, data reading: upstream's metrics files hold steps twice after a kill."""
    train, valid = (run / "metrics" / f"{name}.jsonl" for name in ("train", "valid"))
    train.write_text(row(1) + row(2) + row(3))
    valid.write_text(row(1) + cut)
    half = run / "checkpoints" / "step_137.tmp" / "model"
    half.mkdir(parents=True)
    assert (checkpoint_steps(run), resumable_steps(run)) == ([1, 2], [2])
    assert [found["Step"] for found in validations(run)] == [1]
    tidy(run)
    assert (train.read_text(), valid.read_text()) == (row(1) + row(2), row(1))
    assert not half.parent.exists()


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
