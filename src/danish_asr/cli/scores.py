"""The commands on results: score, compare, report, audit."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated, Final, cast

from typer import Argument, Option

from danish_asr.base.errors import DatasetError
from danish_asr.cli.app import app, choice, say_next
from danish_asr.metrics import DENOMINATORS, Denominator
from danish_asr.scoring.settings import (
    COMPARE_OUTPUTS,
    DEFAULT_BY,
    ROW_FILTERS,
    SCORE_OUTPUTS,
    Settings,
)
from danish_asr.text.profiles import PROFILES

_SCORING: Final = Settings()
_GROUPINGS: Final = list(DEFAULT_BY)

_Profile = Annotated[str, choice(PROFILES, about="Text profile, or package.module:function.")]
_Fillers = Annotated[bool, Option("--remove-fillers", help="Also remove fillers (rye only).")]
_By = Annotated[
    list[str],
    Option(help="Columns to group by, with commas; age:5 or age:18,25,50 in bands. Repeatable."),
]
_Filter = Annotated[str, choice(ROW_FILTERS, "--filter", about="Rows.")]
_Denominator = Annotated[
    str, choice(DENOMINATORS, about="Divide by S+D+H (standard) or S+D+H+I (coral).")
]
_Resamples = Annotated[
    int, Option(help="Utterance-level intervals too, from this many resamples (e.g. 1000).")
]
_Seed = Annotated[int, Option(help="Seed of the resampling.", min=0)]
_Metric = Annotated[
    list[str] | None,
    Option(help="A metric besides WER and CER, as package.module:Name. Repeatable."),
]
_Dataset = Annotated[
    Path | None,
    Option(help="The dataset: has missing references, and audio for the page."),
]
_References = Annotated[
    Path | None,
    Option(help="A table of id and reference, or trn, for files of hypotheses."),
]
_Columns = Annotated[
    list[str] | None,
    Option(help="The file's names: reference=text,hypothesis=pred_text. Repeatable."),
]
_Split = Annotated[str | None, Option(help="Of the dataset; default: the rows' own, or test.")]


@app.command(
    examples=[
        "score outputs/300m/eval/best/test/predictions.jsonl",
        "score predictions.csv --profile rye --by dialect,age:18,40,60",
        "score hypotheses.tsv --dataset data/parquet --out groups.csv --out report.html",
    ]
)
def score(
    predictions: Annotated[
        list[Path],
        Argument(help="predictions.jsonl, CSV, TSV, Parquet, trn; several are scored as one."),
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
    profile: _Profile = _SCORING.profile,
    remove_fillers: _Fillers = False,
    by: _By = _GROUPINGS,
    row_filter: _Filter = _SCORING.row_filter,
    denominator: _Denominator = _SCORING.denominator,
    metric: _Metric = None,
    resamples: _Resamples = _SCORING.resamples,
    seed: _Seed = _SCORING.seed,
    run: Annotated[
        Path | None, Option(help="The run, for its curves; default: the evaluated one.")
    ] = None,
    dataset: _Dataset = None,
    audio: Annotated[
        bool, Option(help="Put the worst utterances' audio on the page, if the dataset is there.")
    ] = True,
    split: _Split = None,
    references: _References = None,
    columns: _Columns = None,
    html: Annotated[
        bool, Option("--html/--no-html", help="Without --out, also write the page.")
    ] = True,
    model_name: Annotated[
        str | None, Option(help="For .yaml and leaderboard.json; default: the evaluated model.")
    ] = None,
) -> None:
    """Report WER and CER with confidence intervals, overall and per group."""
    from danish_asr.report import ReportOptions, score_file
    from danish_asr.report.outputs import default_outputs, parse_columns

    settings = Settings(
        metrics=tuple(metric or ()),
        profile=profile,
        remove_fillers=remove_fillers,
        row_filter=row_filter,
        denominator=cast(Denominator, denominator),
        resamples=resamples,
        seed=seed,
    )
    options = ReportOptions(
        by=by,
        settings=settings,
        outputs=out or default_outputs(predictions, html=html),
        run_dir=run,
        dataset=dataset,
        audio=audio,
        split=split,
        references=references,
        columns=parse_columns(columns or ()),
        model_name=model_name,
    )
    score_file(predictions, options)
    why = "compare with another run or system"
    say_next("compare", predictions[0], "OTHER/predictions.jsonl", why=why)


@app.command(
    examples=[
        "compare a/predictions.jsonl b/predictions.jsonl",
        "compare old=a1.jsonl,a2.jsonl new=b.jsonl --out x.html",
        "compare a=a.jsonl b=b.jsonl c=c.jsonl --all-pairs --out table.tex --out forest.pdf",
    ]
)
def compare(
    runs: Annotated[
        list[str], Argument(help="FILE, or NAME=FILE,FILE with a file per seed; first: baseline.")
    ],
    *,
    out: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE",
            help=f"Write this file. Repeatable; its end says what: {', '.join(COMPARE_OUTPUTS)}.",
        ),
    ] = None,
    profile: _Profile = _SCORING.profile,
    remove_fillers: _Fillers = False,
    by: _By = _GROUPINGS,
    row_filter: _Filter = _SCORING.row_filter,
    denominator: _Denominator = _SCORING.denominator,
    metric: _Metric = None,
    dataset: _Dataset = None,
    split: _Split = None,
    references: _References = None,
    columns: _Columns = None,
    all_pairs: Annotated[
        bool, Option("--all-pairs", help="Rank the runs and compare each with each.")
    ] = False,
) -> None:
    """Compare runs on the same rows: differences, intervals and a test over speakers."""
    from danish_asr.report import ReportOptions, compare_files, parse_runs
    from danish_asr.report.outputs import parse_columns

    settings = Settings(
        metrics=tuple(metric or ()),
        profile=profile,
        remove_fillers=remove_fillers,
        row_filter=row_filter,
        denominator=cast(Denominator, denominator),
    )
    options = ReportOptions(
        by=by,
        settings=settings,
        outputs=out or (),
        dataset=dataset,
        split=split,
        references=references,
        columns=parse_columns(columns or ()),
        all_pairs=all_pairs,
    )
    compare_files(parse_runs(runs), options)


@app.command(examples=["report outputs/300m", "report outputs/300m --follow"])
def report(
    run: Annotated[Path, Argument(metavar="OUTDIR", help="The run, at any time after its start.")],
    *,
    html: Annotated[Path | None, Option(help="Default: OUTDIR/report.html.")] = None,
    follow: Annotated[
        bool, Option("--follow", help="Write it again while the run trains; Ctrl-C stops that.")
    ] = False,
) -> None:
    """Write one page about a run: configuration, curves, dialects, scores, utterances, advice."""
    from danish_asr.report.run_page import report_run

    report_run(run, html, follow=follow)


@app.command(
    examples=[
        "audit data/mine --model outputs/mine",
        "audit data/mine --model outputs/half-1 --model outputs/half-2 --out wrong.html",
    ]
)
def audit(
    dataset: Annotated[Path, Argument(help="Root of a built dataset.")],
    *,
    model: Annotated[
        list[Path],
        Option(help="A run with an evaluation of these rows, or its predictions. Repeatable."),
    ],
    out: Annotated[Path, Option(help="The page; a .csv of the ids is beside it.")] = Path(
        "audit.html"
    ),
    profile: _Profile = _SCORING.profile,
) -> None:
    """List the rows whose transcript a model contradicts, on a page with their audio."""
    if not dataset.is_dir():
        raise DatasetError(f"{dataset}: no such directory; `danish-asr convert` writes a dataset")
    from danish_asr.report.audit import audit as write_page

    if write_page(dataset, model, out, profile=profile):
        new = ("--name", "clean", "--out", "data/clean")
        why = "once you have listened: the dataset without these rows"
        say_next("combine", dataset, "--without", out.with_suffix(".csv"), *new, why=why)
