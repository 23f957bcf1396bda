"""The commands on results: score, compare, report."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated, Final

from typer import Argument, Option

from danish_asr.cli.app import app, choice
from danish_asr.metrics import DENOMINATORS
from danish_asr.scoring.settings import DEFAULT_BY, ROW_FILTERS, Settings
from danish_asr.text.profiles import PROFILES

_SCORING: Final = Settings()
_GROUPINGS: Final = list(DEFAULT_BY)

_Profile = Annotated[str, choice(PROFILES, about="Text profile.")]
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
_References = Annotated[
    Path | None, Option(help="The dataset; has the references of files with only hypotheses.")
]
_Split = Annotated[str | None, Option(help="Of the dataset; default: the rows' own, or test.")]


@app.command(
    examples=[
        "score outputs/300m/eval/best/test/predictions.jsonl",
        "score predictions.csv --profile rye --by dialect,age:18,40,60",
        "score hypotheses.tsv --dataset data/parquet --csv groups.csv",
    ]
)
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
    run: Annotated[
        Path | None, Option(help="The run, for its curves; default: the evaluated one.")
    ] = None,
    dataset: Annotated[
        Path | None,
        Option(
            help="The dataset; adds audio to the page (default: that evaluated), and missing "
            "references."
        ),
    ] = None,
    audio: Annotated[
        bool, Option(help="Put the worst utterances' audio on the page, if the dataset is there.")
    ] = True,
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
        audio=audio,
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


@app.command(
    examples=[
        "compare a/predictions.jsonl b/predictions.jsonl",
        "compare old=a1.jsonl,a2.jsonl new=b1.jsonl,b2.jsonl",
    ]
)
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
    from danish_asr.report import compare_files, parse_runs

    settings = Settings(
        profile=profile,
        remove_fillers=remove_fillers,
        row_filter=row_filter,
        denominator=denominator,  # type: ignore[arg-type] # it is checked there
    )
    compare_files(
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
