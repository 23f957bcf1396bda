"""``danish-asr compare``: two predictions files become a table of differences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from danish_asr.files import publish_text
from danish_asr.report.evaluation import evaluation_file, read_evaluation, require_rows_of_split
from danish_asr.report.exports import to_json
from danish_asr.report.outputs import check_outputs
from danish_asr.report.terminal import print_table, warn
from danish_asr.report.wording import (
    INTERVAL_NOTE,
    comparison_summary,
    grouping_title,
    partial_warning,
    percent,
    points,
)
from danish_asr.scoring.comparison import ComparedGroup, Comparison, PairedRate, compare_predictions
from danish_asr.scoring.intervals import Interval
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
    """Compare two files, print the table, and write JSON if asked to.

    Raises:
        PredictionsError: A file breaks its contract, or the two hold different rows.
        ConfigError: There is no such profile, row filter or column.
    """
    console = console or Console()
    files = (a, b)
    check_outputs([json_path], inputs=[*files, *map(evaluation_file, files)])
    evaluations = [read_evaluation(file) for file in files]
    comparison = compare_predictions(
        read_predictions(a),
        read_predictions(b),
        by=by,
        settings=settings,
        names=(str(a), str(b)),
        rows_in_split=(evaluations[0].rows_in_split, evaluations[1].rows_in_split),
    )
    for file, rows in ((a, comparison.rows_a), (b, comparison.rows_b)):
        require_rows_of_split(file, rows)
    console.print(f"A: {a}\nB: {b}", soft_wrap=True, markup=False, highlight=False)
    print_comparison(comparison, console)
    if json_path:
        compared = {"files": {"a": str(a), "b": str(b)}}
        publish_text(json_path, to_json(comparison.to_dict() | compared))
        console.print(f"wrote {json_path}", soft_wrap=True, markup=False, highlight=False)
    return comparison


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print one table of all groups, and in a sentence what the overall difference says."""
    for run, rows in (("A", comparison.rows_a), ("B", comparison.rows_b)):
        if rows.is_partial:
            warn(partial_warning(rows, what=f"the predictions of {run}"), console)
    console.print(comparison_summary(comparison), soft_wrap=True, highlight=False)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("\ngroup", overflow="fold")
    # Headings in two lines, so that the table fits into 80 columns.
    columns = (
        "WER %\nA",
        "WER %\nB",
        "\nB - A",
        "95 %\ninterval",
        "p\n(Holm)",
        "\nrows",
        "\nspeakers",
    )
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*_cells(comparison.overall))
    for name, groups in comparison.groupings.items():
        table.add_section()
        table.add_row(f"[bold]{escape(grouping_title(name))}[/bold]")
        for group in groups:
            table.add_row(*_cells(group))
    print_table(table, console)
    console.print()
    console.print(verdict(comparison), soft_wrap=True, highlight=False)
    groups = [comparison.overall, *(g for part in comparison.groupings.values() for g in part)]
    if any(group.wer.p is None for group in groups):
        console.print(INTERVAL_NOTE, soft_wrap=True, highlight=False)


def verdict(comparison: Comparison) -> str:
    """Say what the overall difference in WER amounts to."""
    rate = comparison.overall.wer
    resolution = rate.difference.interval
    if not isinstance(resolution, Interval):
        return f"the difference is not resolvable: {resolution.reason}"
    if resolution.low <= 0 <= resolution.high:
        return "the data do not tell A and B apart: the interval holds zero"
    better = "B" if rate.difference.value < 0 else "A"
    return f"{better} is better: the interval does not hold zero"


def _cells(group: ComparedGroup) -> list[str]:
    rate = group.wer
    resolution = rate.difference.interval
    return [
        escape(group.label),
        percent(rate.a),
        percent(rate.b),
        points(rate.difference.value),
        f"{points(resolution.low)} to {points(resolution.high)}"
        if isinstance(resolution, Interval)
        else "not resolvable",
        _p(rate),
        str(group.errors_a.rows),
        str(group.speakers),
    ]


def _p(rate: PairedRate) -> str:
    if rate.p_adjusted is None:
        return ""
    return f"{'<' if rate.p_is_bound else ''}{rate.p_adjusted:.4f}"
