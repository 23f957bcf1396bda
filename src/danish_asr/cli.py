"""The ``danish-asr`` command. Each body parses, then calls one function."""

from __future__ import annotations

import sys

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
