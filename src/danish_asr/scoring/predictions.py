"""Read and write ``predictions.jsonl``: one JSON object per utterance of a split.

References and metadata that a file lacks come from a built dataset.

Its texts are not normalised, so that a file can be scored under any profile.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isnan
from os import PathLike
from pathlib import Path
from sys import intern
from typing import Any, Final
from unicodedata import normalize

from danish_asr.base.errors import DatasetError, PredictionsError
from danish_asr.base.files import AnyPath, publish
from danish_asr.base.tables import Row, read_valid_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One utterance with its reference and hypothesis; what is unknown is None."""

    id: str
    reference: str
    hypothesis: str
    corpus: str | None = None
    split: str | None = None
    duration: float | None = None  # in seconds
    speaker_id: str | None = None
    dialect: str | None = None
    age_group: str | None = None
    gender: str | None = None
    extra: Mapping[str, str | None] = field(default_factory=dict)  # all other keys of the row


_TEXTS: Final = ("id", "reference", "hypothesis")
_OPTIONAL: Final = ("corpus", "split", "speaker_id", "dialect", "age_group", "gender")
_HYPOTHESIS: Final = ("hypothesis", "prediction", "pred")
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
    return row


@dataclass(frozen=True, slots=True)
class PredictionsFile:
    """The rows of a predictions file; every iteration reads it again."""

    path: AnyPath
    references: Mapping[str, Row] | None = None

    def __iter__(self) -> Iterator[Prediction]:
        first_line: dict[str, int] = {}
        unknown: list[str] = []
        different: list[str] = []
        _check_is_file(Path(self.path))
        for number, row in read_valid_rows(Path(self.path), PredictionsError):
            location = f"{self.path}:{number}"
            _rename_hypothesis(row, location)
            if self.references is not None:
                _require(row, ("id", "hypothesis"), location)
                of_dataset = self.references.get(str(row["id"]))
                if of_dataset is None:
                    unknown.append(f"{location}: id {row['id']!r:.80}")
                    continue
                reference, expected = row.get("reference"), of_dataset["reference"]
                if reference and reference != expected:
                    texts = f"{reference!r:.80}, in the dataset {expected!r:.80}"
                    different.append(f"{location}: id {row['id']!r:.80}: {texts}")
                    continue
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
        _refuse("ids are not in this split of the dataset:", unknown)
        _refuse("references differ from the dataset's; leave out the column:", different)
        if not first_line:
            raise PredictionsError(f"{self.path}: the file has no rows; expected one per utterance")


def read_predictions(path: AnyPath, references: Mapping[str, Row] | None = None) -> PredictionsFile:
    """Return the rows of a predictions file: JSON lines, CSV, TSV or Parquet.

    They are read when they are iterated over, each time again. A row takes what it lacks of its
    reference and metadata from ``references`` (`read_references`); a reference of its own is the
    same text.

    Raises:
        PredictionsError: At the iteration: the file is missing or empty, an id occurs twice or is
            unknown, a reference differs, or a line is invalid.
    """
    return PredictionsFile(path, references)


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


def to_predictions(rows: Any) -> Iterator[Prediction]:
    """Yield the rows of a file, a DataFrame, or an iterable of dicts or predictions.

    Raises:
        PredictionsError: It is something else, or a row is invalid; rows count from 1.
    """
    if isinstance(rows, str | PathLike):
        rows = read_predictions(rows)
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
            _rename_hypothesis(values, location)
            yield from_row(values, location)
        else:
            raise PredictionsError(
                f"row {number}: expected a dict or a prediction, found {type(row).__name__}"
            )


def from_row(row: Row, location: str) -> Prediction:
    """Build a prediction from the JSON object of its line; a fault is reported at ``location``."""
    _require(row, _TEXTS, location)
    values: dict[str, Any] = {key: row.pop(key) for key in _TEXTS}
    if type(values["id"]) is int:
        values["id"] = str(values["id"])
    for key, text in values.items():
        if not isinstance(text, str):
            raise PredictionsError(f"{location}: {key} must be a string, found {text!r:.40}")
    seconds = _seconds(row.pop("duration", None), location)
    values |= {key: _label(row.pop(key, None), key, location) for key in _OPTIONAL}
    extra = {key: _text(value, key, location) for key, value in row.items()}
    return Prediction(**values, duration=seconds, extra=extra)


def _rename_hypothesis(row: Row, location: str) -> None:
    names = [name for name in _HYPOTHESIS if name in row]
    if len(names) > 1:
        raise PredictionsError(f"{location}: found {' and '.join(names)}; keep the one to score")
    if names:
        row["hypothesis"] = row.pop(names[0])


def _require(row: Row, keys: Sequence[str], location: str) -> None:
    missing = [key for key in keys if key not in row]
    if missing:
        hint = f"found {', '.join(map(repr, row))}"
        if missing == ["reference"]:
            hint = "name the dataset that has the references: --dataset"
        elif set(",;\t").intersection("".join(row)):
            hint += "; is the separator wrong? A CSV has commas or semicolons, a TSV tabs"
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


def read_references(dataset: AnyPath, split: str = "test") -> dict[str, Row]:
    """Return the rows of ``<split>`` or ``<split>_<corpus>`` by id, without hypotheses.

    Raises:
        DatasetError: There is no such dataset or split, or a file cannot be read.
    """
    from danish_asr.base.schema import VERSION_DIR  # noqa: PLC0415 - slow: pyarrow

    root = Path(dataset) / VERSION_DIR
    rows: dict[str, Row] = {}
    splits = set()
    for shard in sorted(root.rglob("*.parquet")):
        keys = dict(part.split("=", 1) for part in shard.relative_to(root).parts if "=" in part)
        of_shard = {key: keys.get(key, "") for key in ("corpus", "split")}
        splits.add(of_shard["split"])
        if split in (of_shard["split"], "{split}_{corpus}".format_map(of_shard)):
            rows |= _read_shard(shard, of_shard)
    if not splits:
        raise DatasetError(f"{dataset}: expected the root of a dataset of `danish-asr convert`")
    if not rows:
        names = ", ".join(sorted(splits))
        raise DatasetError(f"{dataset}: no row of split '{split}'; the dataset has: {names}")
    return rows


def _read_shard(shard: Path, keys: dict[str, str]) -> dict[str, Row]:
    import pyarrow as pa  # noqa: PLC0415 - slow, and most files need no dataset
    import pyarrow.parquet as pq  # noqa: PLC0415

    from danish_asr.base.schema import METADATA_COLUMNS, SAMPLE_RATE  # noqa: PLC0415

    references: dict[str, Row] = {}
    try:
        with pq.ParquetFile(shard) as file:
            wanted = ("id", "text", "audio_size", *METADATA_COLUMNS, "sub_dialect", "age")
            columns = [name for name in wanted if name in file.schema_arrow.names]
            table = file.read(columns).to_pylist()
        for row in table:
            seconds = row.pop("audio_size") / SAMPLE_RATE
            reference = {"reference": row.pop("text"), "duration": seconds}
            references[row.pop("id")] = reference | keys | row
    except KeyError as error:
        raise DatasetError(f"{shard}: has no column {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(
            f"{shard}: cannot be read ({error}); `danish-asr verify` finds all such files"
        ) from None
    return references
