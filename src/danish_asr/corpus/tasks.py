"""Plan a conversion: tasks of which each becomes one shard.

They are a function of the source and the options alone. That makes a conversion resumable, and its
bytes independent of the number of workers.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from danish_asr.base.errors import DatasetError
from danish_asr.base.files import publish_first
from danish_asr.base.schema import (
    CARDS_DIR,
    LEDGER_FILE,
    README_FILE,
    ROW_GROUP_SIZE,
    SPLITS,
    STATISTICS_FILE,
    SUSPECTS_FILE,
    VERSION_DIR,
    partition_dir,
)
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.division import SHARED_SENTENCE, Division
from danish_asr.corpus.sources.base import Source, SourceFile

WORK_DIR: Final = ".convert"  # the plan and the records of an unfinished conversion

OURS: Final = (CARDS_DIR, LEDGER_FILE, README_FILE, STATISTICS_FILE, SUSPECTS_FILE)
_LEAST_SHARDS: Final = 16  # of a source, if they have a row group each: work for many processes


class RowSlice(NamedTuple):
    """Rows ``start`` to ``stop - 1`` of one source file, without those of ``others``.

    ``duplicates`` have an id seen before; ``shared`` are left out for their sentences.
    """

    file: SourceFile
    start: int
    stop: int
    others: frozenset[int]  # rows of other splits, and so of other tasks
    duplicates: frozenset[int]
    shared: frozenset[int]

    def refused(self, row: int) -> str | None:
        """The reason why a row is dropped without reading its audio."""
        if row in self.duplicates:
            return "duplicate id"
        return SHARED_SENTENCE if row in self.shared else None


@dataclass(frozen=True, slots=True)
class ShardTask:
    """The source rows of one shard, and its path below the dataset's root."""

    number: int
    split: str
    path: str
    slices: tuple[RowSlice, ...]

    @property
    def rows(self) -> int:
        """Source rows of the task."""
        return sum(rows.stop - rows.start - len(rows.others) for rows in self.slices)

    @property
    def fingerprint(self) -> str:
        """Changes with the source rows."""
        return digest([(rows.file.fingerprint, rows.start, rows.stop) for rows in self.slices])


def plan_tasks(
    source: Source, options: ConvertOptions, division: Division | None = None
) -> list[ShardTask]:
    """Plan the conversion of a source; reads its ids and no audio."""
    division = division or Division({}, {}, [])
    duplicates, none = find_duplicates(source), frozenset[int]()
    tasks: list[ShardTask] = []
    for corpus, split, shards in _partitions(source, options, division):
        folder = partition_dir(Path(), corpus, split, options.language)
        for place, ranges in enumerate(shards):
            slices = tuple(
                RowSlice(
                    file,
                    start,
                    stop,
                    others,
                    duplicates=duplicates[file.name].intersection(range(start, stop)),
                    shared=division.shared.get(file.name, none).intersection(range(start, stop)),
                )
                for file, (start, stop, others) in ranges.items()
            )
            name = f"part-{place:05d}-of-{len(shards):05d}.parquet"
            tasks.append(ShardTask(len(tasks), split, (folder / name).as_posix(), slices))
    return tasks


def claim(out: Path, key: str) -> None:
    """Claim ``out`` for a conversion, or check that the one that was begun there has the same key.

    Of many processes that do so at the same moment, the first one publishes the key for all.
    """
    # Looked at first: shards and other files appear after a plan.
    present = [name for name in (VERSION_DIR, *OURS) if (out / name).exists()]
    path = out / WORK_DIR / "plan.json"
    ours = json.dumps({"key": key})
    if not path.is_file():
        if present:
            raise DatasetError(
                f"{out}: holds {', '.join(present)}, which `danish-asr convert` did not write and "
                "would overwrite; choose another --out, a new folder"
            )
        publish_first(path, ours)
    if path.read_text(encoding="utf-8", errors="replace") != ours:
        raise DatasetError(
            f"{out}: holds an unfinished conversion, and its source (a file's content or time), "
            f"its options or this program have changed ({path} differs); restore them to continue, "
            f"or convert anew after rm -r '{out}'"
        )


