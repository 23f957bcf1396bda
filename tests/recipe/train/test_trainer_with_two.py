"""Precision, memory and processes change a run's speed, and not what it learns."""

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.checkpoint import StandardCheckpointManager

from danish_asr.recipe.run.run import Run
from danish_asr.recipe.train import record
from danish_asr.recipe.train.criterion import AsrTrainUnit
from danish_asr.recipe.train.preflight import Resolved
from tests.forks import in_processes
from tests.running import (
    TWO_BATCHES,
    arguments,
    copy_until,
    losses,
    metrics,
    small,
    train,
    train_main,
    train_with_two,
    weights,
)

PLAIN = small()


def test_two_processes_compute_the_gradients_of_one_with_twice_the_accumulation(
    tmp_path: Path, dataset: Path
) -> None:
    # With this epsilon, Adam's step is proportional to the gradient and does not amplify rounding.
    linear = ["optimizer.config={eps: 1.0, lr: 0.02}", "lr_scheduler={name: passthrough}"]
    short = [PLAIN, *linear, "regime.num_steps=2", "dataset.valid_split=null"]
    assert train(tmp_path / "one", dataset, TWO_BATCHES, *short) == 0
    train_with_two(tmp_path / "two", dataset, *short)
    one, two = (weights(tmp_path / name, 2) for name in ("one", "two"))
    torch.testing.assert_close(two, one, rtol=0, atol=5e-7)


def train_with_a_slow_disk(args: list[str]) -> None:
    """Train; the first process writes a second late what the second then sees a second later."""
    list_steps = StandardCheckpointManager.get_step_numbers

    def list_late(manager: StandardCheckpointManager, **options: bool) -> list[int]:
        if options and os.environ["RANK"] == "1":
            time.sleep(1)
        return list_steps(manager, **options)

    def write_late(run: Run, resolved: Resolved) -> None:
        time.sleep(1)
        write_own_tokenizer(run, resolved)

    write_own_tokenizer, record.write_own_tokenizer = record.write_own_tokenizer, write_late
    StandardCheckpointManager.get_step_numbers = list_late  # type: ignore[assignment, method-assign]
    train_main(args)


def test_two_processes_begin_and_delete_the_states_of_previous_checkpoints_together(
    tmp_path: Path, dataset: Path
) -> None:
    """TRAPS, training: upstream waits for a process that found nothing to delete."""
    own = ("regime.save_model_only=all_but_last", "dataset.valid_split=null", "gang.timeout=1")
    in_processes(2, train_with_a_slow_disk, arguments(tmp_path / "run", dataset, *own))
    assert Run(tmp_path / "run").steps == [2, 4]
    assert Run(tmp_path / "run").resumable_steps == [4]


SIXTEEN_BATCHES = (
    # Two rows each: 32 of the 38 that the filters leave.
    "dataset.asr_task_config.num_seqs_multiple_of=2",
    *("dataset.asr_task_config.max_num_elements=30_000", "dataset.valid_split=null"),
    # A schedule of its own would end with each stage.
    *("dataset.asr_task_config.example_shuffle_window=0", "lr_scheduler={name: passthrough}"),
    "regime.keep_last_n_checkpoints=4",
)


def train_and_note(folder: Path, args: list[str]) -> None:
    """Train; each process writes the ids of its utterances, one a line, to a file of its own."""
    process_batch = AsrTrainUnit.process_batch

    def note_and_process(unit: AsrTrainUnit, batch: Any, metric_bag: Any) -> Any:
        with (folder / str(os.getpid())).open("a", encoding="utf-8") as stream:
            stream.writelines(f"{name}\n" for name in batch.example["id"])
        return process_batch(unit, batch, metric_bag)

    AsrTrainUnit.process_batch = note_and_process  # type: ignore[assignment, method-assign]
    train_main(args)


def train_until(step: int, run: Path, dataset: Path, processes: int) -> tuple[list[str], str]:
    """Train, with two batches a step whatever the processes; returns their ids and the output."""
    noted = run.with_name(f"{run.name}.{processes}")
    noted.mkdir()
    accumulate = f"trainer.grad_accumulation.num_batches={2 // processes}"
    own = [*SIXTEEN_BATCHES, accumulate, f"regime.num_steps={step}"]
    args = arguments(run, dataset, PLAIN, *own)
    output = in_processes(processes, partial(train_and_note, noted), args)
    return [name for file in noted.iterdir() for name in file.read_text().split()], output


def test_another_number_of_processes_trains_on_the_rest_of_the_epochs_rows_each_once(
    tmp_path: Path, dataset: Path
) -> None:
    """TRAPS, data reading: a resumed run does not continue with the data it would have had."""
    constant, fewer = tmp_path / "constant", tmp_path / "fewer"
    rows, _ = train_until(8, constant, dataset, 1)
    assert len(rows) == len(set(rows)) == 32
    more = copy_until(4, constant, tmp_path / "more")
    first, _ = train_until(4, fewer, dataset, 2)
    for run, before, seen in ((more, 1, rows[:16]), (fewer, 2, first)):
        after = 3 - before
        rest, output = train_until(8, run, dataset, after)
        assert len({*seen, *rest}) == len(seen) + len(rest) == len(rows)
        assert metrics(run, "train")[-1]["Total Number of Examples"] == len(rows)
        # From here on the largest batches that are left come first.
        assert losses(run)[:4] == pytest.approx(losses(constant)[:4], rel=1e-4)
        assert f"note: the run was saved by {before} processes and continues with {after}" in output
