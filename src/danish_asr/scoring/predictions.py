"""Read and write ``predictions.jsonl``: one JSON object per utterance of a split.

The evaluation recipe writes it; scoring and comparison read it. ``reference`` is the raw text of
the dataset and ``hypothesis`` the raw output of the model, so a file can be scored under any
normalisation profile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from danish_asr.errors import PredictionsError
from danish_asr.files import publish


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One utterance with its reference and hypothesis.

    ``duration`` is in seconds. An empty ``hypothesis`` is valid. Unknown metadata is None, and ""
    in a file. ``extra`` holds all other keys of the row (e.g. ``sub_dialect``), to group by.
    """

    id: str
    corpus: str
    split: str
    reference: str
    hypothesis: str
    duration: float
    speaker_id: str | None = None
    dialect: str | None = None
    age_group: str | None = None
    gender: str | None = None
    extra: Mapping[str, str | None] = field(default_factory=dict)


_TEXTS: Final = ("id", "corpus", "split", "reference", "hypothesis")
_OPTIONAL: Final = ("speaker_id", "dialect", "age_group", "gender")
_KEYS: Final = frozenset(f.name for f in fields(Prediction) if f.name != "extra")
_MAX_SECONDS: Final = 1e9


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
        PredictionsError: The file is missing or empty, an id occurs twice, or a line is invalid;
            the message names file and line. Raised while iterating.
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
    values: dict[str, Any] = {key: _label(row.get(key), key, where) for key in _OPTIONAL}
    try:
        for key in _TEXTS:
            values[key] = _text(row[key], key, where)
        values["duration"] = _seconds(row["duration"], where)
    except KeyError:
        missing = [key for key in (*_TEXTS, "duration") if key not in row]
        raise PredictionsError(f"{where}: missing {', '.join(missing)}") from None
    extra = {key: _extra(row[key], key, where) for key in row.keys() - _KEYS}
    return Prediction(**values, extra=extra)


def _text(value: Any, key: str, where: str) -> str:
    if isinstance(value, str):
        return value
    hint = ' (write "" for an empty hypothesis)' if key == "hypothesis" else ""
    raise PredictionsError(f"{where}: {key} must be a string, found {value!r:.40}{hint}")


def _label(value: Any, key: str, where: str) -> str | None:
    text = None if value is None else _text(value, key, where)
    return text if text and not text.isspace() else None


def _extra(value: Any, key: str, where: str) -> str | None:
    # Ages and flags are numbers in the file and labels of groups here.
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return _label(value, key, where)


def _seconds(value: Any, where: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MAX_SECONDS:
        return float(value)
    raise PredictionsError(f"{where}: expected a duration in seconds, found {value!r:.40}")
