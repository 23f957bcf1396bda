"""Read and write ``predictions.jsonl``: one JSON object a line, one line per utterance of a split.

The evaluation recipe writes it and everything that scores reads it. ``reference`` is the raw text
of the dataset and ``hypothesis`` the raw output of the model; no number depends on how either was
normalised before it was written, because neither was.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from danish_asr.errors import PredictionsError
from danish_asr.files import publish


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One utterance with what was said and what was heard.

    ``duration`` is in seconds. An empty ``hypothesis`` is a hypothesis: the model heard nothing.
    Metadata is None where it is unknown; an empty text in a file says the same.
    ``extra`` holds whatever else the file knows of a row (e.g. ``sub_dialect``), each a key of its
    own in the file, so that scores can be grouped by it.
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


_TEXT_KEYS: Final = ("id", "corpus", "split", "reference", "hypothesis")
_LONGEST: Final = 1e9
"""Seconds. No utterance lasts 30 years."""

_SHOWN: Final = 40
"""Characters of a wrong value that are told."""

_OPTIONAL_KEYS: Final = ("speaker_id", "dialect", "age_group", "gender")
KEYS: Final = tuple(f.name for f in fields(Prediction) if f.name != "extra")

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class _RepeatedKeyError(Exception):
    """An object of JSON has a key twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object of JSON; of two values of a key Python would drop the first in silence."""
    row = dict(pairs)
    if len(row) < len(pairs):
        times = Counter(key for key, _ in pairs)
        raise _RepeatedKeyError(_shown(times.most_common(1)[0][0]))
    return row


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object)


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> int:
    """Write atomically and return the number of rows written."""
    rows = 0
    with publish(path) as stream:
        for prediction in predictions:
            stream.write(json.dumps(_row(prediction), ensure_ascii=False).encode() + b"\n")
            rows += 1
    return rows


def read_predictions(path: Path) -> Iterator[Prediction]:
    """Yield the rows of a predictions file, checked.

    Raises:
        PredictionsError: The file is not there, is empty, or a line breaks the contract (the
            message names file and line). Raised while iterating, at the first such line.
    """
    first_line_of: dict[str, int] = {}
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                where = f"{path}:{number}"
                # Some editors put a byte order mark before the first line.
                prediction = _parse(line.removeprefix(BOM_UTF8) if number == 1 else line, where)
                earlier = first_line_of.setdefault(prediction.id, number)
                if earlier != number:
                    raise PredictionsError(
                        f"{where}: id {prediction.id!r} stands in line {earlier} already; "
                        "every utterance may be scored once"
                    )
                yield prediction
    except OSError as error:
        raise PredictionsError(
            f"{path}: {error.strerror}; expected the predictions.jsonl of an evaluation"
        ) from error
    if not first_line_of:
        raise PredictionsError(f"{path}: the file is empty; expected one JSON object a line")


def _row(prediction: Prediction) -> dict[str, Any]:
    row: dict[str, Any] = asdict(prediction)
    extra: dict[str, str | None] = row.pop("extra")
    if clash := sorted(extra.keys() & row.keys()):
        raise ValueError(f"extra may not hold {', '.join(clash)}: fields of Prediction")
    return row | extra


def _parse(line: bytes, where: str) -> Prediction:
    try:
        row = _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise PredictionsError(f"{where}: not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise PredictionsError(f"{where}: not JSON ({error.msg} at column {error.colno})") from None
    except _RepeatedKeyError as error:
        raise PredictionsError(
            f"{where}: the key {error} stands there twice; keep one of them"
        ) from None
    except (ValueError, RecursionError):
        # Python refuses integers of thousands of digits and gives up on deep nesting.
        raise PredictionsError(f"{where}: a number too long or a nesting too deep") from None
    if not isinstance(row, dict):
        raise PredictionsError(f"{where}: expected a JSON object, found {type(row).__name__}")
    if missing := [key for key in KEYS if key not in row and key not in _OPTIONAL_KEYS]:
        raise PredictionsError(f"{where}: missing {', '.join(missing)}")
    values: dict[str, Any] = {key: _text(row[key], key, where) for key in _TEXT_KEYS}
    values |= {key: _optional_text(row.get(key), key, where) for key in _OPTIONAL_KEYS}
    extra = {
        _text(key, "a key", where): _extra(row[key], key, where) for key in row.keys() - set(KEYS)
    }
    return Prediction(**values, duration=_seconds(row["duration"], where), extra=extra)


def _text(value: Any, key: str, where: str) -> str:
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise PredictionsError(f"{where}: {key} holds half a surrogate pair, which is no text")
        return value
    hint = ' (write "" where the model heard nothing)' if key == "hypothesis" else ""
    raise PredictionsError(f"{where}: {key} must be a string, found {_shown(value)}{hint}")


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def _optional_text(value: Any, key: str, where: str) -> str | None:
    text = None if value is None else _text(value, key, where)
    return text if text and not text.isspace() else None


def _extra(value: Any, key: str, where: str) -> str | None:
    # Ages and flags are numbers in the file and labels of groups here.
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return _optional_text(value, key, where)


def _seconds(value: Any, where: str) -> float:
    # A whole number of hundreds of digits has no float, and NaN is within no bounds.
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LONGEST:
        return float(value)
    raise PredictionsError(
        f"{where}: duration must be seconds from 0 to {_LONGEST:.0f}, found {_shown(value)}"
    )
