"""Plan a conversion: its key, and tasks of which each becomes one shard.

Both are functions of the source and the options alone. That makes a conversion resumable, and its
bytes independent of the number of workers.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
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
from danish_asr.base.schema import SPLITS, VERSION_DIR, partition_dir
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.division import SHARED_SENTENCE, Division
from danish_asr.corpus.sources.base import Source, SourceFile

WORK_DIR: Final = ".convert"  # the plan and the records of an unfinished conversion


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
        folder = partition_dir(Path(), corpus, SPLITS[split], options.language)
        for part, ranges in enumerate(shards):
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
            path = (folder / f"part-{part:05d}-of-{len(shards):05d}.parquet").as_posix()
            tasks.append(ShardTask(len(tasks), SPLITS[split], path, slices))
    return tasks


def conversion_key(source: Source, options: ConvertOptions) -> str:
    """Digest of all that decides the bytes of a dataset: options and source files.

    Of local files, external audio included, size and time of change count.
    """
    files = []
    for file in source.files:
        local = digest([_size_and_time(path) for path in dict.fromkeys(source.local_files(file))])
        files.append((file.name, file.corpus, file.split, file.fingerprint, local))
    chosen = asdict(options)
    del chosen["max_drop"]  # decides whether there is a dataset, not what is in it
    return digest([chosen, files])


def claim(out: Path, key: str) -> None:
    """Claim ``out`` for a conversion, or check that the one that was begun there has the same key.

    Of many processes that do so at the same moment, the first one publishes the key for all.
    """
    has_shards = (out / VERSION_DIR).exists()  # looked at first: shards appear after a plan
    path = out / WORK_DIR / "plan.json"
    ours = json.dumps({"key": key})
    if not path.is_file():
        if has_shards:
            raise DatasetError(
                f"{out}: holds a dataset that `danish-asr convert` did not start; choose another "
                "--out"
            )
        publish_first(path, ours)
    if path.read_text(encoding="utf-8", errors="replace") != ours:
        raise DatasetError(
            f"{out}: holds an unfinished conversion, and its source (a file's content or time), "
            f"its options or this program have changed ({path} differs); restore them to continue, "
            f"or convert anew after rm -r '{out}'"
        )


def _size_and_time(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return status.st_size, status.st_mtime_ns


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
) -> Iterator[tuple[str, int, list[Ranges]]]:
    for (corpus, own), group in groupby(sorted(source.files, key=_partition), _partition):
        files = list(group)
        if not division.splits:
            yield corpus, own, list(_cut(files, options.shard_rows))
            continue
        for number, split in enumerate(SPLITS):
            rows = {file: division.rows_of(file, split) for file in files}
            yield corpus, number, list(_cut_rows(rows, options.shard_rows))


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


def _cut(files: Iterable[SourceFile], shard_rows: int) -> Iterator[Ranges]:
    """Group the row groups of a partition's files into shards of at most ``shard_rows``.

    A larger row group is cut into equal parts.
    """
    ranges: Ranges = {}
    total = 0
    for file in files:
        for start, stop in _pieces(file.row_groups, shard_rows):
            if total and total + stop - start > shard_rows:
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
