"""Read and write ``predictions.jsonl``: one JSON object per utterance of a split.

Files of other tools are read too: CSV, TSV, Parquet, manifests of NeMo and sclite's trn. Texts are
not normalised, so that a file can be scored under any profile.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isfinite, isnan, nan
from os import PathLike
from pathlib import Path
from sys import intern
from typing import Any, Final
from unicodedata import normalize

from danish_asr.base.errors import PredictionsError
from danish_asr.base.files import AnyPath, publish
from danish_asr.base.tables import TRN, Row, read_valid_rows, suffix_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One utterance with its reference and hypothesis; what is unknown is None.

    `danish_asr.decoding.likelihood` defines loss and confidence.
    """

    id: str
    reference: str
    hypothesis: str
    corpus: str | None = None
    split: str | None = None
    duration: float | None = None  # in seconds
    loss: float | None = None  # of the reference, in nats per character; None if it is too long
    confidence: float | None = None  # in the hypothesis, 0 to 1
    seconds_per_character: float | None = None  # of the reference
    speaker_id: str | None = None
    dialect: str | None = None
    age_group: str | None = None
    gender: str | None = None
    extra: Mapping[str, str | None] = field(default_factory=dict)  # all other keys of the row


_TEXTS: Final = ("id", "reference", "hypothesis")
_OPTIONAL: Final = ("corpus", "split", "speaker_id", "dialect", "age_group", "gender")
COLUMNS: Final = (*_TEXTS, "duration", *_OPTIONAL)
"""What a column of a file can be read as."""

MEASURES: Final = ("loss", "confidence", "seconds_per_character")
"""What an evaluation measures of each row."""

_HYPOTHESIS: Final = ("hypothesis", "prediction", "pred", "pred_text")
_OTHER_NAMES: Final = {"reference": "text", "id": "audio_filepath"}  # as in NeMo
_LISTED: Final = 5  # ids in an error message


def write_predictions(path: AnyPath, predictions: Iterable[Prediction]) -> int:
    """Write a file atomically and return the number of rows written."""
    rows = 0
    with publish(Path(path)) as stream:
        for prediction in predictions:
            stream.write(json.dumps(to_row(prediction), ensure_ascii=False).encode() + b"\n")
            rows += 1
    return rows


def to_row(prediction: Prediction) -> Row:
    """Return a prediction as the JSON object of its line."""
    row: Row = asdict(prediction)
    row |= row.pop("extra")
    if all(row[name] is None for name in MEASURES):  # not measured
        row = {name: value for name, value in row.items() if name not in MEASURES}
    return row


@dataclass(frozen=True, slots=True)
class PredictionsFile:
    """The rows of a predictions file; every iteration reads it again."""

    path: AnyPath
    references: Mapping[str, Row] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    normalize: Callable[[str], str] = str

    def __iter__(self) -> Iterator[Prediction]:
        first_line: dict[str, int] = {}
        unknown: list[str] = []
        different: list[str] = []
        _check_is_file(Path(self.path))
        is_trn = suffix_of(Path(self.path)) == TRN
        for number, row in read_valid_rows(Path(self.path), PredictionsError):
            location = f"{self.path}:{number}"
            if is_trn:
                row["hypothesis"] = row.pop("text")
            columns = self.columns
            if self.references is not None:  # which may have the other columns
                columns = {k: n for k, n in columns.items() if k == "hypothesis" or n in row}
            rename_columns(row, location, columns)
            if self.references is not None:
                require(row, ("id", "hypothesis"), location)
                of_dataset = self.references.get(str(row["id"]))
                if of_dataset is None:
                    unknown.append(f"{location}: id {row['id']!r:.80}")
                    continue
                reference, expected = row.get("reference"), of_dataset["reference"]
                if reference and not self._same(str(reference), expected):
                    texts = f"{reference!r:.80}, expected {expected!r:.80}"
                    different.append(f"{location}: id {row['id']!r:.80}: {texts}")
                    continue
                row["reference"] = expected
                row |= {key: text for key, text in of_dataset.items() if row.get(key) in (None, "")}
            prediction = from_row(row, location)
            if not prediction.id.strip():
                raise PredictionsError(f"{location}: the id is empty")
            earlier = first_line.setdefault(prediction.id, number)
            if earlier != number:
                raise PredictionsError(
                    f"{location}: duplicate id {prediction.id!r}, first seen on line {earlier}"
                )
            yield prediction
        _refuse("ids are not in this split of the dataset, or the file of references:", unknown)
        _refuse("references differ from the given ones; leave out the column:", different)
        if not first_line:
            raise PredictionsError(f"{self.path}: the file has no rows; expected one per utterance")

    def _same(self, reference: str, expected: str) -> bool:
        return reference == expected or self.normalize(reference) == self.normalize(expected)


