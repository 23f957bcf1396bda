"""Curves of a run: its metrics over training steps."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from danish_asr.base.errors import RunError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.run.advice import CHANCE, LOSS
from danish_asr.recipe.run.run_directory import EMA

Curve: TypeAlias = "pd.Series[Any]"
"""Values; the index holds steps, in order."""

_LOSSES: Final = {
    "training": ("train", LOSS),
    "validation": ("valid", LOSS),
    "chance": ("train", CHANCE),
}
_RATES: Final = {
    "WER": ("valid", "Word Error Rate (WER)"),
    "CER": ("valid", "Character Error Rate (CER)"),
    "WER, worst dialect": ("valid", "WER of the worst dialect"),
}
"""Curves, each with its file and its key."""

OF_EMA: Final = ", EMA"
"""The end of the name of a curve of validations with the average of the weights."""


class Panel(NamedTuple):
    """Curves with common axes."""

    title: str
    unit: str
    curves: Mapping[str, Curve]
    logarithmic: bool = False


def read_panels(run_dir: Path, *, detailed: bool = False) -> list[Panel]:
    """Read ``metrics/*.jsonl``, which fairseq2 writes; ``detailed``: also what a step takes.

    A curve without values is left out, and so is a panel without curves.

    Raises:
        RunError: There are no metrics, or a line is damaged.
    """
    names = ("train", "valid", f"valid/{EMA}")
    files = {name: run_dir / "metrics" / f"{name}.jsonl" for name in names}
    if not any(file.is_file() for file in files.values()):
        raise RunError(
            f"{run_dir}: no metrics/train.jsonl or metrics/valid.jsonl; expected the output "
            "directory of a training run"
        )
    frames = {name: pd.DataFrame(_read(file)) for name, file in files.items()}
    panels = [
        Panel("Loss", "nats per character", _metrics(frames, _LOSSES), logarithmic=True),
        Panel("Error rates in validation", "%", _metrics(frames, _RATES)),
    ]
    if detailed:
        panels += _step_panels(frames["train"])
    shown = []
    for panel in panels:
        curves = {name: curve.dropna() for name, curve in panel.curves.items()}
        curves = {name: curve for name, curve in curves.items() if len(curve)}
        if curves:
            shown.append(panel._replace(curves=curves))
    return shown


def _metrics(
    frames: Mapping[str, pd.DataFrame], keys: Mapping[str, tuple[str, str]]
) -> dict[str, Curve]:
    curves = {name: _metric(frames[file], key) for name, (file, key) in keys.items()}
    for name, (file, key) in keys.items():
        if file == "valid":
            curves[name + OF_EMA] = _metric(frames[f"valid/{EMA}"], key)
    return curves


def _metric(lines: pd.DataFrame, key: str) -> Curve:
    # A resumed run may log a step twice; training continued from the later line.
    return lines.reindex(columns=["Step", key]).groupby("Step")[key].last()


def _step_panels(lines: pd.DataFrame) -> Iterator[Panel]:
    """Yield what each step takes; the lines hold sums since the line before."""
    rate = _metric(lines, "Learning Rate").map(np.max)  # of all groups
    yield Panel("Learning rate", "", {"learning rate": rate})
    norm = _metric(lines, "Gradient Norm")
    yield Panel("Gradient norm", "before clipping", {"norm": norm}, logarithmic=True)

    def per_step(key: str) -> Curve:
        sums = _metric(lines, key)
        means: Curve = sums / np.diff(sums.index, prepend=0)
        return means

    minutes = per_step("Number of Source Elements") / SAMPLE_RATE / 60
    yield Panel("Audio per step", "minutes", {"audio": minutes})
    times = {"all": per_step("Lapse Time"), "waiting for data": per_step("Data Time")}
    yield Panel("Time per step", "seconds", times)
    memory = _metric(lines, "Peak Reserved Device Memory") / 2**30
    yield Panel("GPU memory, peak", "GiB", {"reserved": memory})


def _read(file: Path) -> list[dict[str, Any]]:
    lines = []
    text = file.read_bytes() if file.is_file() else b""
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if line.endswith(b"\n"):  # or the job was killed while it wrote the line
            try:
                lines.append(json.loads(line))
            except ValueError as error:
                raise RunError(
                    f"{file}:{number}: cannot be read ({error}); remove the line, or score without "
                    "--run"
                ) from None
    return lines
