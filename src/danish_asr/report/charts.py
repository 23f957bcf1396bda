"""The charts of the page: rates per group with their intervals, and training curves."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from danish_asr.report.svg import ACCENT, INK, MUTED, PAPER, SECOND, figure, to_svg
from danish_asr.report.training import Curve
from danish_asr.report.wording import bounds, percent
from danish_asr.scoring.intervals import Interval
from danish_asr.scoring.scores import GroupScore

WIDTH = 3.9
"""Inches. About the width of a phone, so that the letters stay readable there."""


def rate_chart(name: str, title: str, groups: Sequence[GroupScore], overall: float) -> str:
    """WER per group as a dot with its interval; a hollow dot where no interval can be given."""
    with figure(WIDTH, 0.75 + 0.46 * len(groups), name) as drawn:
        axes = drawn.add_subplot()
        for place, group in enumerate(reversed(groups)):
            _draw_group(axes, place, group)
        axes.axvline(100 * overall, color=MUTED, linewidth=1, linestyle=(0, (3, 3)))
        axes.set_yticks(
            range(len(groups)),
            [f"{_short(group.label)}\n{_amount(group)}" for group in reversed(groups)],
            color=INK,
            linespacing=1.15,
        )
        axes.set_ylim(-0.6, len(groups) - 0.4)
        axes.set_xlim(left=0)
        hollow = any(not isinstance(group.wer.interval, Interval) for group in groups)
        axes.set_xlabel("WER % (dashed: all rows" + (";\nhollow: no interval)" if hollow else ")"))
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=True, axis="x", linewidth=0.6)
        axes.spines["left"].set_visible(False)
        # What the chart shows, in words: for those who do not see it.
        told = "; ".join(
            f"{group.label}: {percent(group.wer.value)} % ({bounds(group.wer.interval)}), "
            f"{group.errors.rows} rows"
            for group in groups
        )
        return to_svg(drawn, title, told)


def _draw_group(axes: Axes, place: int, group: GroupScore) -> None:
    resolution = group.wer.interval
    resolved = isinstance(resolution, Interval)
    if isinstance(resolution, Interval):
        axes.plot(
            [100 * resolution.low, 100 * resolution.high],
            [place, place],
            color=ACCENT,
            linewidth=2.5,
            solid_capstyle="round",
        )
    axes.plot(
        100 * group.wer.value,
        place,
        marker="o",
        markersize=7,
        color=ACCENT,
        markerfacecolor=ACCENT if resolved else PAPER,
        markeredgewidth=1.5,
    )


def _amount(group: GroupScore) -> str:
    return f"{_number(group.errors.rows, 'row')}, {_number(group.speakers, 'speaker')}"


def _number(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _short(label: str) -> str:
    return label if len(label) <= 26 else f"{label[:25]}…"


def training_chart(
    name: str,
    title: str,
    unit: str,
    curves: Sequence[Curve],
    *,
    along: str = "step",
    marks: Sequence[float] = (),
) -> str:
    """Curves over training steps or ``along`` hours, in one pair of axes.

    Dashed lines stand at ``marks``, where another job began.
    """
    with figure(WIDTH, 3.1, name) as drawn:
        axes = drawn.add_subplot()
        for curve, colour in zip(curves, (ACCENT, SECOND, MUTED), strict=False):
            marker = "o" if len(curve.steps) < 40 else ""
            axes.plot(
                curve.steps, curve.values, color=colour, label=curve.name, marker=marker, ms=3
            )
        for mark in marks:
            axes.axvline(mark, color=MUTED, linewidth=1, linestyle=(0, (3, 3)))
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"{along} (dashed: another job)" if marks else along)
        axes.set_ylabel(unit)
        axes.grid(visible=True, axis="y", linewidth=0.6)
        # Above the axes, for any place inside may be a curve's.
        drawn.legend(loc="outside upper left", ncols=2, fontsize=9, labelcolor=INK)
        told = [
            f"{curve.name}: {curve.values[0]:.4g} at {along} {curve.steps[0]:.4g}, lowest "
            f"{min(curve.values):.4g}, highest {max(curve.values):.4g}, {curve.values[-1]:.4g} at "
            f"{along} {curve.steps[-1]:.4g}"
            for curve in curves
        ]
        if marks:
            told.append(f"another job at {along} " + ", ".join(f"{mark:.3g}" for mark in marks))
        return to_svg(drawn, title, "; ".join(told))
