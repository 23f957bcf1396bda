"""Scores and comparisons from Python, as ``danish-asr score`` and ``compare`` make them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import AnyPath
from danish_asr.report.files import compare_files, score_file
from danish_asr.report.outputs import ReportOptions
from danish_asr.scoring.comparison import Comparison, compare_runs
from danish_asr.scoring.predictions import Prediction, read_predictions
from danish_asr.scoring.scores import Scores, score_predictions
from danish_asr.scoring.settings import DEFAULT_BY, Settings


def score(
    predictions: AnyPath | Iterable[Prediction],
    *,
    by: str | Sequence[str] = DEFAULT_BY,
    dataset: AnyPath | None = None,
    split: str | None = None,
    **settings: Any,
) -> Scores:
    """Return WER and CER with 95 % intervals over speakers, overall and per group.

    Args:
        predictions: A ``predictions.jsonl``, a CSV, TSV or Parquet file with the same columns, or
            rows from `read_predictions`.
        by: A column to group by, or several; ``"age_group,gender"`` is the product of two,
            ``"age:18,25,50"`` has bands.
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
        return score_predictions(predictions, by=by, settings=chosen)
    options = ReportOptions(by=by, settings=chosen, dataset=dataset, split=split)
    return score_file(predictions, options, console=Console(quiet=True)).only(by)


def compare(
    *runs: AnyPath | Iterable[Prediction],
    by: str | Sequence[str] = DEFAULT_BY,
    dataset: AnyPath | None = None,
    split: str | None = None,
    **settings: Any,
) -> Comparison:
    """Return the differences between runs over the same rows and the first of them, A.

    `danish_asr.scoring.comparison.compare_runs` takes names, and several seeds of a run.

    Args:
        runs: Two or more, as for `score`; they are called A, B, ... Groups and speakers are A's.
        by: As for `score`.
        dataset: As for `score`.
        split: As for `score`.
        settings: As for `score`.

    Returns:
        Rates, and differences to A with intervals and p-values, as fractions; a negative difference
        has fewer errors than A. ``to_pandas()`` gives a line per group and run; a notebook shows it
        as a table.

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
    rows = [read_predictions(run) if isinstance(run, str | PathLike) else run for run in runs]
    named = {name: {name: own} for name, own in zip(names, rows, strict=True)}
    return compare_runs(named, by=by, settings=chosen)


def _listed(by: str | Sequence[str]) -> Sequence[str]:
    return [by] if isinstance(by, str) else by


def _settings(values: Mapping[str, Any]) -> Settings:
    names = [field.name for field in fields(Settings) if field.init]
    unknown = [name for name in values if name not in names]
    if unknown:
        expected = f"expected some of {', '.join(names)}"
        raise ConfigError([f"{name}: unknown; {expected}" for name in unknown], where="the call")
    return Settings(**values)
