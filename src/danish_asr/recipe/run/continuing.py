"""How a run continues in its directory: checks raise RunError before anything is written."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from danish_asr.base.cluster import wait_for_first_rank
from danish_asr.base.config_tree import flatten, read_yaml
from danish_asr.base.errors import DanishAsrError, RunError
from danish_asr.base.files import publish_text, take
from danish_asr.recipe.run.run_directory import (
    CHECKPOINTS,
    CONFIG_FILE,
    FAILED,
    METRICS,
    read_score,
    recorded,
    resumable_steps,
)

_ADVICE: Final = (
    "Wait for its end, or stop it there with kill and wait until it has saved; the same command "
    "then continues the run. Or name another OUTDIR."
)

_MAY_CHANGE: Final = (
    *("regime.", "gang.", "evaluator.", "common."),
    *("dataset.valid_split", "dataset.valid_subset", "dataset.valid_where"),
    *("dataset.valid_max_num_elements", "dataset.max_unknown_share"),
    "dataset.config_overrides.data",  # where the dataset is; the reader knows its rows
    # A step of two processes takes what one takes in two batches.
    *("trainer.grad_accumulation.", "trainer.activation_checkpointing."),
    "trainer.max_wall_minutes",
)
"""Keys and sections that a run may change when it continues. All others shape the weights, the
data or the saved state."""

_MUST_STAY: Final = ("common.seed", "regime.score_metric", "regime.score_profile")
"""Exceptions to :data:`_MAY_CHANGE`."""


@contextmanager
def locked(directory: Path, rank: int = 0) -> Iterator[None]:
    """Be the only run that writes in ``directory``, which is created, or raise RunError.

    The first rank takes the lock (`base.files.take`); the other ranks continue when it has it.
    """
    if rank == 0:
        lease = take(directory, error=RunError, advice=_ADVICE, work="run")
    try:
        wait_for_first_rank(rank)
        yield
    finally:
        if rank == 0:
            lease.release()


@contextmanager
def noted(output_dir: Path) -> Iterator[None]:
    """Keep the message of an error that ends a run; delete that of an earlier start."""
    (output_dir / FAILED).unlink(missing_ok=True)
    try:
        yield
    except DanishAsrError as error:
        with suppress(DanishAsrError):  # the disk may be full
            publish_text(output_dir / FAILED, f"{error}\n")
        raise


def check_continuation(output_dir: Path, config: Mapping[str, Any]) -> None:
    """Refuse, with RunError, to continue a run with another configuration.

    Before the first checkpoint anything may change.
    """
    steps = resumable_steps(output_dir)
    if not steps:
        return
    now, before = dict(flatten(config)), dict(flatten(read_yaml(output_dir / CONFIG_FILE)))
    changed = [
        f"  - {key} was {before.get(key)!r} and is now {now.get(key)!r}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
        and (key in _MUST_STAY or not key.startswith(_MAY_CHANGE))
    ]
    if changed:
        raise RunError(
            f"{output_dir} holds a run at step {steps[-1]} with another configuration:\n"
            + "\n".join(changed)
            + "\nStart the new run in another OUTDIR, or restore these values to continue."
        )


def check_processes(output_dir: Path, processes: int) -> str | None:
    """Return a note on another number of processes; RunError if the run cannot have it."""
    folder, saved = _saved_ranks(output_dir)
    if saved in {0, processes}:
        return None
    shards = len(list(folder.glob("model/pp_00/tp_00/sdp_*.pt")))
    if shards > 1:
        raise RunError(
            f"{output_dir} was saved by {saved} processes with the model sharded over {shards}; it "
            f"cannot continue with {processes}. Continue with {saved}, or start a new run."
        )
    return (
        f"the run was saved by {saved} processes and continues with {processes}. A step has as "
        f"much audio as before if trainer.grad_accumulation.num_batches is {saved / processes:g} "
        "times that of before"
    )


def tidy(output_dir: Path) -> None:
    """Delete what a run that continues writes again: unfinished checkpoints and later metrics.

    A damaged score is deleted too: fairseq2 would refuse it. The metrics files then hold each step
    once, in complete lines.
    """
    for unfinished in (output_dir / CHECKPOINTS).glob("step_*.tmp"):
        shutil.rmtree(unfinished, ignore_errors=True)
    for score in (output_dir / CHECKPOINTS / "scores").glob("*.txt"):
        if read_score(score) is None:
            score.unlink()
    last = max(resumable_steps(output_dir), default=0)
    for file in (output_dir / METRICS).rglob("*.jsonl"):
        publish_text(file, "".join(line for line, row in recorded(file) if row["Step"] <= last))


def fit_to_processes(output_dir: Path, processes: int) -> None:
    """Let a run continue with more processes than it was saved with.

    fairseq2 saves and loads the state of the trainer and of the data reader once per process. The
    reader's position counts the batches of all processes, and only the random state of the trainer
    differs between them: new processes take the first one's.
    """
    folder, saved = _saved_ranks(output_dir)
    for rank in range(saved, processes if saved else 0):
        for state in ("trainer/rank", "data_reader/dp"):
            shutil.copyfile(folder / f"{state}_00.pt", folder / f"{state}_{rank:02d}.pt")


def _saved_ranks(output_dir: Path) -> tuple[Path, int]:
    """Return the checkpoint that a run continues from and the processes that saved it, 0: none."""
    step = max(resumable_steps(output_dir), default=0)
    folder = output_dir / CHECKPOINTS / f"step_{step}"
    return folder, len(list((folder / "trainer").glob("rank_*.pt")))
