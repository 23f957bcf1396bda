"""The commands on trained models: average."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from danish_asr.cli.app import app


@app.command()
def average(
    run: Annotated[Path, Argument(help="OUTDIR of a run.")],
    *,
    best: Annotated[int | None, Option(min=2, help="The best checkpoints; default: all.")] = None,
    last: Annotated[int | None, Option(min=2, help="The last checkpoints instead.")] = None,
) -> None:
    """Average kept checkpoints of a run; the average is validated, and listed beside the others."""
    from danish_asr.recipe.averaging import average_command

    average_command(run, best=best, last=last)
