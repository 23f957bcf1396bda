"""Numbers and settings in words, and tables in the terminal: the same on pages and in papers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import isnan
from typing import Final, NoReturn

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from danish_asr.base.schema import MIN_EFFECTIVE, MIN_SPEAKERS
from danish_asr.base.stops import discard_output
from danish_asr.scoring.gap import Gap, PairTest
from danish_asr.scoring.intervals import FEWEST, MIN_WORDS, Interval
from danish_asr.scoring.scores import GroupScore, Scores, column_specs, name_of

NOT_RESOLVABLE: Final = "not resolvable"
INTERVAL_NOTE: Final = (
    f"{NOT_RESOLVABLE}: an interval needs {MIN_SPEAKERS} speakers who differ, {MIN_EFFECTIVE} "
    f"effective ones (fewer if some have most of the words), and {MIN_WORDS} words"
)

POOLED: Final = "≈"
POOLED_NOTE: Final = (
    f"{POOLED}: {FEWEST} to {MIN_SPEAKERS - 1} speakers with {MIN_WORDS} words; the interval "
    "assumes that speakers differ equally in all groups, and is that of the group alone if that is "
    "wider"
)

# In text, LaTeX's usual fonts have other characters in place of these three; babel's Danish takes a
# quote for a command.
_IN_LATEX: Final = str.maketrans(
    {POOLED: r"$\approx$", "±": r"$\pm$", "<": "$<$", ">": "$>$", "|": "$|$", '"': r"\char34{}"}
)
_LISTED: Final = 10  # groups of one reason
_LOG: Final = 100  # characters of a list of runs that is no terminal's
_GAP: Final = 2  # characters between the columns of a light table


class Terminal(Console):
    """Standard output; a reader that ends early, such as `head`, is no error."""

    @override
    def on_broken_pipe(self) -> NoReturn:
        discard_output()
        raise SystemExit(0)


def light_table(headings: Iterable[str]) -> Table:
    """Return a table without a frame."""
    return Table(*headings, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)


def print_table(
    table: Table, lines: Mapping[str, Sequence[Sequence[str]]], console: Console
) -> None:
    """Print the cells of groups under their grouping; those of all rows have an empty name."""
    table.columns[0].overflow = "fold"
    for column in table.columns[1:]:
        column.justify = "left" if column.header == "run" else "right"
        column.no_wrap = column.header != "run"
    for name, groups in lines.items():
        if name:
            table.add_section()
            table.add_row(Text(grouping_title(name), style="bold"))
        for cells in groups:
            table.add_row(*map(Text, cells))
    if not console.is_terminal:  # a log has lines of any length
        unlimited = console.options.update(max_width=10_000)
        table.width = console.measure(table, options=unlimited).maximum
    console.print(table, crop=False)
    if any(NOT_RESOLVABLE in cells for groups in lines.values() for cells in groups):
        say(INTERVAL_NOTE, console)


def fitting(
    columns: Sequence[tuple[str, ...]], fixed: int, console: Console
) -> list[tuple[str, ...]]:
    """Return the columns that there is room for: the first ones, then others in order.

    A log has 100 characters.
    """
    width = console.width if console.is_terminal else _LOG
    ends = accumulate(max(map(len, column)) + _GAP for column in columns)
    fit = sum(end <= width + _GAP for end in ends)
    return [*columns[: max(fixed, fit)]]


def say(text: str, console: Console) -> None:
    """Print a line as it is: without markup, emoji, colours or line breaks."""
    console.print(Text(text), soft_wrap=True)


def warn(text: str, console: Console) -> None:
    """Print a warning."""
    console.print(Text.assemble(("warning:", "yellow"), f" {text}"), soft_wrap=True)


def percent(rate: float, sign: str = "-") -> str:
    """A fraction in percent, or "–" for none; the sign "+" marks positive differences."""
    return "–" if isnan(rate) else f"{100 * rate:{sign}.2f}"


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


def p_value(p: float) -> str:
    """A p-value to four places; empty if there is none."""
    if isnan(p):
        return ""
    return f"{p:.4f}" if p >= 1e-4 else "<0.0001"


def count(number: int) -> str:
    """A number of things, e.g. 12,345."""
    return f"{number:,}"


def speakers(number: int) -> str:
    """A number of speakers, e.g. 1 speaker."""
    return f"{count(number)} speaker{'' if number == 1 else 's'}"


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


def latex(
    headings: Sequence[str], lines: Iterable[Sequence[str]], notes: Iterable[str], texts: int
) -> str:
    """Return a table for LaTeX's booktabs, with minus signs; the first ``texts`` columns are text.

    ``notes`` are comments above it.
    """
    comments = "".join(f"% {line}\n" for note in notes for line in note.splitlines())
    table = pd.DataFrame([*lines], columns=[*headings])
    alignment = "l" * texts + "r" * (len(headings) - texts)
    escaped = table.to_latex(index=False, escape=True, column_format=alignment)
    with_minus = re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)
    return comments + with_minus.translate(_IN_LATEX)


def summary(scores: Scores) -> str:
    """What the scores are based on."""
    rows = scores.rows
    return f"{scores.settings.in_words()}, {count(rows.scored)} rows scored{rows.of_split()}"


def without_values(scores: Scores) -> str:
    """Which groupings have no table, as no row has a value of them; empty if all have one."""
    names = [name for name, part in scores.groupings.items() if not part.has_values]
    return f"no scored row has a value of {', '.join(names)}: no table by it" if names else ""


def gap_sentence(name: str, gap: Gap | None) -> str:
    """Which group of a grouping is the worst, and whether groups differ; empty without groups."""
    if gap is None:
        return ""
    worst = f"{short(gap.worst, 40)} has"
    if gap.as_bad:
        worst = f"{short(gap.worst, 40)} and {count(gap.as_bad)} more have"
    parts = [f"{worst} the highest WER, {percent(gap.worst_wer)} %"]
    if gap.why_none:
        parts.append(f"nothing is compared: {gap.why_none}")
    if gap.pair:
        parts.append(_verdict(gap.pair, gap.compared))
    if gap.not_compared:
        parts.append(f"not compared: {by_reason(gap.not_compared)}")
    return f"{grouping_title(name)}: {'; '.join(parts)}"


def _verdict(pair: PairTest, groups: int) -> str:
    verdict = f"no difference is shown among {groups} groups"
    if pair.resolved:
        verdict = f"a difference is shown among {groups} groups"
    adjusted = ", adjusted for the number of pairs" if groups > 2 else ""
    return (
        f"{verdict} (p {p_value(pair.p)}, permutation of speakers): {short(pair.worst, 40)} is "
        f"{percent(pair.difference)} points above {short(pair.best, 40)} "
        f"(95 % interval {bounds(pair.interval)}{adjusted})"
    )


def without_interval(groups: Iterable[GroupScore]) -> str:
    """Which groups have no interval of their own, and why; empty if all have one."""
    lacking = [group for group in groups if group.wer.not_resolvable]
    return by_reason((group.label, group.wer.not_resolvable or "") for group in lacking)


def by_reason(groups: Iterable[tuple[str, str]]) -> str:
    """Return labels by reason; of many with the same reason the first ones."""
    labels: dict[str, list[str]] = {}
    for label, reason in groups:
        labels.setdefault(reason, []).append(short(label, 40))
    parts: list[str] = []
    for reason, own in labels.items():
        more = f" and {count(len(own) - _LISTED)} more" if len(own) > _LISTED else ""
        parts.append(f"{', '.join(own[:_LISTED])}{more} ({reason})")
    return "; ".join(parts)
