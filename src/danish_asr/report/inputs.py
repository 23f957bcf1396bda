"""The predictions files that are scored, with their evaluations and the references they lack."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from os.path import realpath
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.base.files import AnyPath
from danish_asr.base.tables import Row, read_valid_rows
from danish_asr.recipe.run.run_directory import (
    EVALUATION,
    evaluated_model,
    evaluation_of,
)
from danish_asr.report.outputs import ReportOptions
from danish_asr.report.tables import say, warn
from danish_asr.scoring.digests import digests_of
from danish_asr.scoring.predictions import PooledFiles, Prediction, read_predictions
from danish_asr.scoring.references import read_reference_file, read_references


class OpenedFile(NamedTuple):
    """A predictions file, or several as one, and what is known of it."""

    rows: Iterable[Prediction]  # every iteration reads them again
    about: dict[str, Any]  # its evaluation.json, or what is known without it
    in_split: int | None


def input_paths(files: Sequence[Path], options: ReportOptions) -> list[AnyPath]:
    """Return all files that are read, which no output may replace."""
    references = [options.references] if options.references else []
    return [*files, *(file.parent / EVALUATION for file in files), *references]


def open_file(
    path: Path, options: ReportOptions, console: Console, *, alone: bool = True
) -> OpenedFile:
    """Return the rows of a file, and of its split, with what it lacks from the references.

    A file that is not ``alone`` has some of the rows.
    """
    if path.is_fifo():
        raise PredictionsError(f"{path}: a pipe does not work; save it to a file first")
    references = _references(path, options)
    rows = read_predictions(
        path, references, columns=options.columns, normalize=options.settings.normalizer()
    )
    about: dict[str, Any] = {}
    if (path.parent / EVALUATION).is_file():
        about = evaluation_of(path, digests_of(rows))
        if not about:
            other = f"{path.parent / EVALUATION} is of other predictions"
            say(f"{other}, so {path.name} is scored without it", console)
    if not about and references is not None and _has_only_hypotheses(path):
        dataset = str(options.dataset or options.references)
        about = {"dataset": dataset, "model": path.name.partition(".")[0]}
    in_split = sum((about.get("rows_in_split") or {}).values())
    if options.dataset is not None:
        in_split = in_split or len(references or ())
    elif alone and references and (missing := len(references) - sum(1 for _ in rows)):
        warn(f"{missing:,} of {len(references):,} references have no row in {path}", console)
    return OpenedFile(rows, about, in_split or None)


def open_files(paths: Sequence[Path], options: ReportOptions, console: Console) -> OpenedFile:
    """Return the rows of all files as one file, with what is true of each and all their counts."""
    uses = Counter(map(realpath, paths))
    twice = [f"{file} is given twice" for file, count in uses.items() if count > 1]
    if twice:
        raise ConfigError(twice, where="the list of files")
    alone = len(paths) == 1
    files = {str(path): open_file(path, options, console, alone=alone) for path in paths}
    first, *others = files.values()
    if not others:
        return first
    same = {*first.about}.intersection(*(file.about for file in others))
    about = {
        key: first.about[key]
        for key in first.about
        if key in same and all(file.about[key] == first.about[key] for file in others)
    }
    for key in {"rows", "rows_in_split"} & same:
        counts = (Counter(file.about[key]) for file in files.values())
        about[key] = dict(sum(counts, Counter()))
    rows = PooledFiles({name: file.rows for name, file in files.items()})
    return OpenedFile(rows, about, _rows_of_all(files.values()))


def _rows_of_all(files: Collection[OpenedFile]) -> int | None:
    """The rows of all splits together; None if a file does not say, and has no dataset's."""
    evaluated = [file.in_split for file in files if file.about.get("rows_in_split")]
    known = [rows for rows in (evaluated or (file.in_split for file in files)) if rows is not None]
    if len(known) < len(files):
        return None
    return sum(known) if evaluated else max(known)  # each has the rows of the dataset's split


def _references(path: Path, options: ReportOptions) -> dict[str, Row] | None:
    """Return the rows of the named file of references or split of the dataset; None if none is."""
    split, dataset = options.split, options.dataset
    if options.references is not None:
        if dataset is not None or split:
            raise ConfigError(["--references is in place of --dataset and --split; name one"])
        return read_reference_file(options.references, options.columns)
    if dataset is None:
        if split:
            raise ConfigError(["--split is one of a dataset; name it too: --dataset ROOT"])
        return None
    values = (row.get("split") for _, row in read_valid_rows(path, PredictionsError))
    splits = {str(value) for value in values if value}
    others = [name for name in splits if not f"{split}_".startswith(f"{name}_")]
    if split and others:
        raise PredictionsError(
            f"{path}: has rows of split {', '.join(sorted(others))}, and --split is {split}"
        )
    references: dict[str, Row] = {}
    for name in [split] if split else sorted(splits) or ["test"]:
        references |= read_references(dataset, name)
    return references


def _has_only_hypotheses(path: Path) -> bool:
    rows = read_valid_rows(path, PredictionsError)
    return not any(row.get("reference") for _, row in rows)


def evaluated_run(about: Mapping[str, Any]) -> Path | None:
    """Return the run of an evaluation; None for a model by its name."""
    return Path(about["run"]).parent if about.get("run") else None


def warn_of_other_models(opened: Mapping[str, OpenedFile], console: Console) -> None:
    """Warn of files in the first one's evaluation folder that are of another model of its run."""
    (first, base), *others = opened.items()
    model = evaluated_model(base.about)
    folders = {Path(first).parent, Path(first).parent.parent}
    for file, other in others:
        other_model = evaluated_model(other.about)
        if (
            evaluated_run(base.about) is not None
            and evaluated_run(base.about) == evaluated_run(other.about)
            and other_model != model
            and folders & {Path(file).parent, Path(file).parent.parent}
        ):
            warn(
                f"{first} is of {model}, but {file} of {other_model}: they differ in more than "
                "the decoder; evaluate the older one again",
                console,
            )
