"""One table of all rows of a corpus, without their audio: everything is decided on it.

Comes in: records of a reader, mappings with our names of columns. Goes out: a table of `ROWS`.
A row that cannot be used has a reason in ``refused``, and goes to the ledger with it.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from danish_asr.base.audio import AudioError
from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS
from danish_asr.base.tables import read_valid_rows
from danish_asr.corpus import COLUMNS, DANISH, ConvertOptions, people
from danish_asr.corpus.columns import TIMES

ROWS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("corpus", "split", "file")),
        ("row", pa.int64()),  # position in its file, from 0
        ("line", pa.int64()),  # where people find it in a table, from 1; null elsewhere
        ("group", pa.int32()),  # of rows that are cheapest to read together, in its file
        *((name, pa.string()) for name in ("id", "text", "audio")),
        ("start", pa.float64()),
        ("seconds", pa.float64()),  # null: to the end
        ("channel", pa.int32()),
        ("uncut", pa.bool_()),  # without times: the recording is the utterance
        *((name, pa.string()) for name in ("speaker_id", "dialect", "sub_dialect")),
        ("age", pa.int64()),
        *((name, pa.string()) for name in ("age_group", "gender", "country_birth")),
        # As the corpus has them, where that is something else.
        *((name, pa.string()) for name in ("own_age", "own_gender", "country")),
        ("refused", pa.string()),
    ]
)
"""``audio`` is the path of a recording below the source's root, or null if it is embedded."""

_LABELS: Final = ("dialect", "country_birth", "gender", "age")
_CHUNK: Final = 2_000
_ROWS_TOGETHER: Final = 100
_CLOCK: Final = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d\d(?:\.\d+)?)")

RECORD_KEYS: Final = frozenset((*COLUMNS, *(f"{name}_ms" for name in TIMES), *ROWS.names))
"""What a record of a reader may have."""

DUPLICATE: Final = "duplicate id"
LISTED: Final = "listed in"
"""Reasons in the ledger; the name of the list follows."""


def table_of(records: Iterable[Mapping[str, Any]], options: ConvertOptions) -> pa.Table:
    """The table of records, which have some of `RECORD_KEYS`, among them ``file`` and ``row``."""
    rows, batches = (_row(record, options) for record in records), []
    while chunk := [*islice(rows, _CHUNK)]:
        batches.append(pa.RecordBatch.from_pylist(chunk, ROWS))
    return pa.Table.from_batches(batches, ROWS)


