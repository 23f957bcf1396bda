"""The ``danish-asr`` command. Each body parses, then calls one function."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from danish_asr.errors import DanishAsrError

if TYPE_CHECKING:
    from danish_asr.scoring.counts import Denominator

INTERRUPTED = 128 + signal.SIGINT
"""Exit status after Ctrl-C, as shells have it."""

app = typer.Typer(
    name="danish-asr",
    help="Fine-tune omniASR CTC models on Danish speech, and hear per dialect how well they do.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


_Profile = Annotated[str, typer.Option(help="Text profile: raw, coral or rye.")]
_RemoveFillers = Annotated[
    bool, typer.Option("--remove-fillers", help="With rye: take out øh, hmm, ... as well.")
]
_By = Annotated[
    list[str] | None,
    typer.Option(help="A column, or columns joined by commas, to group by. May be repeated."),
]
_RowFilter = Annotated[str, typer.Option("--filter", help="Rows: all or coral.")]
_Denominator = Annotated[str, typer.Option(help="Divide by S+D+H (standard) or S+D+H+I (coral).")]
_Resamples = Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")]
_Seed = Annotated[int, typer.Option(min=0, help="Of the resampling.")]


@app.callback()
def _root() -> None:
    pass


@app.command()
def score(
    predictions: Annotated[Path, typer.Argument(help="A predictions.jsonl.")],
    *,
    profile: _Profile = "coral",
    remove_fillers: _RemoveFillers = False,
    by: _By = None,
    row_filter: _RowFilter = "all",
    denominator: _Denominator = "standard",
    resamples: _Resamples = 1000,
    seed: _Seed = 0,
    json: Annotated[
        Path | None, typer.Option(help="Default: scores.json beside the predictions.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Default: report.html beside the predictions.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write a table of all groups.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a block for a model card.")] = None,
    run: Annotated[
        Path | None, typer.Option(help="A run's directory: its training curves on the page.")
    ] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="The built dataset: audio of a few utterances on the page.")
    ] = None,
) -> None:
    """Score a predictions file: WER and CER with intervals, overall and per group."""
    from danish_asr.report import score_file  # noqa: PLC0415 - only this command
    from danish_asr.scoring.scores import DEFAULT_BY  # noqa: PLC0415
    from danish_asr.scoring.settings import Settings  # noqa: PLC0415

    score_file(
        predictions,
        by=by or DEFAULT_BY,
        settings=Settings(
            profile=profile,
            remove_fillers=remove_fillers,
            row_filter=row_filter,
            denominator=cast("Denominator", denominator),  # Settings refuses others
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
    a: Annotated[Path, typer.Argument(help="The predictions.jsonl of run A.")],
    b: Annotated[Path, typer.Argument(help="The predictions.jsonl of run B, over the same rows.")],
    *,
    profile: _Profile = "coral",
    remove_fillers: _RemoveFillers = False,
    by: _By = None,
    row_filter: _RowFilter = "all",
    denominator: _Denominator = "standard",
    resamples: _Resamples = 10_000,
    seed: _Seed = 0,
    json: Annotated[Path | None, typer.Option(help="Write the comparison as JSON.")] = None,
) -> None:
    """Compare two runs over the same rows: differences with intervals and a test by speaker."""
    from danish_asr.report import compare_files  # noqa: PLC0415 - only this command
    from danish_asr.scoring.scores import DEFAULT_BY  # noqa: PLC0415
    from danish_asr.scoring.settings import Settings  # noqa: PLC0415

    compare_files(
        a,
        b,
        by=by or DEFAULT_BY,
        settings=Settings(
            profile=profile,
            remove_fillers=remove_fillers,
            row_filter=row_filter,
            denominator=cast("Denominator", denominator),  # Settings refuses others
            resamples=resamples,
            seed=seed,
        ),
        json_path=json,
    )


@app.command()
def synthesize(
    folder: Annotated[Path, typer.Argument(help="Where the corpus goes.")],
    *,
    seed: Annotated[int, typer.Option(help="Fixes every byte.")] = 1,
    train: Annotated[int, typer.Option(help="Utterances of the train split, about.")] = 4000,
    dev: Annotated[int, typer.Option(help="Utterances of the dev split, about.")] = 160,
    test: Annotated[int, typer.Option(help="Utterances of the test split, about.")] = 400,
    workers: Annotated[int | None, typer.Option(help="Processes; default: all CPUs.")] = None,
) -> None:
    """Make synthetic Danish speech in CoRal's shape."""
    from danish_asr.cluster.cpus import usable_cpus  # noqa: PLC0415
    from danish_asr.sources.synthetic import SyntheticSize, synthesise  # noqa: PLC0415

    size = SyntheticSize(train=train, dev=dev, test=test)
    synthesise(folder, size=size, seed=seed, workers=workers or usable_cpus())


