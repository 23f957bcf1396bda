"""Millions of strings in little memory: compressed in blocks, any of them at hand in microseconds.

Texts and ids are most of what an index would hold in memory. In blocks of a hundred rows they take
a third of it, and a block is unpacked faster than a single row could be read from a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_BLOCK_ROWS: Final = 100
_CHUNK_BLOCKS: Final = 500
_CACHED_BLOCKS: Final = 256
_CODEC: Final = "zstd"


class PackedStrings:
    """An immutable column of strings; thread-safe.

    Args:
        blobs: The compressed blocks.
        starts: First row of each block, and the number of rows; ``(blocks + 1,)``.
        sizes: UTF-8 bytes of each string, ``(rows,)``.
    """

    def __init__(
        self, blobs: Sequence[bytes], starts: NDArray[np.int64], sizes: NDArray[np.int32]
    ) -> None:
        self.blobs = tuple(blobs)
        self.sizes = sizes
        self.starts = starts
        self._block = lru_cache(_CACHED_BLOCKS)(self._unpack)

    def __len__(self) -> int:
        return len(self.sizes)

    @classmethod
    def pack(cls, strings: pa.Array | pa.ChunkedArray) -> PackedStrings:
        """Pack an Arrow column of type string that holds no null."""
        if isinstance(strings, pa.ChunkedArray):
            return cls.joined([cls.pack(chunk) for chunk in strings.chunks])
        count = len(strings)
        _, places, data = strings.buffers()
        offsets = np.frombuffer(places, np.int32)[strings.offset : strings.offset + count + 1]
        starts = np.minimum(np.arange(0, count + _BLOCK_ROWS, _BLOCK_ROWS), count)
        bounds = offsets[starts].tolist()
        blobs = [
            pa.compress(data.slice(begin, end - begin), codec=_CODEC, asbytes=True)
            if end > begin
            else b""
            for begin, end in pairwise(bounds)
        ]
        return cls(blobs, starts.astype(np.int64), np.diff(offsets))

    @classmethod
    def joined(cls, parts: Sequence[PackedStrings]) -> PackedStrings:
        """One column of several, in their order."""
        before = np.cumsum([0] + [len(part) for part in parts])
        pairs = zip(parts, before[:-1], strict=True)
        return cls(
            [blob for part in parts for blob in part.blobs],
            np.concatenate([*(part.starts[:-1] + first for part, first in pairs), before[-1:]]),
            np.concatenate([np.empty(0, np.int32), *(part.sizes for part in parts)]),
        )

    def values(self, rows: Iterable[int]) -> list[str]:
        """The strings of these rows, in their order."""
        return [self._value(row) for row in rows]

    def take(self, rows: NDArray[np.integer[Any]]) -> PackedStrings:
        """The column with these rows only."""
        return PackedStrings.pack(pa.array(self.values(rows.tolist()), pa.string()))

    def chunks(self) -> Iterator[tuple[int, pa.Array]]:
        """All strings in Arrow arrays of many rows, each with the number of its first row."""
        for first in range(0, len(self.blobs), _CHUNK_BLOCKS):
            last = min(first + _CHUNK_BLOCKS, len(self.blobs))
            begin, end = self.starts[[first, last]].tolist()
            data = b"".join(self._unpack(block) for block in range(first, last))
            offsets = np.zeros(end - begin + 1, np.int32)
            np.cumsum(self.sizes[begin:end], out=offsets[1:])
            buffers = [pa.py_buffer(offsets), pa.py_buffer(data)]
            yield begin, pa.StringArray.from_buffers(end - begin, *buffers)

    def _value(self, row: int) -> str:
        block = int(np.searchsorted(self.starts, row, side="right")) - 1
        begin = int(self.sizes[self.starts[block] : row].sum())
        return self._block(block)[begin : begin + int(self.sizes[row])].decode()

    def _unpack(self, block: int) -> bytes:
        size = int(self.sizes[self.starts[block] : self.starts[block + 1]].sum())
        if not size:
            return b""
        unpacked = pa.decompress(self.blobs[block], size, codec=_CODEC, asbytes=True)
        assert isinstance(unpacked, bytes)
        return unpacked
