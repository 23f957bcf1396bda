"""Training curves from the metrics that fairseq2 writes into a run's directory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from danish_asr.errors import RunError


@dataclass(frozen=True, slots=True)
class Curve:
    """A measure over training steps, or hours, in order; neither list is empty."""

    name: str
    steps: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves that share their axes.

    ``along`` says what they go along; ``marks`` are places there where another job began.
    """

    title: str
    unit: str
    curves: tuple[Curve, ...]
    along: str = "step"
    marks: tuple[float, ...] = ()


_LOSS: Final = "CTC Loss"
_LARGEST: Final = 1e300
"""A whole number beyond has no float, and neither NaN nor infinity lies within."""

_PANELS: Final = (
    ("Loss", "CTC loss", (("training", "train", _LOSS), ("validation", "valid", _LOSS))),
    (
        "Error rates in validation",
        "%",
        (
            ("WER", "valid", "Word Error Rate (WER)"),
            ("CER", "valid", "Character Error Rate (CER)"),
            ("WER of the worst dialect", "valid", "WER of the worst dialect"),
        ),
    ),
)


def training_panels(run_dir: Path) -> list[Panel]:
    """Read ``metrics/train.jsonl`` and ``metrics/valid.jsonl``.

    A panel without a value is left out.

    Raises:
        RunError: There are no metrics in ``run_dir``, or a line of them is not JSON.
    """
    metrics = run_dir / "metrics"
    files = {name: metrics / f"{name}.jsonl" for name in ("train", "valid")}
    if not any(file.is_file() for file in files.values()):
        raise RunError(
            f"{run_dir}: no metrics/train.jsonl or metrics/valid.jsonl; expected the output "
            "directory of a training run"
        )
    lines = {name: _read(file) for name, file in files.items()}
    panels = []
    for title, unit, wanted in _PANELS:
        curves = [_curve(name, lines[source], key) for name, source, key in wanted]
        if found := tuple(curve for curve in curves if curve):
            panels.append(Panel(title, unit, found))
    return panels


def _read(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    lines = file.read_bytes().splitlines()
    return [_parse(line, f"{file}:{number}") for number, line in enumerate(lines, start=1)]


def _parse(line: bytes, where: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RunError(
            f"{where}: not JSON ({error}); remove the line, or score without --run"
        ) from None
    if not isinstance(values, dict):
        raise RunError(f"{where}: expected a JSON object, found {type(values).__name__}")
    return values


def _curve(name: str, lines: list[dict[str, Any]], key: str) -> Curve | None:
    # A run that was resumed may tell a step twice; the later line is what training went on with.
    values = {
        line["Step"]: float(line[key])
        for line in lines
        if isinstance(line.get("Step"), int) and _is_finite(line.get(key))
    }
    if not values:
        return None
    steps = tuple(sorted(values))
    return Curve(name, steps, tuple(values[step] for step in steps))


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and -_LARGEST < value < _LARGEST
