"""Numbers and settings in words: the same in the terminal, on the page and in Markdown."""

from math import isnan
from typing import Final

from danish_asr.scoring.groupings import MEASURES, column_specs, name_of
from danish_asr.scoring.intervals import MIN_EFFECTIVE, MIN_SPEAKERS, MIN_WORDS, Interval
from danish_asr.scoring.scores import Grouping, Scores
from danish_asr.scoring.settings import Settings
from danish_asr.text.profiles import profile_version

NOT_RESOLVABLE: Final = "not resolvable"
INTERVAL_NOTE: Final = (
    f"{NOT_RESOLVABLE}: an interval needs {MIN_SPEAKERS} speakers who differ, {MIN_EFFECTIVE} "
    f"effective ones (fewer if some have most of the words), and {MIN_WORDS} words"
)


def percent(rate: float, sign: str = "-") -> str:
    """A fraction in percent, or "–" for none; the sign "+" marks positive differences."""
    if isnan(rate):
        return "–"
    return f"{100 * rate:{sign}.2f}"


def bounds(interval: Interval | None, sign: str = "-") -> str:
    """An interval in percent, or that there is none."""
    if interval is None:
        return NOT_RESOLVABLE
    return f"{percent(interval.low, sign)} to {percent(interval.high, sign)}"


def count(number: int) -> str:
    """A number of things, e.g. 12,345."""
    return f"{number:,}"


def sentence(text: str) -> str:
    """The same text with a capital first letter; names inside keep theirs."""
    return text[:1].upper() + text[1:]


def short(text: str | None, most: int = 80) -> str:
    """A text from the data, cut where it is too long for a word or a label."""
    text = text or ""
    return text if len(text) <= most else f"{text[:most]}…"


def grouping_title(name: str) -> str:
    """A heading, e.g. "by age group and gender" for ``age_group,gender``."""
    return "by " + " and ".join(name_of(spec).replace("_", " ") for spec in column_specs(name))


def summary(scores: Scores) -> str:
    """What the scores are based on."""
    rows = scores.rows
    return (
        f"{settings_in_words(scores.settings)}, {count(rows.scored)} rows scored{rows.of_split()}"
    )


def gap_sentence(grouping: Grouping) -> str:
    """How far the worst group is from the best, of those that have an interval; may be empty."""
    gap = grouping.gap
    if gap is None:
        return ""
    return (
        f"of {gap.groups} groups with an interval, WER is highest for {gap.worst}, "
        f"{percent(gap.difference.value)} points above {gap.best} (95 % interval "
        f"{bounds(gap.difference.interval)}, adjusted for the choice of the groups)"
        f"{_above(grouping, gap.wer.value)}"
    )


def _above(grouping: Grouping, rate: float) -> str:
    """The highest rate above ``rate`` that has no interval; may be empty."""
    groups = [g for g in grouping.groups if not g.wer.interval and g.words.reference_length]
    group = max(groups, key=lambda group: group.wer.value, default=None)
    if group is None or group.wer.value <= rate:
        return ""
    value = percent(group.wer.value)
    return f"; {group.label} has {value} and no interval: {group.wer.not_resolvable}"


def gap_verdict(scores: Scores) -> str:
    """By what groups WER differs; empty without groupings. Bands always differ and are left out."""
    groupings = {name: part for name, part in scores.groupings.items() if name not in MEASURES}
    gaps = {grouping_title(name): part.gap for name, part in groupings.items() if part.gap}
    if not gaps:
        return "No two groups have an interval, so none can be compared." if groupings else ""
    resolved, unresolved = [], []
    for title, gap in gaps.items():
        interval = gap.difference.interval
        if interval is None or interval.low <= 0:
            unresolved.append(title)
        else:
            resolved.append(
                f"{title} ({short(gap.worst, 40)} is {percent(gap.difference.value)} points above "
                f"{short(gap.best, 40)}, 95 % interval {bounds(interval)})"
            )
    parts = [f"WER differs {' and '.join(resolved)}"] if resolved else []
    if unresolved:
        parts.append(f"no difference between groups is resolvable {' or '.join(unresolved)}")
    return sentence("; ".join(parts) + ".")


def settings_in_words(settings: Settings) -> str:
    """How rows were scored."""
    version = profile_version(settings.profile)
    numbered = settings.profile if version is None else f"{settings.profile} v{version}"
    fillers = ", fillers removed" if settings.remove_fillers else ""
    return (
        f"profile {numbered}{fillers}, filter {settings.row_filter}, "
        f"denominator {settings.denominator}"
    )