def find_duplicates(source: Source) -> dict[str, frozenset[int]]:
    """For each file, the rows whose id occurs in an earlier row of this or an earlier file."""
    ids = pa.chunked_array([source.ids(file) for file in source.files], pa.string())
    # Codes count up in the order of first appearance, so a new id is always a new maximum.
    codes = pc.dictionary_encode(ids).chunks
    seen = np.concatenate([chunk.indices.to_numpy() for chunk in codes] or [np.empty(0, np.int32)])
    before = np.maximum.accumulate(np.concatenate([[-1], seen]))[:-1]
    repeated = np.flatnonzero(seen <= before)
    duplicates: dict[str, frozenset[int]] = {}
    begin = 0
    for file in source.files:
        low, high = np.searchsorted(repeated, [begin, begin + file.rows])
        duplicates[file.name] = frozenset((repeated[low:high] - begin).tolist())
        begin += file.rows
    return duplicates


class _Range(NamedTuple):
    """Rows of a file in a shard: the first, the end, and those between them of other splits."""

    start: int
    stop: int
    others: frozenset[int]


Ranges = dict[SourceFile, _Range]


def _partition(file: SourceFile) -> tuple[str, int]:
    return file.corpus, SPLITS.index(file.split)


def _partitions(
    source: Source, options: ConvertOptions, division: Division
) -> Iterator[tuple[str, str, list[Ranges]]]:
    most = _most_rows(source, options)
    for (corpus, own), group in groupby(sorted(source.files, key=_partition), _partition):
        files = list(group)
        if not division.splits:
            yield corpus, SPLITS[own], list(_cut(files, options.shard_rows, most))
            continue
        for number, split in enumerate(SPLITS):
            rows = {file: division.rows_of(file, number) for file in files}
            yield corpus, split, list(_cut_rows(rows, most))


def _most_rows(source: Source, options: ConvertOptions) -> int:
    """Rows per shard: fewer than ``shard_rows`` in a small source, but no part of a row group."""
    largest = max((rows for file in source.files for rows in file.row_groups), default=0)
    share = math.ceil(sum(file.rows for file in source.files) / _LEAST_SHARDS)
    return min(options.shard_rows, max(share, largest, ROW_GROUP_SIZE))


def _cut_rows(rows: Mapping[SourceFile, NDArray[np.int64]], shard_rows: int) -> Iterator[Ranges]:
    """Group scattered rows into shards of at most ``shard_rows``."""
    flat = [(file, row) for file, own in rows.items() for row in own.tolist()]
    for begin in range(0, len(flat), shard_rows):
        ranges: Ranges = {}
        for file, group in groupby(flat[begin : begin + shard_rows], itemgetter(0)):
            own = [row for _, row in group]
            start, stop = own[0], own[-1] + 1
            ranges[file] = _Range(start, stop, frozenset(range(start, stop)).difference(own))
        yield ranges


def _cut(files: Iterable[SourceFile], shard_rows: int, most: int) -> Iterator[Ranges]:
    """Group the row groups of a partition's files into shards of at most ``most`` rows.

    A row group of more than ``shard_rows`` is cut into equal parts.
    """
    ranges: Ranges = {}
    total = 0
    for file in files:
        for start, stop in _pieces(file.row_groups, shard_rows):
            if total and total + stop - start > most:
                yield ranges
                ranges, total = {}, 0
            first = ranges[file].start if file in ranges else start
            ranges[file] = _Range(first, stop, frozenset())
            total += stop - start
    if ranges:
        yield ranges


def _pieces(row_groups: Iterable[int], shard_rows: int) -> Iterator[tuple[int, int]]:
    begin = 0
    for rows in row_groups:
        parts = max(1, math.ceil(rows / shard_rows))
        bounds = [begin + rows * part // parts for part in range(parts + 1)]
        yield from ((low, high) for low, high in pairwise(bounds) if high > low)
        begin += rows


def digest(value: object) -> str:
    """The sha256 of a value as JSON."""
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()
