"""A run that is killed after any step continues bit for bit, whatever is switched on."""

import shutil
import signal
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]
    EventAccumulator,
)
from tensorboard.summary.writer import event_file_writer  # type: ignore[import-untyped]

from danish_asr.base.errors import EXIT_STOPPED
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.run.run import Run
from danish_asr.recipe.train.criterion import AsrTrainUnit
from danish_asr.recipe.train.validation import AsrValidationUnit
from tests.running import (
    copy_until,
    metrics,
    same_weights,
    saved_optimizer,
    sized,
    train,
    train_with_two,
)

STEPS = 6

EACH_STEP = (
    *(f"regime.num_steps={STEPS}", f"regime.keep_last_n_checkpoints={STEPS}"),
    *("regime.validate_every_n_steps=1", "regime.checkpoint_every_n_steps=1"),
    "dataset.valid_subset=2",
)

# Large enough that half of most matrices has the 4096 elements from which 8 bits are used.
WIDE = sized(model_dim=96)

CASES = {
    "plain": (),
    "everything": (
        sized(num_encoder_layers=2),
        *("masking.time=0.5", "masking.channel=0.25", "masking.channel_span=8"),
        "trainer.stages={2: {where: gender = 'male', lr: 1e-4}, 5: {subset: 24}}",
        *("trainer.unfreeze={0: head, 1: top 1, 4: all}", "dataset.speed_factors=[0.9, 1.1]"),
        "dataset.weights=[{where: \"dialect = 'Bornholmsk'\", factor: 3}]",
        "trainer.grad_accumulation.num_batches=2",
        "trainer.activation_checkpointing.mode=layerwise",
    ),
    "adamw_8bit": (WIDE, "optimizer.name=adamw_8bit"),
    "adamw_offload": (WIDE, "optimizer.name=adamw_offload"),
    "two processes with FSDP": (WIDE, "trainer.data_parallelism=fsdp"),
}

RECORDED = ("Step", LOSS, "Gradient Norm", "Learning Rate", "Data Epoch")


def run_to_the_end(case: str, run: Path, dataset: Path) -> None:
    options = (*EACH_STEP, *CASES[case])
    if case == "two processes with FSDP":
        train_with_two(run, dataset, *options)
    else:
        assert train(run, dataset, *options) == 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Callable[[str], Path]:
    """Returns the run of a case that nothing has stopped."""
    # TensorBoard reads its files in the order of their names. Those of a second differ in the count
    # of the process, as text; a process of one run does not come to 10.
    event_file_writer._global_uid = event_file_writer.AtomicCounter(1000)
    folder = tmp_path_factory.mktemp("undisturbed")

    @cache
    def run_of(case: str) -> Path:
        run_to_the_end(case, folder / case, dataset)
        return folder / case

    return run_of


@pytest.mark.parametrize(
    ("case", "step"),
    [
        *(("plain", 1), ("adamw_8bit", 1), ("adamw_offload", 4), ("two processes with FSDP", 3)),
        # What changes during a run: its stages, its subset, what is frozen.
        *(("everything", step) for step in range(1, STEPS)),
    ],
)
def test_a_run_that_was_killed_after_any_step_continues_bit_for_bit(
    case: str, step: int, tmp_path: Path, dataset: Path, undisturbed: Callable[[str], Path]
) -> None:
    """TRAPS, data reading: upstream continues with other batches and repeats steps in its files."""
    expected = undisturbed(case)
    run = copy_until(step, expected, tmp_path / "run")
    run_to_the_end(case, run, dataset)
    assert same_weights(run, expected, STEPS)
    states, others = (saved_optimizer(r, STEPS)["state"] for r in (run, expected))
    assert states.keys() == others.keys()
    rows, there = (
        [[row[n] for n in RECORDED] for row in metrics(r, "train")] for r in (run, expected)
    )
    assert rows == there
    wer = "Word Error Rate (WER)"
    scores = [[(row["Step"], row[wer]) for row in metrics(r, "valid")] for r in (run, expected)]
    assert scores[0] == scores[1]
    for category in ("train", "valid"):
        curves = EventAccumulator(str(run / "tb" / category)).Reload()
        assert [event.step for event in curves.Scalars(LOSS)] == list(range(1, STEPS + 1))
    shutil.rmtree(run)


TWO_EPOCHS = (
    # Ten steps, of which the fourth and the eighth are saved and validated.
    *("regime.num_steps=null", "regime.num_data_epochs=2", "lr_scheduler={name: passthrough}"),
    "dataset.asr_task_config.max_num_elements=120_000",  # eight rows
    *("trainer.grad_accumulation.num_batches=1", "regime.publish_metrics_every_n_steps=4"),
    *("regime.checkpoint_every_n_steps=4", "regime.validate_every_n_steps=4"),
)

