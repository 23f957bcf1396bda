"""A run's output directory: what may continue in it, and what makes it complete."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from danish_asr.errors import RunError
from danish_asr.files import publish_text
from danish_asr.recipe.loading import flatten, read_yaml
from danish_asr.yaml_text import to_yaml

CONFIG_FILE: Final = "config.yaml"
CHECKPOINTS: Final = "checkpoints"
METRICS: Final = "metrics"
TENSORBOARD: Final = "tb"
MODEL_CARD: Final = "model.yaml"

SCORE_TITLES: Final = {
    "wer": "Word Error Rate (WER)",
    "cer": "Character Error Rate (CER)",
    "worst_group_wer": "WER of the worst dialect",
}
"""How fairseq2's metrics files call the metrics that can be ``regime.score_metric``."""

MAY_CHANGE: Final = (
    "regime.",
    "gang.",
    "evaluator.",
    "common.",
    "dataset.valid_split",
    "dataset.valid_max_num_elements",
    "trainer.max_wall_minutes",
    # A step of two processes takes what one takes in two batches.
    "trainer.grad_accumulation.",
    "trainer.activation_checkpointing.",
    "trainer.gc_every_n_steps",
    "trainer.anomaly_detection",
    "trainer.grad_check",
)
"""Keys, or what they begin with, that a run may change when it continues. What is not named here
shapes the weights, the data or the state that is saved."""

MUST_STAY: Final = ("common.seed", "regime.score_metric", "regime.score_profile")
"""Exceptions to :data:`MAY_CHANGE`."""


def checkpoint_steps(output_dir: Path) -> list[int]:
    """Return the steps whose checkpoints are complete, ascending."""
    names = (path.name for path in (output_dir / CHECKPOINTS).glob("step_*") if path.is_dir())
    return sorted(int(name[5:]) for name in names if name[5:].isdigit())


def resumable_steps(output_dir: Path) -> list[int]:
    """Return the steps that a run can continue from: their checkpoints hold more than a model."""
    steps = checkpoint_steps(output_dir)
    return [s for s in steps if (output_dir / CHECKPOINTS / f"step_{s}" / "trainer").is_dir()]


def checkpoint_scores(output_dir: Path) -> dict[int, float]:
    """Return the validation score of each complete checkpoint that has one; higher is better."""
    folder = output_dir / CHECKPOINTS / "scores"
    files = {step: folder / f"step_{step}.txt" for step in checkpoint_steps(output_dir)}
    return {s: float(f.read_text(encoding="utf-8")) for s, f in files.items() if f.is_file()}


def best_step(output_dir: Path) -> int | None:
    """Return the step with the best score, or the last one if none was validated."""
    scores = checkpoint_scores(output_dir)
    if scores:
        return max(scores, key=lambda step: (scores[step], step))
    return max(checkpoint_steps(output_dir), default=None)


def check_output_dir(output_dir: Path) -> None:
    """Refuse a directory that cannot be one, or cannot be written.

    Raises:
        RunError: There is something else of that name, or no permission.
    """
    there = next(
        path for path in [output_dir.absolute(), *output_dir.absolute().parents] if path.exists()
    )
    if not there.is_dir():
        raise RunError(f"OUTDIR {output_dir}: {there} is a file; name a directory, new or of a run")
    if not os.access(there, os.W_OK | os.X_OK):
        raise RunError(f"OUTDIR {output_dir}: nothing may be written in {there}; name another")


def tidy(output_dir: Path) -> None:
    """Drop what a run that continues will write again: half a checkpoint, and later metrics.

    The run takes the steps after its last checkpoint once more; its metrics files then hold each
    step once.

    Raises:
        RunError: A metrics file holds something else than metrics.
    """
    for unfinished in (output_dir / CHECKPOINTS).glob("step_*.tmp"):
        shutil.rmtree(unfinished, ignore_errors=True)
    last = max(resumable_steps(output_dir), default=0)
    for file in (output_dir / METRICS).rglob("*.jsonl"):
        recorded = list(_recorded(file))
        kept = [line for line, values in recorded if values["Step"] <= last]
        if "".join(kept) != file.read_text(encoding="utf-8"):
            publish_text(file, "".join(kept))
    for category in (output_dir / TENSORBOARD).glob("*/"):
        _purge_curves(category, last + 1)


