"""Where the values of a plain, uncompressed Parquet BYTE_ARRAY column lie in the file.

Follows the Parquet format (https://parquet.apache.org/docs/file-format/data-pages/): a column chunk
is a run of pages, each a Thrift-compact header and its values; a plain value is its length (4
bytes, little-endian) and its bytes. Only lengths and headers are read, never the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

ReadAt = Callable[[int, int], bytes]
"""``(begin, size) -> bytes`` of a file."""

_HEADER_GUESS: Final = 256
_HEADER_LIMIT: Final = 1 << 20
_DATA_PAGE: Final = 0
_DATA_PAGE_V2: Final = 3
_PLAIN: Final = 0


def locate_values(
    read: ReadAt, *, begin: int, size: int, num_values: int, nullable: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """First byte and size of each value of a column chunk that holds no null.

    Raises:
        ValueError: The chunk is not made of plain data pages, or holds nulls.
    """
    begins, sizes = np.empty(num_values, np.int64), np.empty(num_values, np.int32)
    page, end, value = begin, begin + size, 0
    while value < num_values:
        if page >= end:
            raise ValueError(f"the column chunk ends after {value} of {num_values} values")
        header, length = _page_header(read, page, end)
        position = page + length
        page = position + header[3]
        count, position = _values_of_page(read, header, position, nullable)
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
    """Number of values in a page, and where the first one's length stands."""
    if header[1] == _DATA_PAGE and header[102] == _PLAIN:
        if nullable:
            levels = 4 + int.from_bytes(read(position, 4), "little")
            _refuse_nulls(read(position + 4, levels - 4), header[101])
            position += levels
        return header[101], position
    if header[1] == _DATA_PAGE_V2 and header[204] == _PLAIN and not header[202]:
        return header[201], position + header[205] + header[206]
    raise ValueError(f"expected plain data pages without nulls, found page header {header}")


def _refuse_nulls(levels: bytes, count: int) -> None:
    """Definition levels of a column without nulls are one run of ones (RLE, bit width 1)."""
    run, position = _varint(levels, 0)
    if run & 1 or run >> 1 < count or levels[position] != 1:
        raise ValueError("the audio column holds nulls")


def _page_header(read: ReadAt, begin: int, end: int) -> tuple[Header, int]:
    guess = _HEADER_GUESS
    while True:
        data = read(begin, min(guess, end - begin))
        try:
            header: Header = {}
            return header, _struct(data, 0, header, 0)
        except IndexError:
            if len(data) < guess or guess > _HEADER_LIMIT:
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
            field = _unzigzag(number)
        if kind in (1, 2):  # true and false stand in the type itself
            fields[base + field] = int(kind == 1)
        elif kind in (4, 5, 6):
            number, position = _varint(data, position)
            fields[base + field] = _unzigzag(number)
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


def _unzigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
