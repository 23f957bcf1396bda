"""The ``danish-asr`` command. Each body parses, then calls one function."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from danish_asr.errors import DanishAsrError

app = typer.Typer(
    name="danish-asr",
    help="Fine-tune omniASR CTC models on Danish speech, and hear per dialect how well they do.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    pass


@app.command()
def score(
    predictions: Annotated[Path, typer.Argument(help="A predictions.jsonl.")],
    *,
    profile: Annotated[str, typer.Option(help="Text profile: raw, coral or rye.")] = "coral",
    by: Annotated[
        list[str] | None,
        typer.Option(help="A column, or columns joined by commas, to group by. May be repeated."),
    ] = None,
    row_filter: Annotated[str, typer.Option("--filter", help="Rows: all or coral.")] = "all",
    denominator: Annotated[
        str, typer.Option(help="Divide by S+D+H (standard) or S+D+H+I (coral).")
    ] = "standard",
    json: Annotated[
        Path | None, typer.Option(help="Default: scores.json beside the predictions.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Default: report.html beside the predictions.")
    ] = None,
) -> None:
    """Score a predictions file: WER and CER overall and per group."""
    from danish_asr.report import score_file  # noqa: PLC0415 - only this command
    from danish_asr.scores import DEFAULT_BY  # noqa: PLC0415

    score_file(
        predictions,
        profile=profile,
        by=by or DEFAULT_BY,
        row_filter=row_filter,
        denominator=denominator,
        json_path=json or predictions.with_name("scores.json"),
        html_path=html or predictions.with_name("report.html"),
    )


def main() -> None:
    """Run the command; what the user can mend is told without a traceback, with status 1."""
    try:
        app()
    except DanishAsrError as error:
        typer.echo(f"danish-asr: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("danish-asr: interrupted; run the same command again to continue", err=True)
        sys.exit(130)
