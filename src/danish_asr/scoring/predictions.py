"""Read and write ``predictions.jsonl``: one JSON object per utterance of a split.

In: JSON lines, CSV, TSV, Parquet, manifests of NeMo, sclite's trn, a DataFrame, or dicts; what they
lack comes from a built dataset. Out: a DataFrame with a line per row, whose columns are `COLUMNS`,
`MEASURES` and all other keys. Texts are not normalised, so that a file can be scored under any
profile. A row is named by its corpus and its id.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf, isinf, isnan, nan
from os import PathLike
from pathlib import Path, PurePath
from sys import intern
from typing import Any, Final, NamedTuple, TypeAlias
from unicodedata import normalize as unicode_form

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.base.errors import ConfigError, DatasetError, PredictionsError
from danish_asr.base.files import AnyPath, publish
from danish_asr.base.schema import METADATA_COLUMNS, SAMPLE_RATE
from danish_asr.base.tables import TRN, Row, read_valid_rows, suffix_of
from danish_asr.corpus.inventory import shards_of_split
from danish_asr.scoring.rows import HIDDEN, UNLIKE_DATASET

Source: TypeAlias = Any
"""A path, a DataFrame, or an iterable of dicts."""

TEXTS: Final = ("id", "reference", "hypothesis")
LABELS: Final = ("corpus", "split", "speaker_id", "dialect", "age_group", "gender")
COLUMNS: Final = (*TEXTS, "duration", *LABELS)
"""What a column of a file can be read as; ``duration`` is in seconds."""

MEASURES: Final = ("loss", "confidence", "seconds_per_character")
"""What an evaluation measures of each row (`danish_asr.decoding.ctc` defines the first two): the
loss of the reference in nats per character, NaN if it is empty or too long, and the confidence in
the hypothesis, 0 to 1. Another tool's column of that name, which is not of numbers, is a label."""

_WRITTEN: Final = (*TEXTS, "corpus", "split", "duration", *MEASURES, *LABELS[2:])
_HYPOTHESIS: Final = ("hypothesis", "prediction", "pred", "pred_text")
_OTHER_NAMES: Final = {"reference": "text", "id": "audio_filepath"}  # as in NeMo
_UTTERANCE: Final = "_utterance"
"""The id of a trn row without its speaker, as our own trn files have it."""

_LISTED: Final = 5  # rows in an error message


class Loaded(NamedTuple):
    """The rows of one or more sources, as `read_predictions` returns them."""

    rows: pd.DataFrame
    sizes: Sequence[int]  # of the sources, whose rows are in order
    in_dataset: int | None  # rows of the dataset's split; None without a dataset
    absent: Mapping[str, str]
    """Columns that were named and that no source has, each with what the first source has."""


def read_predictions(
    source: Source,
    *,
    columns: Mapping[str, str] | None = None,
    dataset: AnyPath | None = None,
    split: str | None = None,
) -> pd.DataFrame:
    """Return the rows of a file, a DataFrame, or an iterable of dicts; see `load`.

    Ids, references and hypotheses are strings, duration and measures floats, NaN if unknown, and
    all else labels: strings, None if unknown.
    """
    loaded = load([source], columns=columns, dataset=dataset, split=split)
    refuse_absent([loaded])
    return loaded.rows


def refuse_absent(every: Sequence[Loaded]) -> None:
    """Raise `PredictionsError` if a column was named that no source of any has."""
    for name, fault in every[0].absent.items():
        if all(name in loaded.absent for loaded in every):
            raise PredictionsError(fault)


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
        sources: Each a path, a DataFrame, or an iterable of dicts.
        columns: The names of columns in the source by the names that they have here, such as
            ``{"reference": "sentence"}``. With a dataset, a source may lack them.
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
    if split and dataset is None:
        fault = "split: it is one of a dataset; name that too (--dataset ROOT)"
        raise ConfigError([fault], where="the call")
    read = [_read(source, columns, dataset) for source in sources]
    tables, lacks = [table for table, _ in read], [absent for _, absent in read]
    absent = {
        name: lacks[0][name] for name in columns.values() if all(name in own for own in lacks)
    }
    table = pd.concat(tables)
    in_dataset = None
    if dataset is not None:
        splits = table["split"].dropna().astype(str).unique() if "split" in table else ()
        names = [split] if split else sorted({*splits} - {""}) or ["test"]
        references = pd.concat([read_references(dataset, name) for name in names])
        table = _completed(table, references, normalize)
        in_dataset = len(references)
    return Loaded(_checked(table), [*map(len, tables)], in_dataset, absent)


