"""``danish-asr score`` and ``danish-asr compare``: from predictions files to tables and reports."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from os.path import realpath
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.markup import escape

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.base.files import AnyPath, publish_text
from danish_asr.base.schema import VERSION_DIR
from danish_asr.base.tables import Row, read_valid_rows
from danish_asr.recipe.run.run_directory import evaluated_model
from danish_asr.report.comparison_tables import print_comparison, runs_markdown, runs_page
from danish_asr.report.outputs import (
    ReportOptions,
    check_not_inputs,
    outputs_by_end,
    trn_files,
    write_rows,
)
from danish_asr.report.tables import print_scores, say, to_csv, to_markdown, warn
from danish_asr.scoring import hub
from danish_asr.scoring.comparison import Comparison, compare_runs
from danish_asr.scoring.error_analysis import ErrorAnalysis, analyse_errors
from danish_asr.scoring.groupings import MEASURES
from danish_asr.scoring.predictions import PredictionsFile, read_predictions
from danish_asr.scoring.references import read_references
from danish_asr.scoring.scored_rows import RowsUsed
from danish_asr.scoring.scores import Scores, score_predictions
from danish_asr.scoring.settings import COMPARE_OUTPUTS, LEADERBOARD, MODEL_INDEX, SCORE_OUTPUTS

_EVALUATION: Final = "evaluation.json"
_CLIPS: Final = 10  # utterances of each ranking that have audio on the page


class _Opened(NamedTuple):
    rows: PredictionsFile
    about: dict[str, Any]  # evaluation.json, or what is known without it
    in_split: int | None


def score_file(
    path: AnyPath, options: ReportOptions | None = None, *, console: Console | None = None
) -> Scores:
    """Score ``path``, print the table of the groups, and write the outputs.

    JSON, CSV and the page also hold the scores by duration and by words per second. The references
    of a file must equal those of the dataset, if one is named.

    Raises:
        ConfigError: An option is invalid; nothing was written.
        PredictionsError: The file cannot be read, or has other rows than its evaluation.
    """
    options, console, path = options or ReportOptions(), console or Console(), Path(path)
    outputs = outputs_by_end(options.outputs, SCORE_OUTPUTS)
    files = [*outputs.values(), *(trn_files(outputs[".trn"]) if ".trn" in outputs else ())]
    check_not_inputs(files, [path, path.parent / _EVALUATION])
    opened = _open(path, options)
    about = opened.about
    model = options.model_name or str(about.get("model", ""))
    published = {LEADERBOARD, MODEL_INDEX} & set(outputs)
    if published:
        hub.check_publishable(options.settings, model, leaderboard=LEADERBOARD in published)
    shown = list(dict.fromkeys([*options.by, *MEASURES]))
    with console.status(f"scoring {escape(str(path))}"):
        scores = score_predictions(
            opened.rows,
            by=list(dict.fromkeys([*shown, hub.BY_CORPUS])) if published else shown,
            settings=options.settings,
            rows_in_split=opened.in_split,
            where=about.get("where"),
        )
        _check_rows(path, scores.rows, about)
        analysis = None
        if {".html", "errors.csv", "errors.jsonl"} & set(outputs):
            analysis = analyse_errors(opened.rows, settings=options.settings)
        # All texts are made before the first is written: a wrong --dataset leaves no half report.
        texts: dict[Path, str] = {}
        if MODEL_INDEX in outputs:
            texts[outputs[MODEL_INDEX]] = hub.model_index(scores, model)
        if LEADERBOARD in outputs:
            result = hub.complete_leaderboard(outputs[LEADERBOARD], scores, model)
            texts[outputs[LEADERBOARD]] = _json(result)
        scores = scores.only(shown)
        requested = scores.only(options.by)
        if ".json" in outputs:
            texts[outputs[".json"]] = _json(scores.to_dict())
        if ".csv" in outputs:
            texts[outputs[".csv"]] = to_csv(scores.to_pandas())
        if ".md" in outputs:
            texts[outputs[".md"]] = to_markdown(requested)
        if ".html" in outputs and analysis:
            texts[outputs[".html"]] = _page(opened, scores, analysis, options, console)
    print_scores(requested, console)
    _write(texts, console)
    for file in write_rows(outputs, opened.rows, options.settings, analysis):
        say(f"wrote {file}", console)
    return scores


def _page(
    opened: _Opened,
    scores: Scores,
    analysis: ErrorAnalysis,
    options: ReportOptions,
    console: Console,
) -> str:
    from danish_asr.report import page, run_history  # noqa: PLC0415 - slow: matplotlib

    about, path = opened.about, Path(opened.rows.path)
    run = options.run_dir or _run_of(path, about)
    dataset = options.dataset or _dataset_of(about)
    listed = [*analysis.worst[:_CLIPS], *analysis.worst_by_wer[:_CLIPS]]
    ids = {utterance.row.id for utterance in listed}
    return page.render_page(
        scores,
        analysis,
        about={"file": "/".join(Path(realpath(path)).parts[-2:])} | about,
        panels=run_history.read_panels(Path(run)) if run else [],
        clips=page.audio_clips(Path(dataset), ids, console) if dataset and options.audio else {},
    )


def compare_files(
    runs: Mapping[str, Sequence[Path]],
    options: ReportOptions | None = None,
    *,
    console: Console | None = None,
) -> Comparison:
    """Compare runs, each with a file per seed, with the first of them; print and write the tables.

    Files take what they lack from ``split`` of the dataset, as in `score_file`.
    """
    options, console = options or ReportOptions(), console or Console()
    files = list(chain(*runs.values()))
    outputs = outputs_by_end(options.outputs, COMPARE_OUTPUTS)
    evaluations = [file.parent / _EVALUATION for file in files]
    check_not_inputs(outputs.values(), [*files, *evaluations])
    opened = {str(file): _open(file, options) for file in files}
    comparison = compare_runs(
        {run: {str(file): opened[str(file)].rows for file in own} for run, own in runs.items()},
        by=options.by,
        settings=options.settings,
        rows_in_split={name: file.in_split for name, file in opened.items()},
        where={name: file.about.get("where") for name, file in opened.items()},
    )
    for name, rows in comparison.rows.items():
        _check_rows(name, rows, opened[name].about)
    for run, names in comparison.runs.items():
        say(f"{run}: {', '.join(names)}", console)
    for text in _different_models(files, [opened[str(file)].about for file in files]):
        warn(text, console)
    print_comparison(comparison, console)
    texts: dict[Path, str] = {}
    for end, path in outputs.items():
        if end == ".json":
            texts[path] = _json(comparison.to_dict())
        elif end == ".csv":
            texts[path] = to_csv(comparison.to_pandas())
        elif end == ".md":
            texts[path] = runs_markdown(comparison)
        else:
            texts[path] = runs_page(comparison)
    _write(texts, console)
    return comparison


def _open(path: Path, options: ReportOptions) -> _Opened:
    """Return the rows of a file, and of its split, with what it lacks from the dataset."""
    if path.is_fifo():
        raise PredictionsError(f"{path}: a pipe does not work; save it to a file first")
    file = path.parent / _EVALUATION
    about = dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}
    split, dataset = options.split, options.dataset
    if dataset is None:
        if split:
            raise ConfigError(["--split is one of a dataset; name it too: --dataset ROOT"])
        return _Opened(read_predictions(path), about, _rows(about, "rows_in_split"))
    splits: set[str] = set()
    only_hypotheses = True
    for _, row in read_valid_rows(path, PredictionsError):
        if row.get("split"):
            splits.add(str(row["split"]))
        only_hypotheses = only_hypotheses and not row.get("reference")
    others = [name for name in splits if not f"{split}_".startswith(f"{name}_")]
    if split and others:
        raise PredictionsError(
            f"{path}: has rows of split {', '.join(sorted(others))}, and --split is {split}"
        )
    references: dict[str, Row] = {}
    for name in [split] if split else sorted(splits) or ["test"]:
        references |= read_references(dataset, name)
    if only_hypotheses:  # evaluation.json is of another system
        about = {"dataset": str(dataset), "model": path.name.partition(".")[0]}
    in_split = _rows(about, "rows_in_split") or len(references)
    return _Opened(read_predictions(path, references), about, in_split)


def _different_models(files: Sequence[Path], abouts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a warning for each file of the first one's evaluation folder with another model."""
    models = [evaluated_model(about) for about in abouts]
    folders = [{file.parent, file.parent.parent} for file in files]
    for file, model, of_file in zip(files, models, folders, strict=True):
        if model != models[0] and of_file & folders[0]:
            yield (
                f"{files[0]} is of {models[0]}, but {file} of {model}: they differ in more than "
                "the decoder; evaluate the older one again"
            )


