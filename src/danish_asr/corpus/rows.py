"""One table of all rows of a corpus, without their audio: everything is decided on it.

Comes in: records of a reader, mappings with our names of columns. Goes out: a table of `ROWS`.
A row that cannot be used has a reason in ``refused``, and goes to the ledger with it.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.base.errors import AudioError, SourceError
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
        ("alone", pa.bool_()),  # no other row is of its recording
        *((name, pa.string()) for name in ("speaker_id", "dialect", "sub_dialect")),
        ("age", pa.int64()),
        *((name, pa.string()) for name in ("age_group", "gender", "country_birth")),
        ("refused", pa.string()),
        ("recording", pa.string()),  # the path of the file that ``audio`` names; null of several
        ("version", pa.string()),  # of the file with its audio: changes with it
    ]
)
"""``audio`` names a recording below the source's root, and is null if it is embedded. A record
has no ``uncut``, ``alone``, ``recording`` and ``version``: these are found."""

_CLOCK: Final = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{1,2})(?:[.,](\d+))?")

RECORD_KEYS: Final = frozenset((*COLUMNS, *(f"{name}_ms" for name in TIMES), *ROWS.names)) - {
    "uncut",
    "alone",
    "recording",
    "version",
}
"""What a record of a reader may have."""

DUPLICATE: Final = "duplicate id"
LISTED: Final = "listed in"
"""Reasons in the ledger; the name of the list follows."""


def table_of(records: Iterable[Mapping[str, Any]], options: ConvertOptions) -> pa.Table:
    """The table of records, which have some of `RECORD_KEYS`, among them ``file`` and ``row``."""
    rows, batches = (_row(record, options) for record in records), []
    while chunk := [*islice(rows, 2_000)]:
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

    def read_time(name: str) -> Any:
        milliseconds = read(f"{name}_ms", seconds_of)
        return read(name, seconds_of) if milliseconds is None else milliseconds / 1000

    start, end, seconds = map(read_time, TIMES)
    if end is not None:
        seconds = end - (start or 0.0)
        if seconds < 0:
            faults.append("end before its start")
    own_dialect, own_age = read("dialect", people.clean), read("age", people.clean)
    birth = read("country_birth", people.clean)
    age = people.age_of(own_age)
    is_danish = options.language == DANISH
    if str(record.get("validated")).strip().lower() == "rejected":
        faults.insert(0, "rejected")
    file, row = record["file"], record["row"]
    return {
        "corpus": record.get("corpus") or options.corpus_name,
        "split": _split_of(record, options),
        "file": file,
        "row": row,
        "line": record.get("line"),
        "group": record.get("group", row // 100),
        "id": read("id", _id) or f"{file}:{row}",
        "text": read("text", _text),
        "audio": read("audio", _path),
        "start": start or 0.0,
        "seconds": seconds,
        "channel": read("channel", _channel),
        "uncut": start is None and end is None,
        "speaker_id": read("speaker_id", people.speaker_of),
        "dialect": people.dialect_of(own_dialect, birth) if is_danish else own_dialect,
        "sub_dialect": own_dialect,
        "age": age,
        "age_group": people.age_group(age, own_age),
        "gender": people.gender_of(read("gender", people.clean)),
        "country_birth": birth,
        "refused": faults[0] if faults else None,  # the last: all values were read
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


def seconds_of(value: Any) -> float | None:
    """Seconds of a number, or of ``1:02:03,5``."""
    if isinstance(value, str) and (clock := _CLOCK.fullmatch(value.strip())):
        hours, minutes, seconds, fraction = clock.groups(default="0")
        return 3600 * int(hours) + 60 * int(minutes) + int(seconds) + float(f"0.{fraction}")
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


def _split_of(record: Mapping[str, Any], options: ConvertOptions) -> str | None:
    """The split that the options choose, or the row's own, or that of its file's name."""
    own = str(record.get("split") or "").strip().lower()
    split = options.split or SPLIT_ALIASES.get(own, own) or split_in(record["file"])
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


def check_splits(rows: pa.Table, options: ConvertOptions) -> None:
    """Raise `SourceError` if a split is none of ours, or there is one not to be divided anew."""
    others = rows.filter(pc.invert(pc.is_in(rows["split"], pa.array(SPLITS))))
    if len(others):
        (first,) = others.slice(0, 1).to_pylist()
        split = f"the split {first['split']!r}" if first["split"] else "no split"
        names = ", ".join((*SPLITS, *SPLIT_ALIASES))
        raise SourceError(
            f"{place_of(first)} has {split} (such rows: {len(others):,}); name a file or a folder "
            f"{names}, write such names into a column split, or add --split train or "
            "--split-by-speaker 80/10/10"
        )
    held_out = sorted({*rows["split"].unique().to_pylist()} - {"train"})
    if options.split_by_speaker and held_out:
        raise SourceError(
            f"--split-by-speaker: the source has its own {' and '.join(held_out)}; leave the "
            "option out to keep them, or divide all rows anew with --split train"
        )


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
    """The table in which all rows but the first of a corpus and id are refused."""
    is_repeated = np.ones(len(rows), np.bool_)
    is_repeated[_firsts(rows, "corpus", "id")["number"]] = False
    return refuse(rows, pa.array(is_repeated), DUPLICATE)


def _firsts(rows: pa.Table, *names: str) -> pa.Table:
    """The first row of all that are the same in some columns: these columns and its ``number``."""
    numbered = rows.select(names).append_column("number", pa.array(np.arange(len(rows))))
    grouped = numbered.group_by([*names], use_threads=False).aggregate([("number", "min")])
    return grouped.rename_columns([*names, "number"])


def read_without(path: Path) -> set[tuple[str | None, str]]:
    """The rows of a list of ``--without`` by corpus and id; without a corpus, those of any."""
    listed: set[tuple[str | None, str]] = set()
    for line, row in read_valid_rows(path, SourceError):
        if row.get("id") in {None, ""}:
            raise SourceError(f"{path}:{line}: expected the columns corpus and id; has {[*row]}")
        listed.add((row.get("corpus") or None, str(row["id"])))
    return listed


def is_listed(rows: pa.Table, listed: set[tuple[str | None, str]]) -> pa.Array:
    """Which rows of a table with the columns ``corpus`` and ``id`` are in a list."""
    names = zip(rows["corpus"].to_pylist(), rows["id"].to_pylist(), strict=True)
    in_list = [(corpus, own) in listed or (None, own) in listed for corpus, own in names]
    return pa.array(in_list, pa.bool_())


def is_alone(rows: pa.Table) -> pa.ChunkedArray:
    """Which rows are the only one of their recording, as all are whose audio is embedded."""
    counts = rows["audio"].drop_null().value_counts()
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    return pc.invert(pc.is_in(rows["audio"], repeated))


def check_recordings(rows: pa.Table) -> None:
    """Raise `SourceError` if a recording has several texts and no times: each would be of all."""
    is_spoken = pc.match_substring_regex(rows["text"], r"\S")
    is_usable = pc.and_(pc.and_(rows["uncut"], is_spoken), pc.is_null(rows["refused"]))
    counts = rows["audio"].filter(is_usable).drop_null().value_counts()
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    usable = rows.filter(pc.and_(is_usable, pc.is_in(rows["audio"], repeated)))  # mostly none
    texts = _firsts(usable, "audio", "channel", "text").group_by(["audio", "channel"])
    counted = texts.aggregate([("number", "count"), ("number", "min"), ("number", "max")])
    several = counted.filter(pc.greater(counted["number_count"], 1))
    if not len(several):
        return
    pair = several.slice(0, 1).to_pylist()[0]
    one, other = usable.take([pair["number_min"], pair["number_max"]]).to_pylist()
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


def of_each(values: pa.ChunkedArray, function: Callable[[str], str | None]) -> pa.Array:
    """The result of a function for each value; it is called once for all that are the same."""
    encoded = values.combine_chunks().dictionary_encode()
    results = [function(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(results, pa.string()).take(encoded.indices)


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
