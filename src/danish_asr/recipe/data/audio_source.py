"""Fetch the encoded audio of single rows, in any order, from any thread.

Shuffled batches take one row of a Parquet row group at a time, but Parquet libraries read row
groups whole: a hundred rows to use one. Our shards store the audio column plain and uncompressed,
so that each value is a run of bytes in the file. Where the runs begin is read from their length
prefixes once per row group; each row then costs one ``pread`` of its own size. Datasets that
compress the column are read a row group at a time.

The format is https://parquet.apache.org/docs/file-format/data-pages/: a column chunk is a run of
pages, each a Thrift-compact header and its values; a plain value is its length (4 bytes,
little-endian) and its bytes. Only lengths and headers are read.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from typing_extensions import override

from danish_asr.base.errors import DatasetError

_OPEN_FILES: Final = 128
_CACHED_GROUPS: Final = 16
_DIRECT_ENCODINGS: Final = frozenset({"PLAIN", "RLE"})
_DATA_PAGE: Final = 0
_DATA_PAGE_V2: Final = 3


class AudioSource(ABC):
    """Encoded audio by row number."""

    def read(self, row: int) -> bytes:
        """The file content (FLAC, WAV, ...) of one row; thread-safe."""
        try:
            return self._read(row)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DatasetError(f"{self.describe(row)}: cannot be read ({error})") from error

    @abstractmethod
    def _read(self, row: int) -> bytes: ...

    @abstractmethod
    def describe(self, row: int) -> str:
        """Where the row's audio is, for messages."""

    @abstractmethod
    def take(self, rows: NDArray[np.integer[Any]]) -> AudioSource:
        """A source for these rows, renumbered from 0."""


class _Descriptor:
    """A file descriptor that closes when nobody reads from it any more."""

    number = -1

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


class _OpenFiles:
    """Positioned reads from many files, of which a bounded number is open at a time."""

    def __init__(self) -> None:
        self._open = lru_cache(_OPEN_FILES)(_Descriptor)

    def read(self, path: Path, begin: int, size: int) -> bytes:
        """Exactly ``size`` bytes; raises ``ValueError`` if the file ends before."""
        descriptor = self._open(path)
        data = os.pread(descriptor.number, size, begin)
        if len(data) != size:
            raise ValueError(f"the file ends at byte {begin + len(data)} of {begin + size}")
        return data


class FileAudio(AudioSource):
    """Audio files, or slices of files: path, first byte and size, -1 for the whole file."""

    def __init__(self, slices: list[tuple[Path, int, int]]) -> None:
        self._slices = slices
        self._files = _OpenFiles()

    @override
    def _read(self, row: int) -> bytes:
        path, begin, size = self._slices[row]
        return path.read_bytes() if size < 0 else self._files.read(path, begin, size)

    @override
    def describe(self, row: int) -> str:
        path, begin, size = self._slices[row]
        return str(path) if size < 0 else f"{path}, {size} bytes from {begin}"

    @override
    def take(self, rows: NDArray[np.integer[Any]]) -> FileAudio:
        return FileAudio([self._slices[row] for row in rows])


class AudioChunk(NamedTuple):
    """The audio column of one row group."""

    num_rows: int
    begin: int  # of the chunk in the file; -1 if Arrow has to decode its values
    size: int
    nullable: bool  # definition levels come before the values


class RowGroup(NamedTuple):
    """A row group of a shard."""

    path: Path
    number: int
    audio: AudioChunk


def audio_chunks(metadata: pq.FileMetaData, *, nullable: bool) -> list[AudioChunk]:
    """The audio column of each row group of a file, from its footer."""
    chunks = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not number:
            # Not by `metadata.schema`: it refers back to the metadata (pyarrow 21), and millions of
            # rows have half a gigabyte of that, which waits for Python's cycle collector.
            names = [group.column(place).path_in_schema for place in range(metadata.num_columns)]
        chunk = group.column(names.index("audio_bytes"))
        direct = (
            chunk.compression == "UNCOMPRESSED"
            and _DIRECT_ENCODINGS.issuperset(chunk.encodings)
            and not (nullable and (chunk.statistics is None or chunk.statistics.null_count))
        )
        begin = chunk.data_page_offset if direct else -1
        size = chunk.total_compressed_size
        chunks.append(AudioChunk(chunk.num_values, begin, size, nullable))
    return chunks


