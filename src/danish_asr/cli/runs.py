"""The commands on runs: fetch, plan, train, evaluate, sweep."""

# ruff: noqa: PLC0415

from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Exit, Option, echo

from danish_asr.base.errors import EXIT_FAILED, ConfigError
from danish_asr.cli.app import Dataset, Files, NoAudio, Values, app, say_next

if TYPE_CHECKING:
    from danish_asr.recipe.entry import Request


_OutDir = Annotated[
    Path, Argument(metavar="OUTDIR", help="Directory of the run, new or to continue.")
]


def _print_keys(name: str | None) -> None:
    if not name:
        return
    from danish_asr.recipe.config.keys import help_text, table

    text = help_text(name, min(get_terminal_size().columns, 100))
    if not text:
        sections = ", ".join(row.key for row in table() if "." not in row.key)
        raise BadParameter(f"expected a key or one of {sections}; found '{name}'")
    echo(text)
    raise Exit


_HelpKeys = Annotated[
    str | None,
    Option(
        "--help-keys",
        metavar="SECTION",
        callback=_print_keys,
        is_eager=True,
        help="Describe the keys of a section, such as dataset, and stop.",
    ),
]
_Dump = Annotated[bool, Option("--dump-config", help="Print the configuration, checked; stop.")]


def _preset(dataset: Path | None, gpu: str | None = None) -> list[Path]:
    """Return the preset for a dataset without a configuration, and say which it is.

    It is that of the card ``gpu``, by default of this machine's. Without both: none.
    """
    if dataset is None and gpu is None:
        return []
    from danish_asr.base.cluster import rank_info
    from danish_asr.planning.gpus import card_of, here, preset_for

    files, reason = preset_for(card_of(gpu) if gpu else here())
    if rank_info().rank == 0:
        options = " ".join(f"--config {file}" for file in files)
        echo(f"{options}, {reason}", err=True)
    return files


@app.command(examples=["fetch omniASR_CTC_300M", "fetch -c configs/standard.yaml"])
def fetch(
    values: Annotated[
        list[str] | None,
        Argument(metavar="MODEL | KEY=VALUE", help="A model's name, or values over the files."),
    ] = None,
    *,
    config: Files = None,
) -> None:
    """Download the weights and the tokenizer that a configuration names, or resume it.

    They go where a run looks for them: $FAIRSEQ2_CACHE_DIR, else ~/.cache/fairseq2/assets.
    """
    named = [value if "=" in value else f"model.name={value}" for value in values or ()]
    if not named and not config:
        raise BadParameter("name a model, or a configuration: --config FILE", param_hint="MODEL")
    from danish_asr.planning.fetch import fetch as fetch_files
    from danish_asr.recipe.entry import Request

    fetch_files(Request(output_dir=None, config_files=config or (), overrides=named))
    say_next("plan", *_words(config or (), None, named), why="what a run needs")


