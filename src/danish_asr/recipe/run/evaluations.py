"""The evaluations of a run: which rows, decoder and checkpoint were evaluated.

In: a run's directory, or a predictions file. `Run.test` chooses the one that a directory means.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.base.config_tree import value_of
from danish_asr.base.errors import PredictionsError
from danish_asr.base.files import sha256_of
from danish_asr.recipe.config.schema import DecoderSection

PREDICTIONS: Final = "predictions.jsonl"
EVALUATION: Final = "evaluation.json"
"""What was evaluated, with the name and the SHA-256 of the predictions file beside it."""

PREDICTIONS_SHA256: Final = "predictions_sha256"
SHARE_PEOPLE: Final = "share_people"
"""Of an evaluation, as in the dataset's inventory."""

_KINDS: Final[Mapping[str, type]] = {
    "rows_in_split": dict,
    SHARE_PEOPLE: list,
    "run": str,
    "dataset_root": str,
}
"""What others compute with, and its type."""

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
        if self.about.get("checkpoint") == NO_CHECKPOINT:
            checkpoint = f"model {self.about.get('model')}"
        if step is not None:
            checkpoint += f", step {step}"
        return f"{self.rows}, decoder {self.decoder}, {checkpoint}"

    def with_path(self) -> str:
        """Return its file, and what was evaluated."""
        return f"{self.predictions} ({self.in_words()})"

    def is_of_test(self, *, is_trained: bool) -> bool:
        """Whether it is of the full test split of the run's own dataset, and of the run's model.

        In a directory without a training the model is whatever was evaluated there.
        """
        splits = self.about.get("rows_in_split")
        return (
            isinstance(splits, Mapping)
            and [*splits] == ["test"]
            and "where" not in self.about
            and not any("@" in part for part in self.predictions.parts[-4:])
            and not (is_trained and self.about.get("checkpoint") == NO_CHECKPOINT)
        )


class Choice(NamedTuple):
    """The evaluation that a run's directory stands for."""

    run: Path
    taken: Evaluation
    others: Sequence[Evaluation]  # that are of the test split too
    broken: Sequence[Evaluation]  # that may be
    newer_best: int | None  # the step of the best checkpoint, if an earlier best one was taken

    def in_words(self) -> str:
        """Return what was taken, and how to choose another."""
        line = f"evaluation of {self.run}: {self.taken.with_path()}"
        if self.newer_best is not None:
            line += f"; the best checkpoint is now step {self.newer_best}: evaluate again"
        if self.others:
            others = ", ".join(other.with_path() for other in self.others)
            line += f"; to take another, name its path: {others}"
        for one in self.broken:
            line += f"; not considered: {one.fault}"
        return line

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, paths as texts."""
        others = [str(other.predictions) for other in self.others]
        return {"run": str(self.run), "taken": str(self.taken.predictions), "others": others}


def read_evaluations(run: Path, config: Mapping[str, Any]) -> list[Evaluation]:
    """Return the finished evaluations of a run, those of its test split first, in order of choice.

    That by the run's own decoder, then by the best checkpoint is before others. One with a broken
    ``evaluation.json`` has a fault. ``config``: that of the run; empty where none was trained.
    """
    made = [
        _evaluation(file)
        for file in sorted((run / "eval").rglob(EVALUATION))
        if file.with_name(PREDICTIONS).is_file()
    ]
    decoder = str(value_of(config, "decoder.name") or DecoderSection.name)
    settings = value_of(config, "decoder.config") or {}

    def order(one: Evaluation) -> tuple[Any, ...]:
        other_settings = (value_of(one.about, "decoder.config") or {}) != settings
        checkpoint = one.about.get("checkpoint")
        labels = len(one.predictions.parts)
        return (
            not one.is_of_test(is_trained=bool(config)),
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


def read_evaluation(path: Path) -> dict[str, Any]:
    """Return an ``evaluation.json``; PredictionsError if it is broken."""
    advice = "evaluate again, or remove the file to score without it"
    try:
        about = dict(json.loads(path.read_text(encoding="utf-8")))
        json.dumps(about, ensure_ascii=False).encode()  # no half of a surrogate pair
    except (OSError, ValueError, TypeError) as error:
        raise PredictionsError(f"{path}: cannot be read as JSON ({error}); {advice}") from None
    values = {key: about.get(key) or kind() for key, kind in _KINDS.items()}
    wrong = [key for key, kind in _KINDS.items() if not isinstance(values[key], kind)]
    if not wrong and not all(isinstance(size, int) for size in values["rows_in_split"].values()):
        wrong = ["rows_in_split"]
    if wrong:
        raise PredictionsError(f"{path}: {', '.join(wrong)}: not what is written there; {advice}")
    return about


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
