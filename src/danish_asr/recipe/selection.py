"""Which model an evaluation scores, on which split, and where its results go.

The evaluation recipe takes the training configuration and the run's directory as they stand. A
configuration without a training section is an evaluation of the model it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from danish_asr.errors import RunError
from danish_asr.recipe.config import AsrEvalConfig
from danish_asr.recipe.loading import Tree, inspect, merge
from danish_asr.recipe.run_directory import (
    CHECKPOINTS,
    best_step,
    checkpoint_scores,
    checkpoint_steps,
)

TRAINING_SECTIONS: Final = ("trainer", "optimizer", "lr_scheduler", "regime", "pretrained_encoder")

NO_CHECKPOINT: Final = "none"


@dataclass(frozen=True)
class Selection:
    """What will be scored.

    Attributes:
        config: The configuration; its ``model.name`` is what will be scored.
        output_dir: Where the results go, one directory per checkpoint and split.
        step: The training step of the checkpoint; None for a model that is scored as it is named.
        faults: What is wrong with the configuration.
    """

    config: AsrEvalConfig
    output_dir: Path
    step: int | None
    faults: tuple[str, ...]


def select(run_dir: Path, tree: Mapping[str, Any]) -> Selection:
    """Decide what is scored.

    Args:
        run_dir: The OUTDIR of the command line.
        tree: The configuration as it was written.
    """
    trains = any(section in tree for section in TRAINING_SECTIONS)
    checkpoint = _asked(tree, "checkpoint") or ("best" if trains else NO_CHECKPOINT)
    split = _asked(tree, "split") or ("test" if trains else None)

    changes: Tree = {"dataset": {"valid_split": split}} if split else {}
    step, missing = None, []
    if checkpoint != NO_CHECKPOINT:
        try:
            step = _step(run_dir, checkpoint)
        except RunError as error:
            missing.append(f"evaluator.checkpoint: {error}")
    if step is not None:
        checkpoints = str((run_dir / CHECKPOINTS).resolve())
        changes |= {"common": {"assets": {"prev_checkpoint_dir": checkpoints}}}
        name = f"checkpoint_step_{step}"
        tree = {**tree, "model": {"name": name}, "pretrained_encoder": {"name": ""}}
    config, faults = inspect(AsrEvalConfig, merge(tree, changes))
    split = config.dataset.valid_split
    if missing:
        # Without a checkpoint there is no model either; that is one fault.
        faults = [fault for fault in faults if not fault.startswith("model: ")]
    if not split:
        faults.append("evaluator.split must name a split to score")
    evaluator = replace(config.evaluator, checkpoint=checkpoint, split=split)
    # Checked like the rest of a training configuration, then dropped: fairseq2 knows no optimizers
    # while it evaluates.
    config = replace(config, evaluator=evaluator, optimizer=None, lr_scheduler=None)  # type: ignore[arg-type]
    scored = checkpoint if checkpoint != NO_CHECKPOINT else str(config.model.name)
    output_dir = run_dir / "eval" / scored / str(split)
    return Selection(config, output_dir, step, (*missing, *faults))


def _asked(tree: Mapping[str, Any], key: str) -> str | None:
    """What the section ``evaluator`` says under a key; None if it says nothing sound."""
    section = tree.get("evaluator")
    value = section.get(key) if isinstance(section, Mapping) else None
    return value if isinstance(value, str) else None


def _step(run_dir: Path, checkpoint: str) -> int:
    """The training step of a run's checkpoint that is named ``best``, ``last`` or ``step_<n>``."""
    steps = checkpoint_steps(run_dir)
    if not steps:
        raise RunError(
            f"{run_dir} holds no checkpoint to score. Train into it first, name the directory of a "
            f"run, or set evaluator.checkpoint={NO_CHECKPOINT} to score model.name as it is."
        )
    if checkpoint == "best":
        if not checkpoint_scores(run_dir):
            raise RunError(
                f"no checkpoint of {run_dir} was validated, so none is the best; "
                "set evaluator.checkpoint=last to score the newest."
            )
        return best_step(run_dir) or steps[-1]
    named = {"last": steps[-1], **{f"step_{step}": step for step in steps}}
    if checkpoint not in named:
        known = ", ".join(["best", NO_CHECKPOINT, *named])
        raise RunError(f"evaluator.checkpoint '{checkpoint}' is not in {run_dir}; known: {known}")
    return named[checkpoint]
