"""Fetch the encoded audio of single rows, in any order, from any thread, and decode it.

Shuffled batches take one row of a Parquet row group at a time, but Parquet libraries read row
groups as one: a hundred rows to use one. Our shards store the audio column plain and uncompressed,
each row group's in one page that ends with its values: the length (4 bytes, little-endian) and the
bytes of each (https://parquet.apache.org/docs/file-format/data-pages/). `encoded_size` has these
lengths, so a row's place is a sum, and it costs one ``pread``. Other shards are decoded by row
groups.
"""

import io
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
from numpy.typing import NDArray

from danish_asr.base import audio
from danish_asr.base.decoders import decode_flac
from danish_asr.base.errors import AudioError, DatasetError
from danish_asr.base.schema import SAMPLE_RATE

_OPEN_FILES: Final = 128
_DECODED_GROUPS: Final = 16
_LENGTH_BYTES: Final = 4


def places_of(footer: pq.FileMetaData, sizes: pl.Series | None) -> dict[str, Any]:
    """Where the audio of each row of a file is, the last columns of `Audio`.

    ``sizes`` are the bytes of each row's audio; without them, row groups are decoded.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    group_rows = np.array([group.num_rows for group in groups], np.int64)
    group_ends = group_rows.cumsum()
    rows = np.arange(footer.num_rows) - np.repeat(group_ends - group_rows, group_rows)
    places: dict[str, Any] = {
        "_row_group": np.repeat(np.arange(len(groups), dtype=np.int32), group_rows),
        "_row": rows.astype(np.int32),
        "_begin": pl.lit(None, pl.Int64),
        "_size": pl.lit(None, pl.Int32),
    }
    if sizes is None or not footer.num_rows:
        return places
    # Not by `metadata.schema`: it refers back to the metadata (pyarrow 21), and millions of
    # rows have half a gigabyte of that, which waits for Python's cycle collector.
    names = [groups[0].column(number).path_in_schema for number in range(footer.num_columns)]
    chunks = [group.column(names.index("audio_bytes")) for group in groups]
    if any(
        chunk.compression != "UNCOMPRESSED" or not {"PLAIN", "RLE"}.issuperset(chunk.encodings)
        for chunk in chunks
    ):
        return places
    chunk_ends = [chunk.data_page_offset + chunk.total_compressed_size for chunk in chunks]
    value_ends = (sizes.to_numpy().astype(np.int64) + _LENGTH_BYTES).cumsum()
    shifts = np.array(chunk_ends, np.int64) - value_ends[group_ends - 1]
    begins = np.repeat(shifts, group_rows) + value_ends - sizes.to_numpy()
    return places | {"_begin": begins, "_size": sizes.cast(pl.Int32)}


class Audio:
    """Encoded audio by row number.

    ``places`` has of each row the number of its file among ``shards``, its row group there, its row
    in that, and the first byte and the bytes of its audio; these are null if its row group is
    decoded.
    """

    COLUMNS: Final = ("_shard", "_row_group", "_row", "_begin", "_size")

    def __init__(self, shards: Sequence[Path], places: pl.DataFrame) -> None:
        self._shards, self._places = shards, places
        # Without a reference to this object: files close when it goes.
        self._open = lru_cache(_OPEN_FILES)(_File)
        self._decoded = lru_cache(_DECODED_GROUPS)(_decoded)

    @property
    def decoded_shards(self) -> int:
        """How many shards have their row groups decoded, which is slower."""
        return self._places.filter(pl.col("_begin").is_null())["_shard"].n_unique()

    def read(self, row: int) -> bytes:
        """The file content (FLAC, WAV, ...) of one row; thread-safe."""
        shard, row_group, row_in_group, begin, size = self._places.row(row)
        try:
            if begin is not None:
                return self._open(self._shards[shard]).value(begin, size)
            value = self._decoded(self._shards[shard], row_group)[row_in_group]
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DatasetError(f"{self.describe(row)}: cannot be read ({error})") from error
        if not value.is_valid:
            raise DatasetError(f"{self.describe(row)}: there is no audio")
        if isinstance(value, pa.ListScalar):  # of int8, as upstream's tools write it
            return bytes(value.values.to_numpy().tobytes())
        return bytes(value.as_py())

    def describe(self, row: int) -> str:
        """Where the row's audio is, for messages."""
        shard, row_group, row_in_group, *_ = self._places.row(row)
        return f"{self._shards[shard]}, row group {row_group}, row {row_in_group}"


class _File:
    """An open file; it closes when nobody reads from it any more."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self._descriptor)

    def value(self, begin: int, size: int) -> bytes:
        """A plain value; raises ``ValueError`` if there is none of this size."""
        data = os.pread(self._descriptor, _LENGTH_BYTES + size, begin - _LENGTH_BYTES)
        stored = int.from_bytes(data[:_LENGTH_BYTES], "little")
        if len(data) != _LENGTH_BYTES + size or stored != size:
            raise ValueError(f"no audio of {size} bytes, its encoded_size, is at byte {begin}")
        return data[_LENGTH_BYTES:]


def _decoded(path: Path, row_group: int) -> pa.Array:
    with pq.ParquetFile(path) as file:
        table = file.read_row_group(row_group, ["audio_bytes"], use_threads=False)
    return table.column("audio_bytes").combine_chunks()


def decode(encoded: bytes, out: NDArray[np.float32]) -> None:
    """Decode an utterance of mono 16 kHz to ``(samples,)``; thread-safe.

    Raises:
        ValueError: The audio cannot be decoded, is not 16 kHz, or has another number of samples.
    """
    try:
        if encoded.startswith(b"fLaC"):
            waveform, rate = decode_flac(encoded, out=out) or audio.decode(encoded)
        else:  # by another program, whose audio_size is what libsndfile counts
            samples, rate = soundfile.read(io.BytesIO(encoded), dtype="float32", always_2d=True)
            waveform = audio.mixed(samples)
    except (AudioError, soundfile.LibsndfileError) as error:
        raise ValueError(f"the audio cannot be decoded ({error})") from error
    if rate != SAMPLE_RATE:
        raise ValueError(f"expected audio at {SAMPLE_RATE} Hz, found {rate:g} Hz")
    if len(waveform) != len(out):
        raise ValueError(f"audio_size is {len(out)}, the audio has {len(waveform)} samples")
    if waveform is not out:
        out[:] = waveform
