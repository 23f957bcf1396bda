"""Fetch the encoded audio of single rows, in any order, from any thread.

A plan that is shuffled over a whole dataset wants one row of a Parquet row group at a time. Parquet
libraries read row groups whole: a hundred rows to use one. Our shards store the audio column plain
and uncompressed, so that each value is a run of bytes in the file; where the runs begin is read
from their length prefixes once per row group, and each row then costs one ``pread`` of its own
size. Datasets that compress the column are read a row group at a time.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from danish_asr.data.parquet_values import locate_values
from danish_asr.errors import DatasetError

_OPEN_FILES: Final = 128
_CACHED_GROUPS: Final = 16
_DIRECT_ENCODINGS: Final = frozenset({"PLAIN", "RLE"})


class AudioSource(Protocol):
    """Encoded audio by row number."""

    def read(self, row: int) -> bytes:
        """The file content (FLAC, WAV, ...) of one row.

        Raises:
            DatasetError: The bytes cannot be read.
        """
        ...

    def describe(self, row: int) -> str:
        """Where the row's audio stands, for messages."""
        ...

    def take(self, rows: NDArray[np.integer[Any]]) -> AudioSource:
        """A source for these rows, renumbered from 0."""
        ...


@dataclass(frozen=True, eq=False)
class RowGroups:
    """The audio column's chunks, one per row group.

    Attributes:
        paths: The files.
        file_of: Index into ``paths`` per row group.
        number: The row group's number in its file.
        num_rows: Rows per row group.
        begin: Byte where the chunk begins in the file, -1 if values have to be decoded by Arrow.
        size: Bytes of the chunk.
        nullable: Whether definition levels stand before the values.
    """

    paths: tuple[Path, ...]
    file_of: NDArray[np.int32]
    number: NDArray[np.int32]
    num_rows: NDArray[np.int32]
    begin: NDArray[np.int64]
    size: NDArray[np.int64]
    nullable: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.num_rows)

    @classmethod
    def of_file(cls, path: Path, metadata: pq.FileMetaData, *, nullable: bool) -> RowGroups:
        """Read the chunks' places from a footer; ``nullable`` is the audio column's."""
        places = list(_places(metadata))
        return cls(
            paths=(path,),
            file_of=np.zeros(len(places), np.int32),
            number=np.arange(len(places), dtype=np.int32),
            num_rows=np.array([rows for rows, _, _ in places], np.int32),
            begin=np.array([begin for _, begin, _ in places], np.int64),
            size=np.array([size for _, _, size in places], np.int64),
            nullable=np.full(len(places), nullable),
        )

    @classmethod
    def joined(cls, parts: Sequence[RowGroups]) -> RowGroups:
        """One numbering through several files."""
        files_before = np.cumsum([0] + [len(part.paths) for part in parts[:-1]])
        pairs = zip(parts, files_before, strict=True)
        return cls(
            paths=tuple(path for part in parts for path in part.paths),
            file_of=np.concatenate([part.file_of + np.int32(before) for part, before in pairs]),
            number=np.concatenate([part.number for part in parts]),
            num_rows=np.concatenate([part.num_rows for part in parts]),
            begin=np.concatenate([part.begin for part in parts]),
            size=np.concatenate([part.size for part in parts]),
            nullable=np.concatenate([part.nullable for part in parts]),
        )


def _places(metadata: pq.FileMetaData) -> Iterator[tuple[int, int, int]]:
    """Rows, first byte (-1 if not directly readable) and size of each audio chunk."""
    if not metadata.num_row_groups:
        return
    # Not by `metadata.schema`: it refers back to the metadata (pyarrow 21), and millions of rows
    # have half a gigabyte of that, which waits for Python's cycle collector.
    first = metadata.row_group(0)
    column = next(
        number
        for number in range(metadata.num_columns)
        if first.column(number).path_in_schema == "audio_bytes"
    )
    for number in range(metadata.num_row_groups):
        chunk = metadata.row_group(number).column(column)
        direct = chunk.compression == "UNCOMPRESSED" and _DIRECT_ENCODINGS.issuperset(
            chunk.encodings
        )
        begin = chunk.data_page_offset if direct else -1
        yield chunk.num_values, begin, chunk.total_compressed_size


class ParquetAudio:
    """Audio that stands in Parquet shards."""

    def __init__(
        self, groups: RowGroups, group_of: NDArray[np.int32], within: NDArray[np.int32]
    ) -> None:
        self._groups = groups
        self._group_of = group_of
        self._within = within
        self._files = OpenFiles(groups.paths)
        self._values: dict[int, tuple[NDArray[np.int64], NDArray[np.int32]]] = {}
        self._decoded: OrderedDict[int, pa.Array] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, row: int) -> bytes:
        """One row's file content; thread-safe.

        Raises:
            DatasetError: The bytes cannot be read.
        """
        group, within = int(self._group_of[row]), int(self._within[row])
        try:
            if self._groups.begin[group] < 0:
                return self._decode(group)[within].as_py()  # type: ignore[no-any-return]
            begins, sizes = self._locate(group)
            file = int(self._groups.file_of[group])
            return self._files.read(file, int(begins[within]), int(sizes[within]))
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DatasetError(f"{self.describe(row)}: cannot be read ({error})") from error

    def describe(self, row: int) -> str:
        """File, row group and row, for messages."""
        group = self._group_of[row]
        path = self._groups.paths[self._groups.file_of[group]]
        return f"{path}, row group {self._groups.number[group]}, row {self._within[row]}"

    def take(self, rows: NDArray[np.integer[Any]]) -> ParquetAudio:
        """A source for these rows, renumbered from 0."""
        return ParquetAudio(self._groups, self._group_of[rows], self._within[rows])

    def _locate(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Places of the group's values; two threads may find them at once, to the same result."""
        if group not in self._values:
            groups, file = self._groups, int(self._groups.file_of[group])
            self._values[group] = locate_values(
                lambda begin, size: self._files.read(file, begin, size),
                begin=int(groups.begin[group]),
                size=int(groups.size[group]),
                num_values=int(groups.num_rows[group]),
                nullable=bool(groups.nullable[group]),
            )
        return self._values[group]

    def _decode(self, group: int) -> pa.Array:
        with self._lock:
            if group in self._decoded:
                self._decoded.move_to_end(group)
                return self._decoded[group]
        path = self._groups.paths[self._groups.file_of[group]]
        with pq.ParquetFile(path) as file:
            number = int(self._groups.number[group])
            table = file.read_row_group(number, ["audio_bytes"], use_threads=False)
        values = table.column("audio_bytes").combine_chunks()
        with self._lock:
            self._decoded[group] = values
            while len(self._decoded) > _CACHED_GROUPS:
                self._decoded.popitem(last=False)
        return values


class OpenFiles:
    """Positioned reads from many files, of which a bounded number is open at a time."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._open: OrderedDict[int, _Descriptor] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, file: int, begin: int, size: int) -> bytes:
        """Exactly ``size`` bytes from ``begin`` of the file with this number.

        Raises:
            OSError: The file cannot be opened or read.
            ValueError: The file ends before.
        """
        with self._lock:
            descriptor = self._open.pop(file, None) or _Descriptor(self._paths[file])
            self._open[file] = descriptor
            if len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)
        data = os.pread(descriptor.number, size, begin)
        if len(data) != size:
            raise ValueError(f"the file ends at byte {begin + len(data)} of {begin + size}")
        return data


class _Descriptor:
    """A file descriptor that closes when nobody reads from it any more."""

    def __init__(self, path: Path) -> None:
        self.number = -1
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)
