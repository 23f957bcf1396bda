"""The commands on several runs: sweep, runs, advise."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from danish_asr.cli.app import Files, Values, app


@app.command(
    examples=[
        "sweep outputs/lr -c my.yaml --over optimizer.config.lr=1e-5,5e-5",
        "sweep outputs/lr",
    ]
)
def sweep(
    out: Annotated[
        Path, Argument(metavar="OUT", help="Directory of the runs, new or to continue.")
    ],
    values: Values = None,
    *,
    config: Files = None,
    over: Annotated[
        list[str] | None,
        Option(metavar="KEY=V1,V2", help="Values of a key. Repeatable: all combinations."),
    ] = None,
    rungs: Annotated[
        int | None,
        Option(
            help="Steps at which runs are compared and bad ones stop; 0: none. Default: 2.", min=0
        ),
    ] = None,
    keep: Annotated[
        float | None, Option(help="The part of the runs that continues at each. Default: 0.5.")
    ] = None,
    only: Annotated[
        int | None, Option(metavar="N", help="Only the Nth run, for an array of jobs.")
    ] = None,
) -> None:
    """Train a run for each combination of values, or continue that (docs/sweeps.md).

    Ends with a table, OUT/runs.html and advice.
    """
    from danish_asr.planning.sweep.run import run_sweep

    run_sweep(out, config or (), values or (), over or (), keep=keep, rungs=rungs, only=only)


@app.command(examples=["runs outputs", "runs outputs/lr --csv runs.csv --html runs.html"])
def runs(
    root: Annotated[Path, Argument(metavar="DIR", help="All runs in it and below it.")],
    *,
    csv: Annotated[Path | None, Option(help="Write a table for programs.")] = None,
    html: Annotated[Path | None, Option(help="Write a page with the curves on dev.")] = None,
) -> None:
    """List runs: state, step, best dev score, test score, and the keys in which they differ."""
    from danish_asr.report.run.several import report_runs

    report_runs(root, csv=csv, html=html)


@app.command(examples=["advise outputs/300m", "advise outputs/lr"])
def advise(
    root: Annotated[Path, Argument(metavar="OUTDIR", help="A run, or the directory of a sweep.")],
) -> None:
    """Say what to try next, with the evidence, by a run's metrics and evaluations."""
    from danish_asr.report.run.several import report_advice

    report_advice(root)
