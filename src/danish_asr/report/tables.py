"""Scores as tables: in the terminal, as CSV and as Markdown for a model card."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import isnan
from typing import Final, NoReturn

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typing_extensions import override

from danish_asr.base.schema import MIN_SPEAKERS
from danish_asr.base.stops import discard_output
from danish_asr.report import wording
from danish_asr.report.corpora_table import corpora_table
from danish_asr.report.outputs import guarded
from danish_asr.scoring.intervals import Estimate
from danish_asr.scoring.pooled import FEWEST
from danish_asr.scoring.scores import GroupScore, Scores

_GAP: Final = 2
"""Characters between the columns of a light table."""

_GAPS: Final = ("gap", "worst group, WER %", "above the best, points", "ratio")
_GAPS_NOTE: Final = (
    "gap: of the named groups with {speakers}; its intervals and p are adjusted for the number of "
    "pairs"
)


class Terminal(Console):
    """Standard output; a reader that ends early, such as `head`, is no error."""

    @override
    def on_broken_pipe(self) -> NoReturn:
        discard_output()
        raise SystemExit(0)


def print_scores(scores: Scores, console: Console) -> None:
    """Print one table of all groups, and warnings about the rows."""
    for warning in scores.warnings():
        warn(warning, console)
    say(wording.summary(scores), console)
    lines = {"": [_cells(scores.overall)]}
    for name, grouping in scores.groupings.items():
        lines[name] = [*map(_cells, grouping.groups)]
    print_table(Table(*_headings(scores)), lines, [], console)
    if _has_pooled(scores):
        say(wording.POOLED_NOTE, console)
    corpora = corpora_table(scores)
    if corpora:
        say(f"\n{corpora.title}", console)
        headings = [heading.replace("_", "_\n") for heading in corpora.headings]
        print_table(
            light_table(headings), {"": corpora.rows}, filter(None, [corpora.note]), console
        )
    rows = _gap_cells(scores)
    if rows:
        say("", console)
        print_table(light_table(_GAPS), {"": rows}, ["", *_gap_notes(scores)], console)


def light_table(headings: Iterable[str]) -> Table:
    """Return a table without a frame."""
    return Table(*headings, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)


def fitting(
    columns: Sequence[tuple[str, ...]], fixed: int, console: Console
) -> list[tuple[str, ...]]:
    """Return the columns that a terminal has room for: the first ones, then the narrow ones."""
    if not console.is_terminal:
        return [*columns]
    widths = [max(map(len, column)) + _GAP for column in columns]
    order = sorted(range(len(columns)), key=lambda n: (n >= fixed, widths[n]))
    ends = accumulate(widths[n] for n in order)
    room = console.width + _GAP
    kept = {n for n, end in zip(order, ends, strict=True) if n < fixed or end <= room}
    return [column for n, column in enumerate(columns) if n in kept]


def say(text: str, console: Console) -> None:
    """Print a line as it is: without markup, colours or line breaks."""
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def warn(text: str, console: Console) -> None:
    """Print a warning."""
    console.print(f"[yellow]warning:[/yellow] {escape(text)}", soft_wrap=True, highlight=False)


def print_table(
    table: Table, lines: dict[str, list[list[str]]], notes: Iterable[str], console: Console
) -> None:
    """Print the cells of groups under their grouping; those of all rows have an empty name."""
    table.columns[0].overflow = "fold"
    for column in table.columns[1:]:
        column.justify = "left" if column.header == "run" else "right"
        column.no_wrap = column.header != "run"
    for name, groups in lines.items():
        if name:
            table.add_section()
            table.add_row(f"[bold]{escape(wording.grouping_title(name))}[/bold]")
        for cells in groups:
            table.add_row(*map(escape, cells))
    if not console.is_terminal:  # a log has lines of any length
        unlimited = console.options.update(max_width=10_000)
        table.width = console.measure(table, options=unlimited).maximum
    console.print(table, crop=False)
    for note in notes:
        say(note, console)
    if any(wording.NOT_RESOLVABLE in cells for groups in lines.values() for cells in groups):
        say(wording.INTERVAL_NOTE, console)


def to_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV; what a spreadsheet would run as a formula gets an apostrophe."""
    for name in {"group", "run", "files"} & {*table.columns}:
        table[name] = table[name].map(guarded)
    return table.to_csv(index=False, lineterminator="\n")


