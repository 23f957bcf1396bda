"""Scores and comparisons, from predictions files to tables, reports and Python objects.

`score` and `compare` are for Python; `score_file` and `compare_files` are the commands.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
from rich.console import Console
from rich.markup import escape

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.base.files import AnyPath, publish_text
from danish_asr.base.tables import Row, read_valid_rows
from danish_asr.recipe.run.run_directory import evaluated_model, read_evaluation
from danish_asr.report.comparison_tables import (
    comparison_markdown,
    comparison_page,
    print_comparison,
)
from danish_asr.report.outputs import ReportOptions, outputs_by_end, write_rows
from danish_asr.report.tables import print_scores, say, to_csv, to_markdown, warn
from danish_asr.scoring import hub
from danish_asr.scoring.comparison import Comparison, compare_runs
from danish_asr.scoring.error_analysis import analyse_errors
from danish_asr.scoring.groupings import MEASURES
from danish_asr.scoring.predictions import (
    Prediction,
    PredictionsFile,
    read_predictions,
    read_references,
    to_predictions,
)
from danish_asr.scoring.scored_rows import RowsUsed
from danish_asr.scoring.scores import Scores, score_predictions
from danish_asr.scoring.settings import (
    COMPARE_OUTPUTS,
    DEFAULT_BY,
    LEADERBOARD,
    MODEL_INDEX,
    SCORE_OUTPUTS,
    Settings,
)

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
    outputs = outputs_by_end(options.outputs, SCORE_OUTPUTS, [path, path.parent / _EVALUATION])
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
        texts = _hub_texts(outputs, scores, model)
        scores = scores.only(shown)
        requested = scores.only(options.by)
        if ".json" in outputs:
            texts[outputs[".json"]] = _json(scores.to_dict())
        if ".csv" in outputs:
            texts[outputs[".csv"]] = to_csv(scores.to_pandas())
        if ".md" in outputs:
            texts[outputs[".md"]] = to_markdown(requested)
        if ".html" in outputs and analysis:
            from danish_asr.report.page import score_page  # noqa: PLC0415 - slow: matplotlib

            page = score_page(path, scores, analysis, about=about, options=options, console=console)
            texts[outputs[".html"]] = page
    print_scores(requested, console)
    _write(texts, console)
    for file in write_rows(outputs, opened.rows, options.settings, analysis):
        say(f"wrote {file}", console)
    return scores


def _hub_texts(outputs: Mapping[str, Path], scores: Scores, model: str) -> dict[Path, str]:
    texts: dict[Path, str] = {}
    if MODEL_INDEX in outputs:
        texts[outputs[MODEL_INDEX]] = hub.model_index(scores, model)
    if LEADERBOARD in outputs:
        result = hub.complete_leaderboard(outputs[LEADERBOARD], scores, model)
        texts[outputs[LEADERBOARD]] = _json(result)
    return texts


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
    evaluations = [file.parent / _EVALUATION for file in files]
    outputs = outputs_by_end(options.outputs, COMPARE_OUTPUTS, [*files, *evaluations])
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
    _warn_of_other_models(opened, console)
    print_comparison(comparison, console)
    texts: dict[Path, str] = {}
    for end, path in outputs.items():
        if end == ".json":
            texts[path] = _json(comparison.to_dict())
        elif end == ".csv":
            texts[path] = to_csv(comparison.to_pandas())
        elif end == ".md":
            texts[path] = comparison_markdown(comparison)
        else:
            texts[path] = comparison_page(comparison)
    _write(texts, console)
    return comparison


def _open(path: Path, options: ReportOptions) -> _Opened:
    """Return the rows of a file, and of its split, with what it lacks from the dataset."""
    if path.is_fifo():
        raise PredictionsError(f"{path}: a pipe does not work; save it to a file first")
    file = path.parent / _EVALUATION
    about = read_evaluation(file) if file.is_file() else {}
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


def _warn_of_other_models(opened: Mapping[str, _Opened], console: Console) -> None:
    """Warn of files in the first one's evaluation folder that are of another model."""
    (first, base), *others = opened.items()
    model = evaluated_model(base.about)
    folders = {Path(first).parent, Path(first).parent.parent}
    for file, other in others:
        other_model = evaluated_model(other.about)
        if other_model != model and folders & {Path(file).parent, Path(file).parent.parent}:
            warn(
                f"{first} is of {model}, but {file} of {other_model}: they differ in more than "
                "the decoder; evaluate the older one again",
                console,
            )


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


