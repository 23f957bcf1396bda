"""What a run's jobs used, from the trace that `danish_asr.cluster` keeps of GPUs and memory."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from danish_asr.errors import RunError
from danish_asr.report.training import Curve, Panel

_GAP_SECONDS: Final = 600.0
"""A longer silence is no part of a run: it waited in the queue, or nobody continued it."""

_POINTS: Final = 300
"""Of a curve. A day of a trace has thirty times as many lines."""

_SHORTEST_SECONDS: Final = 15.0
"""Of a point: a little more than the trace's own 10 s, so that each host has a line in it."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """One line of the trace. ``utilisation`` and ``filled`` are those of the host's GPUs, in %."""

    time: float
    job: str
    host: str
    memory_mib: float
    utilisation: tuple[float, ...]
    filled: tuple[float, ...]


def usage_panels(run_dir: Path) -> list[Panel]:
    """Read ``trace/*.jsonl``: the use of GPUs and memory along the hours that jobs ran.

    The jobs that continued each other are one line of time without the waiting between them, and
    marks stand where one began. Hosts are taken together: the mean of all GPUs, the fullest one,
    the sum of the processes' memory. A measure without a value, and a run without a trace, has no
    panel.

    Raises:
        RunError: A line is no line of a trace.
    """
    files = sorted((run_dir / "trace").glob("*.jsonl"))
    moments = sorted((m for file in files for m in _read(file)), key=lambda moment: moment.time)
    if not moments:
        return []
    seconds, begun = _running_time(moments)
    width = max(seconds[-1] / _POINTS, _SHORTEST_SECONDS)
    points: dict[float, list[_Moment]] = defaultdict(list)
    for second, moment in zip(seconds, moments, strict=True):
        points[second // width * width / 3600].append(moment)
    gpus = (
        _curve("computing", points, _mean_utilisation),
        _curve("memory of the fullest", points, _fullest),
    )
    memory = (_curve("all processes", points, _memory_gib),)
    panels = []
    for title, unit, curves in (("GPUs", "%", gpus), ("Memory of the jobs", "GiB", memory)):
        if found := tuple(curve for curve in curves if curve):
            marks = tuple(second / 3600 for second in begun)
            panels.append(Panel(title, unit, found, along="hour", marks=marks))
    return panels


def _curve(
    name: str,
    points: Mapping[float, Sequence[_Moment]],
    measure: Callable[[Sequence[_Moment]], float | None],
) -> Curve | None:
    measured = {hour: measure(moments) for hour, moments in points.items()}
    values = {hour: value for hour, value in measured.items() if value is not None}
    return Curve(name, tuple(values), tuple(values.values())) if values else None


def _mean_utilisation(moments: Sequence[_Moment]) -> float | None:
    values = [value for moment in moments for value in moment.utilisation]
    return sum(values) / len(values) if values else None


def _fullest(moments: Sequence[_Moment]) -> float | None:
    return max((value for moment in moments for value in moment.filled), default=None)


def _memory_gib(moments: Sequence[_Moment]) -> float | None:
    most: dict[str, float] = {}
    for moment in moments:
        most[moment.host] = max(most.get(moment.host, 0.0), moment.memory_mib)
    return sum(most.values()) / 1024


def _running_time(moments: Sequence[_Moment]) -> tuple[list[float], list[float]]:
    """The seconds at each moment since the first, without gaps; and those where a job began."""
    seconds, marks = [0.0], []
    seen = {moments[0].job}
    for before, moment in pairwise(moments):
        silence = moment.time - before.time
        gap = silence > _GAP_SECONDS
        seconds.append(seconds[-1] + (0.0 if gap else silence))
        if gap or moment.job not in seen:
            marks.append(seconds[-1])
        seen.add(moment.job)
    return seconds, marks


def _read(file: Path) -> Iterator[_Moment]:
    lines = file.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return  # The job was killed while it wrote this one.
        try:
            yield _moment(json.loads(line), file.name)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise RunError(
                f"{file}:{number}: no line of a trace ({type(error).__name__}: {error}); remove "
                "the line, or score without --run"
            ) from None


def _moment(line: dict[str, Any], file_name: str) -> _Moment:
    gpus = line["gpus"]
    return _Moment(
        time=float(line["time"]),
        job=str(line["job"] or file_name),
        host=str(line["host"]),
        memory_mib=float(line["memory_mib"]),
        utilisation=tuple(
            float(gpu["utilisation_percent"])
            for gpu in gpus
            if gpu["utilisation_percent"] is not None
        ),
        filled=tuple(
            100 * float(gpu["memory_mib"]) / float(gpu["memory_total_mib"])
            for gpu in gpus
            if gpu["memory_mib"] is not None and gpu["memory_total_mib"]
        ),
    )
