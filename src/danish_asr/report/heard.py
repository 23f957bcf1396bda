"""What models have transcribed of a dataset's rows, and the rows that they were trained on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from danish_asr.base.config_tree import read_yaml
from danish_asr.base.errors import DanishAsrError, PredictionsError
from danish_asr.base.schema import CARDS_DIR, INVENTORY_FILE
from danish_asr.recipe.config.load import load
from danish_asr.recipe.data.rows import training_rows
from danish_asr.recipe.models.cards import Assets
from danish_asr.recipe.run.run_directory import (
    CONFIG_FILE,
    EVALUATION,
    PREDICTIONS,
    best_step,
    meant_checkpoint,
    read_evaluation,
)
from danish_asr.report.inputs import evaluated_run
from danish_asr.scoring.predictions import Prediction, read_predictions

Key = tuple[str, str]
"""Id and text: an id alone may be that of another row in another dataset."""


class Heard(NamedTuple):
    """What one model heard of the dataset's rows."""

    model: Path
    rows: dict[str, Prediction]
    trained_on: set[Key] | None  # None: it cannot be told

    def seen(self) -> set[str]:
        """The ids of the rows that it was trained on."""
        trained = self.trained_on or set()
        return {row.id for row in self.rows.values() if (row.id, row.reference) in trained}


def hear(model: Path, root: Path, numbers: Mapping[Key, int]) -> Heard:
    """Read what a model has transcribed of a dataset's rows, as they are now.

    Args:
        model: A run, of which the best model's evaluations come first; one evaluation; or
            predictions.
        root: The dataset.
        numbers: The dataset's rows.

    Raises:
        PredictionsError: There is nothing of the dataset's rows.
    """
    if not model.exists():
        raise PredictionsError(f"{model}: no such run or file; expected a run, or predictions")
    if (model / INVENTORY_FILE).is_file():
        raise PredictionsError(f"{model}: is a dataset, not a run; expected a run, or predictions")
    groups = list(_evaluations(model))
    for files in groups:
        rows = {
            row.id: row
            for file in files
            for row in read_predictions(file)
            if (row.id, row.reference) in numbers
        }
        if rows:
            run = _run_of(model, files[0])
            return Heard(model, rows, _trained_on(run, root) if run else None)
    seen = [file for files in groups for file in files]
    raise PredictionsError(
        f"{model}: expected an evaluation of rows of {root}, and {_found(model, seen)}"
    )


def _evaluations(model: Path) -> Iterator[Sequence[Path]]:
    """Yield the files of each model below a run, without a language model; the best one's first."""
    if model.is_file():
        yield [model]
    elif (model / PREDICTIONS).is_file():
        yield [model / PREDICTIONS]
    else:
        folders = [model] if model.parent.name == "eval" else sorted(model.glob("eval/*"))
        for folder in sorted(folders, key=lambda path: path.name != "best"):
            files = sorted(folder.glob(f"**/{PREDICTIONS}"))
            if greedy := [file for file in files if _greedy(file)]:
                yield greedy


def _greedy(predictions: Path) -> bool:
    file = predictions.parent / EVALUATION
    return file.is_file() and "decoder" not in read_evaluation(file)


def _run_of(model: Path, predictions: Path) -> Path | None:
    """The run that was evaluated: ``model`` itself, wherever it is now, if it has a run's files."""
    file = predictions.parent / EVALUATION
    about = read_evaluation(file) if file.is_file() else {}
    run = evaluated_run(about)
    return model if run and (model / CONFIG_FILE).is_file() else run


def _found(model: Path, files: Iterable[Path]) -> str:
    """Say what there is in place of the rows, and the command that makes them if there is one."""
    seen = {}
    for file in files:
        path = file.parent / EVALUATION
        about = read_evaluation(path) if path.is_file() else {}
        seen[file] = f" (of dataset {about['dataset']})" if about.get("dataset") else ""
    run = next((_run_of(model, file) for file in seen), model)
    command = ""
    if run and run.is_dir() and best_step(run):
        command = f": danish-asr evaluate {quote(str(run))} evaluator.split=train"
    if seen:
        return f"has none in {', '.join(f'{file}{of}' for file, of in seen.items())}{command}"
    if command:
        return f"the run has not transcribed any{command}"
    return "it has no evaluation and no checkpoint; name a run, an evaluation or predictions"


def _trained_on(run: Path, root: Path) -> set[Key] | None:
    """Return the rows that a run, and those that it began with, were trained on.

    None: its configuration or its dataset is gone.
    """
    if not (run / CONFIG_FILE).is_file():
        return None
    trained: set[Key] = set()
    while (file := run / CONFIG_FILE).is_file():
        config = load(read_yaml(file), where=str(file))
        config.common.assets.extra_paths = [*config.common.assets.extra_paths, root / CARDS_DIR]
        try:
            assets = Assets(config.common.assets)
            card = assets.find("dataset.name", str(config.dataset.name))
            dataset = assets.open_dataset(config.dataset, card)
            indexes = [training_rows(dataset, stage) for stage in config.stages().values()]
        except DanishAsrError:  # the dataset is gone, or has changed
            return None
        for index in indexes:
            columns = (index.rows[name] for name in ("id", "text"))
            trained.update(zip(*columns, strict=True))
        if config.model.path is None:
            break
        path = Path(config.model.path)
        run, _ = meant_checkpoint(path) or (path, 0)
    return trained