@app.command(
    examples=["plan --dataset data/mine", "plan -c configs/standard.yaml --gpu a100-40"],
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

    Without --gpu it also finds what would stop the run on this machine, and without any option only
    that. With --dataset or --gpu, but without --config, it plans the preset that fits. Exits with
    status 1 if the run does not fit, or would stop. The first steps of a run measure.
    """
    from danish_asr.base.cluster import job_cpus, usable_gpus
    from danish_asr.planning.plan import check_machine, show_plan
    from danish_asr.recipe.entry import Request, refuse

    if not (config or values or dataset or gpu):
        works = check_machine()
    else:
        number = gpus or (gpu is None and job_cpus() and usable_gpus()) or 1
        try:
            files = config or _preset(dataset, gpu)
            request = Request(
                output_dir=None, config_files=files, dataset=dataset, overrides=values or ()
            )
            works = show_plan(request, gpu, number, price_per_hour=price_per_hour)
        except ConfigError as error:
            refuse(error)
        if works:
            words = _words(files, dataset, values or ())
            why = "its first steps measure"
            say_next("train", "OUTDIR", *words, why=why, processes=number)
    if not works:
        raise Exit(EXIT_FAILED)


def _words(files: Sequence[Path], dataset: Path | None, values: Sequence[str]) -> list[object]:
    """Return the words of a command line for a configuration."""
    words: list[object] = [word for file in files for word in ("--config", file)]
    if dataset is not None:
        words += ["--dataset", dataset]
    return [*words, *values]


@app.command(
    examples=["train outputs/first --dataset data/mine", "train outputs/b -c configs/standard.yaml"]
)
def train(
    output_dir: _OutDir,
    values: Values = None,
    *,
    config: Files = None,
    dataset: Dataset = None,
    dump_config: _Dump = False,
    prepare: Annotated[
        bool, Option("--prepare", help="First convert CoRal, if that is the dataset and missing.")
    ] = False,
    help_keys: _HelpKeys = None,  # noqa: ARG001 - its callback prints
) -> None:
    """Train a model, or continue the run in OUTDIR (docs/howto/train.md).

    Without --config a run continues with its own configuration, and a new one with --dataset takes
    the preset that fits this machine. If the last checkpoint is damaged, delete its directory: the
    run continues from the one before.
    """
    from danish_asr.recipe.entry import TRAIN, refuse, run
    from danish_asr.recipe.run.run import Run

    if not config and not Run(output_dir).is_trained:
        config = _preset(dataset)
    request = _request(output_dir, values or (), config or (), dataset, dump=dump_config)
    if prepare:
        try:
            _convert_missing(request)
        except ConfigError as error:
            refuse(error)
    run(TRAIN, request)


@app.command(
    examples=[
        "evaluate outputs/300m",
        "evaluate outputs/300m evaluator.split=dev evaluator.checkpoint=last",
    ]
)
def evaluate(
    output_dir: _OutDir,
    values: Values = None,
    *,
    config: Files = None,
    dataset: Dataset = None,
    no_audio: NoAudio = False,
    dump_config: _Dump = False,
) -> None:
    """Score a split with a run's best checkpoint, or another model.

    Writes predictions.jsonl, scores.json and report.html. Without --config the run's own
    configuration is used.
    """
    from danish_asr.base.cluster import rank_info
    from danish_asr.base.stops import exit_if_held
    from danish_asr.recipe.entry import EVALUATE, run

    request = _request(output_dir, values or (), config or (), dataset, dump=dump_config)
    results = run(EVALUATE, request)
    if results is not None and rank_info().rank == 0:
        from danish_asr.report.score import score_files

        score_files([results], shown=["dialect"], audio=not no_audio)
        say_next("compare", results, "OTHER", why="compare with another run or system")
    exit_if_held(0)


def _request(
    output_dir: Path,
    values: Sequence[str],
    files: Sequence[Path],
    dataset: Path | None,
    *,
    dump: bool,
) -> "Request":
    from danish_asr.recipe.config.keys import defaults
    from danish_asr.recipe.entry import Request
    from danish_asr.recipe.run.run import CONFIG_FILE, Run

    if str(output_dir).partition("=")[0] in defaults():
        fix = f"expected a directory, found '{output_dir}'; KEY=VALUE comes after OUTDIR"
        raise BadParameter(fix, param_hint="OUTDIR")
    is_own = not files and Run(output_dir).is_trained
    run_config = output_dir / CONFIG_FILE if is_own else None
    if not files and not values and run_config is None:
        fix = f"{output_dir} holds no run yet; name --config FILE, or for train --dataset DIR"
        raise BadParameter(fix, param_hint="OUTDIR")
    return Request(
        output_dir=output_dir,
        run_config=run_config,
        config_files=files,
        dataset=dataset,
        overrides=values,
        dump_config=dump,
    )


def _convert_missing(request: "Request") -> None:
    """Convert the corpus that the name of the dataset stands for, unless the dataset is here."""
    from danish_asr.base.config_tree import merge, value_of
    from danish_asr.base.schema import card_directories
    from danish_asr.cli.datasets import convert
    from danish_asr.corpus.sources.parquet import source_of_dataset
    from danish_asr.recipe.entry import read_trees

    files, overrides = read_trees(request)
    tree = merge(*files, *overrides)
    name = str(value_of(tree, "dataset.name"))
    folders = [*card_directories(), *(value_of(tree, "common.assets.extra_paths") or ())]
    if any([*Path(folder).rglob(f"{name}.yaml")] for folder in folders):
        return
    source = source_of_dataset(name)
    if source is None:
        fix = f"for others begin with `danish-asr convert SOURCE --name {name}`"
        fault = f"--prepare: CoRal is named coral_v2_... or coral_v3_...; {fix}"
        raise ConfigError([fault], where="the command line")
    convert(source, name=name)


@app.command(examples=["sweep outputs/seeds --dataset data/mine --over common.seed=1,2,3"])
def sweep(
    out: Annotated[
        Path, Argument(metavar="OUT", help="Directory of the runs, new or to continue.")
    ],
    values: Values = None,
    *,
    config: Files = None,
    dataset: Dataset = None,
    over: Annotated[
        list[str],
        Option(metavar="KEY=V1,V2", help="Values of a key. Repeatable: all combinations."),
    ],
    only: Annotated[
        str | None,
        Option(metavar="N[/M]", help="Only the Nth run (of M), for an array of jobs."),
    ] = None,
) -> None:
    """Train a run for each combination of values, or continue it (docs/howto/improve.md).

    Ends with a table. Exits with status 1 if each run has failed.
    """
    from danish_asr.planning.sweep import run_sweep
    from danish_asr.recipe.entry import Request, refuse
    from danish_asr.report.runs import report_runs

    if not config:
        config = _preset(dataset)
    request = Request(
        output_dir=out, config_files=config or (), dataset=dataset, overrides=values or ()
    )
    try:
        succeeded = run_sweep(request, over, only=only)
    except ConfigError as error:
        refuse(error)
    report_runs(out)
    if not succeeded:
        raise Exit(EXIT_FAILED)
