"""``danish-asr score``: a predictions file becomes a table, ``scores.json`` and an HTML page."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from danish_asr.errors import PredictionsError
from danish_asr.metrics import Denominator, denominator_named
from danish_asr.predictions import read_predictions
from danish_asr.scores import DEFAULT_BY, GroupScore, Scores, score_predictions

EVALUATION_FILE = "evaluation.json"
"""What the evaluation recipe writes beside the predictions: among others, rows in the split."""


def score_file(
    path: Path,
    *,
    profile: str = "coral",
    by: Sequence[str] = DEFAULT_BY,
    row_filter: str = "all",
    denominator: str = "standard",
    json_path: Path | None = None,
    html_path: Path | None = None,
    console: Console | None = None,
) -> Scores:
    """Score ``path``, print the table, and write what paths are given for.

    Raises:
        PredictionsError: The file breaks its contract, or has more rows than its split.
        ConfigError: There is no such profile, row filter or column.
    """
    console = console or Console()
    scores = score_predictions(
        read_predictions(path),
        profile=profile,
        by=by,
        row_filter=row_filter,
        denominator=denominator_named(denominator),
        rows_in_split=rows_in_split(path),
    )
    require_rows_of_split(path, scores)
    print_scores(scores, console)
    if json_path:
        _write(json_path, json.dumps(scores.to_dict(), ensure_ascii=False, indent=2) + "\n")
        console.print(f"scores: {json_path}", soft_wrap=True)
    if html_path:
        _write(html_path, render_page(scores))
        console.print(f"report: {html_path}", soft_wrap=True)
    return scores


def rows_in_split(path: Path) -> int | None:
    """Return how many rows the evaluated split has, or None where nothing beside ``path`` says.

    Raises:
        PredictionsError: The file that should say it cannot be read.
    """
    evaluation = path.with_name(EVALUATION_FILE)
    if not evaluation.is_file():
        return None
    try:
        rows = json.loads(evaluation.read_text(encoding="utf-8"))["rows_in_split"]
        return sum(int(count) for count in rows.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PredictionsError(
            f'{evaluation}: expected a JSON object with "rows_in_split": {{"<split>": rows}}; '
            "evaluate again, or remove the file to score without it"
        ) from None


def require_rows_of_split(path: Path, scores: Scores) -> None:
    """Raise PredictionsError where the file has more rows than the split it is said to hold."""
    if scores.rows_in_split is not None and scores.rows_in_file > scores.rows_in_split:
        raise PredictionsError(
            f"{path}: has {scores.rows_in_file} rows, but the split has {scores.rows_in_split} "
            f"({EVALUATION_FILE}); evaluate again"
        )


def print_scores(scores: Scores, console: Console) -> None:
    """Print one table of all groups, and a warning where the file is partial."""
    if scores.is_partial:
        console.print(f"[yellow]warning:[/yellow] {partial_warning(scores)}", soft_wrap=True)
    console.print(summary(scores), soft_wrap=True, highlight=False)
    table = Table()
    table.add_column("group")
    for name in ("WER %", "CER %", "rows", "speakers", "words"):
        table.add_column(name, justify="right")
    for title, groups in sections(scores):
        table.add_section()
        table.add_row(f"[bold]{title}[/bold]")
        for group in groups:
            table.add_row(*_cells(group, scores.denominator))
    console.print(table)


def sections(scores: Scores) -> Iterator[tuple[str, Sequence[GroupScore]]]:
    """Yield the heading and the groups of each part of the table."""
    yield "all rows" if scores.row_filter == "all" else "rows kept", [scores.overall]
    for grouping, groups in scores.groups.items():
        yield f"by {grouping.replace(',', ' and ')}", groups


def summary(scores: Scores) -> str:
    """One line that says what the numbers are."""
    total = "" if scores.rows_in_split is None else f" of {scores.rows_in_split} in the split"
    return (
        f"profile {scores.profile}, filter {scores.row_filter}, denominator {scores.denominator}, "
        f"{scores.overall.errors.rows} rows scored{total}"
    )


def partial_warning(scores: Scores) -> str:
    """Say that the file lacks rows of its split."""
    return (
        f"the predictions are partial: {scores.rows_in_file} of {scores.rows_in_split} rows of the "
        "split; these scores are not the split's scores"
    )


def _cells(group: GroupScore, denominator: Denominator) -> list[str]:
    errors = group.errors
    return [
        escape(group.label),
        f"{100 * errors.wer(denominator):.2f}",
        f"{100 * errors.cer(denominator):.2f}",
        f"{errors.rows}",
        f"{group.speakers}",
        f"{errors.words.reference_length}",
    ]


def render_page(scores: Scores) -> str:
    """Return a plain page with the same table."""
    head = "".join(
        f"<th>{name}</th>" for name in ("Group", "WER %", "CER %", "Rows", "Speakers", "Words")
    )
    body = ""
    for title, groups in sections(scores):
        body += f'<tr><th colspan="6">{html.escape(title)}</th></tr>\n'
        for group in groups:
            cells = [group.label, *_cells(group, scores.denominator)[1:]]
            body += "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>\n"
    warning = f"<p>{html.escape(partial_warning(scores))}</p>" if scores.is_partial else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Danish ASR scores</title>'
        f"<h1>Danish ASR scores</h1><p>{html.escape(summary(scores))}</p>{warning}"
        f"<table><tr>{head}</tr>\n{body}</table></html>\n"
    )


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