SLOW_VALIDATION = (
    # Every row of the dataset, one or two in a batch.
    "dataset.valid_split='train,dev,test'",
    "dataset.asr_task_config.max_audio_len=16000",
    "dataset.asr_task_config.max_num_elements=16000",
)


def signal_at_batch(patch: pytest.MonkeyPatch, unit: Any, place: int, number: int) -> None:
    """Send this process a signal before a unit's batch of this place, counted from 1."""
    process, batches = unit.process_batch, count(1)

    def process_batch(*arguments: Any) -> Any:
        if next(batches) == place:
            signal.raise_signal(number)
        return process(*arguments)

    patch.setattr(unit, "process_batch", process_batch)


def test_a_stop_signal_saves_and_exits_with_its_own_status(
    tmp_path: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRAPS, training: upstream ignores SIGUSR1 when num_steps is set."""
    run = tmp_path / "run"
    late = [f"regime.{name}=9" for name in ("validate_every_n_steps", "checkpoint_every_n_steps")]
    signal_at_batch(monkeypatch, AsrTrainUnit, 3, signal.SIGUSR1)
    assert train(run, dataset, *late, "regime.num_steps=9") == EXIT_STOPPED
    assert Run(run).steps == [3]
    assert [row["Step"] for row in metrics(run, "train")] == [1, 2, 3]
    assert metrics(run, "valid") == []


def test_a_validation_that_was_killed_runs_when_the_run_continues(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    """TRAPS, training: upstream goes on without it, and its checkpoint has no score."""
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    file = run / "metrics" / "valid.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:1]))
    (run / "checkpoints" / "scores" / "step_4.txt").unlink()
    assert train(run, dataset) == 0
    assert Run(run).scores == Run(finished_run).scores
    wer = "Word Error Rate (WER)"
    expected = [(row["Step"], row[wer]) for row in metrics(finished_run, "valid")]
    assert [(row["Step"], row[wer]) for row in metrics(run, "valid")] == expected


def test_a_stop_interrupts_validation_and_the_same_command_begins_with_it(
    tmp_path: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRAPS, training: upstream validates before it leaves, and outlasts what time is left."""
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        signal_at_batch(patch, AsrValidationUnit, 2, signal.SIGTERM)
        assert train(run, dataset, *SLOW_VALIDATION) == EXIT_STOPPED
    assert Run(run).steps == [2]
    assert metrics(run, "valid") == []
    assert train(run, dataset, *SLOW_VALIDATION) == 0
    assert [row["Step"] for row in metrics(run, "train")] == [1, 2, 3, 4]
    assert [row["Step"] for row in metrics(run, "valid")] == [2, 4]
    assert metrics(run, "valid")[0]["Number of Examples"] == 76


@pytest.mark.parametrize(
    ("every", "reports", "steps", "scored"),
    [("data_epochs=1", 5, [5, 10], [5, 10]), ("steps=2", 2, [2, 4, 6, 8, 10], [4, 8, 10])],
)
def test_a_validation_that_was_stopped_runs_when_the_run_continues(
    tmp_path: Path,
    dataset: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    every: str,
    reports: int,
    steps: list[int],
    scored: list[int],
) -> None:
    run, own = tmp_path / "run", [*TWO_EPOCHS, f"regime.publish_metrics_every_n_steps={reports}"]
    if every.startswith("data_epochs"):
        own += [f"regime.{name}_every_n_steps=null" for name in ("validate", "checkpoint")]
    own += [f"regime.validate_every_n_{every}", "regime.keep_last_n_checkpoints=3"]
    with monkeypatch.context() as patch:
        signal_at_batch(patch, AsrValidationUnit, 1, signal.SIGTERM)
        assert train(run, dataset, *own) == EXIT_STOPPED
    assert metrics(run, "valid") == []
    assert train(run, dataset, *own) == 0
    assert [row["Step"] for row in metrics(run, "valid")] == steps
    assert list(Run(run).scores) == scored


def test_each_start_brings_a_run_on_however_short_its_time_limit(
    tmp_path: Path, dataset: Path
) -> None:
    run, starts = tmp_path / "run", range(5)
    statuses = [train(run, dataset, "trainer.max_wall_minutes=1e-6") for _ in starts]
    assert statuses == [EXIT_STOPPED] * 4 + [0]
    assert [row["Step"] for row in metrics(run, "train")] == [1, 2, 3, 4]
    assert [*Run(run).scores] == [2, 4]


def test_a_run_is_validated_and_saved_after_a_part_of_an_epoch(
    tmp_path: Path, dataset: Path
) -> None:
    """An epoch has five steps."""
    run = tmp_path / "run"
    assert train(run, dataset, "regime.validate_every_n_data_epochs=0.6") == 0
    assert [row["Step"] for row in metrics(run, "valid")] == Run(run).steps == [3, 4]


def test_a_run_of_two_epochs_that_continues_in_the_second_one_reaches_its_end(
    tmp_path: Path, dataset: Path
) -> None:
    """TRAPS, training: upstream takes the epoch that a run is in for one that has ended."""
    straight = tmp_path / "straight"
    assert train(straight, dataset, *TWO_EPOCHS) == 0
    steps = Run(straight).steps
    run = copy_until(8, straight, tmp_path / "run")
    assert train(run, dataset, *TWO_EPOCHS, "trainer.max_wall_minutes=1e-6") == EXIT_STOPPED
    assert train(run, dataset, *TWO_EPOCHS) == 0
    assert same_weights(run, straight, steps[-1])
    rows = metrics(run, "valid")
    assert [row["Step"] for row in rows] == [row["Step"] for row in metrics(straight, "valid")]
    log = run / "logs" / "rank_0.log"
    for _ in range(2):  # the second time it is complete
        before = len(log.read_text(encoding="utf-8"))
        assert train(run, dataset, *TWO_EPOCHS, "regime.num_data_epochs=3") == 0
        assert Run(run).steps[-1] == 3 * steps[-1] // 2
    assert "regime.num_data_epochs" in log.read_text(encoding="utf-8")[before:]
    assert len(metrics(run, "valid")) == len(rows) + 2


def test_a_run_that_continues_with_other_num_steps_follows_the_new_schedule(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    """TRAPS, training: upstream restores the length of the schedule with its position."""
    longer = ["regime.num_steps=6", "dataset.valid_split=null"]
    straight, run = tmp_path / "straight", copy_until(2, finished_run, tmp_path / "run")
    rates = {}
    for folder in (straight, run):
        assert train(folder, dataset, *longer) == 0
        rates[folder] = [row["Learning Rate"] for row in metrics(folder, "train")]
    assert rates[run][2:] == pytest.approx(rates[straight][2:])
    assert len(rates[run]) == 6


def test_the_first_validations_are_left_out_also_when_a_run_continues(
    tmp_path: Path, dataset: Path
) -> None:
    own = ("regime.validate_after_n_steps=2", "regime.num_steps=6", "dataset.valid_subset=2")
    straight = tmp_path / "straight"
    assert train(straight, dataset, *own, "regime.keep_last_n_checkpoints=3") == 0
    run = copy_until(2, straight, tmp_path / "run")
    assert train(run, dataset, *own, "regime.keep_last_n_checkpoints=3") == 0
    for folder in (straight, run):
        assert [row["Step"] for row in metrics(folder, "valid")] == [4, 6]


def test_the_steps_before_a_stop_are_in_a_report(
    tmp_path: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    every = [f"regime.{name}_every_n_steps=4" for name in ("publish_metrics", "validate")]
    own = [*every, "regime.checkpoint_every_n_steps=4", "dataset.valid_subset=2"]
    with monkeypatch.context() as patch:
        signal_at_batch(patch, AsrTrainUnit, 3, signal.SIGTERM)
        assert train(run, dataset, *own) == EXIT_STOPPED
    assert train(run, dataset, *own) == 0
    rows = metrics(run, "train")
    assert [row["Step"] for row in rows] == [3, 4]
    assert rows[-1]["Total Number of Examples"] == sum(row["Number of Examples"] for row in rows)


@pytest.mark.parametrize(
    "damage", [("trainer", 1000), ("trainer", 0), ("data_reader", None), ("model", 1000)]
)
def test_a_damaged_checkpoint_is_named_with_the_command_that_goes_on_from_the_one_before(
    damage: tuple[str, int | None],
    tmp_path: Path,
    dataset: Path,
    finished_run: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, (kind, content) = copy_until(4, finished_run, tmp_path / "run"), damage
    (run / "environment.json").write_text("")
    (file,) = (run / "checkpoints" / "step_4" / kind).rglob("*.pt")
    if content is None:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:content])
    longer = ("regime.num_steps=6", "dataset.valid_split=null")
    assert train(run, dataset, *longer) == 1
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert f"`rm -r {run}/checkpoints/step_4`" in error
    if (kind, content) == ("trainer", 0):
        shutil.rmtree(run / "checkpoints" / "step_4")
        assert train(run, dataset, *longer) == 0
        assert [row["Step"] for row in metrics(run, "train")] == [1, 2, 3, 4, 5, 6]