@dataclass(frozen=True, slots=True)
class PooledFiles:
    """The rows of several files, in which each id occurs once."""

    files: Mapping[str, Iterable[Prediction]]

    def __iter__(self) -> Iterator[Prediction]:
        file_of: dict[str, str] = {}
        for name, rows in self.files.items():
            for prediction in rows:
                earlier = file_of.setdefault(prediction.id, name)
                if earlier != name:
                    raise PredictionsError(
                        f"{name}: id {prediction.id!r} is in {earlier} too; files that are "
                        "scored as one test each row once. `danish-asr compare` takes several runs "
                        "on the same rows"
                    )
                yield prediction


def read_predictions(
    path: AnyPath,
    references: Mapping[str, Row] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    normalize: Callable[[str], str] = str,
) -> PredictionsFile:
    """Return the rows of a predictions file: JSON lines, CSV, TSV, Parquet, or trn.

    They are read when they are iterated over, each time again. A row takes its reference, and what
    it lacks of metadata, from ``references`` (`danish_asr.scoring.references`); a reference of its
    own must be the same text after ``normalize``. ``columns`` has the file's name of a column by
    the name that it has here, such as ``{"reference": "sentence"}``.

    Raises:
        PredictionsError: At the iteration: the file is missing or empty, an id occurs twice or is
            unknown, a reference differs, or a line is invalid.
    """
    return PredictionsFile(path, references, columns or {}, normalize)


def _check_is_file(path: Path) -> None:
    if path.exists() and not path.is_dir():
        return
    predictions = ", ".join(map(str, sorted(path.glob("**/predictions.jsonl"))))
    hint = f"; in it are {predictions}" if predictions else ""
    raise PredictionsError(
        f"{path}: no such file; expected the predictions.jsonl of an evaluation{hint}"
    )


def _refuse(message: str, faults: Sequence[str]) -> None:
    if faults:
        hidden = ["..."] if len(faults) > _LISTED else []
        lines = [f"{len(faults)} {message}", *faults[:_LISTED], *hidden]
        raise PredictionsError("\n  ".join(lines))


def to_predictions(rows: Any, columns: Mapping[str, str] | None = None) -> Iterator[Prediction]:
    """Yield the rows of a file, a DataFrame, or an iterable of dicts or predictions.

    ``columns`` is as in `read_predictions`.

    Raises:
        PredictionsError: It is something else, or a row is invalid; rows count from 1.
    """
    if isinstance(rows, str | PathLike):
        rows = read_predictions(rows, columns=columns)
    if hasattr(rows, "itertuples"):  # a DataFrame, whose missing values are NaN
        rows = rows.astype(object).where(rows.notna(), None).to_dict("records")
    if not isinstance(rows, Iterable) or isinstance(rows, Mapping):
        raise PredictionsError(
            "expected a file, a DataFrame, or a list of dicts or predictions, found "
            f"{type(rows).__name__}"
        )
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Prediction):
            yield row
        elif isinstance(row, Mapping):
            values, location = dict(row), f"row {number}"
            rename_columns(values, location, columns or {})
            yield from_row(values, location)
        else:
            raise PredictionsError(
                f"row {number}: expected a dict or a prediction, found {type(row).__name__}"
            )


