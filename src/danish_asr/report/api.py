"""Scores and comparisons, from predictions files to tables, reports and Python objects.

`score` and `compare` are for Python; `score_file` and `compare_files` are the commands.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Final

import pandas as pd
from rich.console import Console
from rich.markup import escape

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import AnyPath, publish_text
from danish_asr.report.comparison_tables import (
    comparison_latex,
    comparison_markdown,
    comparison_page,
    print_comparison,
)
from danish_asr.report.inputs import input_paths, open_file, open_files, warn_of_other_models
from danish_asr.report.outputs import ReportOptions, outputs_by_end, write_rows
from danish_asr.report.tables import Terminal, print_scores, say, to_csv, to_markdown
from danish_asr.scoring import hub
from danish_asr.scoring.comparison import Comparison, compare_runs
from danish_asr.scoring.digests import digests_by_corpus
from danish_asr.scoring.error_analysis import ErrorCollector
from danish_asr.scoring.groupings import MEASURES
from danish_asr.scoring.predictions import (
    Prediction,
    to_predictions,
)
from danish_asr.scoring.scores import Scores, score_predictions
from danish_asr.scoring.settings import (
    COMPARE_OUTPUTS,
    DEFAULT_BY,
    LEADERBOARD,
    MODEL_INDEX,
    SCORE_OUTPUTS,
    Settings,
)

_CATEGORY_ROWS: Final = 2_500  # to twice as many are searched for error categories on the page


def score_file(
    path: AnyPath | Sequence[AnyPath],
    options: ReportOptions | None = None,
    *,
    console: Console | None = None,
) -> Scores:
    """Score ``path``, print the table of the groups, and write the outputs.

    Several files are scored as one, such as those of folds, which test each row once.

    JSON, CSV and the page also hold the scores by duration and by words per second. The references
    of a file must equal those of the dataset, if one is named.

    Raises:
        ConfigError: An option is invalid; nothing was written.
        PredictionsError: The file cannot be read, or has other rows than its evaluation.
    """
    options, console = options or ReportOptions(), console or Terminal()
    paths = [Path(name) for name in ([path] if isinstance(path, str | PathLike) else path)]
    outputs = outputs_by_end(options.outputs, SCORE_OUTPUTS, input_paths(paths, options))
    path, opened = paths[0], open_files(paths, options, console)
    about = opened.about
    model = options.model_name or str(about.get("model", ""))
    published = {LEADERBOARD, MODEL_INDEX} & set(outputs)
    if published:
        hub.check_publishable(options.settings, model, leaderboard=LEADERBOARD in published)
    shown = list(dict.fromkeys([*options.by, *MEASURES]))
    collector = _collector(outputs, options.settings)
    status = console.status(f"scoring {escape(str(path))}")
    with status if console.is_terminal else nullcontext():  # it prints at its end
        scores = score_predictions(
            opened.rows,
            by=list(dict.fromkeys([*shown, hub.BY_CORPUS])) if published else shown,
            settings=options.settings,
            rows_in_split=opened.in_split,
            where=about.get("where"),
            on_row=collector.add if collector else None,
        )
        analysis = collector.analysis() if collector else None
        # All texts are made before the first is written: a wrong --dataset leaves no half report.
        hashes = digests_by_corpus(opened.rows) if published else {}
        texts = _hub_texts(outputs, scores, model, hashes)
        scores = scores.only(shown)
        requested = scores.only(options.by)
        if ".json" in outputs:
            texts[outputs[".json"]] = _json({"files": [*map(str, paths)]} | scores.to_dict())
        if ".csv" in outputs:
            texts[outputs[".csv"]] = to_csv(scores.to_pandas())
        if ".md" in outputs:
            texts[outputs[".md"]] = to_markdown(requested)
        if ".html" in outputs and analysis:
            from danish_asr.report.page import score_page  # noqa: PLC0415 - slow: matplotlib

            page = score_page(path, scores, analysis, about=about, options=options, console=console)
            texts[outputs[".html"]] = page
    _write(texts)
    written = [*texts, *write_rows(outputs, opened.rows, options.settings, analysis)]
    # Files first: whatever reads what is printed, such as `head`, may end at any line.
    print_scores(requested, console)
    _say_what_was_written(written, console)
    return scores


def _collector(outputs: Mapping[str, Path], settings: Settings) -> ErrorCollector | None:
    if {"errors.csv", "errors.jsonl"} & set(outputs):
        return ErrorCollector(settings)
    return ErrorCollector(settings, at_most=_CATEGORY_ROWS) if ".html" in outputs else None


def _hub_texts(
    outputs: Mapping[str, Path], scores: Scores, model: str, hashes: hub.DigestsByCorpus
) -> dict[Path, str]:
    texts: dict[Path, str] = {}
    if MODEL_INDEX in outputs:
        texts[outputs[MODEL_INDEX]] = hub.model_index(scores, model, hashes)
    if LEADERBOARD in outputs:
        result = hub.complete_leaderboard(outputs[LEADERBOARD], scores, model, hashes)
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
    options, console = options or ReportOptions(), console or Terminal()
    files = list(chain(*runs.values()))
    outputs = outputs_by_end(options.outputs, COMPARE_OUTPUTS, input_paths(files, options))
    opened = {str(file): open_file(file, options, console) for file in files}
    comparison = compare_runs(
        {run: {str(file): opened[str(file)].rows for file in own} for run, own in runs.items()},
        by=options.by,
        settings=options.settings,
        rows_in_split={name: file.in_split for name, file in opened.items()},
        where={name: file.about.get("where") for name, file in opened.items()},
        all_pairs=options.all_pairs,
    )
    texts: dict[Path, str] = {}
    figures: list[Path] = []
    for end, path in outputs.items():
        if end == ".json":
            texts[path] = _json(comparison.to_dict())
        elif end == ".csv":
            texts[path] = to_csv(comparison.to_pandas())
        elif end == ".md":
            texts[path] = comparison_markdown(comparison)
        elif end == ".tex":
            texts[path] = comparison_latex(comparison)
        elif end == ".html":
            texts[path] = comparison_page(comparison)
        else:
            figures.append(path)
    _write(texts)
    for path in figures:
        from danish_asr.report.forest import save_forest_plot  # noqa: PLC0415 - slow: matplotlib

        save_forest_plot(comparison, path)
    for run, names in comparison.runs.items():
        say(f"{run}: {', '.join(names)}", console)
    warn_of_other_models(opened, console)
    print_comparison(comparison, console)
    _say_what_was_written([*texts, *figures], console)
    return comparison


def _write(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        publish_text(path, text)


def _say_what_was_written(files: Iterable[Path], console: Console) -> None:
    for file in files:
        say(f"wrote {file}", console)


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def score(
    predictions: AnyPath | Iterable[Prediction | Mapping[str, Any]] | pd.DataFrame,
    *,
    by: str | Sequence[str] | None = DEFAULT_BY,
    dataset: AnyPath | None = None,
    split: str | None = None,
    references: AnyPath | None = None,
    columns: Mapping[str, str] | None = None,
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
        references: In place of a dataset, a table of ids and references, or a ``trn``.
        columns: The names of columns in the file or the DataFrame, by the names that they have
            here: ``{"reference": "sentence", "hypothesis": "whisper"}``.
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
        return score_predictions(to_predictions(predictions, columns), by=by, settings=chosen)
    options = ReportOptions(
        by=by,
        settings=chosen,
        dataset=dataset,
        split=split,
        references=references,
        columns=columns or {},
    )
    return score_file(predictions, options, console=Console(quiet=True)).only(by)


def compare(
    *runs: AnyPath | Iterable[Prediction | Mapping[str, Any]] | pd.DataFrame,
    by: str | Sequence[str] | None = DEFAULT_BY,
    dataset: AnyPath | None = None,
    split: str | None = None,
    references: AnyPath | None = None,
    columns: Mapping[str, str] | None = None,
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
        options = ReportOptions(
            by=by,
            settings=chosen,
            dataset=dataset,
            split=split,
            references=references,
            columns=columns or {},
        )
        return compare_files(files, options, console=Console(quiet=True))
    named = {
        name: {name: to_predictions(run, columns)} for name, run in zip(names, runs, strict=True)
    }
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