def score(
    predictions: AnyPath | Iterable[Prediction | Mapping[str, Any]] | pd.DataFrame,
    *,
    by: str | Sequence[str] | None = DEFAULT_BY,
    dataset: AnyPath | None = None,
    split: str | None = None,
    **settings: Any,
) -> Scores:
    """Return WER and CER with 95 % intervals over speakers, overall and per group.

    Args:
        predictions: A ``predictions.jsonl``, a CSV, TSV or Parquet file with the same columns, or
            rows from `read_predictions`, a DataFrame, or dicts with these columns.
        by: A column to group by, or several; ``"age_group,gender"`` is the product of two,
            ``"age:18,25,50"`` has bands; None has no groups.
        dataset: The root of the dataset that has references and groups for a file of ``id`` and
            ``hypothesis``.
        split: The split of that dataset; None takes that of the file's rows, or ``test``.
        settings: The fields of `Settings`, such as ``profile="rye"``.

    Returns:
        Rates as fractions, not per cent, with the settings and the rows used. ``to_pandas()`` gives
        a line per group; a notebook shows it as a table.

    Raises:
        ConfigError: A setting or a column is unknown.
        PredictionsError: The file cannot be read or breaks its contract, or has no row to score.
        DatasetError: There is no such dataset or split.
    """
    by, chosen = _listed(by), _settings(settings)
    if not isinstance(predictions, str | PathLike):
        return score_predictions(to_predictions(predictions), by=by, settings=chosen)
    options = ReportOptions(by=by, settings=chosen, dataset=dataset, split=split)
    return score_file(predictions, options, console=Console(quiet=True)).only(by)


def compare(
    *runs: AnyPath | Iterable[Prediction | Mapping[str, Any]] | pd.DataFrame,
    by: str | Sequence[str] | None = DEFAULT_BY,
    dataset: AnyPath | None = None,
    split: str | None = None,
    **settings: Any,
) -> Comparison:
    """Return the differences between runs over the same rows and the first of them, A.

    Runs are called A, B, ...; groups and speakers are A's. All arguments are as for `score`. Rates
    and differences are fractions; a negative difference has fewer errors than A. For names, and
    several seeds of a run, see `danish_asr.scoring.comparison.compare_runs`.

    Raises:
        ConfigError: A setting or a column is unknown.
        PredictionsError: A file cannot be read, or the runs have different rows or references.
        DatasetError: There is no such dataset or split.
    """
    by, chosen = _listed(by), _settings(settings)
    names = [chr(ord("A") + number) for number in range(len(runs))]
    paths = [Path(run) for run in runs if isinstance(run, str | PathLike)]
    if len(paths) == len(runs):
        files = {name: [path] for name, path in zip(names, paths, strict=True)}
        options = ReportOptions(by=by, settings=chosen, dataset=dataset, split=split)
        return compare_files(files, options, console=Console(quiet=True))
    named = {name: {name: to_predictions(run)} for name, run in zip(names, runs, strict=True)}
    return compare_runs(named, by=by, settings=chosen)


def _listed(by: str | Sequence[str] | None) -> Sequence[str]:
    if by is None or isinstance(by, str):
        return [] if by is None else [by]
    if not isinstance(by, Sequence) or not all(isinstance(name, str) for name in by):
        faults = [f"by: expected the names of columns, such as 'dialect'; found {by!r:.40}"]
        raise ConfigError(faults, where="the call")
    return by


def _settings(values: Mapping[str, Any]) -> Settings:
    names = [field.name for field in fields(Settings) if field.init]
    unknown = [name for name in values if name not in names]
    if unknown:
        faults = [f"{name}: unknown; expected some of {', '.join(names)}" for name in unknown]
        raise ConfigError(faults, where="the call")
    return Settings(**values)
