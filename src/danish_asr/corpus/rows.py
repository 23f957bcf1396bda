"""One table of all rows of a corpus, without their audio: everything is decided on it.

Comes in: records of a reader, mappings with our names of columns. Goes out: a table of `ROWS`.
A row that cannot be used has a reason in ``refused``, and goes to the ledger with it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.base.errors import AudioError, SourceError
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS
from danish_asr.base.tables import read_valid_rows
from danish_asr.corpus import DANISH, ConvertOptions, people
from danish_asr.corpus.columns import COLUMNS, READERS, THEIR_NAMES, TIMES

ROWS: Final = pa.schema([(column.name, column.type) for column in COLUMNS if column.type])

UTTERANCE_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("audio_bytes", pa.binary(), nullable=False),
        pa.field("audio_size", pa.int64(), nullable=False),
        pa.field("encoded_size", pa.int32(), nullable=False),
        *((column.name, column.type) for column in COLUMNS if column.written),
        ("source_id", pa.string()),
    ]
)
"""Columns of a shard. ``audio_bytes`` is FLAC, mono, 16 kHz; ``audio_size`` is its samples,
``encoded_size`` its bytes, so that a reader finds a row in the file without reading others. The
partition keys (corpus, split, language) are in the path only."""

_READ: Final = pa.schema(
    [field.with_type(pa.string()) if field.name in {"age", "channel"} else field for field in ROWS]
)
"""`ROWS` with ages and channels as they are written, which `understood` reads over all rows."""

_TEXT: Final = pa.string()
_MOST_FREQUENT: Final = 4  # values of a column
_SHOWN: Final = 20  # names of a list
_CHANNELS: Final = 1_000  # more are numbers of something else

DUPLICATE: Final = "duplicate id"
NO_TIME: Final = "no time"
LISTED: Final = "listed in"
"""Reasons in the ledger; the name of the list follows the last."""


def table_of(records: Iterable[Mapping[str, Any]], options: ConvertOptions) -> pa.Table:
    """The table of records, which have some of `RECORD_KEYS`, among them ``file`` and ``row``.

    Ages and channels are text in it until `understood`, a start may be null until `without_gaps`.
    """
    waiting, batches = iter(records), []
    while chunk := [*islice(waiting, 2_000)]:
        batches.append(_batch(chunk, options))
    return pa.Table.from_batches(batches, _READ)


def _batch(records: Sequence[Mapping[str, Any]], options: ConvertOptions) -> pa.RecordBatch:
    """Records as rows of `_READ`, column by column: a corpus may have millions."""
    reasons: list[str | None] = [record.get("refused") for record in records]
    values = _values(records, reasons)
    for place, status in enumerate(values["validated"]):
        if (status or "").lower() == "rejected":
            reasons[place] = "rejected"
    starts, ends, seconds = (values[name] for name in TIMES)
    for place, (record, start, end) in enumerate(zip(records, starts, ends, strict=True)):
        if end is not None:
            seconds[place] = end - (start or 0.0)
            if seconds[place] < 0:
                reasons[place] = reasons[place] or "end before its start"
        lacks_start = start is None and end is not None and _has(record, "start")
        # A whole recording that a source of one's own passes on has a start of 0 and no length.
        has_end = _has(record, "end") or (start and _has(record, "seconds"))
        if lacks_start or (start is not None and seconds[place] is None and has_end):
            reasons[place] = reasons[place] or NO_TIME
    files = [record["file"] for record in records]
    numbers = [record["row"] for record in records]
    dialects = values["dialect"]
    if options.language == DANISH:
        dialects = _of_pairs(people.dialect_of, dialects, values["country_birth"])
    places = [f"{file}:{number}" for file, number in zip(files, numbers, strict=True)]
    columns = values | {
        "corpus": [record.get("corpus") or options.corpus_name for record in records],
        "split": _of_pairs(partial(_split_of, options), values["split"], files),
        "file": files,
        "row": numbers,
        "line": [record.get("line") for record in records],
        "group": [record.get("group", record["row"] // 100) for record in records],
        "id": [own or place for own, place in zip(values["id"], places, strict=True)],
        # Without a column of starts a row begins with its recording; an empty cell may be a gap.
        "start": [
            own if own is not None or _has(record, "start") else 0.0
            for own, record in zip(starts, records, strict=True)
        ],
        "uncut": [times == (None, None) for times in zip(starts, ends, strict=True)],
        "dialect": dialects,
        "sub_dialect": values["dialect"],
        "refused": reasons,
    }
    nothing = [None] * len(records)
    arrays = [pa.array(columns.get(field.name, nothing), field.type) for field in _READ]
    return pa.RecordBatch.from_arrays(arrays, schema=_READ)


def _has(record: Mapping[str, Any], name: str) -> bool:
    """Whether a record has this time, be it empty."""
    return name in record or f"{name}_ms" in record


def _of_pairs(
    function: Callable[[Any, Any], Any], ones: Sequence[Any], others: Sequence[Any]
) -> list[Any]:
    """The result of a function for each pair; it is called once for all that are the same."""
    pairs = [*zip(ones, others, strict=True)]
    results = {pair: function(*pair) for pair in {*pairs}}
    return [results[pair] for pair in pairs]


def _values(
    records: Sequence[Mapping[str, Any]], reasons: list[str | None]
) -> dict[str, list[Any]]:
    """The values of records by column; one that cannot be read becomes a reason to refuse."""
    values: dict[str, list[Any]] = {name: [None] * len(records) for name in THEIR_NAMES}
    keys = set[str]().union(*records)
    for key, (column, read) in READERS.items():
        if key not in keys:
            continue
        own = values[column]
        for place, record in enumerate(records):
            value = record.get(key)
            if value is not None:
                try:
                    own[place] = read(value)
                except (TypeError, ValueError):
                    reasons[place] = reasons[place] or f"malformed {column}"
    return values


def understood(rows: pa.Table, options: ConvertOptions) -> tuple[pa.Table, dict[str, int]]:
    """The table of `ROWS`, with ages and channels as numbers; and how many were not understood.

    What a channel means is decided over all rows: with a 0 they count from 0. A column that nobody
    chose is none of channels if it has no number, but names, such as those of stations.
    """
    is_used, counts = pc.is_null(rows["refused"]).combine_chunks(), dict[str, int]()

    def count(what: str, texts: pa.ChunkedArray, mask: pa.ChunkedArray) -> None:
        counted = texts.filter(pc.and_(mask, is_used))
        if len(counted):
            counts[f"rows {what}, such as {most_frequent(counted)}"] = len(counted)

    texts = rows["age"]
    ages, groups = of_each(texts, people.age_of, pa.int64()), of_each(texts, people.age_group)
    is_other = pc.and_(pc.is_valid(texts), pc.is_null(groups))
    count("whose age is in none or in several of 0-24, 25-49 and 50+", texts, is_other)
    texts = rows["channel"]
    channels = of_each(texts, _channel, pa.int32())
    is_other = pc.and_(pc.is_valid(texts), pc.is_null(channels))
    least = pc.min(channels.filter(is_used)).as_py()
    if least == 0:
        count("whose channel counts from 0, so that 1 was added", texts, pc.is_valid(channels))
        channels = pc.add(channels, pa.scalar(1, pa.int32()))
    rows = replaced(rows, age=ages, age_group=groups, channel=channels)
    if least is None and "channel" not in options.columns:
        count("whose channel is no number, and was not read", texts, is_other)
        return rows, counts
    return refuse(rows, is_other, "malformed channel"), counts


def _channel(text: str) -> int | None:
    """A channel, also as pandas writes it in a column with a gap, ``1.0``; None if it is none."""
    try:
        channel = float(text.replace(",", "."))
    except ValueError:
        return None
    return int(channel) if 0 <= channel < _CHANNELS and channel.is_integer() else None


def most_frequent(values: pa.ChunkedArray, least: int = 1) -> str:
    """Values that occur most, and at least so often, with the number of times."""
    counts = pc.value_counts(values)
    order = pc.array_sort_indices(counts.field("counts"), order="descending")
    return ", ".join(
        f"{str(value['values'])[:60]} ({value['counts']:,})"
        for value in counts.take(order[:_MOST_FREQUENT]).to_pylist()
        if value["counts"] >= least
    )


def _split_of(options: ConvertOptions, own: str | None, file: str) -> str | None:
    """The split that the options choose, or the row's own, or that of its file's name."""
    name = (own or "").lower()
    split = options.split or SPLIT_ALIASES.get(name, name) or split_in(file)
    return split or ("train" if options.split_by_speaker else None)


@lru_cache(maxsize=10_000)
def split_in(path: str) -> str | None:
    """The split that the name of a file or of a folder above it begins with, if one does."""
    for part in reversed(PurePosixPath(path).parts):
        beginning = re.split("[-_.]", part.lower().removeprefix("split="))[0]  # Hive's split=dev
        split = SPLIT_ALIASES.get(beginning, beginning)
        if split in SPLITS:
            return split
    return None


def check_splits(rows: pa.Table, options: ConvertOptions) -> pa.Table:
    """The table in which refused rows without a split of ours have one, which changes nothing.

    Raises:
        SourceError: A row that is used has none, or there is one not to be divided anew.
    """
    is_ours = pc.is_in(rows["split"], pa.array(SPLITS))
    others = rows.filter(pc.and_(pc.invert(is_ours), pc.is_null(rows["refused"])))
    if len(others):
        (first,) = others.slice(0, 1).to_pylist()
        split = f"the split {first['split']!r}" if first["split"] else "no split"
        names = ", ".join((*SPLITS, *SPLIT_ALIASES))
        raise SourceError(
            f"{place_of(first)} has {split} (such rows: {len(others):,}); name a file or a folder "
            f"{names}, write such names into a column split, or add --split train or "
            "--split-by-speaker 80/10/10"
        )
    used = rows["split"].filter(pc.is_null(rows["refused"]))
    held_out = sorted({*used.unique().to_pylist()} - {"train"})
    if options.split_by_speaker and held_out:
        raise SourceError(
            f"--split-by-speaker: the source has its own {' and '.join(held_out)}; leave the "
            "option out to keep them, or divide all rows anew with --split train"
        )
    return replaced(rows, split=pc.if_else(is_ours, rows["split"], "train"))


def place_of(row: Mapping[str, Any]) -> str:
    """Where people find a row of the table."""
    where = f"row {row['row']}" if row["line"] is None else f"line {row['line']}"
    return f"{row['file']}, {where}"


def refuse(rows: pa.Table, mask: pa.Array | pa.ChunkedArray, reason: str) -> pa.Table:
    """The table in which rows of ``mask`` without another reason are refused for this one."""
    chosen = pc.and_(mask, pc.is_null(rows["refused"]))
    return replaced(rows, refused=pc.if_else(chosen, reason, rows["refused"]))


def replaced(rows: pa.Table, **columns: Any) -> pa.Table:
    """The table with other values in some columns."""
    for name, values in columns.items():
        rows = rows.set_column(rows.column_names.index(name), ROWS.field(name), values)
    return rows


def without_duplicates(rows: pa.Table) -> pa.Table:
    """The table in which all rows but the first of a corpus and id that is usable are refused."""
    ids = repeated(rows["id"])
    if not len(ids):
        return rows
    candidates = pc.and_(is_usable(rows), pc.is_in(rows["id"], ids))
    numbered = rows.append_column("number", pa.array(np.arange(len(rows)))).filter(candidates)
    is_repeated = candidates.to_numpy()
    is_repeated[_firsts(numbered, "corpus", "id")] = False
    return refuse(rows, pa.array(is_repeated), DUPLICATE)


def is_usable(rows: pa.Table) -> pa.ChunkedArray:
    """Which rows are not refused and have a text with words. Others decide nothing."""
    has_words = pc.match_substring_regex(rows["text"], r"[\p{L}\p{N}]")
    return pc.and_(pc.fill_null(has_words, fill_value=False), pc.is_null(rows["refused"]))


def repeated(values: pa.ChunkedArray) -> pa.Array:
    """The values that occur more than once."""
    counts = values.drop_null().value_counts()
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def _firsts(numbered: pa.Table, *names: str) -> pa.ChunkedArray:
    """The ``number`` of the first row of all that are the same in some columns."""
    grouped = numbered.group_by([*names], use_threads=False).aggregate([("number", "min")])
    return grouped["number_min"]


def read_without(path: Path) -> set[tuple[str | None, str]]:
    """The rows of a list of ``--without`` by corpus and id; without a corpus, those of any."""
    listed: set[tuple[str | None, str]] = set()
    for line, row in read_valid_rows(path, SourceError):
        if row.get("id") in {None, ""}:
            raise SourceError(f"{path}:{line}: expected the columns corpus and id; has {[*row]}")
        listed.add((row.get("corpus") or None, str(row["id"])))
    if not listed:
        raise SourceError(f"--without: {path} names no row; leave the option out to keep all rows")
    return listed


def is_listed(rows: pa.Table, listed: set[tuple[str | None, str]]) -> pa.Array:
    """Which rows of a table with the columns ``corpus`` and ``id`` are in a list."""
    names = zip(rows["corpus"].to_pylist(), rows["id"].to_pylist(), strict=True)
    in_list = [(corpus, own) in listed or (None, own) in listed for corpus, own in names]
    return pa.array(in_list, pa.bool_())


def names_of_no_row(rows: pa.Table, listed: set[tuple[str | None, str]], path: Path) -> list[str]:
    """A line on the names in a list that no row has; none if all are there.

    Raises:
        SourceError: All ids of a corpus are of no row, as if Excel had made 1 of 0001.
    """
    ids = rows["id"].to_pylist()
    names = {*zip(rows["corpus"].to_pylist(), ids, strict=True), *((None, own) for own in ids)}
    missing = sorted(listed - names, key=lambda name: (name[0] or "", name[1]))
    for corpus, own in missing:
        if not any(name in names for name in listed if name[0] == corpus):
            corpora = ", ".join(sorted(rows["corpus"].unique().to_pylist()))
            raise SourceError(
                f"--without: {path}: no row has one of its ids of {corpus or 'any corpus'}, such "
                f"as {own!r}; there are corpora {corpora}, and ids such as {ids[0]!r}"
            )
    shown = ", ".join(" ".join(filter(None, name)) for name in missing[:_SHOWN])
    more = ", ..." if len(missing) > _SHOWN else ""
    line = f"--without: {len(missing):,} of {len(listed):,} names are of no row: {shown}{more}"
    return [line] if missing else []


def is_alone(rows: pa.Table) -> pa.ChunkedArray:
    """Which rows are the only one of their recording, as all are whose audio is embedded."""
    return pc.invert(pc.is_in(rows["audio"], repeated(rows["audio"])))


def without_gaps(rows: pa.Table) -> pa.Table:
    """The table in which a row of a recording lacks no time that others of it have.

    Raises:
        SourceError: Recordings have several texts and no times: each would be of all.
    """
    shared = repeated(rows["audio"])
    if len(shared):  # mostly none
        usable = pc.and_(pc.is_in(rows["audio"], shared), is_usable(rows))
        _check_times(rows.filter(pc.and_(usable, rows["uncut"])))
        cut = rows["audio"].filter(pc.and_not(usable, rows["uncut"])).unique()
        lacks = pc.or_(pc.is_null(rows["start"]), pc.is_null(rows["seconds"]))
        rows = refuse(rows, pc.and_(pc.is_in(rows["audio"], cut), lacks), NO_TIME)
    return replaced(rows, start=pc.fill_null(rows["start"], 0.0))


def _check_times(usable: pa.Table) -> None:
    """Raise `SourceError` if rows without times are of one recording and differ in their texts."""
    numbered = usable.append_column("number", pa.array(np.arange(len(usable))))
    texts = numbered.take(_firsts(numbered, "audio", "channel", "text"))
    texts = texts.group_by(["audio", "channel"], use_threads=False)
    counted = texts.aggregate([("number", "count"), ("number", "min"), ("number", "max")])
    several = counted.filter(pc.greater(counted["number_count"], 1))
    if not len(several):
        return
    first, last = (several[f"number_{end}"][0].as_py() for end in ("min", "max"))
    one, other = usable.take([first, last]).to_pylist()
    raise SourceError(
        f"{len(several):,} recordings have several texts and no times, such as {one['audio']} "
        f"in {place_of(one)} and {place_of(other)}. Name both ends in seconds "
        "(--column start=COLUMN --column end=COLUMN), or keep one row of each recording"
    )


Audio = bytes | Path | AudioError | None
"""An encoded file in memory, or where one is, or why there is none."""

Fetch = Callable[[pa.Table], Iterator[Audio]]
"""Yields the audio of each row of a slice of the table, in order. It must pickle."""

Versions = Callable[[pa.Table], pa.Array]
"""Gives the version of each row's audio, as it is now; null if there is none."""


def of_each(
    values: pa.ChunkedArray, function: Callable[[str], Any], type_: pa.DataType = _TEXT
) -> pa.Array:
    """The result of a function for each value; it is called once for all that are the same."""
    encoded = values.combine_chunks().dictionary_encode()
    results = [function(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(results, type_).take(encoded.indices)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A corpus that was read: all rows, and what fetches their audio."""

    name: str  # in the user's words
    rows: pa.Table  # of `ROWS`, the rows of a file together
    fetch: Fetch
    versions: Versions
    columns: Mapping[str, str] = field(default_factory=dict)  # names that were read, by ours
    ignored: tuple[str, ...] = ()  # names that were not
    counts: Mapping[str, int] = field(default_factory=dict)  # of what the reader saw or removed