def to_markdown(scores: Scores) -> str:
    """Return a section for a model card."""
    parts = ["## Evaluation", f"Scored with danish-asr: {wording.summary(scores)}."]
    parts += [f"**Warning:** {plain(warning)}." for warning in scores.warnings()]
    headings = _headings(scores)[:-1]
    parts.append(markdown_table(headings, [_cells(scores.overall)[:-1]]))
    for name, grouping in scores.groupings.items():
        title = wording.sentence(wording.grouping_title(name))
        cells = [_cells(group)[:-1] for group in grouping.groups]
        parts += [f"### {plain(title)}", markdown_table(headings, cells)]
    corpora = corpora_table(scores)
    if corpora:
        table = markdown_table(corpora.headings, corpora.rows)
        parts += [f"### {corpora.title}", table]
        parts += [f"{wording.sentence(corpora.note)}."] if corpora.note else []
    rows = _gap_cells(scores)
    if rows:
        table = markdown_table(_GAPS, rows)
        parts += ["### Gaps between groups", table]
        parts += [f"{plain(wording.sentence(line))}." for line in _gap_notes(scores)]
    units = "words (WER) or characters (CER)"
    if scores.settings.denominator == "coral":
        units += " of the reference and inserted ones"
    parts.append(
        "Intervals are 95 % intervals over speakers. The rates are micro-averages: all errors over "
        f"all {units}. {wording.sentence(wording.INTERVAL_NOTE)}"
        f"{f'; {wording.POOLED_NOTE}' if _has_pooled(scores) else ''}."
    )
    return "\n\n".join(parts) + "\n"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; all columns but the first are aligned to the right."""
    cells = [headings, *(map(plain, row) for row in rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], "|---|" + "---:|" * (len(headings) - 1), *lines[1:]])


def plain(text: str) -> str:
    """Escape what Markdown would read as markup."""
    for mark in "\\|<>*_`[]":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


def _headings(scores: Scores) -> list[str]:
    _, *others = scores.settings.all_metrics
    own = [f"{metric.title} %" for metric in others]
    return ["group", "WER %", "95 % interval", *own, "rows", "speakers", "words"]


def _cells(group: GroupScore) -> list[str]:
    """Return the cells of `_headings`; besides WER only metrics of one's own have an interval."""
    cells = [group.label, wording.percent(group.wer.value), wording.interval_of(group)]
    for name, estimate in group.rates.items():
        if name == "cer":
            cells.append(wording.percent(estimate.value))
        elif name != "wer":
            interval = wording.bounds(estimate.interval)
            cells.append(f"{wording.percent(estimate.value)} ({interval})")
    numbers = (group.rows, group.speakers, group.words.reference_length)
    return cells + [wording.count(number) for number in numbers]


def _has_pooled(scores: Scores) -> bool:
    return any(group.wer_pooled for part in scores.groupings.values() for group in part.groups)


def _gap_cells(scores: Scores) -> list[list[str]]:
    """The cells of `_GAPS`, in two lines: the name of a group and its number."""
    rows: list[list[str]] = []
    for name, part in scores.groupings.items():
        if part.gap:
            cells = [f"{wording.grouping_title(name)}\n({part.gap.groups} groups)"]
            cells.append(f"{wording.short(part.gap.worst, 22)}\n{_interval(part.gap.wer, 100)}")
            difference = _interval(part.gap.difference, 100)
            cells.append(f"{wording.short(part.gap.best, 22)}\n{difference}")
            rows.append([*cells, f"\n{_interval(part.gap.ratio, 1)}"])
    return rows


def _gap_notes(scores: Scores) -> Iterator[str]:
    for name, part in scores.groupings.items():
        if part.gap:
            yield f"{wording.grouping_title(name)}: {wording.pairs_in_words(part.gap)}"
    speakers = f"{FEWEST} speakers or more"
    if any(part.gap and part.gap.paired for part in scores.groupings.values()):
        speakers += f", {MIN_SPEAKERS} where speakers are in several groups"
    yield _GAPS_NOTE.format(speakers=speakers)


def _interval(estimate: Estimate, unit: int) -> str:
    if isnan(estimate.value):
        return "–"
    if estimate.interval is None:
        return f"{unit * estimate.value:.2f}"
    low, high = estimate.interval
    return f"{unit * estimate.value:.2f} ({unit * low:.2f} to {unit * high:.2f})"