def from_row(row: Row, location: str) -> Prediction:
    """Build a prediction from the JSON object of its line; a fault is reported at ``location``."""
    require(row, _TEXTS, location)
    values: dict[str, Any] = {key: row.pop(key) for key in _TEXTS}
    if type(values["id"]) is int:
        values["id"] = str(values["id"])
    for key, text in values.items():
        if not isinstance(text, str):
            raise PredictionsError(f"{location}: {key} must be a string, found {text!r:.40}")
    seconds = _seconds(row.pop("duration", None), location)
    values |= {key: _label(row.pop(key, None), key, location) for key in _OPTIONAL}
    values |= {key: _pop_number(row, key) for key in MEASURES}
    extra = {key: _text(value, key, location) for key, value in row.items()}
    return Prediction(**values, duration=seconds, extra=extra)


def rename_columns(row: Row, location: str, columns: Mapping[str, str]) -> None:
    """Give the columns their names here: the requested ones, and those that other tools write."""
    twice = [name for name, count in Counter(columns.values()).items() if count > 1]
    if twice:
        fault = f"the column {', '.join(twice)} is named for two; name each column once"
        raise PredictionsError(f"{location}: {fault}")
    absent = [name for name in columns.values() if name not in row]
    if absent:
        found = ", ".join(map(repr, row))
        raise PredictionsError(f"{location}: no column {', '.join(absent)}; found {found}")
    row |= {key: row.pop(name) for key, name in columns.items()}
    names = [name for name in _HYPOTHESIS if name in row]
    if len(names) > 1 and "hypothesis" not in columns:
        fault = f"found {' and '.join(names)}; name the one to score: --columns hypothesis=NAME"
        raise PredictionsError(f"{location}: {fault}")
    if names and "hypothesis" not in row:
        row["hypothesis"] = row.pop(names[0])
    for key, name in _OTHER_NAMES.items():
        if key not in row and name in row and "hypothesis" in row:
            row[key] = row.pop(name)


def require(row: Row, keys: Sequence[str], location: str) -> None:
    """Refuse a row without one of these columns."""
    missing = [key for key in keys if key not in row]
    if missing:
        hint = f"found {', '.join(map(repr, row))}"
        if missing == ["reference"]:
            hint += "; name what has the references: --references FILE, or --dataset ROOT"
        elif set(",;\t").intersection("".join(row)):
            hint += "; is the separator wrong? A CSV has commas or semicolons, a TSV tabs"
        else:
            hint += f"; give its name in the file: --columns {missing[0]}=NAME"
        raise PredictionsError(f"{location}: missing {', '.join(missing)}; {hint}")


def _seconds(value: Any, location: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1
    if not 0 <= seconds < inf:  # so NaN is refused, too
        raise PredictionsError(f"{location}: expected a duration in seconds, found {value!r:.40}")
    return seconds


def _pop_number(row: Row, key: str) -> float | None:
    """Take a number out of the row; anything else stays, as other tools have such columns too."""
    value = row.get(key)
    try:
        number = nan if value is None else float(value)
    except (TypeError, ValueError):
        return None
    row.pop(key, None)
    return number if isfinite(number) else None


def _text(value: Any, key: str, location: str) -> str | None:
    if isinstance(value, bytes):
        return None
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    if value is None or isinstance(value, str | bool | int | float):
        return _label(value, key, location)
    return str(value)


def _plain(value: Any) -> str | None:
    return None if isinstance(value, bytes) else str(value)  # audio in Parquet is not kept


def _label(value: Any, key: str, location: str) -> str | None:
    if isinstance(value, str):
        value = normalize("NFC", value.strip())  # one label, however it is typed
        return intern(value) if value else None  # few values, many rows
    if value is None or (isinstance(value, float) and isnan(value)):
        return None
    if isinstance(value, bool | int | float):
        return intern(json.dumps(value))  # ages and flags
    raise PredictionsError(f"{location}: {key} must be a string, found {value!r:.40}")
