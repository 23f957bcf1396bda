"""Numbers and settings in words: the same in the terminal, on the page and in Markdown."""

from typing import Final

from danish_asr.scoring.comparison import Comparison
from danish_asr.scoring.intervals import MAX_SHARE, MIN_SPEAKERS, Interval
from danish_asr.scoring.scored_rows import RowsUsed
from danish_asr.scoring.scores import Grouping, Scores
from danish_asr.scoring.settings import Settings
from danish_asr.text.profiles import PROFILE_VERSIONS

NOT_RESOLVABLE: Final = "not resolvable"
INTERVAL_NOTE: Final = (
    f"{NOT_RESOLVABLE}: an interval needs {MIN_SPEAKERS} speakers who differ, none of them with "
    f"more than {100 * MAX_SHARE:.0f} % of the words"
)


def percent(rate: float, sign: str = "-") -> str:
    """A fraction in percent; the sign "+" marks positive differences."""
    return f"{100 * rate:{sign}.2f}"


def bounds(interval: Interval | None, sign: str = "-") -> str:
    """An interval in percent, or that there is none."""
    if interval is None:
        return NOT_RESOLVABLE
    return f"{percent(interval.low, sign)} to {percent(interval.high, sign)}"


def sentence(text: str) -> str:
    """The same text with a capital first letter; names inside keep theirs."""
    return text[:1].upper() + text[1:]


def short(text: str | None, most: int = 80) -> str:
    """A text from the data, cut where it is too long for a word or a label."""
    text = text or ""
    return text if len(text) <= most else f"{text[:most]}…"


def grouping_title(name: str) -> str:
    """A heading, e.g. "by age group and gender" for ``age_group,gender``."""
    return "by " + " and ".join(part.strip().replace("_", " ") for part in name.split(","))


def summary(scores: Scores) -> str:
    """What the scores are based on."""
    rows = scores.rows
    return f"{_settings(scores.settings)}, {rows.scored} rows scored{_of_split(rows)}"


def comparison_summary(comparison: Comparison) -> str:
    """What the differences are based on."""
    a, b = map(_of_split, comparison.rows.values())
    used = a if a == b else f"; A{a or ': all rows'}; B{b or ': all rows'}"
    return f"{_settings(comparison.settings)}, {comparison.overall.rows} rows paired by id{used}"


def partial_warning(rows: RowsUsed, *, what: str = "the predictions") -> str:
    """A warning that a file lacks rows of its split."""
    return (
        f"{what} are partial: {rows.in_file} of {rows.in_split} rows of the split; these scores "
        "are not the split's scores"
    )


def gap_sentence(grouping: Grouping) -> str:
    """How far the worst group is from the best; empty if no two groups differ."""
    gap = grouping.gap
    if gap is None:
        return ""
    return (
        f"WER is highest for {gap.worst}, {percent(gap.difference.value)} points above {gap.best} "
        f"(95 % interval {bounds(gap.difference.interval)})"
    )


def verdict(comparison: Comparison) -> str:
    """What the overall difference in WER means."""
    difference = comparison.overall.wer.difference
    if difference.interval is None:
        return f"the difference is {NOT_RESOLVABLE}: {difference.not_resolvable}"
    if difference.interval.low <= 0 <= difference.interval.high:
        return "no significant difference (the 95 % interval includes 0)"
    return f"{'B' if difference.value < 0 else 'A'} is better (the 95 % interval excludes 0)"


def _settings(settings: Settings) -> str:
    fillers = ", fillers removed" if settings.remove_fillers else ""
    return (
        f"profile {settings.profile} v{PROFILE_VERSIONS[settings.profile]}{fillers}, "
        f"filter {settings.row_filter}, denominator {settings.denominator}"
    )


def _of_split(rows: RowsUsed) -> str:
    total = "" if rows.in_split is None else f" of {rows.in_split} in the split"
    return total + rows.why_left_out()
