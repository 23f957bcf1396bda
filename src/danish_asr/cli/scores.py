"""The commands on results: score, compare, report, audit."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated, Final

from typer import Argument, BadParameter, Option

from danish_asr.cli.app import NoAudio, app, profile_option, say_next
from danish_asr.metrics import Denominator
from danish_asr.report import COMPARE_OUTPUTS, SCORE_OUTPUTS
from danish_asr.scoring.settings import DEFAULT_BY, ROW_FILTERS, Settings

_SCORING: Final = Settings()

_Profile = Annotated[
    str | None,
    profile_option("Text profile, or package.module:function; default: the run's."),
]
_By = Annotated[
    list[str],
    Option(help="Columns to group by, with commas; age:18,25,50 in bands. Repeatable."),
]
_Filter = Annotated[str, Option("--filter", metavar="|".join(ROW_FILTERS), help="Rows.")]
_Denominator = Annotated[Denominator, Option(help="Divide by S+D+H (standard) or S+D+H+I (coral).")]
_Dataset = Annotated[
    Path | None,
    Option(help="The dataset: has missing references, and audio for the page."),
]
_Columns = Annotated[
    list[str] | None,
    Option(help="The file's names: reference=text,hypothesis=pred_text. Repeatable."),
]
_Split = Annotated[str | None, Option(help="Of the dataset; default: the rows' own, or test.")]


@app.command(
    examples=[
        "score outputs/300m",
        "score predictions.csv --by dialect,age:18,40,60 --out report.html",
    ]
)
def score(
    predictions: Annotated[
        list[Path],
        Argument(help="A run, or predictions: JSON lines, CSV, TSV, Parquet, trn; all as one."),
    ],
    *,
    out: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE",
            help=f"Write this file. Repeatable; its end says what: {', '.join(SCORE_OUTPUTS)}. "
            "Default: scores.json and report.html beside a single input, after its name if not "
            "predictions.jsonl.",
        ),
    ] = None,
    profile: _Profile = None,
    by: _By = [*DEFAULT_BY],  # noqa: B006 - typer copies it
    row_filter: _Filter = _SCORING.row_filter,
    denominator: _Denominator = _SCORING.denominator,
    dataset: _Dataset = None,
    split: _Split = None,
    columns: _Columns = None,
    no_audio: NoAudio = False,
) -> None:
    """Report WER and CER with confidence intervals, overall and per group."""
    from danish_asr.report.request import Request
    from danish_asr.report.score import parse_columns, score_files

    request = Request(
        by=by,
        profile=profile,
        row_filter=row_filter,
        denominator=denominator,
        dataset=dataset,
        split=split,
        columns=parse_columns(columns or ()),
    )
    score_files(predictions, request, outputs=out, audio=not no_audio)
    why = "compare with another run or system"
    say_next("compare", predictions[0], "OTHER", why=why)


@app.command(
    examples=[
        "compare outputs/300m outputs/1b",
        "compare old=a1.jsonl,a2.jsonl new=b.jsonl --out table.tex",
    ]
)
def compare(
    runs: Annotated[
        list[str],
        Argument(help="RUN, FILE, or NAME=FILE,FILE (seeds or folds); first: baseline."),
    ],
    *,
    out: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE",
            help=f"Write this file. Repeatable; its end says what: {', '.join(COMPARE_OUTPUTS)}.",
        ),
    ] = None,
    profile: _Profile = None,
    by: _By = [*DEFAULT_BY],  # noqa: B006 - typer copies it
    row_filter: _Filter = _SCORING.row_filter,
    denominator: _Denominator = _SCORING.denominator,
    dataset: _Dataset = None,
    split: _Split = None,
    columns: _Columns = None,
) -> None:
    """Compare runs on the same rows: differences, intervals and a test over speakers."""
    from danish_asr.report.compare import compare_files, parse_runs
    from danish_asr.report.request import Request
    from danish_asr.report.score import parse_columns

    request = Request(
        by=by,
        profile=profile,
        row_filter=row_filter,
        denominator=denominator,
        dataset=dataset,
        split=split,
        columns=parse_columns(columns or ()),
    )
    compare_files(parse_runs(runs), request, outputs=out or ())


@app.command(examples=["report outputs/300m", "report outputs --csv runs.csv"])
def report(
    directory: Annotated[Path, Argument(metavar="DIR", help="OUTDIR of a run, or runs below DIR.")],
    *,
    csv: Annotated[Path | None, Option(help="Write the list for programs.")] = None,
) -> None:
    """Write OUTDIR/report.html about a run, or list the runs below a directory.

    The page has state, curves, dialects and scores, at any time after the start. The list has
    state, step, best dev score, test score, and the keys in which the runs differ.
    """
    from danish_asr.report.run_page import report_run
    from danish_asr.report.runs import is_run, report_runs

    if is_run(directory):
        if csv is not None:
            fault = f"lists the runs below a directory, and {directory} is one run"
            raise BadParameter(f"{fault}; name the directory above it", param_hint="--csv")
        report_run(directory)
    else:
        report_runs(directory, csv=csv)


@app.command(examples=["audit data/mine --model outputs/mine"])
def audit(
    dataset: Annotated[Path, Argument(help="Root of a built dataset.")],
    *,
    model: Annotated[
        list[Path],
        Option(help="A run that has transcribed these rows, or predictions. Repeatable."),
    ],
    out: Annotated[Path, Option(help="The page; a .csv of the ids is beside it.")] = Path(
        "audit.html"
    ),
    profile: _Profile = None,
    no_audio: NoAudio = False,
) -> None:
    """List the rows whose transcript a model contradicts, on a page with their audio."""
    from danish_asr.report.audit import audit as write_page

    if write_page(dataset, model, out, profile=profile, audio=not no_audio):
        new = ("--name", "clean", "--out", "data/clean")
        why = "once you have listened: the dataset without these rows"
        say_next("combine", dataset, "--without", out.with_suffix(".csv"), *new, why=why)
