"""A run's directory when the run continues in it, also after a kill."""

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]
    EventAccumulator,
)
from torch.utils.tensorboard import SummaryWriter

from danish_asr.base.errors import RunError
from danish_asr.recipe.run.continuing import (
    check_continuation,
    check_output_dir,
    check_processes,
    tidy,
)
from danish_asr.recipe.run.run_directory import (
    CONFIG_FILE,
    ENVIRONMENT,
    checkpoint_steps,
    meant_checkpoint,
    resumable_steps,
    validation_scores,
    validations,
)


def make_run(run: Path, *, full: int, model_only: int | None = None) -> Path:
    """A run with a checkpoint to continue from, and perhaps a later one without."""
    (run / "checkpoints" / f"step_{full}" / "trainer").mkdir(parents=True)
    if model_only is not None:
        (run / "checkpoints" / f"step_{model_only}" / "model").mkdir(parents=True)
    (run / "metrics").mkdir()
    return run


def record(run: Path, kind: str, *lines: str) -> Path:
    file = run / "metrics" / f"{kind}.jsonl"
    file.write_text("".join(lines))
    return file


def row(step: int) -> str:
    return f'{{"Step": {step}, "Word Error Rate (WER)": {10 - step}, "Lapse Time": 2.5}}\n'


def test_metrics_after_the_last_checkpoint_are_dropped(tmp_path: Path) -> None:
    """TRAPS, data reading: upstream's metrics files hold steps twice after a kill."""
    run = make_run(tmp_path, full=2)
    file = record(run, "train", row(1), row(2), row(3))
    tidy(run)
    assert file.read_text() == row(1) + row(2)


@pytest.mark.parametrize("cut", ['{"Step": 2, "Wo', '{"Step": 2}', "\0\0\n", '{"Stop": 1}\n'])
def test_a_line_that_a_kill_cut_is_dropped(tmp_path: Path, cut: str) -> None:
    run = make_run(tmp_path, full=2)
    files = [record(run, kind, row(1), cut) for kind in ("train", "valid")]
    assert validation_scores(run, "wer") == [-9.0]
    assert [row["Step"] for row in validations(run)] == [1]
    tidy(run)
    assert [file.read_text() for file in files] == [row(1), row(1)]


def test_curves_hold_each_step_once(tmp_path: Path) -> None:
    """TRAPS, data reading: TensorBoard, too, is given the steps after a kill once more."""
    run = make_run(tmp_path, full=2)
    folder = run / "tb" / "train"
    for steps in ([1, 2, 3], [3, 4]):
        tidy(run)
        writer = SummaryWriter(folder)  # type: ignore[no-untyped-call]
        for step in steps:
            writer.add_scalar("loss", step, step)  # type: ignore[no-untyped-call]
        writer.close()  # type: ignore[no-untyped-call]
    # TensorBoard sorts files by name: 10 before 9, where one process writes several in a second.
    files = sorted(folder.iterdir(), key=lambda file: int(file.name.rsplit(".", 1)[1]))
    joined = tmp_path / "events.out.tfevents.joined"
    joined.write_bytes(b"".join(file.read_bytes() for file in files))
    curves = EventAccumulator(str(joined))
    curves.Reload()
    assert [event.step for event in curves.Scalars("loss")] == [1, 2, 3, 4]


def test_a_run_continues_only_from_a_whole_checkpoint(tmp_path: Path) -> None:
    run = make_run(tmp_path, full=2, model_only=4)
    file = record(run, "train", row(1), row(3))
    half = run / "checkpoints" / "step_137.tmp" / "model"
    half.mkdir(parents=True)
    assert (checkpoint_steps(run), resumable_steps(run)) == ([2, 4], [2])
    tidy(run)
    assert not half.parent.exists()
    assert file.read_text() == row(1)


def test_a_key_that_shapes_the_weights_may_not_change(tmp_path: Path) -> None:
    run = make_run(tmp_path, full=2)
    (run / CONFIG_FILE).write_text("dataset: {name: tiny, valid_split: dev}\n")
    check_continuation(run, {"dataset": {"name": "tiny", "valid_split": "test"}})
    with pytest.raises(RunError, match=r"dataset\.name was 'tiny' and is now 'other'"):
        check_continuation(run, {"dataset": {"name": "other"}})


@pytest.mark.parametrize("place", ["sub", "checkpoints/x", "eval/best/test"])
def test_a_run_within_another_runs_directory_is_refused(tmp_path: Path, place: str) -> None:
    for name in (ENVIRONMENT, CONFIG_FILE):
        (tmp_path / name).touch()
    check_output_dir(tmp_path)
    with pytest.raises(RunError, match=f"{tmp_path} is a run; name a directory outside it"):
        check_output_dir(tmp_path / place)


def test_a_new_run_does_not_begin_among_recordings(tmp_path: Path) -> None:
    for name in ("trace/1.jsonl", "logs/rank_0.log", "failed.txt", ".tries-1", "train-1.out"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    check_output_dir(tmp_path)
    (tmp_path / "anna").mkdir()
    (tmp_path / "anna" / "1.WAV").touch()
    with pytest.raises(RunError, match=r"holds data \(anna/1.WAV\)"):
        check_output_dir(tmp_path)


def test_a_new_run_does_not_get_the_name_of_its_dataset(tmp_path: Path) -> None:
    check_output_dir(tmp_path / "mine", dataset="coral")
    with pytest.raises(RunError, match="the dataset is 'mine'"):
        check_output_dir(tmp_path / "mine", dataset="mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / CONFIG_FILE).touch()
    check_output_dir(tmp_path / "mine", dataset="mine")  # continues


@pytest.mark.parametrize(
    ("processes", "batches", "expected"),
    [
        (2, 4, None),
        (1, 8, "saved by 2 processes and continues with 1"),
        (4, 2, "saved by 2 processes and continues with 4"),
        (1, 4, "took 8 batches and now takes 4; trainer.grad_accumulation.num_batches=8 keeps it"),
        (2, 1, "took 8 batches and now takes 2; trainer.grad_accumulation.num_batches=4 keeps it"),
        (3, 4, "took 8 batches and now takes 12; no trainer.grad_accumulation.num_batches keeps"),
    ],
)
def test_a_step_of_another_number_of_batches_is_noted(
    tmp_path: Path, processes: int, batches: int, expected: str | None
) -> None:
    run = make_run(tmp_path, full=2)
    for rank in range(2):
        (run / "checkpoints" / "step_2" / "trainer" / f"rank_{rank:02d}.pt").touch()
    (run / CONFIG_FILE).write_text("trainer: {grad_accumulation: {num_batches: 4}}\n")
    note = check_processes(run, processes, batches)
    assert (expected or "") in (note or "")
    assert ("WARNING" in (note or "")) == (processes * batches != 8)


def test_fewer_steps_than_a_run_has_taken_are_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path, full=14)
    (run / CONFIG_FILE).write_text("regime: {num_steps: 20}")
    with pytest.raises(RunError, match=r"at step 14, but regime.num_steps is 8"):
        check_continuation(run, {"regime": {"num_steps": 8}})
    check_continuation(run, {"regime": {"num_steps": 14}})


def test_a_directory_means_a_checkpoint_or_the_best_of_a_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", full=2, model_only=4)
    step = run / "checkpoints" / "step_2"
    assert meant_checkpoint(step) == meant_checkpoint(step / "model") == (run, 2)
    assert meant_checkpoint(run) == (run, 4)
    # Not every directory of this name is one of a run.
    assert meant_checkpoint(tmp_path / "checkpoints" / "xlsr") is None