class ParquetAudio(AudioSource):
    """Audio in Parquet shards: row ``r`` is row ``within[r]`` of ``groups[group_of[r]]``."""

    def __init__(
        self, groups: list[RowGroup], group_of: NDArray[np.int32], within: NDArray[np.int32]
    ) -> None:
        self._groups, self._group_of, self._within = groups, group_of, within
        self._files = _OpenFiles()
        self._locate = cache(partial(_locate_values, self._files))
        self._decode = lru_cache(_CACHED_GROUPS)(_decode_values)

    @override
    def _read(self, row: int) -> bytes:
        group, within = self._groups[self._group_of[row]], int(self._within[row])
        if group.audio.begin < 0:
            value: bytes | None = self._decode(group)[within].as_py()
            if value is None:
                raise ValueError("the audio is null")
            return value
        begins, sizes = self._locate(group)
        return self._files.read(group.path, int(begins[within]), int(sizes[within]))

    @override
    def describe(self, row: int) -> str:
        group = self._groups[self._group_of[row]]
        return f"{group.path}, row group {group.number}, row {self._within[row]}"

    @override
    def take(self, rows: NDArray[np.integer[Any]]) -> ParquetAudio:
        return ParquetAudio(self._groups, self._group_of[rows], self._within[rows])


def _decode_values(group: RowGroup) -> pa.Array:
    with pq.ParquetFile(group.path) as file:
        table = file.read_row_group(group.number, ["audio_bytes"], use_threads=False)
    return table.column("audio_bytes").combine_chunks()


def _locate_values(
    files: _OpenFiles, group: RowGroup
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """First byte and size of each value of a plain column chunk that holds no null."""
    read, chunk = partial(files.read, group.path), group.audio
    begins, sizes = np.empty(chunk.num_rows, np.int64), np.empty(chunk.num_rows, np.int32)
    position, end, value = chunk.begin, chunk.begin + chunk.size, 0
    while value < chunk.num_rows:
        header, position = _page_header(read, position, end)
        kind, page_end = header[1], position + header[3]
        if kind == _DATA_PAGE:
            count = header[5][1]
            if chunk.nullable:
                position += 4 + int.from_bytes(read(position, 4), "little")
        elif kind == _DATA_PAGE_V2:
            count = header[8][1]
            position += header[8][5] + header[8][6]
        else:
            raise ValueError(f"expected plain data pages, found a page of type {kind}")
        for number in range(value, value + count):
            sizes[number] = int.from_bytes(read(position, 4), "little")
            begins[number] = position + 4
            position += 4 + int(sizes[number])
        if position != page_end:
            raise ValueError(f"values end at byte {position}, their page at {page_end}")
        value += count
    return begins, sizes


def _page_header(
    read: Callable[[int, int], bytes], begin: int, end: int
) -> tuple[dict[int, Any], int]:
    """The fields of a PageHeader by number, and the position after it."""
    size = 256  # enough without statistics, which may hold whole values
    while True:
        data = read(begin, min(size, end - begin))
        try:
            fields, length = _struct(data, 0)
        except IndexError:
            if size >= end - begin:
                raise ValueError(f"no page header at byte {begin}") from None
            size *= 16
        else:
            return fields, begin + length


def _struct(data: bytes, position: int) -> tuple[dict[int, Any], int]:
    """The fields of a Thrift-compact struct by number, and the position after it."""
    fields: dict[int, Any] = {}
    field = 0
    while data[position]:
        delta, kind = divmod(data[position], 16)
        field += delta
        position += 1
        if kind in (1, 2):  # true and false are types of their own
            fields[field] = kind == 1
        elif kind in (4, 5, 6):
            number, position = _varint(data, position)
            fields[field] = (number >> 1) ^ -(number & 1)
        elif kind == 8:
            number, position = _varint(data, position)
            position += number
        elif kind == 12:
            fields[field], position = _struct(data, position)
        else:
            raise ValueError(f"unexpected Thrift type {kind} in a page header")
    return fields, position + 1


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
