"""How far the worst group is from the best, one line per grouping."""

from typing import Final

from danish_asr.report import wording
from danish_asr.scoring.intervals import Estimate
from danish_asr.scoring.scores import Scores

HEADINGS: Final = ("gap", "worst group, WER %", "above the best, points", "ratio")
NOTE: Final = (
    "gap: of the named groups that have an interval; the intervals of a gap are adjusted for the "
    "choice of its groups"
)


def fairness_rows(scores: Scores) -> list[list[str]]:
    """Return the cells of `HEADINGS`, without groupings in which fewer than two have an interval.

    The name of a group and its number are in two lines of a cell.
    """
    return [
        [
            f"{wording.grouping_title(name)}\n({gap.groups} groups)",
            f"{wording.short(gap.worst, 22)}\n{_with_interval(gap.wer, 100)}",
            f"{wording.short(gap.best, 22)}\n{_with_interval(gap.difference, 100)}",
            f"\n{_with_interval(gap.ratio, 1)}",
        ]
        for name, part in scores.groupings.items()
        if (gap := part.gap)
    ]


def _with_interval(estimate: Estimate, unit: int) -> str:
    low, high = estimate.interval or (float("nan"), float("nan"))
    return f"{unit * estimate.value:.2f} ({unit * low:.2f} to {unit * high:.2f})"
