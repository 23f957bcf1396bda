"""The command that says what a run needs: plan."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from danish_asr.cli.app import Files, Values, app
from danish_asr.errors import EXIT_FAILED


@app.command(
    examples=[
        "plan -c configs/standard.yaml --gpu a100-40",
        "plan -c configs/standard.yaml --gpu 12GB --write fits.yaml",
    ]
)
def plan(
    values: Values = None,
    *,
    config: Files = None,
    gpu: Annotated[
        str | None,
        Option(help="A name (a100-40, l40s, ...) or a size (12GB); default: the one here."),
    ] = None,
    gpus: Annotated[int, Option(help="How many of them.", min=1)] = 1,
    write: Annotated[Path | None, Option(help="Write the keys that make it fit, in YAML.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say what a run needs: GPU memory, disk, steps; and if it does not fit, what makes it fit.

    It is calculated, without weights and without a GPU. Exits with status 1 if it does not fit.
    """
    from danish_asr.recipe.cli import Request
    from danish_asr.recipe.show_plan import show_plan

    if not config and not values:
        raise typer.BadParameter("name a configuration", param_hint="--config")
    request = Request(output_dir=None, config_files=config or (), overrides=values or ())
    if not show_plan(request, gpu, gpus, write=write, as_json=as_json):
        raise typer.Exit(EXIT_FAILED)
