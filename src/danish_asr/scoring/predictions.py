"""Read and write ``predictions.jsonl``: one JSON object per utterance of a split.

Its texts are not normalised, so that a file can be scored under any profile.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from sys import intern
from typing import Any, Final

from danish_asr.errors import PredictionsError
from danish_asr.files import publish


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One utterance with its reference and hypothesis; unknown metadata is None."""

    id: str
    corpus: str
    split: str
    reference: str
    hypothesis: str
    duration: float  # in seconds
    speaker_id: str | None = None
    dialect: str | None = None
    age_group: str | None = None
    gender: str | None = None
    extra: Mapping[str, str | None] = field(default_factory=dict)  # all other keys of the row


_TEXTS: Final = ("id", "corpus", "split", "reference", "hypothesis")
_OPTIONAL: Final = ("speaker_id", "dialect", "age_group", "gender")


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> int:
    """Write a file atomically and return the number of rows written."""
    rows = 0
    with publish(path) as stream:
        for prediction in predictions:
            row = asdict(prediction)
            row |= row.pop("extra")
            stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            rows += 1
    return rows


def read_predictions(path: Path) -> Iterator[Prediction]:
    """Yield the rows of a predictions file.

    Raises:
        PredictionsError: The file is missing or empty, an id occurs twice, or a line is invalid.
    """
    first_line: dict[str, int] = {}
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                prediction = _parse(line, f"{path}:{number}")
                earlier = first_line.setdefault(prediction.id, number)
                if earlier != number:
                    raise PredictionsError(
                        f"{path}:{number}: duplicate id {prediction.id!r}, first seen on line "
                        f"{earlier}; keep one prediction per utterance"
                    )
                yield prediction
    except OSError as error:
        raise PredictionsError(
            f"{path}: {error.strerror}; expected the predictions.jsonl of an evaluation"
        ) from error
    if not first_line:
        raise PredictionsError(f"{path}: the file is empty; expected one JSON object per line")


def _parse(line: bytes, where: str) -> Prediction:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise PredictionsError(f"{where}: not JSON in UTF-8 ({error})") from None
    if not isinstance(row, dict):
        raise PredictionsError(f"{where}: expected a JSON object, found {type(row).__name__}")
    if missing := [key for key in (*_TEXTS, "duration") if key not in row]:
        raise PredictionsError(f"{where}: missing {', '.join(missing)}")
    values: dict[str, Any] = {key: row.pop(key) for key in _TEXTS}
    for key, text in values.items():
        if not isinstance(text, str):
            raise PredictionsError(f"{where}: {key} must be a string, found {text!r:.40}")
    seconds = row.pop("duration")
    if not isinstance(seconds, int | float) or not 0 <= seconds < inf:  # false for NaN
        raise PredictionsError(f"{where}: expected a duration in seconds, found {seconds!r:.40}")
    values |= {key: _label(row.pop(key, None), key, where) for key in _OPTIONAL}
    extra = {key: _label(value, key, where) for key, value in row.items()}
    return Prediction(**values, duration=float(seconds), extra=extra)


def _label(value: Any, key: str, where: str) -> str | None:
    if isinstance(value, bool | int | float):
        value = json.dumps(value)  # ages and flags
    if value is None or isinstance(value, str):
        return intern(value) if value and not value.isspace() else None  # few values, many rows
    raise PredictionsError(f"{where}: {key} must be a string, found {value!r:.40}")
