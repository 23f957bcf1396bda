"""Scores and comparisons as tables: in the terminal, as CSV and as Markdown for a model card."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from danish_asr.report import wording
from danish_asr.report.exports import guarded
from danish_asr.report.fairness import HEADINGS as FAIRNESS
from danish_asr.report.fairness import NOTE as FAIRNESS_NOTE
from danish_asr.report.fairness import fairness_rows
from danish_asr.scoring.comparison import ComparedGroup, Comparison
from danish_asr.scoring.scores import GroupScore, Scores

if TYPE_CHECKING:
    import pandas as pd

_HEADINGS: Final = ("group", "WER %", "95 % interval", "CER %", "rows", "speakers", "words")
_COMPARED: Final = (
    *("\ngroup", "WER %\nA", "WER %\nB", "\nB - A", "95 %\ninterval", "p\n(Holm)"),
    *("\nrows", "\nspeakers"),
)
"""In two lines, so that the table fits into 80 columns."""
_WIDE: Final = ("CER %\nA", "CER %\nB", "\nB - A", "p\n(Holm)", "MAPSSWE\np (Holm)")
_WIDE_ENOUGH: Final = 125  # columns of a terminal


def print_scores(scores: Scores, console: Console) -> None:
    """Print one table of all groups, and a warning if rows of the split are missing."""
    if scores.rows.partial:
        warn(wording.partial_warning(scores.rows), console)
    say(wording.summary(scores), console)
    lines = {"": [_cells(scores.overall)]}
    for name, grouping in scores.groupings.items():
        lines[name] = [*map(_cells, grouping.groups)]
    print_table(Table(*_HEADINGS), lines, [], console)
    if rows := fairness_rows(scores):
        say("", console)
        print_table(light_table(FAIRNESS), {"": rows}, ["", FAIRNESS_NOTE], console)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print one table of all groups, and what the overall difference means."""
    for run, rows in comparison.rows.items():
        if rows.partial:
            warn(wording.partial_warning(rows, what=f"the predictions of {run.upper()}"), console)
    for line in wording.split_warnings({run.upper(): r for run, r in comparison.rows.items()}):
        warn(line, console)
    say(wording.comparison_summary(comparison), console)
    all_groups = {"": [comparison.overall], **comparison.groupings}
    columns = len(_COMPARED)
    if not console.is_terminal or console.width >= _WIDE_ENOUGH:
        columns += len(_WIDE)
    lines = {
        name: [_compared_cells(group)[:columns] for group in groups]
        for name, groups in all_groups.items()
    }
    headings = (*_COMPARED, *_WIDE)[:columns]
    notes = ["", wording.verdict(comparison), *wording.given_these_speakers(comparison)]
    print_table(light_table(headings), lines, notes, console)


def light_table(headings: Iterable[str]) -> Table:
    """Return a table without a frame."""
    return Table(*headings, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)


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


def to_csv(scores: Scores) -> str:
    """Return one line per group; rates are fractions."""
    return frame_csv(scores.to_pandas())


def frame_csv(table: "pd.DataFrame") -> str:
    """Return a table as CSV; what a spreadsheet would run as a formula gets an apostrophe."""
    for name in {"group", "run", "files"} & {*table.columns}:
        table[name] = table[name].map(guarded)
    return table.to_csv(index=False, lineterminator="\n")


def to_markdown(scores: Scores) -> str:
    """Return a section for a model card."""
    parts = ["## Evaluation", f"Scored with danish-asr: {wording.summary(scores)}."]
    if scores.rows.partial:
        parts.append(f"**Warning:** {wording.partial_warning(scores.rows)}.")
    parts.append(_groups_table([scores.overall]))
    for name, grouping in scores.groupings.items():
        title = wording.sentence(wording.grouping_title(name))
        parts += [f"### {plain(title)}", _groups_table(grouping.groups)]
    if rows := fairness_rows(scores):
        table = markdown_table(FAIRNESS, rows)
        parts += ["### Gaps between groups", table, f"{wording.sentence(FAIRNESS_NOTE)}."]
    units = "words (WER) or characters (CER)"
    if scores.settings.denominator == "coral":
        units += " of the reference and inserted ones"
    parts.append(
        "Intervals are 95 % intervals over speakers. The rates are micro-averages: all errors over "
        f"all {units}. {wording.sentence(wording.INTERVAL_NOTE)}."
    )
    return "\n\n".join(parts) + "\n"


def _groups_table(groups: Iterable[GroupScore]) -> str:
    return markdown_table(_HEADINGS[:-1], [_cells(group)[:-1] for group in groups])


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


def _cells(group: GroupScore) -> list[str]:
    return [
        group.label,
        wording.percent(group.wer.value),
        wording.bounds(group.wer.interval),
        wording.percent(group.cer.value),
        wording.count(group.rows),
        wording.count(group.speakers),
        wording.count(group.words.reference_length),
    ]


def _compared_cells(group: ComparedGroup) -> list[str]:
    wer, cer = group.wer, group.cer
    return [
        group.label,
        wording.percent(wer.a),
        wording.percent(wer.b),
        wording.percent(wer.difference.value, "+"),
        wording.bounds(wer.difference.interval, "+"),
        wording.p_value(wer.p_adjusted),
        wording.count(group.rows),
        wording.count(group.speakers),
        wording.percent(cer.a),
        wording.percent(cer.b),
        wording.percent(cer.difference.value, "+"),
        wording.p_value(cer.p_adjusted),
        wording.p_value(group.mapsswe.p_adjusted),
    ]