def _purge_curves(folder: Path, step: int) -> None:
    """Tell TensorBoard that what its files hold of a step and later ones will be written anew."""
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - only here, and slow

    SummaryWriter(folder, purge_step=step).close()  # type: ignore[no-untyped-call]


def _recorded(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The complete lines of a metrics file, and what they hold.

    A line that was being written when the run died ends without a newline; it is passed over.
    """
    if not file.is_file():
        return
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        if not line.endswith("\n"):
            continue
        try:
            values = json.loads(line)
            step = values["Step"]
        except (ValueError, TypeError, KeyError):
            step = None
        if not isinstance(step, int):
            raise RunError(
                f"{file}:{number}: expected one JSON object with a Step, found {line[:60]!r}; "
                "remove that line (it is a record, training does not need it)"
            )
        yield line, values


def _validations(output_dir: Path) -> list[dict[str, Any]]:
    """What was validated up to the last checkpoint, also while another process tidies up."""
    last = max(resumable_steps(output_dir), default=0)
    recorded = _recorded(output_dir / METRICS / "valid.jsonl")
    return [values for _, values in recorded if values["Step"] <= last]


def validation_scores(output_dir: Path, metric: str) -> list[float]:
    """Return the score of each validation so far, oldest first; higher is better."""
    title = SCORE_TITLES.get(metric, metric)
    return [-float(row[title]) for row in _validations(output_dir) if title in row]


def validated_steps(output_dir: Path) -> frozenset[int]:
    """Return the steps after which the run was validated."""
    return frozenset(row["Step"] for row in _validations(output_dir))


def last_validation_seconds(output_dir: Path) -> float:
    """Return how long the last validation took; 0 if there was none."""
    return float(next((row["Lapse Time"] for row in reversed(_validations(output_dir))), 0.0))


def check_continuation(
    output_dir: Path, config: Mapping[str, Any], usual: Mapping[str, Any]
) -> None:
    """Refuse to continue a run with a configuration that did not make it.

    A directory without a checkpoint can be begun anew; nothing is lost. A key that the run's
    version did not have had, in effect, its default, which ``usual`` has.

    Raises:
        RunError: ``output_dir`` holds checkpoints of another configuration. The message names each
            key with both values.
    """
    file = output_dir / CONFIG_FILE
    steps = resumable_steps(output_dir)
    if not file.is_file() or not steps:
        return
    now = dict(flatten(config))
    new = {key: value for key, value in flatten(usual) if key in now}
    then = new | dict(flatten(read_yaml(file)))
    changed = [
        f"  - {key} was {then.get(key)!r} and is now {now.get(key)!r}"
        for key in sorted(then.keys() | now.keys())
        if then.get(key) != now.get(key) and not _may_change(key)
    ]
    if changed:
        raise RunError(
            f"{output_dir} holds a run at step {steps[-1]} that another "
            "configuration made:\n" + "\n".join(changed) + "\n"
            "Give the new run a directory of its own, or restore these values to continue."
        )


def _may_change(key: str) -> bool:
    return key.startswith(MAY_CHANGE) and key not in MUST_STAY


def complete_model_card(output_dir: Path, tokenizer: str | None) -> None:
    """Add the tokenizer to the card that fairseq2 wrote for the run's checkpoints.

    Without it nobody who loads a checkpoint by name knows how to read what it says.
    """
    file = output_dir / CHECKPOINTS / MODEL_CARD
    publish_text(file, to_yaml({**read_yaml(file), "tokenizer_ref": tokenizer}))
