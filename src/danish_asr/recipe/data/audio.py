"""Fetch the encoded audio of single rows, in any order, from any thread.

Shuffled batches take one row of a Parquet row group at a time, but Parquet libraries read row
groups whole: a hundred rows to use one. Our shards store the audio column plain and uncompressed,
each row group's in one page that ends with its values: the length (4 bytes, little-endian) and the
bytes of each (https://parquet.apache.org/docs/file-format/data-pages/). `encoded_size` has these
lengths, so a row's place is a sum, and it costs one ``pread``. Other shards are decoded by row
groups.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from danish_asr.base.errors import DatasetError

_OPEN_FILES: Final = 128
_DECODED_GROUPS: Final = 16
_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, eq=False)
class ShardAudio:
    """Where the audio of a shard's rows is."""

    path: Path
    group_ends: NDArray[np.int64]  # the rows before the end of each row group, (row groups,)
    begins: NDArray[np.int64] | None = None  # the first byte of each row; None: groups are decoded
    sizes: NDArray[np.int32] | None = None  # its bytes; None with `begins`

    @classmethod
    def locate(cls, path: Path, metadata: pq.FileMetaData, sizes: NDArray[np.int32] | None) -> Self:
        """Locate each row from a file's footer and the bytes of each row's audio, if known."""
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        group_rows = np.array([group.num_rows for group in groups], np.int64)
        shard = cls(path, group_rows.cumsum())
        if sizes is None or not groups:
            return shard
        # Not by `metadata.schema`: it refers back to the metadata (pyarrow 21), and millions of
        # rows have half a gigabyte of that, which waits for Python's cycle collector.
        names = [groups[0].column(place).path_in_schema for place in range(metadata.num_columns)]
        chunks = [group.column(names.index("audio_bytes")) for group in groups]
        if any(
            chunk.compression != "UNCOMPRESSED" or not {"PLAIN", "RLE"}.issuperset(chunk.encodings)
            for chunk in chunks
        ):
            return shard
        chunk_ends = [chunk.data_page_offset + chunk.total_compressed_size for chunk in chunks]
        value_ends = (sizes.astype(np.int64) + _LENGTH_BYTES).cumsum()
        shifts = np.array(chunk_ends, np.int64) - value_ends[shard.group_ends - 1]
        begins = np.repeat(shifts, group_rows) + value_ends - sizes
        return cls(path, shard.group_ends, begins, sizes)

    def place(self, row: int) -> tuple[int, int]:
        """Return the row group of a row, and its number in it."""
        group = int(np.searchsorted(self.group_ends, row, side="right"))
        return group, row - (int(self.group_ends[group - 1]) if group else 0)


class _File:
    """An open file; it closes when nobody reads from it any more."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        os.close(self._descriptor)

    def value(self, begin: int, size: int) -> bytes:
        """A plain value; raises ``ValueError`` if there is none of this size."""
        data = os.pread(self._descriptor, _LENGTH_BYTES + size, begin - _LENGTH_BYTES)
        stored = int.from_bytes(data[:_LENGTH_BYTES], "little")
        if len(data) != _LENGTH_BYTES + size or stored != size:
            raise ValueError(f"no audio of {size} bytes, its encoded_size, is at byte {begin}")
        return data[_LENGTH_BYTES:]


class Audio:
    """Encoded audio by row number: row ``r`` is row ``row_of[r]`` of ``shards[shard_of[r]]``."""

    def __init__(
        self, shards: Sequence[ShardAudio], shard_of: NDArray[np.int32], row_of: NDArray[np.int32]
    ) -> None:
        self._shards, self._shard_of, self._row_of = shards, shard_of, row_of
        # Without a reference to this object: files close when it goes.
        self._open = lru_cache(_OPEN_FILES)(_File)
        self._decoded = lru_cache(_DECODED_GROUPS)(_decoded)

    @property
    def decoded_shards(self) -> int:
        """How many shards have their row groups decoded, which is slower."""
        return sum(shard.begins is None for shard in self._shards)

    def read(self, row: int) -> bytes:
        """The file content (FLAC, WAV, ...) of one row; thread-safe."""
        shard, number = self._shards[self._shard_of[row]], int(self._row_of[row])
        try:
            if shard.begins is not None and shard.sizes is not None:
                file = self._open(shard.path)
                return file.value(int(shard.begins[number]), int(shard.sizes[number]))
            group, within = shard.place(number)
            return _bytes_of(self._decoded(shard.path, group)[within])
        except (OSError, ValueError, IndexError, pa.ArrowException) as error:
            raise DatasetError(f"{self.describe(row)}: cannot be read ({error})") from error

    def describe(self, row: int) -> str:
        """Where the row's audio is, for messages."""
        shard = self._shards[self._shard_of[row]]
        group, within = shard.place(int(self._row_of[row]))
        return f"{shard.path}, row group {group}, row {within}"

    def take(self, rows: NDArray[np.integer[Any]]) -> Self:
        """The audio of these rows, renumbered from 0."""
        return type(self)(self._shards, self._shard_of[rows], self._row_of[rows])


def _decoded(path: Path, group: int) -> pa.Array:
    with pq.ParquetFile(path) as file:
        table = file.read_row_group(group, ["audio_bytes"], use_threads=False)
    return table.column("audio_bytes").combine_chunks()


def _bytes_of(value: pa.Scalar) -> bytes:
    """Binary, or the list of int8 that upstream's tools write."""
    if not value.is_valid:
        raise ValueError("the audio is null")
    if isinstance(value, pa.ListScalar | pa.LargeListScalar):
        numbers = value.values.to_numpy(zero_copy_only=False)
        return bytes(numbers.astype(np.int8, casting="same_kind").tobytes())
    return bytes(value.as_py())
