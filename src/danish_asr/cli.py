"""The ``danish-asr`` command. Each body parses its options, then calls one function.

Packages are imported inside the commands, so that ``danish-asr doctor`` starts in an installation
in which others, such as torch or pyarrow, cannot be imported.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer import Argument, Option

from danish_asr.errors import EXIT_FAILED, DanishAsrError

if TYPE_CHECKING:
    from danish_asr.scoring.settings import Settings

INTERRUPTED: Final = 128 + signal.SIGINT
"""Exit status after Ctrl-C, as in shells."""

app = typer.Typer(
    name="danish-asr",
    help="Fine-tune omniASR CTC models on Danish speech and report error rates per dialect.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class _Default:
    """A default that is defined elsewhere: a constant, or a parameter of a function or class."""

    def __init__(self, place: str, parameter: str) -> None:
        self._place, self._parameter = place, parameter

    def __call__(self) -> Any:
        value = resolve_name(self._place)
        if self._parameter:
            value = inspect.signature(value).parameters[self._parameter].default
        return value

    def __str__(self) -> str:  # what the help shows
        value = self()
        return ", ".join(value) if isinstance(value, tuple) else str(value)


def _option(place: str, parameter: str, text: str, *names: str, **details: Any) -> Any:
    """An option with the default of ``parameter`` in ``place``."""
    return Option(*names, default_factory=_Default(place, parameter), help=text, **details)


_SETTINGS: Final = "danish_asr.scoring.settings:Settings"
_COMPARISON: Final = "danish_asr.scoring.comparison:COMPARE_RESAMPLES"
_GROUPINGS: Final = "danish_asr.scoring.scores:DEFAULT_BY"
_CONVERSION: Final = "danish_asr.conversion:ConvertOptions"
_SIZE: Final = "danish_asr.sources.synthetic:SyntheticSize"
_SYNTHESIS: Final = "danish_asr.sources.synthetic:synthesise"
_DOCTOR: Final = "danish_asr.doctor:doctor"
_DATASET: Final = Path("data/parquet")

_Profile = Annotated[str, _option(_SETTINGS, "profile", "Text profile: raw, coral or rye.")]
_Fillers = Annotated[bool, Option("--remove-fillers", help="Also remove fillers (rye only).")]
_COLUMNS: Final = "A column, or columns joined by commas, to group by. May be repeated."
_By = Annotated[list[str], _option(_GROUPINGS, "", _COLUMNS)]
_Filter = Annotated[str, _option(_SETTINGS, "row_filter", "Rows: all or coral.", "--filter")]
_DIVISORS: Final = "Divide errors by S+D+H (standard) or S+D+H+I (coral)."
_Denominator = Annotated[str, _option(_SETTINGS, "denominator", _DIVISORS)]
_Resamples = Annotated[int, _option(_SETTINGS, "resamples", "Bootstrap resamples.", min=100)]
_CompareResamples = Annotated[int, _option(_COMPARISON, "", "Bootstrap resamples.", min=100)]
_Seed = Annotated[int, _option(_SETTINGS, "seed", "Bootstrap seed.", min=0)]
_Workers = Annotated[int | None, Option(help="Processes; default: all CPUs.")]


@app.command()
def score(
    predictions: Annotated[Path, Argument(help="The predictions.jsonl of an evaluation.")],
    *,
    profile: _Profile,
    remove_fillers: _Fillers = False,
    by: _By,
    row_filter: _Filter,
    denominator: _Denominator,
    resamples: _Resamples,
    seed: _Seed,
    json: Annotated[Path | None, Option(help="Default: scores.json beside the input.")] = None,
    html: Annotated[Path | None, Option(help="Default: report.html beside the input.")] = None,
    csv: Annotated[Path | None, Option(help="Write a table of all groups.")] = None,
    markdown: Annotated[Path | None, Option(help="Write a section for a model card.")] = None,
    run: Annotated[Path | None, Option(help="The run; adds its curves to the page.")] = None,
    dataset: Annotated[Path | None, Option(help="The dataset; adds audio to the page.")] = None,
) -> None:
    """Report WER and CER with confidence intervals, overall and per group."""
    from danish_asr.report import score_file

    score_file(
        predictions,
        by=by,
        settings=_settings(
            profile=profile,
            remove_fillers=remove_fillers,
            row_filter=row_filter,
            denominator=denominator,
            resamples=resamples,
            seed=seed,
        ),
        json_path=json or predictions.parent / "scores.json",
        html_path=html or predictions.parent / "report.html",
        csv_path=csv,
        markdown_path=markdown,
        run_dir=run,
        dataset=dataset,
    )


@app.command()
def compare(
    a: Annotated[Path, Argument(help="The predictions.jsonl of run A.")],
    b: Annotated[Path, Argument(help="The predictions.jsonl of run B, with the same rows.")],
    *,
    profile: _Profile,
    remove_fillers: _Fillers = False,
    by: _By,
    row_filter: _Filter,
    denominator: _Denominator,
    resamples: _CompareResamples,
    seed: _Seed,
    json: Annotated[Path | None, Option(help="Write the comparison as JSON.")] = None,
) -> None:
    """Compare two runs on the same rows: differences, intervals and a test over speakers."""
    from danish_asr.report import compare_files

    settings = _settings(
        profile=profile,
        remove_fillers=remove_fillers,
        row_filter=row_filter,
        denominator=denominator,
        resamples=resamples,
        seed=seed,
    )
    compare_files(a, b, by=by, settings=settings, json_path=json)


def _settings(**options: Any) -> Settings:
    from danish_asr.scoring.settings import Settings

    return Settings(**options)


@app.command()
def synthesize(
    folder: Annotated[Path, Argument(help="Where the corpus is written.")],
    *,
    seed: Annotated[int, _option(_SYNTHESIS, "seed", "Random seed.")],
    train: Annotated[int, _option(_SIZE, "train", "Utterances for training, about.")],
    dev: Annotated[int, _option(_SIZE, "dev", "Utterances for validation, about.")],
    test: Annotated[int, _option(_SIZE, "test", "Utterances for testing, about.")],
    workers: _Workers = None,
) -> None:
    """Make synthetic Danish speech in the format of CoRal."""
    from danish_asr.cluster.cpus import usable_cpus
    from danish_asr.sources.synthetic import SyntheticSize, synthesise

    size = SyntheticSize(train=train, dev=dev, test=test)
    synthesise(folder, size=size, seed=seed, workers=workers or usable_cpus())


@app.command()
def convert(
    source: Annotated[str | None, Argument(help="KIND:WHERE, see --list.")] = None,
    *,
    name: Annotated[str | None, Option(help="Name of the dataset's card.")] = None,
    out: Annotated[Path, Option(help="Root of the dataset.")] = _DATASET,
    corpus: Annotated[str | None, Option(help="Name of a corpus other than CoRal.")] = None,
    column: Annotated[
        list[str] | None, Option(help="OURS=THEIRS, such as text=sentence. May be repeated.")
    ] = None,
    split: Annotated[str | None, Option(help="Split; default: inferred from file names.")] = None,
    max_drop: Annotated[float, _option(_CONVERSION, "max_drop", "Largest share of dropped rows.")],
    max_seconds: Annotated[float, _option(_CONVERSION, "max_seconds", "Drop longer utterances.")],
    shard_rows: Annotated[int, _option(_CONVERSION, "shard_rows", "Most source rows per shard.")],
    workers: _Workers = None,
    engine: Annotated[str, Option(help="processes or ray.")] = "processes",
    address: Annotated[str | None, Option(help="The Ray cluster; default: this machine.")] = None,
    part: Annotated[str | None, Option(metavar="I/N", help="Convert only part I of N.")] = None,
    shard: Annotated[str | None, Option(hidden=True, help="The old name of --part.")] = None,
    finish: Annotated[bool, Option("--finish", help="Complete a dataset of parts.")] = False,
    list_: Annotated[bool, Option("--list", help="List the kinds of sources.")] = False,
) -> None:
    """Convert a corpus to a dataset: 16 kHz FLAC in Parquet, rejected rows, inventory and cards."""
    from danish_asr.conversion import ConvertOptions, command
    from danish_asr.sources import SourceOptions

    if list_:
        command.print_sources()
        return
    command.convert_command(
        source,
        name=name,
        out=out,
        source_options=SourceOptions(corpus=corpus, columns=tuple(column or ()), split=split),
        options=ConvertOptions(max_seconds=max_seconds, shard_rows=shard_rows, max_drop=max_drop),
        workers=workers,
        engine=engine,
        address=address,
        part=part or shard,
        finish=finish,
    )


@app.command()
def verify(
    root: Annotated[Path, Argument(help="Root of a built dataset.")] = _DATASET,
    sample: Annotated[int | None, Option(help="Rows to decode, spread; default: all.")] = None,
    allow_shared: Annotated[
        list[str] | None, Option(help="speakers or sentences: accept that splits share them.")
    ] = None,
    workers: _Workers = None,
) -> None:
    """Check a built dataset and report all faults."""
    from danish_asr.conversion.command import verify_command

    verify_command(root, sample=sample, workers=workers, allow_shared=allow_shared or ())


_Overrides = Annotated[list[str] | None, Option(help="key=value for the recipe. May be repeated.")]
_Configs = Annotated[list[Path] | None, Option(help="A training configuration. May be repeated.")]


@app.command()
def demo(
    root: Annotated[Path, Option("--dir", help="Directory for all files.")] = Path("demo"),
    config: _Overrides = None,
) -> None:
    """Synthesise speech, convert, train, evaluate and report in one run, or continue it."""
    from danish_asr.demo import run_demo

    run_demo(root, overrides=config or [])


@app.command()
def doctor(
    *,
    config: _Configs = None,
    run: Annotated[Path | None, Option(help="OUTDIR; default: $ASR_RUN, or here.")] = None,
    scripts: Annotated[Path, _option(_DOCTOR, "scripts_dir", "Directory of the job scripts.")],
    as_json: Annotated[bool, Option("--json", help="Print findings as JSON.")] = False,
) -> None:
    """Check the setup before queueing a run; exit with status 1 if something would fail."""
    from danish_asr.doctor import doctor as examine

    if not examine(config or [], run=run, scripts_dir=scripts, as_json=as_json):
        raise typer.Exit(EXIT_FAILED)


def main() -> None:
    """Run the command line of this process."""
    run(app)


def run(command: Callable[[], object]) -> None:
    """Run a command; a `DanishAsrError` ends it with a message and status 1, Ctrl-C with 130."""
    try:
        command()
    except DanishAsrError as error:
        typer.echo(f"danish-asr: {error}", err=True)
        sys.exit(EXIT_FAILED)
    except (KeyboardInterrupt, SystemExit) as stop:
        # typer turns Ctrl-C into a SystemExit without a message.
        if isinstance(stop, SystemExit) and stop.code != INTERRUPTED:
            raise
        typer.echo("danish-asr: interrupted; run the same command again to continue", err=True)
        sys.exit(INTERRUPTED)
