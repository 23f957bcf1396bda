"""Divide a source into shard tasks: each becomes one shard, whoever converts it and when.

The plan is a function of the source and the options alone. That makes a conversion resumable, and
its bytes independent of the number of workers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.conversion import ConvertOptions
from danish_asr.errors import DatasetError
from danish_asr.files import publish_first
from danish_asr.schema import INVENTORY_FILE, SPLITS, VERSION_DIR, partition_dir
from danish_asr.sources.base import Source, SourceFile

FORMAT: Final = 3
"""Raised when the same source and options give another key, other shards or another ledger."""

WORK_DIR: Final = ".convert"
"""Holds the plan and the records of an unfinished conversion, below the dataset's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSlice:
    """Rows ``start`` to ``stop - 1`` of one source file."""

    file: SourceFile
    start: int
    stop: int
    duplicates: frozenset[int]
    """Rows of the slice whose id occurs in an earlier row of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTask:
    """The source rows of one shard."""

    number: int
    corpus: str
    split: str
    part: int
    parts: int
    slices: tuple[RowSlice, ...]

    @property
    def rows(self) -> int:
        """Source rows of the task."""
        return sum(rows.stop - rows.start for rows in self.slices)

    @property
    def fingerprint(self) -> str:
        """Changes with the source rows."""
        return _digest([(rows.file.fingerprint, rows.start, rows.stop) for rows in self.slices])

    @property
    def path(self) -> str:
        """Path of the shard below the dataset's root."""
        name = f"part-{self.part:05d}-of-{self.parts:05d}.parquet"
        return (partition_dir(Path(), self.corpus, self.split) / name).as_posix()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionPlan:
    """All tasks of a conversion.

    Attributes:
        key: See `conversion_key`.
        tasks: One per shard, in order.
    """

    key: str
    tasks: tuple[ShardTask, ...]

    @property
    def rows(self) -> int:
        """Rows in the source."""
        return sum(task.rows for task in self.tasks)


def plan_conversion(source: Source, options: ConvertOptions) -> ConversionPlan:
    """Plan the conversion of a source; reads its ids and no audio."""
    duplicates = find_duplicates(source)
    partitions: dict[tuple[str, str], list[SourceFile]] = {}
    for file in source.files:
        partitions.setdefault((file.corpus, file.split), []).append(file)
    tasks: list[ShardTask] = []
    for corpus, split in sorted(partitions, key=lambda key: (key[0], SPLITS.index(key[1]))):
        shards = list(_cut(partitions[corpus, split], duplicates, options.shard_rows))
        for part, slices in enumerate(shards):
            task = ShardTask(
                number=len(tasks),
                corpus=corpus,
                split=split,
                part=part,
                parts=len(shards),
                slices=tuple(slices),
            )
            tasks.append(task)
    return ConversionPlan(key=conversion_key(source, options), tasks=tuple(tasks))


def conversion_key(source: Source, options: ConvertOptions) -> str:
    """Digest of all that decides the bytes of a dataset.

    That is the format, the options, and of every source file its fingerprint and the size and time
    of change of the local files that its rows are read from, external audio included.
    """
    files = [
        (file.name, file.corpus, file.split, file.fingerprint, _local_state(source, file))
        for file in source.files
    ]
    return _digest([FORMAT, options.max_seconds, options.shard_rows, files])


def _local_state(source: Source, file: SourceFile) -> str:
    return _digest([_size_and_time(path) for path in dict.fromkeys(source.local_files(file))])


def _size_and_time(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return status.st_size, status.st_mtime_ns


def claim(out: Path, plan: ConversionPlan) -> None:
    """Claim ``out`` for a plan, or check that the conversion there has this very plan.

    Many processes may do so at the same moment: the plan that the first one publishes holds for
    all of them.

    Raises:
        DatasetError: ``out`` holds something else, or a conversion with another plan.
        DanishAsrError: ``out`` cannot be written.
    """
    # Looked at before the plan: shards appear only after a plan, so shards without a plan are not
    # ours. In the other order, the shards of a process that starts right now would be refused.
    shards = (out / VERSION_DIR).exists()
    path = out / WORK_DIR / "plan.json"
    ours = json.dumps({"key": plan.key, "rows": plan.rows, "shards": len(plan.tasks)})
    if not path.is_file():
        if (out / INVENTORY_FILE).is_file():
            raise DatasetError(f"{out}: was finished a moment ago; run the same command again")
        if shards:
            raise DatasetError(
                f"{out}: holds a dataset that `danish-asr convert` did not start; choose another "
                "--out"
            )
        publish_first(path, ours)
    if path.read_text(encoding="utf-8", errors="replace") != ours:
        raise DatasetError(
            f"{out}: holds an unfinished conversion, and its source (content, size or time of "
            f"change of a file), its options or this program have changed since ({path} differs); "
            f"restore them to continue, or delete it to start anew: rm -r '{out}'"
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


def _cut(
    files: list[SourceFile], duplicates: dict[str, frozenset[int]], shard_rows: int
) -> Iterator[list[RowSlice]]:
    """Group the chunks of a partition's files into shards of at most ``shard_rows``.

    A chunk that is larger than that is cut into equal parts; the others stay whole.
    """
    slices: list[RowSlice] = []
    total = 0
    for file in files:
        for start, stop in _ranges(file.row_groups, shard_rows):
            if total and total + stop - start > shard_rows:
                yield slices
                slices, total = [], 0
            within = frozenset(row for row in duplicates[file.name] if start <= row < stop)
            last = slices[-1] if slices else None
            if last is not None and last.file is file and last.stop == start:
                slices[-1] = replace(last, stop=stop, duplicates=last.duplicates | within)
            else:
                slices.append(RowSlice(file=file, start=start, stop=stop, duplicates=within))
            total += stop - start
    if slices:
        yield slices


def _ranges(chunks: tuple[int, ...], shard_rows: int) -> Iterator[tuple[int, int]]:
    begin = 0
    for rows in chunks:
        parts = max(1, math.ceil(rows / shard_rows))
        bounds = [begin + rows * part // parts for part in range(parts + 1)]
        yield from ((low, high) for low, high in pairwise(bounds) if high > low)
        begin += rows


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()
