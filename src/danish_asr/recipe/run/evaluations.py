"""The evaluations of a run, and the one that its directory stands for.

In: a run's directory, or a predictions file. Out: which rows, decoder and checkpoint were
evaluated; the evaluation of the test split that its rates are of.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.base.config_tree import read_yaml, value_of
from danish_asr.base.errors import PredictionsError
from danish_asr.base.files import sha256_of
from danish_asr.recipe.config.schema import DecoderSection
from danish_asr.recipe.run.run_directory import (
    CONFIG_FILE,
    EVALUATION,
    PREDICTIONS,
    PREDICTIONS_SHA256,
    best_step,
)

BEST: Final = "best"
LAST: Final = "last"
NO_CHECKPOINT: Final = "none"
"""Names of what was evaluated: checkpoints of the run, or another model."""


class Evaluation(NamedTuple):
    """A finished evaluation of a run; ``about`` is its ``evaluation.json``."""

    predictions: Path
    about: Mapping[str, Any]
    fault: str = ""  # why ``about`` is empty, if it cannot be read

    @property
    def decoder(self) -> str:
        """The name of its decoder."""
        return str(value_of(self.about, "decoder.name") or DecoderSection.name)

    @property
    def rows(self) -> str:
        """Its split, and the condition if it is of some rows only, in words."""
        splits = self.about.get("rows_in_split")
        names = ", ".join(splits) if isinstance(splits, Mapping) and splits else "split unknown"
        where = self.about.get("where")
        return f"{names}, where {where}" if where else names

    def in_words(self) -> str:
        """Return what was evaluated."""
        if self.fault:
            return self.fault
        step = self.about.get("step")
        checkpoint = f"checkpoint {self.about.get('checkpoint')}"
        if step is not None:
            checkpoint += f", step {step}"
        return f"{self.rows}, decoder {self.decoder}, {checkpoint}"

    def is_of_test(self, run: Path) -> bool:
        """Whether it is of the full test split of the run's own dataset, and of the run's model.

        In a directory without a training the model is whatever was evaluated there.
        """
        splits = self.about.get("rows_in_split")
        is_of_training = (run / CONFIG_FILE).is_file()
        return (
            isinstance(splits, Mapping)
            and [*splits] == ["test"]
            and "where" not in self.about
            and not any("@" in part for part in self.predictions.parts[-4:])
            and not (is_of_training and self.about.get("checkpoint") == NO_CHECKPOINT)
        )


class Choice(NamedTuple):
    """The evaluation that a run's directory stands for."""

    run: Path
    taken: Evaluation
    others: Sequence[Evaluation]  # that are of the test split too
    broken: Sequence[Evaluation]  # that may be

    @property
    def newer_best(self) -> int | None:
        """The step of the run's best checkpoint, if an earlier best one was evaluated."""
        best = best_step(self.run)
        if self.taken.about.get("checkpoint") != BEST or best == self.taken.about.get("step"):
            return None
        return best

    def in_words(self) -> str:
        """Return what was taken, and how to choose another."""
        line = f"evaluation of {self.run}: {_named(self.taken)}"
        if self.newer_best is not None:
            line += f"; the best checkpoint is now step {self.newer_best}: evaluate again"
        if self.others:
            line += f"; to take another, name its path: {', '.join(map(_named, self.others))}"
        for one in self.broken:
            line += f"; not considered: {one.fault}"
        return line

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, paths as texts."""
        others = [str(other.predictions) for other in self.others]
        return {"run": str(self.run), "taken": str(self.taken.predictions), "others": others}


def evaluations(run: Path) -> list[Evaluation]:
    """Return the finished evaluations of a run, those of its test split first, in order of choice.

    That by the run's own decoder, then by the best checkpoint is before others. One with a broken
    ``evaluation.json`` has a fault.

    Raises:
        ConfigError: The run's configuration cannot be read.
    """
    made = [
        _evaluation(file)
        for file in sorted((run / "eval").rglob(EVALUATION))
        if file.with_name(PREDICTIONS).is_file()
    ]
    config = read_yaml(run / CONFIG_FILE) if (run / CONFIG_FILE).is_file() else {}
    decoder = str(value_of(config, "decoder.name") or DecoderSection.name)
    settings = value_of(config, "decoder.config") or {}

    def order(one: Evaluation) -> tuple[Any, ...]:
        other_settings = (value_of(one.about, "decoder.config") or {}) != settings
        checkpoint = one.about.get("checkpoint")
        labels = len(one.predictions.parts)
        return (
            not one.is_of_test(run),
            "where" in one.about,
            one.decoder != decoder,
            other_settings,
            checkpoint != BEST,
            checkpoint != LAST,
            labels,
        )

    return sorted(made, key=order)


def _evaluation(file: Path) -> Evaluation:
    predictions = file.with_name(PREDICTIONS)
    try:
        return Evaluation(predictions, read_evaluation(file))
    except PredictionsError as error:
        return Evaluation(predictions, {}, str(error))


def choose_test(run: Path) -> Choice:
    """Choose the evaluation of a run's test split.

    Raises:
        PredictionsError: There is none; the message names those of other rows.
        ConfigError: The run's configuration cannot be read.
    """
    made = evaluations(run)
    fitting = [one for one in made if one.is_of_test(run)]
    if fitting:
        return Choice(run, fitting[0], fitting[1:], [one for one in made if one.fault])
    fix = f"`danish-asr evaluate {run}` makes one of a run"
    if not made:
        raise PredictionsError(f"{run}: no evaluation in this directory; {fix}")
    lines = [_named(one) for one in made]
    fault = f"{run}: no evaluation of the full test split by the run's model; {fix}"
    raise PredictionsError("\n  ".join([f"{fault}. To score other rows, name a path:", *lines]))


def _named(one: Evaluation) -> str:
    return f"{one.predictions} ({one.in_words()})"


def choice_of(path: Path) -> Choice | None:
    """Return what a run's directory stands for; None for a file, or the directory of one.

    Raises what `choose_test` does.
    """
    if not path.is_dir() or (path / PREDICTIONS).is_file():
        return None
    return choose_test(path)


def predictions_of(path: Path) -> Path:
    """Return the predictions file that a path means; raises what `choose_test` does."""
    choice = choice_of(path)
    if choice:
        return choice.taken.predictions
    return path / PREDICTIONS if path.is_dir() else path


def read_evaluation(path: Path) -> dict[str, Any]:
    """Return an ``evaluation.json``; PredictionsError if it is broken."""
    advice = "evaluate again, or remove the file to score without it"
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise PredictionsError(f"{path}: cannot be read as JSON ({error}); {advice}") from None


def evaluation_of(predictions: Path) -> dict[str, Any]:
    """Return the ``evaluation.json`` beside a file; empty if there is none or it names another.

    PredictionsError if it is broken, or the file is not the one that was evaluated.
    """
    file = predictions.parent / EVALUATION
    if not file.is_file():
        return {}
    about = read_evaluation(file)
    if predictions.name != about.get("predictions", PREDICTIONS):
        return {}
    if about.get(PREDICTIONS_SHA256) != sha256_of(predictions):
        raise PredictionsError(
            f"{file}: {PREDICTIONS_SHA256} is not that of {predictions.name}, which was changed; "
            f"evaluate again, restore the file, or remove {EVALUATION} to score without it"
        )
    return about
