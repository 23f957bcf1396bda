"""Scores as a table in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from danish_asr.errors import ConfigError
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
    if scores.is_partial:
        console.print(f"[yellow]warning:[/yellow] {partial_warning(scores)}", soft_wrap=True)
    console.print(summary(scores), soft_wrap=True, highlight=False)
    table = Table()
    table.add_column("group", overflow="fold", min_width=11)
    for name in ("WER %", "95 % interval", "CER %", "rows", "speakers", "words"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*_cells(scores.overall))
    for name, grouping in scores.groupings.items():
        table.add_section()
        table.add_row(f"[bold]{escape(grouping_title(name))}[/bold]")
        for group in grouping.groups:
            table.add_row(*_cells(group))
    console.print(table)
    for name, grouping in scores.groupings.items():
        if sentence := gap_sentence(grouping):
            line = escape(f"{grouping_title(name)}: {sentence}")
            console.print(line, soft_wrap=True, highlight=False)
    if "not resolvable" in {bounds(group.wer.interval) for group in _all_groups(scores)}:
        console.print(INTERVAL_NOTE, soft_wrap=True, highlight=False)


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


TABLE_WIDTH: Final = 120
"""Columns that a table of scores needs at most; rich crops numbers that find no room."""


def table_console() -> Console:
    """The terminal as it is; where there is none (a log, a pipe), wide enough for every number."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, TABLE_WIDTH))


def check_outputs(inputs: Sequence[Path], outputs: Iterable[Path | None]) -> None:
    """Refuse to write over what is read, or two documents to one place.

    Raises:
        ConfigError: An output is an input or stands twice.
    """
    taken = [path.resolve() for path in inputs]
    for output in outputs:
        if output is None:
            continue
        if output.resolve() in taken:
            raise ConfigError([f"{output} is read or written already; choose another output"])
        taken.append(output.resolve())
