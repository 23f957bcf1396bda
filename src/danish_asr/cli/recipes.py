"""The commands of the recipe: fetch, train, evaluate."""

# ruff: noqa: PLC0415

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Option

from danish_asr.cli.app import Files, Values, app

if TYPE_CHECKING:
    from danish_asr.recipe.entry import Request


_OutDir = Annotated[
    Path, Argument(metavar="OUTDIR", help="Directory of the run, new or to continue.")
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
    """Download the weights and the tokenizer that a configuration names, or go on with that.

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
    dump_config: _Dump = False,
    trust: Annotated[
        bool,
        Option("--trust", help="Continue a run of another user; what it saved can run any code."),
    ] = False,
) -> None:
    """Train a model, or continue the run in OUTDIR (docs/training.md).

    Without --config the run's own configuration is used.
    """
    from danish_asr.recipe.entry import TRAIN, run

    run(TRAIN, _request(output_dir, values or (), config or (), dump=dump_config, trust=trust))


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
    dump_config: _Dump = False,
) -> None:
    """Score a split with a run's best checkpoint, or another model, into predictions.jsonl.

    Without --config the run's own configuration is used.
    """
    from danish_asr.recipe.entry import EVALUATE, run

    run(EVALUATE, _request(output_dir, values or (), config or (), dump=dump_config))


def _request(
    output_dir: Path,
    values: Sequence[str],
    files: Sequence[Path],
    *,
    dump: bool,
    trust: bool = False,
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
        fix = f"{output_dir} holds no run yet; name its configuration: --config FILE"
        raise BadParameter(fix, param_hint="OUTDIR")
    return Request(
        output_dir=output_dir, config_files=files, overrides=values, dump_config=dump, trust=trust
    )
