"""``danish-asr compare``: a table of the differences between two predictions files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from danish_asr.report import files, wording
from danish_asr.report.tables import add_section, print_table, say, warn
from danish_asr.scoring.comparison import ComparedGroup, Comparison, compare_predictions
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scores import DEFAULT_BY
from danish_asr.scoring.settings import Settings


def compare_files(
    a: Path,
    b: Path,
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    json_path: Path | None = None,
    console: Console | None = None,
) -> Comparison:
    """Compare two files, print the table, and write JSON if a path is given.

    Raises:
        PredictionsError: A file breaks its contract, or the two hold different rows.
        ConfigError: The profile, row filter or column does not exist.
    """
    console = console or Console()
    files.check_outputs([json_path], [a, b])
    comparison = compare_predictions(
        read_predictions(a),
        read_predictions(b),
        by=by,
        settings=settings,
        names=(str(a), str(b)),
        rows_in_split=(
            files.read_evaluation(a).rows_in_split,
            files.read_evaluation(b).rows_in_split,
        ),
    )
    for file, rows in zip((a, b), comparison.rows.values(), strict=True):
        files.require_rows_of_split(file, rows)
    say(f"A: {a}\nB: {b}", console)
    print_comparison(comparison, console)
    if json_path:
        document = comparison.to_dict() | {"files": {"a": str(a), "b": str(b)}}
        files.write_outputs({json_path: files.to_json(document)}, console)
    return comparison


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print one table of all groups, and what the overall difference means."""
    for run, rows in comparison.rows.items():
        if rows.partial:
            warn(wording.partial_warning(rows, what=f"the predictions of {run.upper()}"), console)
    say(wording.comparison_summary(comparison), console)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("\ngroup", overflow="fold")
    # Headings in two lines, so that the table fits into 80 columns.
    two_lines = ("WER %\nA", "WER %\nB", "\nB - A", "95 %\ninterval", "p\n(Holm)")
    for name in (*two_lines, "\nrows", "\nspeakers"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*_cells(comparison.overall))
    for name, groups in comparison.groupings.items():
        add_section(table, name)
        for group in groups:
            table.add_row(*_cells(group))
    print_table(table, console)
    console.print()
    say(wording.verdict(comparison), console)
    groups = [comparison.overall, *(g for part in comparison.groupings.values() for g in part)]
    if any(group.wer.p is None for group in groups):
        say(wording.INTERVAL_NOTE, console)


def _cells(group: ComparedGroup) -> list[str]:
    rate = group.wer
    interval = rate.difference.interval
    p = "" if rate.p_adjusted is None else f"{'<' if rate.p_is_bound else ''}{rate.p_adjusted:.4f}"
    return [
        escape(group.label),
        wording.percent(rate.a),
        wording.percent(rate.b),
        wording.points(rate.difference.value),
        f"{wording.points(interval.low)} to {wording.points(interval.high)}"
        if interval
        else "not resolvable",
        p,
        str(group.rows),
        str(group.speakers),
    ]