@app.command()
def convert(
    source: Annotated[str | None, typer.Argument(help="KIND:WHERE, see --list.")] = None,
    *,
    name: Annotated[str | None, typer.Option(help="Name of the dataset's card.")] = None,
    out: Annotated[Path, typer.Option(help="The dataset's root.")] = Path("data/parquet"),
    corpus: Annotated[str | None, typer.Option(help="Name of a corpus other than CoRal.")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="OURS=THEIRS, such as text=sentence. May be repeated."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split of the whole source, if file names do not tell.")
    ] = None,
    max_drop: Annotated[float, typer.Option(help="Largest share of rows to leave out.")] = 0.05,
    max_seconds: Annotated[float, typer.Option(help="Leave longer utterances out.")] = 600.0,
    shard_rows: Annotated[int, typer.Option(help="Most source rows per shard.")] = 1000,
    workers: Annotated[int | None, typer.Option(help="Processes; default: all CPUs.")] = None,
    engine: Annotated[str, typer.Option(help="processes or ray.")] = "processes",
    address: Annotated[
        str | None, typer.Option(help="The Ray cluster; default: this machine.")
    ] = None,
    shard: Annotated[str | None, typer.Option(help="Do only part I of N, written I/N.")] = None,
    finish: Annotated[bool, typer.Option(help="Complete a dataset of converted parts.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the kinds of sources.")] = False,
) -> None:
    """Convert a corpus to 16 kHz FLAC in Parquet, with ledger, manifest and cards."""
    from danish_asr.conversion import ConvertOptions, command  # noqa: PLC0415 - only this command
    from danish_asr.sources import SourceOptions  # noqa: PLC0415

    if list_:
        command.print_readers()
        return
    command.run_command(
        command.ConvertCommand(
            source=source,
            name=name,
            out=out,
            source_options=SourceOptions(corpus=corpus, columns=tuple(column or ()), split=split),
            options=ConvertOptions(
                max_seconds=max_seconds, shard_rows=shard_rows, max_drop=max_drop
            ),
            workers=workers,
            engine=engine,
            address=address,
            part=shard,
            finish=finish,
        )
    )


@app.command()
def verify(
    root: Annotated[Path, typer.Argument(help="A built dataset.")] = Path("data/parquet"),
    sample: Annotated[
        int | None, typer.Option(help="Decode only so many rows, spread over all; default: all.")
    ] = None,
    allow_shared: Annotated[
        list[str] | None,
        typer.Option(help="speakers or sentences: that splits share them is no fault."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; default: all CPUs.")] = None,
) -> None:
    """Read a built dataset back and report all its faults at once."""
    from danish_asr.cluster.cpus import usable_cpus  # noqa: PLC0415 - only this command
    from danish_asr.conversion.verify.command import verify_command  # noqa: PLC0415

    verify_command(
        root, sample=sample, workers=workers or usable_cpus(), allow_shared=allow_shared or ()
    )


@app.command()
def demo(
    root: Annotated[Path, typer.Option("--dir", help="Takes everything the demo makes.")] = Path(
        "demo"
    ),
    config: Annotated[
        list[str] | None, typer.Option(help="key=value for the recipe. May be repeated.")
    ] = None,
) -> None:
    """Make synthetic Danish speech, convert it, train, evaluate and report; or continue that."""
    from danish_asr.demo import run_demo  # noqa: PLC0415 - only this command

    run_demo(root, overrides=config or [])


@app.command()
def doctor(
    config: Annotated[
        list[Path] | None,
        typer.Option(help="A training configuration. May be repeated, each over the ones before."),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="OUTDIR of the run; default: $ASR_RUN, or here.")
    ] = None,
    scripts: Annotated[Path, typer.Option(help="The scripts that go to LSF.")] = Path("lsf"),
    as_json: Annotated[bool, typer.Option("--json", help="Print findings as JSON.")] = False,
) -> None:
    """Find what would break a run before it waits in the queue; exit 1 if something would."""
    from danish_asr.doctor import doctor as examine  # noqa: PLC0415 - only this command

    if not examine(config or [], run=run, scripts_dir=scripts, as_json=as_json):
        raise typer.Exit(1)


def main() -> None:
    """Run the command; what the user can mend is told without a traceback, with status 1."""
    run(app)


def run(command: Callable[[], object]) -> None:
    """Run a command; errors of the `DanishAsrError` tree and Ctrl-C become a message and a status.

    The status is 1 for an error and 130 for Ctrl-C.
    """
    try:
        command()
    except DanishAsrError as error:
        typer.echo(f"danish-asr: {error}", err=True)
        sys.exit(1)
    except (KeyboardInterrupt, SystemExit) as stop:
        # typer makes of Ctrl-C a SystemExit without a word.
        if isinstance(stop, SystemExit) and stop.code != INTERRUPTED:
            raise
        typer.echo("danish-asr: interrupted; run the same command again to continue", err=True)
        sys.exit(INTERRUPTED)
