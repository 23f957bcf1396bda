"""Scores and comparisons as tables: in the terminal, as CSV and as Markdown for a model card."""

from collections.abc import Iterable
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from danish_asr.report import wording
from danish_asr.scoring.comparison import ComparedGroup, Comparison
from danish_asr.scoring.scores import GroupScore, Scores

_HEADINGS: Final = ("group", "WER %", "95 % interval", "CER %", "rows", "speakers", "words")
_COMPARED: Final = (
    *("\ngroup", "WER %\nA", "WER %\nB", "\nB - A", "95 %\ninterval", "p\n(Holm)"),
    *("\nrows", "\nspeakers"),
)
"""In two lines, so that the table fits into 80 columns."""


def print_scores(scores: Scores, console: Console) -> None:
    """Print one table of all groups, and a warning if rows of the split are missing."""
    if scores.rows.partial:
        warn(wording.partial_warning(scores.rows), console)
    say(wording.summary(scores), console)
    lines = {"": [_cells(scores.overall)]}
    gaps = []
    for name, grouping in scores.groupings.items():
        lines[name] = [*map(_cells, grouping.groups)]
        if gap := wording.gap_sentence(grouping):
            gaps.append(f"{wording.grouping_title(name)}: {gap}")
    _print_table(Table(*_HEADINGS), lines, gaps, console)


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print one table of all groups, and what the overall difference means."""
    for run, rows in comparison.rows.items():
        if rows.partial:
            warn(wording.partial_warning(rows, what=f"the predictions of {run.upper()}"), console)
    say(wording.comparison_summary(comparison), console)
    all_groups = {"": [comparison.overall], **comparison.groupings}
    lines = {name: [*map(_compared_cells, groups)] for name, groups in all_groups.items()}
    table = Table(
        *_COMPARED, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True
    )
    _print_table(table, lines, ["", wording.verdict(comparison)], console)


def say(text: str, console: Console) -> None:
    """Print a line as it is: without markup, colours or line breaks."""
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def warn(text: str, console: Console) -> None:
    """Print a warning."""
    console.print(f"[yellow]warning:[/yellow] {escape(text)}", soft_wrap=True, highlight=False)


def _print_table(
    table: Table, lines: dict[str, list[list[str]]], notes: Iterable[str], console: Console
) -> None:
    """Print the cells of groups under their grouping; those of all rows have an empty name."""
    table.columns[0].overflow = "fold"
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
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
    """Return one line per group; rates are fractions.

    A group's name that a spreadsheet would run as a formula gets an apostrophe (CWE-1236).
    """
    table = scores.to_pandas()
    formula = r"^(?=[=+\-@])(?![+-]?\d+(\.\d+)?$)"
    table["group"] = table["group"].str.replace(formula, "'", regex=True)
    return table.to_csv(index=False, lineterminator="\n")


def to_markdown(scores: Scores) -> str:
    """Return a section for a model card."""
    parts = ["## Evaluation", f"Scored with danish-asr: {wording.summary(scores)}."]
    if scores.rows.partial:
        parts.append(f"**Warning:** {wording.partial_warning(scores.rows)}.")
    parts.append(_markdown_table([scores.overall]))
    for name, grouping in scores.groupings.items():
        title = wording.sentence(wording.grouping_title(name))
        parts += [f"### {_plain(title)}", _markdown_table(grouping.groups)]
        if gap := wording.gap_sentence(grouping):
            parts.append(_plain(gap) + ".")
    units = "words (WER) or characters (CER)"
    if scores.settings.denominator == "coral":
        units += " of the reference and inserted ones"
    parts.append(
        "Intervals are 95 % intervals over speakers. The rates are micro-averages: all errors over "
        f"all {units}. {wording.sentence(wording.INTERVAL_NOTE)}."
    )
    return "\n\n".join(parts) + "\n"


def _markdown_table(groups: Iterable[GroupScore]) -> str:
    rows = [_HEADINGS[:-1], *([_plain(cell) for cell in _cells(group)[:-1]] for group in groups)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---|" + "---:|" * (len(_HEADINGS) - 2), *lines[1:]])


def _plain(text: str) -> str:
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
        str(group.rows),
        str(group.speakers),
        str(group.words.reference_length),
    ]


def _compared_cells(group: ComparedGroup) -> list[str]:
    rate = group.wer
    p = "" if rate.p_adjusted is None else f"{'<' if rate.p_is_bound else ''}{rate.p_adjusted:.4f}"
    return [
        group.label,
        wording.percent(rate.a),
        wording.percent(rate.b),
        wording.percent(rate.difference.value, "+"),
        wording.bounds(rate.difference.interval, "+"),
        p,
        str(group.rows),
        str(group.speakers),
    ]
