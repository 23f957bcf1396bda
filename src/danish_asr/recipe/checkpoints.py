"""Checkpoints beyond what fairseq2 does with them: room for them, and other world sizes."""

from __future__ import annotations

import shutil
from pathlib import Path

from fairseq2.logging import log
from fairseq2.recipe.config import RegimeSection
from torch.nn import Module

from danish_asr.errors import RunError
from danish_asr.recipe.run_directory import CHECKPOINTS, checkpoint_steps, resumable_steps


def check_free_space(
    output_dir: Path, module: Module, regime: RegimeSection, *, state_bytes: float
) -> None:
    """Refuse a run whose checkpoints cannot all be written.

    A full disk or quota ends a run without a word, hours after it began.

    Args:
        output_dir: Where they will stand.
        module: The model.
        regime: Says how many are kept.
        state_bytes: What the optimizer keeps of each parameter that learns.

    Raises:
        RunError: There is less room than the checkpoints that are kept at one time will take.
    """
    size = sum(
        int(p.numel() * (p.element_size() + (state_bytes if p.requires_grad else 0)))
        for p in module.parameters()
    )
    # What a run that continues has already, it need not find room for.
    at_once = max(_checkpoints_at_once(regime) - len(checkpoint_steps(output_dir)), 1)
    needed = at_once * size
    free = shutil.disk_usage(output_dir).free
    if needed > free:
        raise RunError(
            f"{output_dir} has {_size(free)} free, but {at_once} more checkpoints of {_size(size)} "
            f"need {_size(needed)}; free some, choose another OUTDIR, or keep fewer "
            "(regime.keep_last_n_checkpoints, keep_best_n_checkpoints)"
        )


def _checkpoints_at_once(regime: RegimeSection) -> int:
    kept = [regime.keep_last_n_checkpoints, regime.keep_best_n_checkpoints]
    if any(kept):
        return sum(n or 0 for n in kept) + 1  # the one being written
    every = regime.checkpoint_every_n_steps
    return (regime.num_steps or 0) // every + 1 if every else 1


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def fit_to_world(output_dir: Path, world: int) -> None:
    """Let a run continue with more processes than it was saved with.

    fairseq2 saves the trainer's and the data reader's state once per process and looks for as many
    when it continues. The reader's position counts the batches of all processes, and so does all
    but the random state in the trainer's: new processes take theirs from the first one.

    Raises:
        RunError: The model was sharded over another number of processes.
    """
    steps = resumable_steps(output_dir)
    if not steps:
        return
    folder = output_dir / CHECKPOINTS / f"step_{steps[-1]}"
    saved = len(list((folder / "trainer").glob("rank_*.pt")))
    shards = len(list(folder.glob("model/pp_00/tp_00/sdp_*.pt")))
    if saved in {0, world}:
        return
    if shards > 1:
        raise RunError(
            f"{output_dir} was saved by {saved} processes with the model sharded over {shards}; "
            f"it cannot continue with {world}. Continue with {saved}, or start a new run."
        )
    log.info("The run was saved by {} processes and continues with {}.", saved, world)
    for rank in range(saved, world):
        for kind, name in (("trainer", "rank"), ("data_reader", "dp")):
            first = folder / kind / f"{name}_00.pt"
            shutil.copyfile(first, folder / kind / f"{name}_{rank:02d}.pt")
