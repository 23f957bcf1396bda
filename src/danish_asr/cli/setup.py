"""The commands to begin with: demo, doctor."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from danish_asr.base.errors import EXIT_FAILED
from danish_asr.cli.app import Files, Values, app


@app.command(examples=["demo", "demo --dir /tmp/demo regime.num_steps=400"])
def demo(
    values: Values = None,
    *,
    root: Annotated[Path, Option("--dir", help="Directory for all files.")] = Path("demo"),
) -> None:
    """Synthesise speech, convert, train, evaluate and report in one run, or continue it."""
    from danish_asr.demo import run_demo

    run_demo(root, overrides=values or [])


@app.command(
    examples=["doctor", "doctor -c configs/standard.yaml -c configs/a100.yaml"],
)
def doctor(
    *,
    config: Files = None,
    run: Annotated[Path | None, Option(help="OUTDIR; default: $ASR_RUN, or here.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print findings as JSON.")] = False,
) -> None:
    """Check the setup before queueing a run; exit with status 1 if something would fail."""
    from danish_asr.planning.doctor import doctor as examine

    if not examine(config or [], run=run, as_json=as_json):
        raise typer.Exit(EXIT_FAILED)
