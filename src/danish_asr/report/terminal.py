"""Scores as a table in the terminal."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from danish_asr.report.wording import (
    INTERVAL_NOTE,
    bounds,
    gap_sentence,
    grouping_title,
    partial_warning,
    percent,
    summary,
)
from danish_asr.scoring.scores import GroupScore, Scores


def print_scores(scores: Scores, console: Console) -> None:
    """Print one table of all groups, what it rests on, and a warning where the file is partial."""
    if scores.rows.is_partial:
        warn(partial_warning(scores.rows), console)
    console.print(summary(scores), soft_wrap=True, highlight=False)
    table = Table()
    table.add_column("group", overflow="fold")
    for name in ("WER %", "95 % interval", "CER %", "rows", "speakers", "words"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*_cells(scores.overall))
    for name, grouping in scores.groupings.items():
        table.add_section()
        table.add_row(f"[bold]{escape(grouping_title(name))}[/bold]")
        for group in grouping.groups:
            table.add_row(*_cells(group))
    print_table(table, console)
    for name, grouping in scores.groupings.items():
        if sentence := gap_sentence(grouping):
            line = escape(f"{grouping_title(name)}: {sentence}")
            console.print(line, soft_wrap=True, highlight=False)
    if "not resolvable" in {bounds(group.wer.interval) for group in _all_groups(scores)}:
        console.print(INTERVAL_NOTE, soft_wrap=True, highlight=False)


def warn(what: str, console: Console) -> None:
    """Print a warning; ``what`` is no markup."""
    console.print(f"[yellow]warning:[/yellow] {escape(what)}", soft_wrap=True, highlight=False)


def _all_groups(scores: Scores) -> list[GroupScore]:
    return [scores.overall, *(group for part in scores.groupings.values() for group in part.groups)]


def _cells(group: GroupScore) -> list[str]:
    return [
        escape(group.label),
        percent(group.wer.value),
        bounds(group.wer.interval),
        percent(group.cer.value),
        f"{group.errors.rows}",
        f"{group.speakers}",
        f"{group.errors.words.reference_length}",
    ]


_NARROWEST: Final = 11
"""Columns for the groups' names, which fold; numbers do not."""
_WIDEST: Final = 10_000


def print_table(table: Table, console: Console) -> None:
    """Print a table whose first column may fold, and every other cell whole.

    A pipe or a log gets the table as wide as it is, a terminal folded to its width. One that is too
    narrow even so wraps the lines, where rich would crop numbers.
    """
    names = table.columns[0]
    names.max_width = _NARROWEST if console.is_terminal else None
    needed = console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum
    names.max_width = None
    before = console.width
    console.width = max(before, needed)
    console.print(table)
    console.width = before
