"""The ``danish-asr`` command. Each body parses its options, then calls one function.

Packages are imported inside the commands, so that ``danish-asr doctor`` starts in an installation
in which others, such as torch or pyarrow, cannot be imported.
"""

# ruff: noqa: PLC0415

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer
from typer import Argument, Option

from danish_asr.conversion import ConvertOptions
from danish_asr.errors import EXIT_FAILED, DanishAsrError
from danish_asr.scoring.settings import DEFAULT_BY, Settings

INTERRUPTED: Final = 128 + signal.SIGINT  # the exit status after Ctrl-C, as in shells
app = typer.Typer(
    name="danish-asr",
    help="Fine-tune omniASR CTC models on Danish speech and report error rates per dialect.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_SCORING: Final = Settings()
_GROUPINGS: Final = list(DEFAULT_BY)
_CONVERT: Final = ConvertOptions()
_DATASET: Final = Path("data/parquet")

_Profile = Annotated[str, Option(help="Text profile: raw, coral, rye or rye-2026-06.")]
_Fillers = Annotated[bool, Option("--remove-fillers", help="Also remove fillers (rye only).")]
_By = Annotated[
    list[str],
    Option(help="Columns to group by, with commas; age:5 or age:18,25,50 in bands. Repeatable."),
]
_Filter = Annotated[str, Option("--filter", help="Rows: all, coral or rye.")]
_Denominator = Annotated[str, Option(help="Divide by S+D+H (standard) or S+D+H+I (coral).")]
_Resamples = Annotated[
    int, Option(help="Utterance-level intervals too, from this many resamples (e.g. 1000).")
]
_Seed = Annotated[int, Option(help="Seed of the resampling.", min=0)]
_References = Annotated[
    Path | None, Option(help="The dataset; has the references of files with only hypotheses.")
]
_Split = Annotated[str | None, Option(help="Of the dataset; default: the rows' own, or test.")]
_Workers = Annotated[int | None, Option(min=1, help="Processes; default: all CPUs.")]


@app.command()
def score(
    predictions: Annotated[Path, Argument(help="predictions.jsonl, or CSV, TSV, Parquet.")],
    *,
    profile: _Profile = _SCORING.profile,
    remove_fillers: _Fillers = False,
    by: _By = _GROUPINGS,
    row_filter: _Filter = _SCORING.row_filter,
    denominator: _Denominator = _SCORING.denominator,
    resamples: _Resamples = _SCORING.resamples,
    seed: _Seed = _SCORING.seed,
    json: Annotated[Path | None, Option(help="Default: scores.json beside the input.")] = None,
    html: Annotated[Path | None, Option(help="Default: report.html beside the input.")] = None,
    csv: Annotated[Path | None, Option(help="Write a table of all groups.")] = None,
    markdown: Annotated[Path | None, Option(help="Write a section for a model card.")] = None,
    run: Annotated[Path | None, Option(help="The run; adds its curves to the page.")] = None,
    dataset: Annotated[
        Path | None, Option(help="The dataset; adds audio to the page, and missing references.")
    ] = None,
    split: _Split = None,
    utterances: Annotated[
        Path | None, Option(help="Write each utterance (.csv or .jsonl).")
    ] = None,
    errors: Annotated[Path | None, Option(help="Write all errors (.csv or .jsonl).")] = None,
    trn: Annotated[Path | None, Option(help="Write ref.trn, hyp.trn for sclite here.")] = None,
    model_index: Annotated[
        Path | None, Option(help="Write the results of a Hugging Face model card, in YAML.")
    ] = None,
    leaderboard: Annotated[
        Path | None, Option(help="Write or complete a result of RyeAI's leaderboard, in JSON.")
    ] = None,
    model_name: Annotated[
        str | None, Option(help="Name in the last two; default: the model of the evaluation.")
    ] = None,
) -> None:
    """Report WER and CER with confidence intervals, overall and per group."""
    from danish_asr.report import Exports, score_file

    score_file(
        predictions,
        by=by,
        settings=Settings(
            profile=profile,
            remove_fillers=remove_fillers,
            row_filter=row_filter,
            denominator=denominator,  # type: ignore[arg-type] # it is checked there
            resamples=resamples,
            seed=seed,
        ),
        json_path=json or predictions.parent / "scores.json",
        html_path=html or predictions.parent / "report.html",
        csv_path=csv,
        markdown_path=markdown,
        run_dir=run,
        dataset=dataset,
        split=split,
        exports=Exports(
            utterances=utterances,
            errors=errors,
            trn=trn,
            model_index=model_index,
            leaderboard=leaderboard,
            model_name=model_name,
        ),
    )


@app.command()
def compare(
    runs: Annotated[
        list[str], Argument(help="FILE, or NAME=FILE,FILE with a file per seed; first: baseline.")
    ],
    *,
    profile: _Profile = _SCORING.profile,
    remove_fillers: _Fillers = False,
    by: _By = _GROUPINGS,
    row_filter: _Filter = _SCORING.row_filter,
    denominator: _Denominator = _SCORING.denominator,
    dataset: _References = None,
    split: _Split = None,
    json: Annotated[Path | None, Option(help="Write the comparison as JSON.")] = None,
    csv: Annotated[Path | None, Option(help="Write a line per group and run.")] = None,
    markdown: Annotated[Path | None, Option(help="Write tables in Markdown.")] = None,
    html: Annotated[Path | None, Option(help="Write a page.")] = None,
) -> None:
    """Compare runs on the same rows: differences, intervals and a test over speakers."""
    from danish_asr.report import compare_run_files, parse_runs

    settings = Settings(
        profile=profile,
        remove_fillers=remove_fillers,
        row_filter=row_filter,
        denominator=denominator,  # type: ignore[arg-type] # it is checked there
    )
    compare_run_files(
        parse_runs(runs),
        by=by,
        settings=settings,
        dataset=dataset,
        split=split,
        json_path=json,
        csv_path=csv,
        markdown_path=markdown,
        html_path=html,
    )


@app.command()
def synthesize(
    folder: Annotated[Path, Argument(help="Where the corpus is written.")],
    *,
    seed: Annotated[int | None, Option(help="Random seed; default: the demo's.")] = None,
    train: Annotated[int | None, Option(min=0, help="Utterances for training, about.")] = None,
    dev: Annotated[int | None, Option(min=0, help="Utterances for validation, about.")] = None,
    test: Annotated[int | None, Option(min=0, help="Utterances for testing, about.")] = None,
    workers: _Workers = None,
) -> None:
    """Make synthetic Danish speech in the format of CoRal; by default as much as the demo's."""
    from danish_asr.cluster.cpus import usable_cpus
    from danish_asr.sources.synthetic import SyntheticSize, synthesise

    given = {"train": train, "dev": dev, "test": test}
    size = SyntheticSize(**{split: rows for split, rows in given.items() if rows is not None})
    seeded = {} if seed is None else {"seed": seed}
    synthesise(folder, size=size, workers=workers or usable_cpus(), **seeded)


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
    max_drop: Annotated[float, Option(help="Largest share of dropped rows.")] = _CONVERT.max_drop,
    max_seconds: Annotated[float, Option(help="Drop longer utterances.")] = _CONVERT.max_seconds,
    shard_rows: Annotated[int, Option(help="Most source rows per shard.")] = _CONVERT.shard_rows,
    workers: _Workers = None,
    engine: Annotated[str, Option(help="processes or ray.")] = "processes",
    address: Annotated[str | None, Option(help="The Ray cluster; default: this machine.")] = None,
    part: Annotated[str | None, Option(metavar="I/N", help="Convert only part I of N.")] = None,
    shard: Annotated[str | None, Option(hidden=True, help="The old name of --part.")] = None,
    split_by_speaker: Annotated[str | None, Option(help="Shares, 80/10/10 or with :SEED.")] = None,
    drop_shared: Annotated[bool, Option("--drop-shared-sentences", help="From train.")] = False,
    finish: Annotated[bool, Option("--finish", help="Complete a dataset of parts.")] = False,
    list_: Annotated[bool, Option("--list", help="List the kinds of sources.")] = False,
) -> None:
    """Convert a corpus to a dataset: 16 kHz FLAC in Parquet, rejected rows, inventory and cards."""
    from danish_asr.conversion import command
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
        split_by_speaker=split_by_speaker,
        drop_shared_sentences=drop_shared,
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
    allow_shared: Annotated[list[str] | None, Option(help="speakers, sentences or audio.")] = None,
    workers: _Workers = None,
) -> None:
    """Check a built dataset and report all faults."""
    from danish_asr.conversion.command import verify_command

    verify_command(root, sample=sample, workers=workers, allow_shared=allow_shared or ())


