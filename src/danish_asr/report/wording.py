"""Numbers and settings in words: the same in the terminal, on the page and in Markdown."""

from collections.abc import Mapping
from math import isnan
from typing import Final

from danish_asr.scoring.comparison import Comparison, RunScore
from danish_asr.scoring.groupings import MEASURES, columns_of, name_of
from danish_asr.scoring.intervals import (
    ALPHA,
    MAX_SHARE,
    MIN_SPEAKERS,
    MIN_WORDS,
    Estimate,
    Interval,
)
from danish_asr.scoring.mapsswe import MIN_SEGMENTS
from danish_asr.scoring.scored_rows import RowsUsed
from danish_asr.scoring.scores import Grouping, Scores, p_value
from danish_asr.scoring.settings import Settings
from danish_asr.text.profiles import profile_version

NOT_RESOLVABLE: Final = "not resolvable"
INTERVAL_NOTE: Final = (
    f"{NOT_RESOLVABLE}: an interval needs {MIN_SPEAKERS} speakers who differ, none of them with "
    f"more than {100 * MAX_SHARE:.0f} % of the words, and {MIN_WORDS} words"
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
    return "by " + " and ".join(name_of(column).replace("_", " ") for column in columns_of(name))


def summary(scores: Scores) -> str:
    """What the scores are based on."""
    rows = scores.rows
    return f"{_settings(scores.settings)}, {count(rows.scored)} rows scored{rows.of_split()}"


def split_warnings(rows: Mapping[str, RowsUsed]) -> list[str]:
    """Warnings that runs are of splits of other names than the first, by the names of the runs."""
    (first, base), *others = rows.items()
    return [
        f"{first} is of split {' and '.join(base.splits)}, {name} of split "
        f"{' and '.join(other.splits)}; compare runs over one split"
        for name, other in others
        if base.splits and other.splits and base.splits != other.splits
    ]


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


def pair_verdicts(comparison: Comparison) -> list[str]:
    """What the overall difference of B from A means, also for the utterances of these speakers."""
    b = comparison.overall.runs[1]
    lines = [_verdict(b.paired["wer"].difference)]
    for metric in comparison.settings.all_metrics:
        rate = b.paired[metric.name]
        difference = rate.difference
        lines.append(
            f"{metric.title}: A {percent(rate.a)}, B {percent(rate.b)}, "
            f"B - A {percent(difference.value, '+')}; over speakers "
            f"{bounds(difference.interval, '+')}{_with_p(rate.p)}; for these speakers only "
            f"{bounds(difference.utterances, '+')}"
        )
        if not metric.lower_is_better:
            lines[-1] += "; higher is better"
    lines[1] += _with_mapsswe(b)
    return [*lines, _these_speakers(comparison)]


def _with_mapsswe(run: RunScore) -> str:
    test = run.mapsswe
    if test is None:  # of several seeds
        return ""
    return f" (MAPSSWE: p {p_value(test.p_adjusted) or NOT_RESOLVABLE}, {test.segments} segments)"


def _these_speakers(comparison: Comparison) -> str:
    """What the numbers for these speakers only do not say."""
    tested = any(run.mapsswe for run in comparison.overall.runs)
    test = f" and MAPSSWE ({MIN_SEGMENTS} segments needed)" if tested else ""
    return (
        f'"for these speakers only"{test}: what to expect of other utterances of the same '
        "speakers, not of other people"
    )


def _verdict(difference: Estimate) -> str:
    if difference.interval is None:
        return f"the difference is {NOT_RESOLVABLE}: {difference.not_resolvable}"
    if difference.interval.low <= 0 <= difference.interval.high:
        return "no significant difference (the 95 % interval includes 0)"
    return f"{'B' if difference.value < 0 else 'A'} is better (the 95 % interval excludes 0)"


def comparison_summary(comparison: Comparison) -> str:
    """What the differences between runs are based on."""
    rows = next(iter(comparison.rows.values()))
    paired = f"{count(rows.scored)} rows paired by id{rows.of_split()}"
    return f"{_settings(comparison.settings)}, {paired}"


def runs_verdicts(comparison: Comparison) -> list[str]:
    """What the overall difference of each run from the baseline means, and what "±" is."""
    baseline, *others = comparison.overall.runs
    lines = []
    for run in others:
        paired = run.paired["wer"]
        difference = paired.difference
        if paired.p_adjusted is None:
            reason = difference.not_resolvable
            line = f"the difference from {baseline.run} is {NOT_RESOLVABLE}: {reason}"
        elif paired.p_adjusted >= ALPHA:
            line = f"no significant difference from {baseline.run}"
        else:
            better = "better" if difference.value < 0 else "worse"
            line = f"{better} than {baseline.run}{_with_p(paired.p_adjusted)}"
        own = f"for these speakers only {bounds(difference.utterances, '+')}{_with_mapsswe(run)}"
        lines.append(f"{run.run}: {line}; {own}")
    lines.append(_these_speakers(comparison))
    if len(others) > 1 or comparison.groupings:
        lines.append("p-values are adjusted (Holm) over the runs and groups of each grouping")
    if max(map(len, comparison.runs.values())) > 1:
        lines.append(
            "±: standard deviation over the seeds of a run; intervals and p-values hold for these "
            "models, not for other seeds"
        )
    return lines


def _with_p(p: float | None) -> str:
    return "" if p is None else f" (p {p_value(p)})"


def _settings(settings: Settings) -> str:
    version = profile_version(settings.profile)
    numbered = settings.profile if version is None else f"{settings.profile} v{version}"
    fillers = ", fillers removed" if settings.remove_fillers else ""
    return (
        f"profile {numbered}{fillers}, filter {settings.row_filter}, "
        f"denominator {settings.denominator}"
    )
