"""The disk that a run's checkpoints take: one rule for the plan, the doctor and the run's start."""

import shutil
from pathlib import Path
from typing import NamedTuple

from torch.nn import Module

from danish_asr.base.errors import RunError
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.run.run_directory import checkpoint_steps
from danish_asr.recipe.train.optimizers import state_bytes


class CheckpointSpace(NamedTuple):
    """Bytes of one checkpoint, of the model in it, and of all that a run has still to write."""

    one: int
    model: int
    number: int
    total: int


def checkpoint_space(output_dir: Path | None, module: Module, config: AsrConfig) -> CheckpointSpace:
    """Return what the checkpoints that a run keeps, and the one that is being written, take.

    A checkpoint has every weight in float32, and of what learns the optimizer's state and the
    moving average. ``module`` may be on the meta device; what never learns requires no gradient.
    ``output_dir`` may have checkpoints already; None: a new run.
    """
    parameters, regime = list(module.parameters()), config.regime
    learning = [p for p in parameters if p.requires_grad]
    model = 4 * sum(p.numel() for p in parameters)
    state = sum(state_bytes(config.optimizer.name, p) for p in learning)
    if config.trainer.ema is not None:
        state += 4 * sum(p.numel() for p in learning)
    kept = (regime.keep_last_n_checkpoints or 0) + (regime.keep_best_n_checkpoints or 0)
    if not kept:
        every = regime.checkpoint_every_n_steps
        kept = (regime.num_steps or 0) // every if every else 0
    there = len(checkpoint_steps(output_dir)) if output_dir else 0
    count = max(kept + 1 - there, 1)
    complete = {"all_but_last": min(count, 2), "all": 0, True: 0}.get(regime.save_model_only, count)
    # Averages are models without an optimizer, in directories of their own.
    averages = (config.trainer.ema is not None) + bool(regime.average_n_checkpoints)
    total = (count + averages) * model + complete * state
    return CheckpointSpace(model + state, model, count, total)


def check_free_space(output_dir: Path, space: CheckpointSpace) -> None:
    """Refuse, with RunError, a run whose checkpoints do not all fit on the disk."""
    free = shutil.disk_usage(output_dir).free
    if space.total > free:
        free_, one, all_ = (f"{n / 2**30:.1f} GiB" for n in (free, space.one, space.total))
        raise RunError(
            f"{output_dir} has {free_} free, but {space.number} more checkpoints of {one} need "
            f"{all_}; free some, choose another OUTDIR, or keep fewer "
            "(regime.keep_last_n_checkpoints, keep_best_n_checkpoints, regime.save_model_only)"
        )
