"""The disk that a run's checkpoints take: one rule for the plan and the run's start."""

import shutil
from pathlib import Path
from typing import NamedTuple

from torch.nn import Module

from danish_asr.base.errors import RunError
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.optimizers import find_optimizer
from danish_asr.recipe.run.run_directory import checkpoint_steps


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
    regime, has_ema = config.regime, config.trainer.ema is not None
    model = 4 * sum(p.numel() for p in module.parameters())
    state_bytes = find_optimizer(config.optimizer.name).state_bytes
    state = 0
    for parameter in module.parameters():
        if parameter.requires_grad:
            state += state_bytes(parameter) + 4 * has_ema * parameter.numel()
    kept = (regime.keep_last_n_checkpoints or 0) + (regime.keep_best_n_checkpoints or 0)
    if not kept and regime.checkpoint_every_n_steps:
        kept = (regime.num_steps or 0) // regime.checkpoint_every_n_steps
    written = len(checkpoint_steps(output_dir)) if output_dir else 0
    count = max(kept + 1 - written, 1)
    complete = {"all_but_last": min(count, 2), "all": 0, True: 0}.get(regime.save_model_only, count)
    # Averages are models without an optimizer, in directories of their own.
    averages = has_ema + bool(regime.average_n_checkpoints)
    total = (count + averages) * model + complete * state
    return CheckpointSpace(model + state, model, count, total)


def check_free_space(output_dir: Path, module: Module, config: AsrConfig) -> None:
    """Refuse, with RunError, a run whose checkpoints do not all fit on the disk."""
    free = shutil.disk_usage(output_dir).free
    space = checkpoint_space(output_dir, module, config)
    if space.total > free:
        gib = 2**30
        raise RunError(
            f"{output_dir} has {free / gib:.1f} GiB free, but {space.number} more checkpoints of "
            f"{space.one / gib:.1f} GiB need {space.total / gib:.1f} GiB; free some, choose "
            "another OUTDIR, or keep fewer "
            "(regime.keep_last_n_checkpoints, keep_best_n_checkpoints, regime.save_model_only)"
        )