@app.command()
def explore(
    dataset: Annotated[Path, Argument(help="Root of a built dataset.")] = _DATASET,
    *,
    out: Annotated[Path, Option(help="The page.")] = Path("explore.html"),
    tokenizer: Annotated[
        str | None, Option(help="Name or file; lists the characters that it lacks.")
    ] = None,
    sample: Annotated[int, Option(min=0, help="Rows whose audio is measured.")] = 2_000,
    seed: Annotated[int, Option(min=0, help="Seed of the samples.")] = 0,
) -> None:
    """Write an offline page about a dataset: groups, gaps, leaks, measures, audio to listen to."""
    from danish_asr.report.explore import explore as write_page

    write_page(dataset, out, tokenizer=tokenizer, sample=sample, seed=seed)


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
    scripts: Annotated[Path, Option(help="Directory of the job scripts.")] = Path("lsf"),
    as_json: Annotated[bool, Option("--json", help="Print findings as JSON.")] = False,
) -> None:
    """Check the setup before queueing a run; exit with status 1 if something would fail."""
    from danish_asr.doctor import doctor as examine

    if not examine(config or [], run=run, scripts_dir=scripts, as_json=as_json):
        raise typer.Exit(EXIT_FAILED)


def main(command: Callable[[], object] = app) -> None:
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
