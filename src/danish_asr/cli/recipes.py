"""The commands of the recipe: fetch, train, evaluate."""

# ruff: noqa: PLC0415

import os
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Exit, Option, echo

from danish_asr.cli.app import Dataset, Files, Values, app, preset, say_next

if TYPE_CHECKING:
    from danish_asr.recipe.entry import Request


_OutDir = Annotated[
    Path, Argument(metavar="OUTDIR", help="Directory of the run, new or to continue.")
]


def _print_keys(name: str | None) -> None:
    if not name:
        return
    from danish_asr.recipe.config.keys import help_text, near_keys, table

    text = help_text(name, min(get_terminal_size().columns, 100))
    if not text:
        sections = ", ".join(row.key for row in table() if "." not in row.key)
        near = " or ".join(near_keys(name))
        hint = f"; did you mean {near}?" if near else ""
        raise BadParameter(f"expected a key or one of {sections}; found '{name}'{hint}")
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


@app.command(
    examples=["fetch omniASR_CTC_300M", "fetch -c configs/standard.yaml"],
)
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
    from danish_asr.planning.fetch import fetch_configured
    from danish_asr.recipe.entry import Request

    fetch_configured(Request(output_dir=None, config_files=config or (), overrides=named))


@app.command(
    examples=[
        "train outputs/first --dataset data/mine",
        "train outputs/300m -c configs/standard.yaml",
        "train outputs/300m",
        "train outputs/b -c configs/standard.yaml regime.num_steps=9000",
    ]
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
    the preset that fits this machine.
    """
    from danish_asr.base.errors import ConfigError
    from danish_asr.recipe.entry import TRAIN, refuse, run
    from danish_asr.recipe.run.run_directory import CONFIG_FILE

    if not config and not (output_dir / CONFIG_FILE).is_file():
        config = preset(dataset)
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
        "evaluate outputs/300m --dataset data/others",
    ]
)
def evaluate(
    output_dir: _OutDir,
    values: Values = None,
    *,
    config: Files = None,
    dataset: Dataset = None,
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

        score_files([results], shown=["dialect"])
        say_next("compare", results, "OTHER", why="compare with another run or system")
    exit_if_held(0)


def _convert_missing(request: "Request") -> None:
    """Convert the corpus that the name of the dataset stands for, unless the dataset is here."""
    from danish_asr.base.cluster import rank_info
    from danish_asr.base.config_tree import flatten, merge
    from danish_asr.base.errors import ConfigError
    from danish_asr.cli.datasets import DATASET, convert
    from danish_asr.corpus.sources.location import source_of_dataset
    from danish_asr.recipe.entry import read_trees

    files, overrides = read_trees(request)
    values = dict(flatten(merge(*files, *overrides)))
    name = str(values.get("dataset.name", ""))
    folders = [*os.environ.get("DANISH_ASR_ASSETS", "").split(os.pathsep), DATASET / "cards"]
    more = values.get("common.assets.extra_paths")
    folders += more if isinstance(more, list) else []  # a wrong type is refused later
    if any(next(Path(str(folder)).rglob(f"{name}.yaml"), None) for folder in folders if folder):
        return
    source = source_of_dataset(name)
    if source is None or rank_info().world_size > 1:
        fix = f"danish-asr convert {source or 'SOURCE'} --name {name or 'NAME'}"
        rule = "one process can convert CoRal, for a dataset named coral_v2_... or coral_v3_..."
        raise ConfigError([f"--prepare: {rule}; otherwise begin with `{fix}`"])
    convert(source, name=name)


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
    from danish_asr.recipe.run.run_directory import CONFIG_FILE

    if str(output_dir).partition("=")[0] in defaults():
        fix = f"expected a directory, found '{output_dir}'; KEY=VALUE comes after OUTDIR"
        raise BadParameter(fix, param_hint="OUTDIR")
    for file in files:
        if "=" in file.name and not file.exists():
            fix = f"expected a file, found '{file}'; KEY=VALUE needs no option, after OUTDIR"
            raise BadParameter(fix, param_hint="--config")
    if not files and (output_dir / CONFIG_FILE).is_file():
        files = [output_dir / CONFIG_FILE]
    if not files and not values:
        fix = f"{output_dir} holds no run yet; name --config FILE, or for train --dataset DIR"
        raise BadParameter(fix, param_hint="OUTDIR")
    return Request(
        output_dir=output_dir,
        config_files=files,
        dataset=dataset,
        overrides=values,
        dump_config=dump,
    )
