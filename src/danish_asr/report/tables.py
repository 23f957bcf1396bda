"""Scores as tables: in the terminal, as CSV and as Markdown for a model card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from danish_asr.report import wording
from danish_asr.scoring.scores import GroupScore, Scores

_HEADINGS: Final = ("group", "WER %", "95 % interval", "CER %", "rows", "speakers", "words")
_NARROWEST: Final = 11
"""Columns of a terminal for the names of groups, which fold; numbers do not fold."""


def print_scores(scores: Scores, console: Console) -> None:
    """Print one table of all groups, and a warning if rows of the split are missing."""
    if scores.rows.partial:
        warn(wording.partial_warning(scores.rows), console)
    say(wording.summary(scores), console)
    table = Table()
    table.add_column(_HEADINGS[0], overflow="fold")
    for name in _HEADINGS[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*map(escape, _cells(scores.overall)))
    for name, grouping in scores.groupings.items():
        add_section(table, name)
        for group in grouping.groups:
            table.add_row(*map(escape, _cells(group)))
    print_table(table, console)
    for name, grouping in scores.groupings.items():
        if gap := wording.gap_sentence(grouping):
            say(f"{wording.grouping_title(name)}: {gap}", console)
    groups = [scores.overall, *(g for part in scores.groupings.values() for g in part.groups)]
    if any(group.wer.interval is None for group in groups):
        say(wording.INTERVAL_NOTE, console)


def say(text: str, console: Console) -> None:
    """Print a line as it is: without markup, colours or line breaks."""
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def warn(text: str, console: Console) -> None:
    """Print a warning."""
    console.print(f"[yellow]warning:[/yellow] {escape(text)}", soft_wrap=True, highlight=False)


def add_section(table: Table, name: str) -> None:
    """Begin the groups of a grouping."""
    table.add_section()
    table.add_row(f"[bold]{escape(wording.grouping_title(name))}[/bold]")


def print_table(table: Table, console: Console) -> None:
    """Print a table whose first column may fold, and every other cell whole.

    A pipe or a log gets the full width, a terminal a table folded to its width. If the terminal is
    still too narrow, lines wrap, where rich by itself would crop numbers.
    """
    names, width = table.columns[0], console.width
    names.max_width = _NARROWEST if console.is_terminal else None
    needed = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    names.max_width = None
    console.width = max(width, needed)
    console.print(table)
    console.width = width


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
            parts.append(_plain(wording.sentence(gap)) + ".")
    units = "words (WER) or characters (CER)"
    if scores.settings.denominator == "coral":
        units += " of the reference and inserted ones"
    parts.append(
        "Intervals are 95 % intervals over speakers. The rates are micro-averages: all errors over "
        f"all {units}. {wording.sentence(wording.INTERVAL_NOTE)}."
    )
    return "\n\n".join(parts) + "\n"


def _markdown_table(groups: Sequence[GroupScore]) -> str:
    lines = [_HEADINGS[:-1], *([_plain(cell) for cell in _cells(group)[:-1]] for group in groups)]
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([rows[0], "|---|" + "---:|" * (len(_HEADINGS) - 2), *rows[1:]])


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
