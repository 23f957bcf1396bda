"""Charts of scores for notebooks and papers, as matplotlib figures."""

from typing import Any, Final

from matplotlib.figure import Figure

from danish_asr.base.errors import ConfigError
from danish_asr.report.wording import count, grouping_title, sentence, short
from danish_asr.scoring.scores import Scores

_WHOLE: Final[dict[str, Any]] = {"clip_on": False, "zorder": 3}  # at 0 % too


def plot_groups(scores: Scores, grouping: str) -> Figure:
    """Return WER per group with 95 % intervals; a hollow dot has none, the line is all rows.

    Save it with ``figure.savefig("groups.pdf")``; a notebook shows it as it is.

    Raises:
        ConfigError: The scores do not have the grouping.
    """
    if grouping not in scores.groupings:
        known = ", ".join(scores.groupings)
        raise ConfigError([f"unknown grouping '{grouping}'; scored: {known or 'none'}"])
    groups = scores.groupings[grouping].groups
    figure = Figure(figsize=(6, 1 + 0.4 * len(groups)), layout="constrained")
    axes = figure.add_subplot()
    for place, group in enumerate(reversed(groups)):
        interval = group.wer.interval
        if interval:
            axes.plot([100 * bound for bound in interval], [place] * 2, color="C0", lw=2)
        fill = "C0" if interval else "white"
        axes.plot(100 * group.wer.value, place, "o", color="C0", mfc=fill, ms=7, **_WHOLE)
    axes.axvline(100 * scores.overall.wer.value, color="0.5", lw=1, ls="--")
    labels = [f"{short(group.label, 30)} ({count(group.speakers)})" for group in reversed(groups)]
    axes.set_yticks(range(len(groups)), labels, parse_math=False)
    axes.set_xlim(left=0)
    axes.set_xlabel("WER %")
    axes.set_title(f"{sentence(grouping_title(grouping))} (speakers)", fontsize=10)
    axes.grid(visible=True, axis="x", alpha=0.4)
    return figure
