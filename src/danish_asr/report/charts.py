"""The charts of the page as inline SVG: error rates per group, and curves of a run.

matplotlib draws static charts without any JavaScript, so the page needs no network and can be
printed. It draws in fixed colours: figures use the placeholder colours below, and the SVG gets CSS
variables in their place, which follow the reader's light or dark mode.
"""

import io
import re
from collections.abc import Sequence
from html import escape
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from danish_asr.report.curves import Panel
from danish_asr.report.wording import bounds, percent, short
from danish_asr.scoring.scores import GroupScore

_COLOURS: Final = {
    f"#0102{number:02x}": f"var(--{name})"
    for number, name in enumerate(("ink", "muted", "line", "accent", "second", "paper"))
}
_INK, _MUTED, _LINE, _ACCENT, _SECOND, _PAPER = _COLOURS
_STYLE: Final[Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, copied and read aloud
    "font.size": 10,
    "text.color": _INK,
    "text.parse_math": False,  # a "$" in a label is a dollar
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "grid.color": _LINE,
    "grid.linewidth": 0.6,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "legend.frameon": False,
}
_DASHED: Final[dict[str, Any]] = {"color": _MUTED, "linewidth": 1, "linestyle": (0, (3, 3))}
_WIDTH: Final = 3.9
"""Inches. About the width of a phone, so that the text stays readable there."""


def rate_chart(title: str, groups: Sequence[GroupScore], overall: float) -> str:
    """WER per group as a dot with its interval; a hollow dot where there is no interval."""
    with mpl.rc_context(_STYLE | {"svg.hashsalt": title}):
        figure = Figure(figsize=(_WIDTH, 0.75 + 0.46 * len(groups)), layout="constrained")
        axes = figure.add_subplot()
        xlabel = "WER % (dashed: all rows)"
        for place, group in enumerate(reversed(groups)):
            interval = group.wer.interval
            fill = _PAPER
            if interval:
                fill = _ACCENT
                ends = [100 * interval.low, 100 * interval.high]
                axes.plot(ends, [place] * 2, color=_ACCENT, lw=2.5, solid_capstyle="round")
            else:
                xlabel = "WER % (dashed: all rows;\nhollow: no interval)"
            dot: dict[str, Any] = {"marker": "o", "ms": 7, "mew": 1.5, "mfc": fill}
            axes.plot(100 * group.wer.value, place, color=_ACCENT, **dot)
        axes.axvline(100 * overall, **_DASHED)
        labels = [f"{short(group.label, 25)}\n{_amount(group)}" for group in reversed(groups)]
        axes.set_yticks(range(len(groups)), labels, color=_INK, linespacing=1.15)
        axes.set_ylim(-0.6, len(groups) - 0.4)
        axes.set_xlim(left=0)
        axes.set_xlabel(xlabel)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=True, axis="x")
        axes.spines["left"].set_visible(False)
        # The chart in words, for readers who cannot see it.
        description = "; ".join(
            f"{group.label}: {percent(group.wer.value)} % ({bounds(group.wer.interval)}), "
            f"{group.rows} rows"
            for group in groups
        )
        return _to_svg(figure, title, description)


def _amount(group: GroupScore) -> str:
    counts = ((group.rows, "row"), (group.speakers, "speaker"))
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)


def curves_chart(panel: Panel) -> str:
    """Curves in one pair of axes, with dashed lines where another job started."""
    along = panel.along
    description = []
    with mpl.rc_context(_STYLE | {"svg.hashsalt": panel.title}):
        figure = Figure(figsize=(_WIDTH, 3.1), layout="constrained")
        axes = figure.add_subplot()
        colours = (_ACCENT, _SECOND, _MUTED)
        for (label, curve), colour in zip(panel.curves.items(), colours, strict=False):
            marker = "o" if len(curve) < 40 else ""
            axes.plot(curve.index, curve, color=colour, label=label, marker=marker, ms=3)
            description.append(
                f"{label}: {curve.iloc[0]:.4g} at {along} {curve.index[0]:.4g}, lowest "
                f"{curve.min():.4g}, highest {curve.max():.4g}, {curve.iloc[-1]:.4g} at {along} "
                f"{curve.index[-1]:.4g}"
            )
        for mark in panel.marks:
            axes.axvline(mark, **_DASHED)
        if panel.marks:
            marks = ", ".join(f"{mark:.3g}" for mark in panel.marks)
            description.append(f"another job at {along} {marks}")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"{along} (dashed: another job)" if panel.marks else along)
        axes.set_ylabel(panel.unit)
        axes.grid(visible=True, axis="y")
        # Above the axes, because a curve may be anywhere inside.
        figure.legend(loc="outside upper left", ncols=2, fontsize=9, labelcolor=_INK)
        return _to_svg(figure, panel.title, "; ".join(description))


def _to_svg(figure: Figure, title: str, description: str) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", transparent=True)
    head, _, body = stream.getvalue().partition("</metadata>")
    # Groups have numbered ids, which would repeat when several figures are on one page.
    body = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", body)
    body = re.sub(r"'DejaVu Sans'(?:, [^;\"]*)?", "system-ui, sans-serif", body)
    for colour, variable in _COLOURS.items():
        body = body.replace(colour, variable)
    (box,) = re.findall(r'viewBox="[^"]+"', head)
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    label = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    return f'<svg {box} role="img" {spaces}>{label}{body.rstrip()}'
