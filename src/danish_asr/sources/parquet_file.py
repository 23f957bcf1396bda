"""One Parquet file of any file system that fsspec knows: open it, and stream rows out of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from danish_asr.errors import SourceError
from danish_asr.sources.location import Location

_BATCH_BYTES: Final = 16 << 20
_BATCH_ROWS: Final = 16
"""What is taken from Arrow at a time, at most: bytes on average, and rows."""

_BUFFER: Final = 1 << 20


def find_parquet(location: Location) -> list[str]:
    """All Parquet files below a location, in order."""
    try:
        paths = location.fs.find(location.root)
    except OSError as error:
        raise unreadable(location.fs, location.root, error) from error
    return sorted(str(path) for path in paths if _is_parquet(str(path)))


def column_names(location: Location, path: str) -> list[str]:
    """Names of a Parquet file's columns."""
    with open_parquet(location.fs, path) as parquet:
        return list(parquet.schema_arrow.names)


@contextmanager
def open_parquet(fs: AbstractFileSystem, path: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for streaming.

    Raises:
        SourceError: It is no Parquet file, or one whose end is missing.
    """
    local = isinstance(fs, LocalFileSystem)
    # Arrow's own reader of local files spares a copy and the GIL, and streams pages. Elsewhere
    # every read is a request, so it fetches what is needed of a row group in a few large ones.
    stream = path if local else fs.open(path, "rb", cache_type="none")
    try:
        parquet = pq.ParquetFile(stream, buffer_size=_BUFFER if local else 0, pre_buffer=not local)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(fs, path, error) from error
    with parquet:
        yield parquet


def read_rows(
    parquet: pq.ParquetFile, chunks: tuple[int, ...], start: int, stop: int, columns: list[str]
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the positions and values of rows; None for one whose text is not UTF-8.

    Args:
        parquet: The file.
        chunks: Rows of each of its row groups.
        start: The first row.
        stop: The one after the last row.
        columns: What to read.
    """
    begin = 0
    for group, rows in enumerate(chunks):
        if begin < stop and begin + rows > start:
            for row, (batch, place) in zip(
                count(begin), _places(parquet, group, columns), strict=False
            ):
                if start <= row < stop:
                    yield row, _values(batch, place)
        begin += rows


def _places(
    parquet: pq.ParquetFile, group: int, columns: list[str]
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The rows of one row group. Several at once would all stay in memory: Arrow keeps them."""
    batches = parquet.iter_batches(
        batch_size=_batch_rows(parquet.metadata.row_group(group)),
        row_groups=[group],
        columns=columns,
        use_threads=False,
    )
    for batch in batches:
        yield from ((batch, place) for place in range(batch.num_rows))


def _batch_rows(group: pq.RowGroupMetaData) -> int:
    """How many rows to hold at a time, so that long recordings do not fill the memory."""
    size, rows = int(group.total_byte_size), int(group.num_rows)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, size)))


def _values(batch: pa.RecordBatch, place: int) -> dict[str, Any] | None:
    try:
        values: dict[str, Any] = batch.slice(place, 1).to_pylist()[0]
    except UnicodeDecodeError:
        return None
    return values


def embeds_all(parquet: pq.ParquetFile, audio: str) -> bool:
    """Whether every row has its audio in the file, as far as its statistics tell."""
    kind = parquet.schema_arrow.field(audio).type
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    if binary or (pa.types.is_struct(kind) and kind.get_field_index("path") < 0):
        return True
    chunks = list(_chunks(parquet.metadata, f"{audio}.bytes"))
    told = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
    return len(told) == len(chunks) > 0 and all(
        statistics.has_null_count and not statistics.null_count for statistics in told
    )


def largest_group(footer: pq.FileMetaData, audio: str) -> int:
    """Bytes of audio in the largest row group."""
    chunks = (*_chunks(footer, f"{audio}.bytes"), *_chunks(footer, audio))
    return max((chunk.total_uncompressed_size for chunk in chunks), default=0)


def _chunks(footer: pq.FileMetaData, column: str) -> Iterator[pq.ColumnChunkMetaData]:
    for group in range(footer.num_row_groups):
        parts = footer.row_group(group)
        chunks = (parts.column(number) for number in range(parts.num_columns))
        yield from (chunk for chunk in chunks if chunk.path_in_schema == column)


def unreadable(fs: AbstractFileSystem, path: str, error: Exception) -> SourceError:
    """What it means that a file cannot be read, and what mends it."""
    if "hf" in fs.protocol:
        from danish_asr.sources.hub import explain_path  # noqa: PLC0415 - only if it is used

        if (explained := explain_path(error, path)) is not None:
            return explained
    told = " ".join(str(error).split())
    return SourceError(f"{path}: no whole Parquet file ({told}); fetch it again")


def _is_parquet(path: str) -> bool:
    return path.endswith(".parquet") and not PurePosixPath(path).name.startswith(".")
