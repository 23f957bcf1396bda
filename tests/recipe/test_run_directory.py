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
    check_new_run,
    check_processes,
    tidy,
)
from danish_asr.recipe.run.run_directory import (
    CONFIG_FILE,
    checkpoint_steps,
    meant_checkpoint,
    resumable_steps,
    validation_scores,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a checkpoint to continue from, and a later one with a model only."""
    run = tmp_path / "run"
    for folder in ("checkpoints/step_2/trainer", "checkpoints/step_4/model", "metrics"):
        (run / folder).mkdir(parents=True)
    return run


def row(step: int) -> str:
    return f'{{"Step": {step}, "Word Error Rate (WER)": {10 - step}, "Lapse Time": 2.5}}\n'


@pytest.mark.parametrize("cut", ['{"Step": 2, "Wo', '{"Step": 2}', "\0\0\n", '{"Stop": 1}\n'])
def test_metrics_after_the_last_checkpoint_are_dropped(run: Path, cut: str) -> None:
    """TRAPS, data reading: upstream's metrics files hold steps twice after a kill."""
    train, valid = (run / "metrics" / f"{name}.jsonl" for name in ("train", "valid"))
    train.write_text(row(1) + row(2) + row(3))
    valid.write_text(row(1) + cut)
    half = run / "checkpoints" / "step_137.tmp" / "model"
    half.mkdir(parents=True)
    assert (checkpoint_steps(run), resumable_steps(run)) == ([2, 4], [2])
    assert validation_scores(run, "wer") == [-9.0]
    tidy(run)
    assert (train.read_text(), valid.read_text()) == (row(1) + row(2), row(1))
    assert not half.parent.exists()


def test_curves_hold_each_step_once(run: Path) -> None:
    """TRAPS, data reading: TensorBoard, too, is given the steps after a kill once more."""
    folder = run / "tb" / "train"
    for steps in ([1, 2, 3], [3, 4]):
        tidy(run)
        writer = SummaryWriter(folder)  # type: ignore[no-untyped-call]
        for step in steps:
            writer.add_scalar("loss", step, step)  # type: ignore[no-untyped-call]
        writer.close()  # type: ignore[no-untyped-call]
    # TensorBoard sorts files by name: 10 before 9, where one process writes several in a second.
    files = sorted(folder.iterdir(), key=lambda file: int(file.name.rsplit(".", 1)[1]))
    joined = run.with_name("events.out.tfevents.joined")
    joined.write_bytes(b"".join(file.read_bytes() for file in files))
    curves = EventAccumulator(str(joined))
    curves.Reload()
    assert [event.step for event in curves.Scalars("loss")] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"dataset": {"name": "tiny", "valid_split": "test"}}, None),
        ({"dataset": {"name": "other"}}, r"dataset\.name was 'tiny' and is now 'other'"),
        ({"dataset": {"name": "tiny"}, "regime": {"num_steps": 2}}, None),
        ({"regime": {"num_steps": 1}}, r"at step 2, but regime.num_steps is 1"),
    ],
)
def test_what_shapes_the_weights_may_not_change(
    run: Path, changed: dict[str, object], fault: str | None
) -> None:
    (run / CONFIG_FILE).write_text("dataset: {name: tiny, valid_split: dev}\n")
    if fault is None:
        check_continuation(run, changed)
        return
    with pytest.raises(RunError, match=fault):
        check_continuation(run, changed)


def test_a_new_run_does_not_get_the_name_of_its_dataset(run: Path) -> None:
    check_new_run(run, "coral")
    with pytest.raises(RunError, match="the dataset is 'run'"):
        check_new_run(run, "run")
    (run / CONFIG_FILE).touch()
    check_new_run(run, "run")  # continues


def test_a_new_run_does_not_begin_among_recordings(tmp_path: Path) -> None:
    (tmp_path / "speaker").mkdir()
    (tmp_path / "speaker" / "0001.WAV").touch()
    with pytest.raises(RunError, match="WAV"):
        check_new_run(tmp_path, "coral")


@pytest.mark.parametrize(
    ("processes", "batches", "expected"),
    [
        (2, 4, None),
        (1, 8, "saved by 2 processes and continues with 1"),
        (4, 2, "saved by 2 processes and continues with 4"),
        (1, 4, "took 8 batches and now takes 4; trainer.grad_accumulation.num_batches=8 keeps it"),
        (3, 4, "took 8 batches and now takes 12; no trainer.grad_accumulation.num_batches keeps"),
    ],
)
def test_a_step_of_another_number_of_batches_is_noted(
    run: Path, processes: int, batches: int, expected: str | None
) -> None:
    for rank in range(2):
        (run / "checkpoints" / "step_2" / "trainer" / f"rank_{rank:02d}.pt").touch()
    (run / CONFIG_FILE).write_text("trainer: {grad_accumulation: {num_batches: 4}}\n")
    note = check_processes(run, processes, batches) or ""
    assert (expected or "") in note
    assert ("WARNING" in note) == (processes * batches != 8)


def test_a_directory_means_a_checkpoint_or_the_best_of_a_run(run: Path) -> None:
    step = run / "checkpoints" / "step_2"
    assert meant_checkpoint(step) == meant_checkpoint(step / "model") == (run, 2)
    assert meant_checkpoint(run) == (run, 4)
    # Not every directory of this name is one of a run.
    assert meant_checkpoint(run.parent / "checkpoints" / "xlsr") is None
