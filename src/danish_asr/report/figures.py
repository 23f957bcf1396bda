"""Figures for papers: rates and differences as dots with their intervals."""

from collections.abc import Sequence
from io import BytesIO
from math import isnan
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from danish_asr import __version__
from danish_asr.base.errors import ConfigError
from danish_asr.report.tables import (
    count,
    grouping_title,
    in_grouping,
    sentence,
    short,
    speakers,
    summary,
)
from danish_asr.scoring.compare import Comparison
from danish_asr.scoring.intervals import Interval
from danish_asr.scoring.scores import Scores

_STYLE: Final[Any] = {"svg.hashsalt": "forest", "svg.fonttype": "none", "pdf.fonttype": 42}


class _Line(NamedTuple):
    label: str
    value: float
    interval: Interval | None
    is_own: bool  # else it is a pooled one, or none


def plot_groups(scores: Scores, grouping: str) -> Figure:
    """Return WER per group with 95 % intervals; the dashed line is all rows.

    The interval of a hollow dot is a pooled one (≈). Save it with
    ``figure.savefig("groups.pdf")``. Below it stands what the numbers are of.

    Raises:
        ConfigError: The scores do not have the grouping.
    """
    if grouping not in scores.groupings:
        scored = ", ".join(scores.groupings)
        fault = f"unknown grouping '{grouping}'; scored: {scored or 'none'}"
        raise ConfigError([fault], where="the call")
    groups = scores.groupings[grouping].groups
    lines = [
        _Line(
            f"{short(group.label, 30)} ({count(group.speakers)})",
            group.wer.value,
            group.wer.interval or group.wer_pooled,
            group.wer.interval is not None,
        )
        for group in groups
    ]
    figure, axes = _dots(lines)
    axes.axvline(100 * scores.overall.wer.value, color="0.5", lw=1, ls="--")
    axes.set_xlim(left=0)
    axes.set_xlabel("WER %")
    axes.set_title(f"{sentence(grouping_title(grouping))} (speakers)", fontsize=10)
    figure.supxlabel(_caption(scores), fontsize=6, wrap=True, parse_math=False)
    return figure


def _caption(scores: Scores) -> str:
    """Return settings, rows and evaluation."""
    keys = ("model", "checkpoint", "dataset", "predictions_sha256")
    known = [f"{key} {scores.about[key]}" for key in keys if scores.about.get(key)]
    return "\n".join([summary(scores), ", ".join([*known, f"danish-asr {__version__}"])])


def forest_plot(comparison: Comparison) -> Figure:
    """Return the differences from the baseline per group.

    The interval of a hollow dot is a pooled one (≈).
    """
    baseline = next(iter(comparison.runs))
    lines: list[_Line] = []
    for line in comparison.table[comparison.table["run"] != baseline].to_dict("records"):
        grouping = "" if line["grouping"] == "all" else line["grouping"]
        label = in_grouping(grouping, short(line["group"], 30))
        label = f"{label} ({speakers(line['speakers'])})"
        if len(comparison.runs) > 2:
            label = f"{label}: {short(line['run'], 20)} − {short(baseline, 20)}"
        interval = None if isnan(line["wer_low"]) else Interval(line["wer_low"], line["wer_high"])
        is_own = interval is not None and not line["wer_pooled"]
        lines.append(_Line(label, line["wer_difference"], interval, is_own))
    figure, axes = _dots(lines)
    axes.axvline(0, color="0.3", lw=1)
    axes.set_xlabel(
        f"difference of WER from {short(baseline, 20)} in points, intervals\n"
        "over speakers, adjusted (Holm) as the p-values",
        parse_math=False,
    )
    return figure


def forest_file(comparison: Comparison, kind: str, description: str) -> bytes:
    """Return the plot as a file of ``pdf`` or ``svg``; the same comparison gives the same bytes.

    ``description`` says what the numbers are of, and is in the metadata of the file.
    """
    metadata = {
        "pdf": {"CreationDate": None, "Subject": description},
        "svg": {"Date": None, "Description": description},
    }
    stream = BytesIO()
    with mpl.rc_context(_STYLE):
        forest_plot(comparison).savefig(stream, format=kind, metadata=metadata[kind])
    return stream.getvalue()


def _dots(lines: Sequence[_Line]) -> tuple[Figure, Axes]:
    """Draw a line per label, from the top, in per cent."""
    longest = max(len(line.label) for line in lines)
    width = 4 + 0.08 * longest  # inches; the labels leave enough for the axis and its caption
    figure = Figure(figsize=(width, 1 + 0.3 * len(lines)), layout="constrained")
    axes = figure.add_subplot()
    for place, line in enumerate(reversed(lines)):
        if line.interval:
            axes.plot([100 * bound for bound in line.interval], [place] * 2, color="C0", lw=2)
        fill = "C0" if line.is_own else "white"
        axes.plot(100 * line.value, place, "o", color="C0", mfc=fill, ms=6, clip_on=False)
    axes.set_yticks(range(len(lines)), [line.label for line in reversed(lines)], parse_math=False)
    axes.set_ylim(-0.6, len(lines) - 0.4)
    axes.grid(axis="x", alpha=0.4)
    return figure, axes
