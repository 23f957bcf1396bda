"""How numbers and settings are said, the same in the terminal, on the page and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping

from danish_asr.scoring.comparison import Comparison
from danish_asr.scoring.intervals import MAX_SHARE, MIN_SPEAKERS, Interval, Resolution
from danish_asr.scoring.scores import Gap, Grouping, Scores
from danish_asr.scoring.settings import Settings

INTERVAL_NOTE = (
    f"not resolvable: an interval needs {MIN_SPEAKERS} speakers who differ, none of them with more "
    f"than {100 * MAX_SHARE:.0f} % of the words"
)


def percent(rate: float) -> str:
    """A fraction in per cent, without the sign."""
    return f"{100 * rate:.2f}"


def points(difference: float) -> str:
    """A difference of fractions in percentage points, signed."""
    return f"{100 * difference:+.2f}"


def bounds(resolution: Resolution) -> str:
    """An interval in per cent, or that there is none."""
    if isinstance(resolution, Interval):
        return f"{percent(resolution.low)} to {percent(resolution.high)}"
    return "not resolvable"


def why(resolution: Resolution) -> str:
    """The reason for a missing interval, or nothing."""
    return "" if isinstance(resolution, Interval) else resolution.reason


def sentence(text: str) -> str:
    """The same with a capital first letter; names inside keep theirs."""
    return text[:1].upper() + text[1:]


def grouping_title(name: str) -> str:
    """A heading, e.g. "by age_group and gender"."""
    return "by " + " and ".join(part.strip().replace("_", " ") for part in name.split(","))


def summary(scores: Scores) -> str:
    """One line that says what the numbers are."""
    total = "" if scores.rows_in_split is None else f" of {scores.rows_in_split} in the split"
    rows = f"{scores.overall.errors.rows} rows scored{total}"
    return f"{settings_summary(scores.settings)}, {rows}{_left_out(scores.left_out)}"


def comparison_summary(comparison: Comparison) -> str:
    """One line that says what the differences are."""
    rows = f"{comparison.overall.errors_a.rows} rows paired by id"
    return f"{settings_summary(comparison.settings)}, {rows}{_left_out(comparison.left_out)}"


def settings_summary(settings: Settings) -> str:
    """Profile, filter and denominator, without which no score means anything."""
    fillers = ", fillers removed" if settings.remove_fillers else ""
    return (
        f"profile {settings.profile} v{settings.profile_version}{fillers}, "
        f"filter {settings.row_filter}, denominator {settings.denominator}"
    )


def _left_out(left_out: Mapping[str, int]) -> str:
    reasons = "; ".join(f"{count} left out: {reason}" for reason, count in left_out.items())
    return f" ({reasons})" if reasons else ""


def partial_warning(scores: Scores) -> str:
    """Say that the file lacks rows of its split."""
    return (
        f"the predictions are partial: {scores.rows_in_file} of {scores.rows_in_split} rows of the "
        "split; these scores are not the split's scores"
    )


def gap_sentence(grouping: Grouping) -> str | None:
    """Say how far the worst group is from the best."""
    gap: Gap | None = grouping.gap
    if gap is None:
        return None
    return (
        f"worst {gap.worst}, {percent(gap.difference.value)} points above {gap.best} "
        f"(95 % interval {bounds(gap.difference.interval)})"
    )
