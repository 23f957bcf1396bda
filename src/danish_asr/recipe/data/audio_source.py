"""Fetch the encoded audio of single rows, in any order, from any thread.

Shuffled batches take one row of a Parquet row group at a time, but Parquet libraries read row
groups whole: a hundred rows to use one. Our shards store the audio column plain and uncompressed,
so that each value is a run of bytes in the file. Where the runs begin is read from their length
prefixes once per row group; each row then costs one ``pread`` of its own size. A row group of
another layout (compressed, nullable) is decoded as a whole.

The format is https://parquet.apache.org/docs/file-format/data-pages/: a column chunk is a run of
pages, each a Thrift-compact header and its values; a plain value is its length (4 bytes,
little-endian) and its bytes. Only lengths and headers are read.
"""

import os
from abc import ABC, abstractmethod
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from typing_extensions import override

from danish_asr.base.errors import DatasetError

_OPEN_FILES: Final = 128
_CACHED_GROUPS: Final = 16
_HEADER_SIZES: Final = (256, 1 << 16, 1 << 24)
"""Bytes to read for a page header: 256 without statistics, which may hold whole values."""


class AudioSource(ABC):
    """Encoded audio by row number."""

    def read(self, row: int) -> bytes:
        """The file content (FLAC, WAV, ...) of one row; thread-safe."""
        try:
            return self._read(row)
        except (OSError, ValueError, IndexError, pa.ArrowException) as error:
            raise DatasetError(f"{self.describe(row)}: cannot be read ({error})") from error

    @abstractmethod
    def _read(self, row: int) -> bytes: ...

    @abstractmethod
    def describe(self, row: int) -> str:
        """Where the row's audio is, for messages."""

    @abstractmethod
    def take(self, rows: NDArray[np.integer[Any]]) -> Self:
        """A source for these rows, renumbered from 0."""


class _File:
    """An open file; it closes when nobody reads from it any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def read(self, begin: int, size: int) -> bytes:
        """Exactly ``size`` bytes; raises ``ValueError`` if the file ends before."""
        data = os.pread(self._descriptor, size, begin)
        if len(data) != size:
            raise ValueError(f"the file ends at byte {begin + len(data)} of {begin + size}")
        return data

    def number(self, position: int) -> int:
        """An unsigned number of 4 bytes."""
        return int.from_bytes(self.read(position, 4), "little")


def _open(path: Path) -> _File:
    return _File(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


class FileAudio(AudioSource):
    """Audio files, or slices of files: path, first byte and size, -1 for the whole file."""

    def __init__(self, slices: list[tuple[Path, int, int]]) -> None:
        self._slices = slices
        self._open = lru_cache(_OPEN_FILES)(_open)

    @override
    def _read(self, row: int) -> bytes:
        path, begin, size = self._slices[row]
        return path.read_bytes() if size < 0 else self._open(path).read(begin, size)

    @override
    def describe(self, row: int) -> str:
        path, begin, size = self._slices[row]
        return str(path) if size < 0 else f"{path}, {size} bytes from {begin}"

    @override
    def take(self, rows: NDArray[np.integer[Any]]) -> Self:
        return type(self)([self._slices[row] for row in rows])


class AudioChunk(NamedTuple):
    """The audio column of one row group."""

    num_rows: int
    begin: int  # of the chunk in the file; -1 if Arrow has to decode its values
    size: int


class RowGroup(NamedTuple):
    """A row group of a shard."""

    path: Path
    number: int
    audio: AudioChunk


def audio_chunks(metadata: pq.FileMetaData, *, nullable: bool) -> list[AudioChunk]:
    """The audio column of each row group of a file, from its footer."""
    chunks, column = [], -1
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if column < 0:
            # Not by `metadata.schema`: it refers back to the metadata (pyarrow 21), and millions of
            # rows have half a gigabyte of that, which waits for Python's cycle collector.
            names = [group.column(place).path_in_schema for place in range(metadata.num_columns)]
            column = names.index("audio_bytes")
        chunk = group.column(column)
        plain = chunk.compression == "UNCOMPRESSED" and {"PLAIN", "RLE"}.issuperset(chunk.encodings)
        begin = chunk.data_page_offset if plain and not nullable else -1
        chunks.append(AudioChunk(chunk.num_values, begin, chunk.total_compressed_size))
    return chunks


class ParquetAudio(AudioSource):
    """Audio in Parquet shards: row ``r`` is row ``within[r]`` of ``groups[group_of[r]]``."""

    def __init__(
        self, groups: list[RowGroup], group_of: NDArray[np.int32], within: NDArray[np.int32]
    ) -> None:
        self._groups, self._group_of, self._within = groups, group_of, within
        self._open = open_file = lru_cache(_OPEN_FILES)(_open)
        # Without a reference to this object: files close when it goes.
        self._locate = cache(lambda group: _locate_values(open_file(group.path), group.audio))
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
        return self._open(group.path).read(int(begins[within]), int(sizes[within]))

    @override
    def describe(self, row: int) -> str:
        group = self._groups[self._group_of[row]]
        return f"{group.path}, row group {group.number}, row {self._within[row]}"

    @override
    def take(self, rows: NDArray[np.integer[Any]]) -> Self:
        return type(self)(self._groups, self._group_of[rows], self._within[rows])


def _decode_values(group: RowGroup) -> pa.Array:
    with pq.ParquetFile(group.path) as file:
        table = file.read_row_group(group.number, ["audio_bytes"], use_threads=False)
    return table.column("audio_bytes").combine_chunks()


def _locate_values(file: _File, chunk: AudioChunk) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """First byte and size of each value of a plain column chunk."""
    begins, sizes = np.empty(chunk.num_rows, np.int64), np.empty(chunk.num_rows, np.int32)
    position, value = chunk.begin, 0
    while value < chunk.num_rows:
        header, position = _page_header(file, position, chunk.begin + chunk.size)
        page_end = position + header[3]
        # Field 1 is the type of the page; a data page has its header in field 5, version 2 in 8.
        if header[1] not in {0, 3}:
            raise ValueError(f"expected plain data pages, found a page of type {header[1]}")
        count = header[5 if header[1] == 0 else 8][1]
        for number in range(value, value + count):
            sizes[number] = file.number(position)
            begins[number] = position + 4
            position += 4 + int(sizes[number])
        if position != page_end:
            raise ValueError(f"values end at byte {position}, their page at {page_end}")
        value += count
    return begins, sizes


def _page_header(file: _File, begin: int, end: int) -> tuple[dict[int, Any], int]:
    """The fields of a PageHeader by number, and the position after it."""
    for size in _HEADER_SIZES:
        try:
            fields, length = _struct(file.read(begin, min(size, end - begin)), 0)
        except IndexError:
            continue
        return fields, begin + length
    raise ValueError(f"no page header at byte {begin}")


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