def _row(record: Mapping[str, Any], options: ConvertOptions) -> dict[str, Any]:
    """A row of `ROWS`; one of which a value cannot be read is refused."""
    faults = [record["refused"]] if record.get("refused") else []

    def read(name: str, convert: Callable[[Any], Any]) -> Any:
        value = record.get(name)
        if value is None:
            return None
        try:
            return convert(value)
        except (TypeError, ValueError):
            faults.append(f"malformed {name.removesuffix('_ms')}")
            return None

    def read_time(name: str) -> float | None:
        milliseconds: float | None = read(f"{name}_ms", _seconds)
        seconds: float | None = read(name, _seconds)
        return seconds if milliseconds is None else milliseconds / 1000

    file, row = record["file"], record["row"]
    content = {
        "id": read("id", _id) or f"{file}:{row}",
        "text": read("text", _text),
        "audio": read("audio", _path),
        "channel": read("channel", _channel),
        "speaker_id": read("speaker_id", people.speaker_of),
    }
    start, end, seconds = map(read_time, TIMES)
    if end is not None:
        seconds = end - (start or 0.0)
        if seconds < 0:
            faults.append("end before its start")
    own_dialect, birth, own_gender, own_age = (read(name, people.clean) for name in _LABELS)
    country = people.country_of(birth)
    age, gender = people.age_of(own_age), people.gender_of(own_gender)
    is_danish = options.language == DANISH
    if str(record.get("validated")).strip().lower() == "rejected":
        faults.insert(0, "rejected")
    return content | {
        "corpus": record.get("corpus") or options.corpus_name,
        "split": record.get("split"),
        "file": file,
        "row": row,
        "line": record.get("line"),
        "group": record.get("group", row // _ROWS_TOGETHER),
        "start": start or 0.0,
        "seconds": seconds,
        "uncut": start is None and end is None,
        "dialect": people.dialect_of(own_dialect, country) if is_danish else own_dialect,
        "sub_dialect": own_dialect,
        "age": age,
        "age_group": people.age_group(age, own_age),
        "gender": gender,
        "country_birth": birth,
        "own_age": own_age if age is None else None,
        "own_gender": own_gender if gender != own_gender else None,
        "country": country,
        "refused": faults[0] if faults else None,
    }


def _id(value: Any) -> str | None:
    """The id; of several columns a tuple, joined. None if one is missing or blank."""
    parts = value if isinstance(value, tuple) else (value,)
    if any(part is None or not str(part).strip() for part in parts):
        return None
    return "_".join(map(str, parts))


def _text(value: Any) -> str:
    if not isinstance(value, str | int):  # a table may hold a number without a fraction
        raise TypeError
    return normalize("NFC", str(value))


def _path(value: Any) -> str | None:
    if not isinstance(value, str | Path):
        raise TypeError
    return str(value) or None


def _seconds(value: Any) -> float | None:
    """Seconds of a number, or of ``1:02:03,5``."""
    if isinstance(value, str) and (clock := _CLOCK.fullmatch(value.strip().replace(",", "."))):
        hours, minutes, seconds = clock.groups()
        return 3600 * int(hours or 0) + 60 * int(minutes) + float(seconds)
    number = _number(value)
    if number is None:
        return None
    if not 0 <= number < math.inf:
        raise ValueError
    return number


def _channel(value: Any) -> int | None:
    channel = _number(value)  # "1.0", as pandas writes a column with a gap
    if channel is None:
        return None
    if channel < 1 or not channel.is_integer():
        raise ValueError
    return int(channel)


def _number(value: Any) -> float | None:
    """A number, or its text with a comma, as in Danish tables; None for white space and NaN."""
    text = str(value).strip().replace(",", ".")
    number = float(text or math.nan)
    return None if math.isnan(number) else number


def place_of(row: Mapping[str, Any]) -> str:
    """Where people find a row of the table."""
    where = f"row {row['row']}" if row["line"] is None else f"line {row['line']}"
    return f"{row['file']}, {where}"


def with_splits(rows: pa.Table, options: ConvertOptions) -> pa.Table:
    """The table with our names of splits: of ``--split``, or of the rows, or of their files.

    Raises:
        SourceError: A split is unknown, or cannot be told.
    """
    if options.split:
        return replaced(rows, split=pa.repeat(pa.scalar(options.split), len(rows)))
    counted = rows.group_by(["file", "split"], use_threads=False).aggregate([([], "count_all")])
    split_of = {
        (file, own): _split_of(file, own or "", count, options)
        for file, own, count in zip(*counted.to_pydict().values(), strict=True)
    }
    held_out = sorted({*split_of.values()} - {"train"})
    if options.split_by_speaker and held_out:
        raise SourceError(
            f"--split-by-speaker: the source has its own {' and '.join(held_out)}; leave the "
            "option out to keep them, or divide all rows anew with --split train"
        )
    keys = zip(rows["file"].to_pylist(), rows["split"].to_pylist(), strict=True)
    return replaced(rows, split=pa.array([split_of[key] for key in keys], pa.string()))


def _split_of(file: str, own: str, count: int, options: ConvertOptions) -> str:
    """The split of the rows of one file that have one value in their column of splits."""
    own = own.strip().lower()
    split = SPLIT_ALIASES.get(own, own) or split_of_path(PurePosixPath(file))
    if split is None and options.split_by_speaker:
        split = "train"
    if split not in SPLITS:
        names = ", ".join((*SPLITS, *SPLIT_ALIASES))
        raise SourceError(
            f"{file}: {count:,} rows have {f'the split {own!r}' if own else 'no split'}; name a "
            f"file or a folder {names}, write such names into a column split, or add "
            "--split train or --split-by-speaker 80/10/10"
        )
    return split


def split_of_path(path: PurePosixPath) -> str | None:
    """The split that the name of a file or of a folder above it begins with, if one does."""
    for part in (path.name, *reversed(path.parent.parts)):
        name = part.lower().removeprefix("split=")  # as in Hive's folders
        beginning = re.split("[-_.]", name)[0]
        split = SPLIT_ALIASES.get(beginning, beginning)
        if split in SPLITS:
            return split
    return None


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
    """The table in which all rows but the first of a corpus and id are refused."""
    is_repeated = np.ones(len(rows), np.bool_)
    _, first = np.unique(_hashes(rows, "corpus", "id"), return_index=True)
    is_repeated[first] = False
    return refuse(rows, pa.array(is_repeated), DUPLICATE)


def _hashes(rows: pa.Table, *names: str) -> NDArray[np.int64]:
    """A hash of some columns of each row; Arrow's own grouping would copy all strings."""
    parts = [np.empty(0, np.int64)]
    for batch in rows.select(names).to_batches():
        columns = (column.to_pylist() for column in batch.columns)
        parts.append(np.fromiter(map(hash, zip(*columns, strict=True)), np.int64, len(batch)))
    return np.concatenate(parts)


Listed = set[tuple[str | None, str]]
"""Rows by corpus and id; without a corpus, those of any."""


def read_without(path: Path) -> Listed:
    """The rows of a list of ``--without``.

    Raises:
        SourceError: It cannot be read, or has no column ``id``.
    """
    listed: Listed = set()
    for line, row in read_valid_rows(path, SourceError):
        if row.get("id") in {None, ""}:
            raise SourceError(f"{path}:{line}: expected the columns corpus and id; has {[*row]}")
        listed.add((row.get("corpus") or None, str(row["id"])))
    return listed


def is_listed(rows: pa.Table, listed: Listed) -> pa.Array:
    """Which rows of a table with the columns ``corpus`` and ``id`` are in a list."""
    names = zip(rows["corpus"].to_pylist(), rows["id"].to_pylist(), strict=True)
    in_list = [(corpus, own) in listed or (None, own) in listed for corpus, own in names]
    return pa.array(in_list, pa.bool_())


def check_recordings(rows: pa.Table) -> None:
    """Raise `SourceError` if a recording has several texts and no times: each would be of all."""
    spoken = pc.match_substring_regex(rows["text"], r"\S")
    is_usable = pc.and_(pc.and_(rows["uncut"], pc.is_null(rows["refused"])), spoken)
    is_usable = pc.and_(is_usable, pc.is_valid(rows["audio"]))
    usable = np.flatnonzero(pc.fill_null(is_usable, fill_value=False))
    recordings = _hashes(rows, "audio", "channel")[usable]
    texts = _hashes(rows, "audio", "channel", "text")[usable]
    _, first = np.unique(texts, return_index=True)
    distinct, counts = np.unique(recordings[first], return_counts=True)
    several = distinct[counts > 1]
    if not len(several):
        return
    pair = np.sort(first[recordings[first] == several[0]])[:2]
    one, other = rows.take(usable[pair]).to_pylist()
    raise SourceError(
        f"{len(several):,} recordings have several texts and no times, such as {one['audio']} "
        f"in {place_of(one)} and {place_of(other)}. Name both ends in seconds "
        "(--column start=COLUMN --column end=COLUMN), or keep one row of each recording"
    )


Audio = bytes | Path | AudioError | None
"""An encoded file in memory, or where one is, or why there is none."""

Fetch = Callable[[pa.Table], Iterator[Audio]]
"""Yields the audio of each row of a slice of the table, in order. It must pickle."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A corpus that was read: all rows, and what fetches their audio."""

    name: str  # in the user's words
    rows: pa.Table  # of `ROWS`, the rows of a file together
    fetch: Fetch
    columns: Mapping[str, str] = field(default_factory=dict)  # names that were read, by ours
    ignored: tuple[str, ...] = ()  # names that were not
    counts: Mapping[str, int] = field(default_factory=dict)  # of what the reader saw or removed
    version: str = ""  # changes with audio that is embedded
