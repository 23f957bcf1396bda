"""Curves of a run: its metrics over training steps, and what its jobs used over hours."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from danish_asr.errors import RunError

T = TypeVar("T")

_LOSS: Final = "CTC Loss"
_METRICS: Final = (
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
"""For each panel its title, its unit, and for each curve its name, its file and its key."""

_GAP_SECONDS: Final = 600.0
"""A longer pause between two samples is time in the queue, which the curves leave out."""

_POINTS: Final = 300
"""Points of a curve; a trace of a day has 30 times as many lines."""

_SHORTEST_SECONDS: Final = 15.0
"""Of a point: more than the trace's interval of 10 s, so that each host has a sample in it."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over training steps or hours, in order; never empty."""

    name: str
    steps: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves with common axes; ``marks`` are the places ``along`` the axis where a job started."""

    title: str
    unit: str
    curves: tuple[Curve, ...]
    along: str = "step"
    marks: tuple[float, ...] = ()


def training_panels(run_dir: Path) -> list[Panel]:
    """Read ``metrics/train.jsonl`` and ``metrics/valid.jsonl``, which fairseq2 writes.

    Raises:
        RunError: ``run_dir`` has no metrics, or a line of them cannot be read.
    """
    files = {name: run_dir / "metrics" / f"{name}.jsonl" for name in ("train", "valid")}
    if not any(file.is_file() for file in files.values()):
        raise RunError(
            f"{run_dir}: no metrics/train.jsonl or metrics/valid.jsonl; expected the output "
            "directory of a training run"
        )
    lines = {name: list(_read(file, dict)) for name, file in files.items() if file.is_file()}
    panels = []
    for title, unit, wanted in _METRICS:
        metrics = ((name, _metric(lines.get(file, []), key)) for name, file, key in wanted)
        curves = [Curve(name, tuple(m), tuple(m.values())) for name, m in metrics if m]
        if curves:
            panels.append(Panel(title, unit, tuple(curves)))
    return panels


def _metric(lines: Iterable[Mapping[str, Any]], key: str) -> dict[float, float]:
    # A resumed run may log a step twice; training continued from the later line.
    values = {
        line["Step"]: float(line[key])
        for line in lines
        if isinstance(line.get("Step"), int)
        and isinstance(line.get(key), int | float)
        and math.isfinite(line[key])
    }
    return dict(sorted(values.items()))


def usage_panels(run_dir: Path) -> list[Panel]:
    """Read ``trace/*.jsonl``: GPU and memory use over the hours in which jobs ran.

    Jobs that continued each other form one axis without the waiting time between them. Hosts are
    combined: the mean of all GPUs, the fullest GPU, the sum of the processes' memory. A measure
    without a value, or a run without a trace, has no panel.

    Raises:
        RunError: A line cannot be read.
    """
    files = sorted((run_dir / "trace").glob("*.jsonl"))
    samples = [sample for file in files for sample in _read(file, partial(_sample, file.name))]
    if not samples:
        return []
    import pandas as pd  # noqa: PLC0415 - slow to load, and few pages need it

    trace = pd.DataFrame(samples).sort_values("time", kind="stable")
    pause = trace["time"].diff().fillna(0)
    waited = pause > _GAP_SECONDS
    seconds = pause.mask(waited, 0).cumsum()
    starts = seconds[waited | ~trace["job"].duplicated()] / 3600
    width = max(seconds.iloc[-1] / _POINTS, _SHORTEST_SECONDS)
    trace["hour"] = seconds // width * width / 3600
    gpus = trace.explode(["utilisation", "filled"]).astype({"utilisation": float, "filled": float})
    by_hour = gpus.groupby("hour")
    memory = trace.groupby(["hour", "host"])["memory_gib"].max().groupby("hour").sum()
    measures = (
        ("GPUs", "%", "computing", by_hour["utilisation"].mean()),
        ("GPUs", "%", "memory of the fullest", by_hour["filled"].max()),
        ("Memory of the jobs", "GiB", "all processes", memory),
    )
    curves: dict[tuple[str, str], list[Curve]] = defaultdict(list)
    for title, unit, name, measure in measures:
        if len(known := measure.dropna()):
            curves[title, unit].append(Curve(name, tuple(known.index), tuple(known)))
    return [
        Panel(title, unit, tuple(found), along="hour", marks=tuple(starts[1:]))
        for (title, unit), found in curves.items()
    ]


def _sample(file_name: str, line: Mapping[str, Any]) -> dict[str, Any]:
    gpus = line["gpus"]
    return {
        "time": float(line["time"]),
        "job": str(line["job"] or file_name),
        "host": str(line["host"]),
        "memory_gib": float(line["memory_mib"]) / 1024,
        "utilisation": [_number(gpu["utilisation_percent"]) for gpu in gpus],
        "filled": [100 * _number(g["memory_mib"]) / _number(g["memory_total_mib"]) for g in gpus],
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _read(file: Path, parse: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    for number, line in enumerate(file.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            return  # The job was killed while it wrote this line.
        try:
            yield parse(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(
                f"{file}:{number}: cannot be read ({type(error).__name__}: {error}); remove the "
                "line, or score without --run"
            ) from None
