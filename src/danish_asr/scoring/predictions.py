"""Read and write ``predictions.jsonl``: one JSON object per utterance of a split.

In: JSON lines, CSV, TSV, Parquet, manifests of NeMo, sclite's trn, a DataFrame, or dicts; what they
lack comes from a built dataset. Out: a list of `Prediction`. Texts are not normalised, so that a
file can be scored under any profile. A row is named by its corpus and its id.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isfinite, isnan, nan
from os import PathLike
from pathlib import Path
from sys import intern
from typing import Any, Final, NamedTuple, TypeAlias
from unicodedata import normalize as unicode_form

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.base.errors import ConfigError, DatasetError, PredictionsError
from danish_asr.base.files import AnyPath, publish
from danish_asr.base.schema import METADATA_COLUMNS, SAMPLE_RATE
from danish_asr.base.tables import TRN, Row, read_valid_rows, suffix_of
from danish_asr.corpus.inventory import shards_of_split

Source: TypeAlias = Any
"""A path, a DataFrame, or an iterable of dicts or of `Prediction`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One utterance with its reference and hypothesis; what is unknown is None.

    `danish_asr.decoding.ctc` defines loss and confidence.
    """

    id: str
    reference: str
    hypothesis: str
    corpus: str | None = None
    split: str | None = None
    duration: float | None = None  # in seconds
    loss: float | None = None  # of the reference, in nats per character; None: empty or too long
    confidence: float | None = None  # in the hypothesis, 0 to 1
    seconds_per_character: float | None = None  # of the reference
    speaker_id: str | None = None
    dialect: str | None = None
    age_group: str | None = None
    gender: str | None = None
    extra: Mapping[str, str | None] = field(default_factory=dict)  # all other keys of the row

    @property
    def key(self) -> tuple[str | None, str]:
        """Corpus and id, which name the row in whatever form its id was typed."""
        return self.corpus, unicode_form("NFC", self.id)


_TEXTS: Final = ("id", "reference", "hypothesis")
LABELS: Final = ("corpus", "split", "speaker_id", "dialect", "age_group", "gender")
COLUMNS: Final = (*_TEXTS, "duration", *LABELS)
"""What a column of a file can be read as."""

MEASURES: Final = ("loss", "confidence", "seconds_per_character")
"""What an evaluation measures of each row."""

_HYPOTHESIS: Final = ("hypothesis", "prediction", "pred", "pred_text")
_OTHER_NAMES: Final = {"reference": "text", "id": "audio_filepath"}  # as in NeMo
_LISTED: Final = 5  # rows in an error message


class Loaded(NamedTuple):
    """The rows of one or more sources."""

    rows: list[Prediction]
    in_dataset: int | None  # rows of the dataset's split; None without a dataset


_UTTERANCE: Final = "_utterance"
"""The id of a trn row without its speaker, as our own trn files have it."""

_Located = tuple[str, Row]  # file and line of a row, and the row


def read_predictions(
    source: Source,
    *,
    columns: Mapping[str, str] | None = None,
    dataset: AnyPath | None = None,
    split: str | None = None,
) -> list[Prediction]:
    """Return the rows of a predictions file, a DataFrame, or an iterable of dicts; see `load`."""
    return load([source], columns=columns, dataset=dataset, split=split).rows


def load(
    sources: Sequence[Source],
    *,
    columns: Mapping[str, str] | None = None,
    dataset: AnyPath | None = None,
    split: str | None = None,
    normalize: Callable[[str], str] = str,
) -> Loaded:
    """Read the rows of sources that test each row once.

    Args:
        sources: Each a path, a DataFrame, or an iterable of dicts or predictions.
        columns: The names of columns in the source by the names that they have here, such as
            ``{"reference": "sentence"}``.
        dataset: The root of a built dataset. Its rows give what a row lacks; a reference of the
            row's own must be the same text after ``normalize``.
        split: The split of the dataset; None takes that of the rows, or ``test``.
        normalize: How references are compared with those of the dataset.

    Raises:
        PredictionsError: A source is missing, empty or invalid, a row occurs twice, is not in the
            dataset, or has another reference there.
        ConfigError: A split without a dataset, or one column for two.
        DatasetError: There is no such dataset or split.
    """
    columns = columns or {}
    if len({*columns.values()}) < len(columns):
        fault = "columns: one column is named for two; name each once"
        raise ConfigError([fault], where="the call")
    located = [row for source in sources for row in _rows_of(source, columns, dataset)]
    in_dataset = None
    if dataset is not None:
        splits = {str(row["split"]) for _, row in located if row.get("split")}
        names = [split] if split else sorted(splits) or ["test"]
        references = [row for name in names for row in read_references(dataset, name)]
        located = _completed(located, references, normalize)
        in_dataset = len(references)
    elif split:
        fault = "split: it is one of a dataset; name that too (--dataset ROOT)"
        raise ConfigError([fault], where="the call")
    rows: list[Prediction] = []
    first_seen: dict[tuple[str | None, str], str] = {}
    for location, row in located:
        prediction = from_row(row, location)
        earlier = first_seen.setdefault(prediction.key, location)
        if earlier != location:
            raise PredictionsError(
                f"{location}: duplicate id {prediction.id!r}, first seen in {earlier}; each row of "
                "a corpus is expected once. `danish-asr compare` takes several runs"
            )
        rows.append(prediction)
    return Loaded(rows, in_dataset)


def _rows_of(
    source: Source, columns: Mapping[str, str], dataset: AnyPath | None
) -> Iterator[_Located]:
    is_file = isinstance(source, str | PathLike)
    is_trn = is_file and suffix_of(Path(source)) == TRN
    count = 0
    for location, row in _file_rows(Path(source)) if is_file else _object_rows(source):
        count += 1
        names = dict(columns)
        if dataset is not None:  # which may have the other columns, and knows the speaker
            names = {key: name for key, name in names.items() if key == "hypothesis" or name in row}
            if is_trn:
                speaker = row.pop("speaker_id", "")
                row[_UTTERANCE] = str(row["id"]).removeprefix(speaker)[1:]
        _rename(row, location, names)
        yield location, row
    if is_file and not count:
        raise PredictionsError(f"{source}: the file has no rows; expected one per utterance")


def _file_rows(path: Path) -> Iterator[tuple[str, Row]]:
    if not path.exists():
        raise PredictionsError(f"{path}: no such file; expected predictions or a run's directory")
    for number, row in read_valid_rows(path, PredictionsError):
        if suffix_of(path) == TRN:
            row["hypothesis"] = row.pop("text")
        yield f"{path}:{number}", row


def _object_rows(source: Source) -> Iterator[tuple[str, Row]]:
    if hasattr(source, "itertuples"):  # a DataFrame, whose missing values are NaN
        source = source.astype(object).where(source.notna(), None).to_dict("records")
    if not isinstance(source, Iterable) or isinstance(source, Mapping):
        kinds = "a file, a DataFrame, or a list of dicts or predictions"
        raise PredictionsError(f"expected {kinds}, found {type(source).__name__}")
    for number, row in enumerate(source, start=1):
        if not isinstance(row, Prediction | Mapping):
            fault = f"expected a dict or a prediction, found {type(row).__name__}"
            raise PredictionsError(f"row {number}: {fault}")
        yield f"row {number}", to_row(row) if isinstance(row, Prediction) else dict(row)


def _rename(row: Row, location: str, columns: Mapping[str, str]) -> None:
    """Give the columns their names here: the requested ones, and those that other tools write."""
    absent = [name for name in columns.values() if name not in row]
    if absent:
        present = ", ".join(map(repr, row))
        raise PredictionsError(f"{location}: no column {', '.join(absent)}; found {present}")
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


def read_references(dataset: AnyPath, split: str = "test") -> list[Row]:
    """Return the rows of ``<split>`` or ``<split>_<corpus>`` of a dataset, without hypotheses.

    Each has id, corpus, split, reference, duration in seconds, and the metadata of the dataset.

    Raises:
        DatasetError: There is no such dataset or split, or a file cannot be read.
    """
    rows: list[Row] = []
    for shard in shards_of_split(Path(dataset), split):
        of_shard = {key: shard.keys[key] for key in ("corpus", "split")}
        rows += [row | of_shard for row in _read_shard(shard.path)]
    if not rows:
        raise DatasetError(f"{dataset}: split '{split}' has no row")
    return rows


def _read_shard(shard: Path) -> list[Row]:
    columns = ["id", "text", "audio_size", *METADATA_COLUMNS, "sub_dialect", "age"]
    try:
        rows: list[Row] = pq.ParquetFile(shard).read(columns).to_pylist()
        for row in rows:
            row["duration"] = row.pop("audio_size") / SAMPLE_RATE
            row["reference"] = row.pop("text")
    except (KeyError, OSError, pa.ArrowException) as error:
        fix = "`danish-asr verify` finds all such files"
        raise DatasetError(f"{shard}: cannot be read ({error}); {fix}") from None
    return rows


def _completed(
    located: Sequence[_Located], references: Sequence[Row], normalize: Callable[[str], str]
) -> list[_Located]:
    """Return the rows with what they lack; what the dataset knows wins over a guess."""
    by_id: defaultdict[str, list[Row]] = defaultdict(list)
    for reference in references:
        by_id[unicode_form("NFC", reference["id"])].append(reference)
    completed: list[_Located] = []
    absent: list[str] = []
    different: list[str] = []
    for location, row in located:
        _require(row, ("id", "hypothesis"), location)
        named = f"{location}: id {row['id']!r:.80}"
        utterance = unicode_form("NFC", str(row.pop(_UTTERANCE, "")))
        if unicode_form("NFC", str(row["id"])) not in by_id and utterance in by_id:
            row["id"] = utterance
        same_id = by_id.get(unicode_form("NFC", str(row["id"])), [])
        corpus = row.get("corpus")
        matching = [own for own in same_id if corpus in (None, "", own["corpus"])]
        if len(matching) > 1:
            corpora = ", ".join(own["corpus"] for own in matching)
            raise PredictionsError(f"{named} is in {corpora}; add a column corpus to the file")
        if not matching:
            absent.append(named)
            continue
        (of_dataset,) = matching
        text, expected = row.get("reference"), of_dataset["reference"]
        if text and text != expected and normalize(str(text)) != normalize(expected):
            different.append(f"{named}: {text!r:.80}, expected {expected!r:.80}")
            continue
        own = {key: value for key, value in row.items() if value not in (None, "")}
        own |= {"hypothesis": row["hypothesis"], "reference": expected}
        completed.append((location, of_dataset | own))
    refuse("ids are not in this split of the dataset:", absent)
    refuse("references differ from the dataset's; leave out the column:", different)
    return completed


def refuse(message: str, faults: Sequence[str]) -> None:
    """Raise `PredictionsError` with the number of faults and the first ones, if there are any."""
    if faults:
        hidden = ["..."] if len(faults) > _LISTED else []
        lines = [f"{len(faults)} {message}", *faults[:_LISTED], *hidden]
        raise PredictionsError("\n  ".join(lines))


def from_row(row: Row, location: str) -> Prediction:
    """Build a prediction from the object of its line; a fault is reported at ``location``."""
    _require(row, _TEXTS, location)
    values: dict[str, Any] = {key: row.pop(key) for key in _TEXTS}
    if type(values["id"]) is int:
        values["id"] = str(values["id"])
    for key, text in values.items():
        if not isinstance(text, str):
            shown = "null" if text is None else f"{text!r:.40}"
            fix = 'write "" where nothing was recognised' if key == "hypothesis" else "write a text"
            raise PredictionsError(f"{location}: {key} must be a string, found {shown}; {fix}")
    if not values["id"].strip():
        raise PredictionsError(f"{location}: the id is empty")
    seconds = _seconds(row.pop("duration", None), location)
    values |= {key: _text(row.pop(key, None)) for key in LABELS}
    values |= {key: _pop_number(row, key) for key in MEASURES}
    extra = {key: _text(value) for key, value in row.items()}
    return Prediction(**values, duration=seconds, extra=extra)


def _require(row: Row, keys: Sequence[str], location: str) -> None:
    missing = [key for key in keys if key not in row]
    if missing:
        hint = f"found {', '.join(map(repr, row))}"
        if missing == ["reference"]:
            hint += "; name the dataset that has the references: --dataset ROOT"
        elif set(",;\t").intersection("".join(map(str, row))):
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
        number = nan if value is None or value == "" else float(value)
    except (TypeError, ValueError):
        return None
    row.pop(key, None)
    return number if isfinite(number) else None


def _text(value: Any) -> str | None:
    """Return a value as a label; the bytes of audio are not kept."""
    if value is None or isinstance(value, bytes) or (isinstance(value, float) and isnan(value)):
        return None
    if isinstance(value, str):  # one label, however it is typed; few values, many rows
        return intern(unicode_form("NFC", value.strip())) or None
    if isinstance(value, bool | int | float | list | dict):  # ages, flags, and what tools nest
        form: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":")}
        return intern(json.dumps(value, default=lambda _: None, **form))
    return str(value)


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
