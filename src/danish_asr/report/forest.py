"""A forest plot of compared runs: differences of WER with their intervals, as SVG or PDF."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from danish_asr.base.files import publish
from danish_asr.report import wording
from danish_asr.scoring.comparison import Comparison
from danish_asr.scoring.intervals import Estimate

_STYLE: Final[Any] = {"svg.hashsalt": "forest", "svg.fonttype": "none", "pdf.fonttype": 42}


class _Line(NamedTuple):
    label: str
    difference: Estimate


def forest_plot(comparison: Comparison) -> Figure:
    """Return the differences from the baseline per group, or those of all pairs of runs.

    A hollow dot has no interval.
    """
    if comparison.pairs:
        lines = [
            _Line(f"{wording.short(pair.b, 24)} − {wording.short(pair.a, 24)}", pair.wer.difference)
            for pair in comparison.pairs
        ]
        level = "simultaneous 95 % intervals"
    else:
        lines = [*_lines_of_groups(comparison)]
        level = "95 % intervals"
    figure = Figure(figsize=(6, 1 + 0.28 * len(lines)), layout="constrained")
    axes = figure.add_subplot()
    for place, line in enumerate(reversed(lines)):
        interval = line.difference.interval
        if interval:
            axes.plot([100 * bound for bound in interval], [place] * 2, color="C0", lw=2)
        fill = "C0" if interval else "white"
        axes.plot(100 * line.difference.value, place, "o", color="C0", mfc=fill, ms=6)
    axes.axvline(0, color="0.3", lw=1)
    axes.set_yticks(range(len(lines)), [line.label for line in reversed(lines)], parse_math=False)
    axes.set_ylim(-0.6, len(lines) - 0.4)
    axes.set_xlabel(f"difference of WER in points,\n{level} over speakers")
    axes.grid(visible=True, axis="x", alpha=0.4)
    return figure


def _lines_of_groups(comparison: Comparison) -> list[_Line]:
    baseline = comparison.overall.runs[0].run
    lines: list[_Line] = []
    groups = [("", comparison.overall)]
    for name, own in comparison.groupings.items():
        groups += [(name, group) for group in own]
    for name, group in groups:
        for run in group.runs[1:]:
            label = wording.in_grouping(name, wording.short(group.label, 30))
            label = f"{label} ({wording.count(group.speakers)} speakers)"
            if len(group.runs) > 2:
                label = f"{label}: {wording.short(run.run, 20)} − {wording.short(baseline, 20)}"
            lines.append(_Line(label, run.paired["wer"].difference))
    return lines


def save_forest_plot(comparison: Comparison, path: Path) -> None:
    """Write the plot; the same comparison gives the same bytes."""
    kind = path.suffix.removeprefix(".").lower()
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with mpl.rc_context(_STYLE), publish(path) as stream:
        forest_plot(comparison).savefig(stream, format=kind, metadata=dates[kind])