def _read(
    source: Source, columns: Mapping[str, str], dataset: AnyPath | None
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the rows of a source as they are, and of ``columns`` those that it may and does lack.

    The index is the places of the rows; NaN is a missing key.
    """
    is_file = isinstance(source, str | PathLike)
    rows = [*(_file_rows(Path(source)) if is_file else _object_rows(source))]
    if is_file and not rows:
        raise PredictionsError(f"{source}: the file has no rows; expected one per utterance")
    of_rows = [{key: _none_for_nan(value) for key, value in row.items()} for _, row in rows]
    table = pd.DataFrame(of_rows, [place for place, _ in rows], dtype=object)
    table = table.drop(columns=[*HIDDEN, _UTTERANCE], errors="ignore")  # ours, of a scored table
    names = dict(columns)
    absent: dict[str, str] = {}
    if dataset is not None and len(table):
        # The dataset may have the other columns, and knows the speaker.
        names = {key: name for key, name in names.items() if key == "hypothesis" or name in table}
        absent = {name: _no_column(table, name) for name in {*columns.values()} - {*names.values()}}
        if is_file and suffix_of(Path(source)) == TRN:
            table[_UTTERANCE] = [
                row["id"].removeprefix(row.get("speaker_id", ""))[1:] for _, row in rows
            ]
            table = table.drop(columns="speaker_id", errors="ignore")
    return (_renamed(table, names) if len(table) else table), absent


def _none_for_nan(value: Any) -> Any:
    return None if isinstance(value, float) and isnan(value) else value


def _file_rows(path: Path) -> Iterator[tuple[str, Row]]:
    if not path.exists():
        raise PredictionsError(f"{path}: no such file; expected predictions or a run's directory")
    for number, row in read_valid_rows(path, PredictionsError):
        if suffix_of(path) == TRN:
            row["hypothesis"] = row.pop("text")
        yield f"{path}:{number}", row


def _object_rows(source: Source) -> Iterator[tuple[str, Row]]:
    if isinstance(source, pd.DataFrame):  # whose missing values are NaN
        if len(twice := source.columns[source.columns.duplicated()]):
            raise PredictionsError(f"the DataFrame has two columns '{twice[0]}'; drop one")
        source = _with_none(source).to_dict("records")
    if not isinstance(source, Iterable) or isinstance(source, Mapping):
        kinds = "a file, a DataFrame, or a list of dicts"
        raise PredictionsError(f"expected {kinds}, found {type(source).__name__}")
    for number, row in enumerate(source, start=1):
        if not isinstance(row, Mapping):
            raise PredictionsError(f"row {number}: expected a dict, found {type(row).__name__}")
        yield f"row {number}", dict(row)


def _with_none(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with None for what is missing."""
    nothing: Any = None
    return table.astype(object).where(table.notna(), nothing)


def _renamed(table: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Give the columns their names here: the requested ones, and those that other tools write."""
    for name in columns.values():
        if name not in table:
            raise PredictionsError(_no_column(table, name))
    table = table.assign(**{key: table.pop(name) for key, name in columns.items()})
    names = [name for name in _HYPOTHESIS if name in table]
    if len(names) > 1 and "hypothesis" not in columns:
        fault = f"found {' and '.join(names)}; name the one to score: --columns hypothesis=NAME"
        raise PredictionsError(f"{table.index[0]}: {fault}")
    others = {"hypothesis": names[0], **_OTHER_NAMES} if names else {}
    renames = {name: key for key, name in others.items() if key not in table}
    return table.rename(columns=renames)


def _no_column(table: pd.DataFrame, name: str) -> str:
    """Return that a source lacks a column, and which it has."""
    return f"{table.index[0]}: no column {name}; found {', '.join(map(repr, table.columns))}"


def read_references(dataset: AnyPath, split: str = "test") -> pd.DataFrame:
    """Return the rows of ``<split>`` or ``<split>_<corpus>`` of a dataset, without hypotheses.

    Each has id, corpus, split (by that name), reference, duration in seconds, and the metadata of
    the dataset.

    Raises:
        DatasetError: There is no such dataset or split, or a file cannot be read.
    """
    table = pd.concat(
        _read_shard(shard.path).assign(corpus=shard.keys["corpus"], split=split)
        for shard in shards_of_split(Path(dataset), split)
    )
    if table.empty:
        raise DatasetError(f"{dataset}: split '{split}' has no row")
    return table


def _read_shard(shard: Path) -> pd.DataFrame:
    columns = ["id", "text", "audio_size", *METADATA_COLUMNS, "sub_dialect", "age"]
    try:
        rows = pq.ParquetFile(shard).read(columns).select(columns).to_pylist()
    except (KeyError, OSError, pa.ArrowException) as error:
        fix = "`danish-asr verify` finds all such files"
        raise DatasetError(f"{shard}: cannot be read ({error}); {fix}") from None
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    seconds = table.pop("audio_size") / SAMPLE_RATE
    return table.assign(duration=seconds).rename(columns={"text": "reference"})


def _completed(
    table: pd.DataFrame, references: pd.DataFrame, normalize: Callable[[str], str]
) -> pd.DataFrame:
    """Return the rows with what they lack; what the dataset knows wins over a guess."""
    _require(table, ("id", "hypothesis"))
    of_references = pd.DataFrame({"key": _keys(references["id"]), "corpus": references["corpus"]})
    of_references["number"] = np.arange(len(references))
    keys = _keys(table["id"])
    if _UTTERANCE in table:
        # In ESPnet's files the name of a speaker may have hyphens and underscores of its own.
        speakers, ids = _keys(references["speaker_id"]), of_references["key"]
        marked = {
            f"{speaker}{mark}{own}": own
            for speaker, own in zip(speakers, ids, strict=True)
            for mark in "-_"
        }
        utterances = keys.map(marked).fillna(_keys(table.pop(_UTTERANCE)))
        is_ours = ~keys.isin(of_references["key"]) & utterances.isin(of_references["key"])
        keys = keys.where(~is_ours, utterances)
    own = pd.DataFrame({"key": keys, "named": table.get("corpus"), "row": np.arange(len(table))})
    named = [f"{place}: id {row_id!r:.80}" for place, row_id in table["id"].items()]
    pairs = own.merge(of_references, on="key")
    unnamed = pairs["named"].isna() | (pairs["named"] == "")
    pairs = pairs[unnamed | (pairs["named"] == pairs["corpus"])]
    for row in pairs["row"][pairs["row"].duplicated()]:
        corpora = ", ".join(pairs["corpus"][pairs["row"] == row])
        raise PredictionsError(f"{named[row]} is in {corpora}; add a column corpus to the file")
    absent = sorted({*range(len(table))} - {*pairs["row"]})
    known = {*of_references["key"]}
    stems = [stem for key in keys.to_numpy()[absent] if (stem := PurePath(key).stem) in known]
    fault = "ids are not in this split of the dataset"
    if stems:
        fault += f"; without folder and ending, {len(stems)} are, such as {stems[0]!r:.80}"
    refuse(f"{fault}:", [named[row] for row in absent])
    completed = references.iloc[pairs["number"]].set_axis(table.index)
    if "reference" in table:
        texts = table.pop("reference").fillna("")
        both = zip(named, texts, completed["reference"], strict=True)
        different = [
            f"{name}: {text!r:.80}, expected {expected!r:.80}"
            for name, text, expected in both
            if text and text != expected and normalize(str(text)) != normalize(expected)
        ]
        refuse("references differ from the dataset's; leave out the column:", different)
    unlike: dict[int, str] = {}  # the first other label of each row
    for name, values in table.drop(columns=["id", "split"], errors="ignore").items():
        is_known = values.notna() & (values != "") | (name == "hypothesis")
        of_dataset: Any = completed.get(name)
        if of_dataset is not None and name != "duration":
            differ = np.array([*map(_differ, values, of_dataset)])
            for row in np.flatnonzero(differ):
                here, there = _label(values.iloc[row]), _label(of_dataset.iloc[row])
                unlike.setdefault(row, f"{name} {here!r:.40}, in the dataset {there!r:.40}")
            is_known &= differ | of_dataset.isna()
        completed[name] = values.where(is_known, of_dataset)
    if unlike:
        completed[UNLIKE_DATASET] = [unlike.get(row) for row in range(len(table))]
    return completed


def _differ(own: Any, of_dataset: Any) -> bool:
    """Whether both are labels, and not the same one or the same number."""
    if own == of_dataset:
        return False
    labels = [_label(own), _label(of_dataset)]
    if None in labels or labels[0] == labels[1]:
        return False
    number, other = map(_number, labels)
    return number is None or number != other


def _keys(ids: "pd.Series[Any]") -> "pd.Series[str]":
    """Return ids in one form, however they are typed."""
    return pd.Series([unicode_form("NFC", str(own)) for own in ids], ids.index, dtype=object)


def refuse(message: str, faults: Sequence[str]) -> None:
    """Raise `PredictionsError` with the number of faults and the first ones, if there are any."""
    if faults:
        hidden = ["..."] if len(faults) > _LISTED else []
        lines = [f"{len(faults)} {message}", *faults[:_LISTED], *hidden]
        raise PredictionsError("\n  ".join(lines))


def _require(table: pd.DataFrame, names: Sequence[str]) -> None:
    """Raise `PredictionsError` for the first row without some of the keys."""
    lacks = _is_missing(table.reindex(columns=[*names]))
    rows = lacks.any(axis="columns")
    if not rows.any():
        return
    number = int(rows.to_numpy().argmax())
    missing = [name for name in names if lacks[name].iloc[number]]
    row = table.iloc[number]
    present = row[~_is_missing(row)].index.astype(str)
    hint = f"found {', '.join(map(repr, present))}"
    if missing == ["reference"]:
        hint += "; `score` and `compare` take references from a dataset: --dataset ROOT"
    elif set(",;\t").intersection("".join(present)):
        hint += "; is the separator wrong? A CSV has commas or semicolons, a TSV tabs"
    else:
        hint += f"; `score` and `compare` take its name in the file: --columns {missing[0]}=NAME"
    raise PredictionsError(f"{table.index[number]}: missing {', '.join(missing)}; {hint}")


def _is_missing(values: Any) -> Any:
    """Return where a row lacks a key, of a row or a table: NaN, as None is a value."""
    return values.isna() & values.map(lambda value: value is not None)


def _checked(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows as `read_predictions` does, numbered from 0."""
    _require(table, TEXTS)
    first = (*TEXTS, *LABELS, "duration", *MEASURES)
    table = table.reindex(columns=[*dict.fromkeys((*first, *table.columns))])
    checked: dict[Any, pd.Series[Any]] = {}
    for name, values in table.items():
        if name in TEXTS:
            checked[name] = _texts(values)
        elif name == "duration":
            checked[name] = _durations(values)
        else:
            measured = _numbers(values) if name in MEASURES else None
            checked[name] = _labels(values) if measured is None else measured
    rows = pd.DataFrame(checked)
    key = pd.DataFrame({"corpus": rows["corpus"], "id": _keys(rows["id"])})
    numbers = key.groupby([*key], dropna=False, sort=False).ngroup().to_numpy()
    for row in np.flatnonzero(pd.Series(numbers).duplicated()):
        place, earlier = table.index[row], table.index[(numbers == numbers[row]).argmax()]
        raise PredictionsError(
            f"{place}: duplicate id {rows['id'][row]!r}, first seen in {earlier}; each row of a "
            "corpus is expected once. `danish-asr compare` takes several runs"
        )
    return rows


def _texts(values: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return ids, references or hypotheses, of which each must be a text."""
    name = values.name
    fix = 'write "" where nothing was recognised' if name == "hypothesis" else "write a text"
    for place, text in values.items():
        if name == "id" and type(text) is int:
            continue
        if not isinstance(text, str):
            shown = "null" if text is None else f"{text!r:.40}"
            raise PredictionsError(f"{place}: {name} must be a string, found {shown}; {fix}")
        if "\0" in text:
            fault = "the file is damaged, or is not UTF-8"
            raise PredictionsError(f"{place}: {name} has a NUL character, {text!r:.40}: {fault}")
        if name == "id" and not text.strip():
            raise PredictionsError(f"{place}: the id is empty")
    return pd.Series([*map(str, values)], dtype=object)


def _durations(values: "pd.Series[Any]") -> "pd.Series[float]":
    """Return seconds, NaN where they are unknown."""
    seconds = [_number(value) for value in values]
    for number, (place, value) in zip(seconds, values.items(), strict=True):
        if number is None or number < 0 or isinf(number):
            fault = f"expected a duration in seconds, found {value!r:.40}"
            raise PredictionsError(f"{place}: {fault}")
    return pd.Series(seconds, dtype=float)


def _numbers(values: "pd.Series[Any]") -> "pd.Series[float] | None":
    """Return a measure; None if a value is no number, as other tools have such columns too."""
    numbers = [_number(value) for value in values]
    if None in numbers:
        return None
    return pd.Series(numbers, dtype=float).replace([inf, -inf], nan)


def _number(value: Any) -> float | None:
    """Return a number, NaN if there is no value; None for anything else."""
    try:
        return nan if value is None or value == "" else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _labels(values: "pd.Series[Any]") -> "pd.Series[Any]":
    return pd.Series([*map(_label, values)], dtype=object)


def _label(value: Any) -> str | None:
    """Return a value as a label; the bytes of audio are not kept."""
    if value is None or isinstance(value, bytes) or (isinstance(value, float) and isnan(value)):
        return None
    if isinstance(value, str):  # one label, however it is typed; few values, many rows
        return intern(unicode_form("NFC", value.strip())) or None
    if isinstance(value, bool | int | float | list | dict):  # ages, flags, and what tools nest
        form: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":")}
        return intern(json.dumps(value, default=lambda _: None, **form))
    return str(value)


def write_predictions(path: AnyPath, rows: pd.DataFrame) -> int:
    """Write rows atomically, as `read_predictions` returns them, and return their number.

    What an evaluation did not measure of any row is left out.
    """
    unmeasured = {name for name in MEASURES if rows[name].isna().all()}
    names = [name for name in dict.fromkeys((*_WRITTEN, *rows)) if name not in unmeasured]
    with publish(Path(path)) as stream:
        for row in _with_none(rows[names]).to_dict("records"):
            stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    return len(rows)
