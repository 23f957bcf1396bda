"""The commands around runs: plan, sweep."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from danish_asr.base.errors import EXIT_FAILED, ConfigError, RunError
from danish_asr.cli.app import Dataset, Files, Values, app, preset


@app.command(
    examples=[
        "plan",
        "plan --dataset data/mine",
        "plan -c configs/standard.yaml --gpu a100-40",
        "plan -c configs/standard.yaml --gpu h100 --price-per-hour 2.50",
    ]
)
def plan(
    values: Values = None,
    *,
    config: Files = None,
    dataset: Dataset = None,
    gpu: Annotated[
        str | None, Option(help="Another machine's: a name (a100-40, l40s, ...) or a size (12GB).")
    ] = None,
    gpus: Annotated[
        int | None, Option(help="How many of them; default: those of the job, or one.", min=1)
    ] = None,
    price_per_hour: Annotated[
        float | None, Option(help="Price of an hour of one GPU, for the cost of the run.", min=0)
    ] = None,
) -> None:
    """Estimate memory, disk, steps and hours of a run, and check the setup for it.

    What makes it fit is printed as KEY=VALUE; the first steps of a run measure. Without --gpu it
    also finds what would stop the run on this machine, and without a configuration only that. With
    --dataset but without --config it plans the preset that fits. Exits with status 1 if the run
    does not fit, or would stop.
    """
    from danish_asr.base.cluster import job_cpus, usable_gpus
    from danish_asr.planning.doctor import check_setup
    from danish_asr.planning.show import show_plan
    from danish_asr.recipe.entry import Request

    if not (config or values or dataset):
        if gpu is not None:
            raise typer.BadParameter("needs a configuration or --dataset", param_hint="--gpu")
        works = check_setup()
    else:
        request = Request(
            output_dir=None,
            config_files=config or preset(dataset, gpu),
            dataset=dataset,
            overrides=values or (),
        )
        number = gpus or (gpu is None and job_cpus() and usable_gpus()) or 1
        planned = show_plan(request, gpu, number, price_per_hour=price_per_hour)
        works = planned.fits is not False
        if gpu is None:
            works = check_setup(request, planned) and works
    if not works:
        raise typer.Exit(EXIT_FAILED)


@app.command(
    examples=[
        "sweep outputs/lr --dataset data/mine --over common.seed=1,2,3",
        "sweep outputs/lr -c my.yaml --over regime.num_steps=2000,4000",
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
    dataset: Dataset = None,
    over: Annotated[
        list[str] | None,
        Option(metavar="KEY=V1,V2", help="Values of a key. Repeatable: all combinations."),
    ] = None,
    only: Annotated[
        int | None, Option(metavar="N", help="Only the Nth run, for an array of jobs.")
    ] = None,
) -> None:
    """Train a run for each combination of values, or resume it (docs/howto/improve.md).

    Ends with a table. Exits with status 1 if each run has failed.
    """
    from danish_asr.planning.sweep import run_sweep
    from danish_asr.recipe.entry import Request, refuse
    from danish_asr.recipe.run.run_directory import SWEEP
    from danish_asr.report.runs import report_runs

    if not config and not (out / SWEEP).is_file():
        config = preset(dataset)
    request = Request(
        output_dir=out, config_files=config or (), dataset=dataset, overrides=values or ()
    )
    try:
        succeeded = run_sweep(request, over or (), only=only)
    except (ConfigError, RunError) as error:
        refuse(error)
    report_runs(out)
    if not succeeded:
        raise typer.Exit(EXIT_FAILED)
