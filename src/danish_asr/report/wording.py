"""Numbers and settings in words: the same in the terminal, on the page and in Markdown."""

from math import isnan
from typing import Final

from danish_asr.base.schema import MIN_EFFECTIVE, MIN_SPEAKERS
from danish_asr.scoring.gaps import Gap
from danish_asr.scoring.groupings import MEASURES, column_specs, name_of
from danish_asr.scoring.intervals import MIN_WORDS, Interval, Needs
from danish_asr.scoring.paired import PairedRate
from danish_asr.scoring.scores import Grouping, GroupScore, Scores, p_value
from danish_asr.scoring.settings import Settings
from danish_asr.text.profiles import profile_version

NOT_RESOLVABLE: Final = "not resolvable"
INTERVAL_NOTE: Final = (
    f"{NOT_RESOLVABLE}: an interval needs {MIN_SPEAKERS} speakers who differ, {MIN_EFFECTIVE} "
    f"effective ones (fewer if some have most of the words), and {MIN_WORDS} words"
)

POOLED: Final = "≈"
POOLED_NOTE: Final = (
    f"{POOLED}: too few speakers for an interval of their own; how much speakers differ is taken "
    "from all groups"
)

MOST_NEEDED: Final = 10_000
"""Speakers; a larger number says only that the difference is small."""


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


def interval_of(group: GroupScore) -> str:
    """The interval of a group's WER, or a pooled one, or that there is none."""
    if group.wer_pooled:
        return f"{POOLED} {bounds(group.wer_pooled)}"
    return bounds(group.wer.interval)


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


def in_grouping(name: str, label: str) -> str:
    """A group outside the table of its grouping, e.g. "dialect: unknown"."""
    return f"{grouping_title(name).removeprefix('by ')}: {label}" if name else label


def summary(scores: Scores) -> str:
    """What the scores are based on."""
    rows = scores.rows
    return (
        f"{settings_in_words(scores.settings)}, {count(rows.scored)} rows scored{rows.of_split()}"
    )


def gap_sentence(grouping: Grouping) -> str:
    """How far the worst group is from the best, and whether any two differ; may be empty."""
    gap = grouping.gap
    if gap is None:
        return ""
    extremes = "WER is highest for" if gap.extreme else "the clearest pair is"
    return (
        f"of {gap.groups} groups compared, {extremes} {gap.worst}, "
        f"{percent(gap.difference.value)} points above {gap.best} (95 % interval "
        f"{bounds(gap.difference.interval)}, adjusted for the number of pairs); "
        f"{pairs_in_words(gap)}"
    )


def pairs_in_words(gap: Gap) -> str:
    """How many pairs of groups differ, or what it would take."""
    p = f"(p {p_value(gap.p)})"
    if not gap.resolved:
        who = "speakers" if gap.paired else "speakers of both groups together"
        return f"no pair differs {p}; {needs_in_words(gap.needs, who)}"
    pairs = gap.groups * (gap.groups - 1) // 2
    differ = f"{len(gap.pairs)} of {pairs} pairs differ" if pairs > 1 else "the groups differ"
    return f"{differ} {p}"


def needs_in_words(needs: Needs, who: str = "speakers") -> str:
    """What it would take to show a difference."""
    smallest = percent(needs.smallest_detectable)
    shown = f"these speakers can show a difference of {smallest} points or more"
    if needs.speakers_needed is None:
        return shown
    return f"{shown}; to show this one, record {speakers(needs.speakers_needed)} {who}"


def speakers(needed: int | None) -> str:
    """A number of speakers to record."""
    if needed is None:
        return ""
    return f"about {count(needed)}" if needed <= MOST_NEEDED else f"over {count(MOST_NEEDED)}"


MORE_SEEDS: Final = "more seeds"


def needed(paired: PairedRate) -> str:
    """What to record to show a difference: speakers, or more seeds if no number is enough."""
    if not paired.needs or not paired.difference.value:
        return ""
    return speakers(paired.needs.speakers_needed) or MORE_SEEDS


def gap_verdict(scores: Scores) -> str:
    """By what groups WER differs; empty without groupings. Bands always differ and are left out."""
    groupings = {name: part for name, part in scores.groupings.items() if name not in MEASURES}
    gaps = {grouping_title(name): part.gap for name, part in groupings.items() if part.gap}
    if not gaps:
        return (
            "No two groups have enough speakers, with errors, to be compared." if groupings else ""
        )
    resolved, unresolved = [], []
    for title, gap in gaps.items():
        if gap.resolved:
            resolved.append(
                f"{title} ({short(gap.worst, 40)} is {percent(gap.difference.value)} points above "
                f"{short(gap.best, 40)}, 95 % interval {bounds(gap.difference.interval)})"
            )
        else:
            unresolved.append(title)
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
