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
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from danish_asr.errors import DatasetError

_OPEN_FILES: Final = 128
_CACHED_GROUPS: Final = 16
_DIRECT_ENCODINGS: Final = frozenset({"PLAIN", "RLE"})

ReadAt = Callable[[int, int], bytes]
"""``(begin, size) -> bytes`` of a file."""

_HEADER_GUESS: Final = 256
_DATA_PAGE: Final = 0
_DATA_PAGE_V2: Final = 3
_PLAIN: Final = 0


class AudioSource(Protocol):
    """Encoded audio by row number."""

    def read(self, row: int) -> bytes:
        """The file content (FLAC, WAV, ...) of one row; thread-safe.

        Raises:
            DatasetError: The bytes cannot be read.
        """
        ...

    def describe(self, row: int) -> str:
        """Where the row's audio is, for messages."""
        ...

    def take(self, rows: NDArray[np.integer[Any]]) -> AudioSource:
        """A source for these rows, renumbered from 0."""
        ...


class RowGroup(NamedTuple):
    """The audio column's chunk in one row group.

    Attributes:
        path: The file.
        number: The row group's number in its file.
        num_rows: Its rows.
        begin: Byte where the chunk begins in the file, -1 if Arrow has to decode its values.
        size: Bytes of the chunk.
        nullable: Whether definition levels come before the values.
    """

    path: Path
    number: int
    num_rows: int
    begin: int
    size: int
    nullable: bool


def row_groups(metadata: pq.FileMetaData, *, nullable: bool) -> list[tuple[int, int, int, bool]]:
    """The last four fields of each :class:`RowGroup` of a file, from its footer.

    Args:
        metadata: The footer.
        nullable: Whether the audio column's schema allows nulls.
    """
    found: list[tuple[int, int, int, bool]] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not number:
            # Not by `metadata.schema`: it refers back to the metadata (pyarrow 21), and millions of
            # rows have half a gigabyte of that, which waits for Python's cycle collector.
            names = [group.column(place).path_in_schema for place in range(metadata.num_columns)]
        chunk = group.column(names.index("audio_bytes"))
        direct = chunk.compression == "UNCOMPRESSED" and _DIRECT_ENCODINGS.issuperset(
            chunk.encodings
        )
        begin = chunk.data_page_offset if direct else -1
        found.append((chunk.num_values, begin, chunk.total_compressed_size, nullable))
    return found


class ParquetAudio:
    """Audio in Parquet shards: row ``r`` is row ``within[r]`` of ``groups[group_of[r]]``."""

    def __init__(
        self, groups: list[RowGroup], group_of: NDArray[np.int32], within: NDArray[np.int32]
    ) -> None:
        self._groups = groups
        self._group_of = group_of
        self._within = within
        self._files = OpenFiles()
        self._values: dict[int, tuple[NDArray[np.int64], NDArray[np.int32]]] = {}
        self._decoded: OrderedDict[int, pa.Array] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, row: int) -> bytes:
        """See :class:`AudioSource`."""
        group, within = int(self._group_of[row]), int(self._within[row])
        try:
            if self._groups[group].begin < 0:
                return self._decode(group)[within].as_py()  # type: ignore[no-any-return]
            begins, sizes = self._locate(group)
            path = self._groups[group].path
            return self._files.read(path, int(begins[within]), int(sizes[within]))
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DatasetError(f"{self.describe(row)}: cannot be read ({error})") from error

    def describe(self, row: int) -> str:
        """File, row group and row."""
        group = self._groups[self._group_of[row]]
        return f"{group.path}, row group {group.number}, row {self._within[row]}"

    def take(self, rows: NDArray[np.integer[Any]]) -> ParquetAudio:
        """See :class:`AudioSource`."""
        return ParquetAudio(self._groups, self._group_of[rows], self._within[rows])

    def _locate(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where the group's values are; two threads may find out at once, with the same result."""
        if number not in self._values:
            group = self._groups[number]
            self._values[number] = locate_values(partial(self._files.read, group.path), group)
        return self._values[number]

    def _decode(self, number: int) -> pa.Array:
        with self._lock:
            if number in self._decoded:
                self._decoded.move_to_end(number)
                return self._decoded[number]
        group = self._groups[number]
        with pq.ParquetFile(group.path) as file:
            table = file.read_row_group(group.number, ["audio_bytes"], use_threads=False)
        values = table.column("audio_bytes").combine_chunks()
        with self._lock:
            self._decoded[number] = values
            while len(self._decoded) > _CACHED_GROUPS:
                self._decoded.popitem(last=False)
        return values


class OpenFiles:
    """Positioned reads from many files, of which a bounded number is open at a time."""

    def __init__(self) -> None:
        self._open: OrderedDict[Path, _Descriptor] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, path: Path, begin: int, size: int) -> bytes:
        """Exactly ``size`` bytes from ``begin``.

        Raises:
            OSError: The file cannot be opened or read.
            ValueError: The file ends before.
        """
        with self._lock:
            descriptor = self._open.pop(path, None) or _Descriptor(path)
            self._open[path] = descriptor
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