def _run_of(predictions: Path, about: Mapping[str, Any]) -> Path | None:
    """The run whose model was evaluated, also if it was moved; None: it is no run's, or gone."""
    if not about.get("run"):
        return None
    for parent in [*predictions.resolve().parents, *Path(about["run"]).parents]:
        if (parent / "metrics" / "train.jsonl").is_file():
            return parent
    return None


def _dataset_of(about: Mapping[str, Any]) -> Path | None:
    """The dataset that was evaluated, if it is on this machine."""
    root = about.get("dataset_root")
    return Path(root) if root and (Path(root) / VERSION_DIR).is_dir() else None


def _rows(about: Mapping[str, Any], key: str) -> int | None:
    rows = about.get(key)
    return sum(rows.values()) if rows else None


def _check_rows(predictions: AnyPath, rows: RowsUsed, about: Mapping[str, Any]) -> None:
    evaluated = _rows(about, "rows") or rows.in_split
    if rows.in_split is not None and rows.in_file > rows.in_split:
        fault = f"the split has {rows.in_split}"
    elif rows.where and rows.in_file != evaluated:
        fault = f"{evaluated} were evaluated, where {rows.where}"
    else:
        return
    raise PredictionsError(
        f"{predictions}: has {rows.in_file} rows, but {fault} ({_EVALUATION}); evaluate again"
    )


def _write(texts: Mapping[Path, str], console: Console) -> None:
    for path, text in texts.items():
        publish_text(path, text)
        say(f"wrote {path}", console)


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