def locate_values(read: ReadAt, group: RowGroup) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """First byte and size of each value of a plain column chunk that holds no null.

    Raises:
        ValueError: The chunk is not made of plain data pages, or holds nulls.
    """
    begins, sizes = np.empty(group.num_rows, np.int64), np.empty(group.num_rows, np.int32)
    page, end, value = group.begin, group.begin + group.size, 0
    while value < group.num_rows:
        if page >= end:
            raise ValueError(f"the column chunk ends after {value} of {group.num_rows} values")
        header, length = _page_header(read, page, end)
        position = page + length
        page = position + header[3]
        count, position = _values_of_page(read, header, position, group.nullable)
        for number in range(value, value + count):
            sizes[number] = int.from_bytes(read(position, 4), "little")
            begins[number] = position + 4
            position += 4 + int(sizes[number])
        if position != page:
            raise ValueError(f"values end at byte {position}, their page at {page}")
        value += count
    return begins, sizes


Header = dict[int, int]
"""Integer fields of a PageHeader; fields of its data page header are numbered 100 + field (v1) or
200 + field (v2)."""


def _values_of_page(read: ReadAt, header: Header, position: int, nullable: bool) -> tuple[int, int]:
    """Number of values in a page, and where the first one's length is."""
    if header[1] == _DATA_PAGE and header[102] == _PLAIN:
        if nullable:
            levels = 4 + int.from_bytes(read(position, 4), "little")
            # Definition levels of a column without nulls are one run of ones (RLE, bit width 1).
            content = read(position + 4, levels - 4)
            run, after = _varint(content, 0)
            if run & 1 or run >> 1 < header[101] or content[after] != 1:
                raise ValueError("the audio column holds nulls")
            position += levels
        return header[101], position
    if header[1] == _DATA_PAGE_V2 and header[204] == _PLAIN and not header[202]:
        return header[201], position + header[205] + header[206]
    raise ValueError(f"expected plain data pages without nulls, found page header {header}")


def _page_header(read: ReadAt, begin: int, end: int) -> tuple[Header, int]:
    guess = _HEADER_GUESS
    while True:
        data = read(begin, min(guess, end - begin))
        try:
            header: Header = {}
            return header, _struct(data, 0, header, 0)
        except IndexError:
            if len(data) < guess:
                raise ValueError(f"no page header at byte {begin}") from None
            guess *= 16


def _struct(data: bytes, position: int, fields: Header, base: int) -> int:
    """Read a Thrift-compact struct into ``fields``; return the position after it."""
    field = 0
    while data[position]:
        delta, kind = data[position] >> 4, data[position] & 0x0F
        position += 1
        if delta:
            field += delta
        else:
            number, position = _varint(data, position)
            field = (number >> 1) ^ -(number & 1)
        if kind in (1, 2):  # true and false are types of their own
            fields[base + field] = int(kind == 1)
        elif kind in (4, 5, 6):
            number, position = _varint(data, position)
            fields[base + field] = (number >> 1) ^ -(number & 1)
        elif kind == 8:
            number, position = _varint(data, position)
            position += number
        elif kind == 12:
            # DataPageHeader is field 5, DataPageHeaderV2 field 8; other structs are skipped.
            inner = {5: 100, 8: 200}.get(field) if base == 0 else None
            target = fields if inner else {}
            position = _struct(data, position, target, inner or 0)
        else:
            raise ValueError(f"unexpected Thrift type {kind} in a page header")
    return position + 1


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
