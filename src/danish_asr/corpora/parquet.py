"""Read corpora that lie in Parquet files as the ``datasets`` library writes them.

Audio is taken as the encoded bytes that stand in the file; nothing here decodes it. Rows are
streamed, so that memory is bounded by a row group, not by a file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from danish_asr.corpora.base import SourceFile, Utterance
from danish_asr.corpora.columns import Columns, utterance
from danish_asr.corpora.location import Location
from danish_asr.errors import SourceError
from danish_asr.schema import SPLIT_ALIASES, SPLITS

_BATCH_BYTES: Final = 16 << 20
_BATCH_ROWS: Final = 16
"""What is taken from Arrow at a time, at most: bytes on average, and rows."""

_BUFFER: Final = 1 << 20
_EDGE: Final = 1 << 16
"""Bytes at each end of a file that its fingerprint covers; the Parquet footer lies in the last."""

_SPLIT_NAME: Final = re.compile(r"^([a-z]+)(?=[-_.]|$)")


@dataclass(frozen=True, kw_only=True)
class ParquetSource:
    """A `Source` over Parquet files of any file system that fsspec knows.

    Attributes:
        name: What the user asked for.
        location: Where the files are; their names are relative to its root.
        files: The files, in the order of their names.
        columns: The columns of each corpus.
    """

    name: str
    location: Location
    files: tuple[SourceFile, ...]
    columns: Mapping[str, Columns]

    def ids(self, file: SourceFile) -> pa.Array:
        """See `Source.ids`. Reads the id columns only."""
        columns = self.columns[file.corpus].id
        by_position = pa.array([f"{file.name}:{row}" for row in range(file.rows)], pa.string())
        with self._open(file) as parquet:
            if not columns or not set(columns) <= set(parquet.schema_arrow.names):
                return by_position
            table = parquet.read(list(columns))
        parts = [table[name].combine_chunks().cast(pa.string()) for name in columns]
        return pc.coalesce(pc.binary_join_element_wise(*parts, "_"), by_position)

    def read(self, file: SourceFile, start: int, stop: int) -> Iterator[Utterance]:
        """See `Source.read`."""
        columns = self.columns[file.corpus]
        groups, first = _groups_between(file.chunks, start, stop)
        with self._open(file) as parquet:
            batches = parquet.iter_batches(
                batch_size=_batch_rows(parquet.metadata, groups),
                row_groups=groups,
                columns=columns.among(parquet.schema_arrow.names),
                use_threads=False,
            )
            for row, values in enumerate(_rows(batches), start=first):
                if row >= stop:
                    return
                if row >= start:
                    values[columns.audio] = self._audio(file, values.get(columns.audio))
                    yield utterance(values, columns, row=row, position=f"{file.name}:{row}")

    def check_unchanged(self, file: SourceFile) -> None:
        """See `Source.check_unchanged`. A revision of the hub cannot change."""
        if file.stamp:
            check_stamp(Path(self._path(file)), file.stamp)

    def _audio(self, file: SourceFile, value: Any) -> bytes | Path | None:
        """Embedded bytes, or else the file that a path beside the Parquet file names."""
        if not isinstance(value, dict):
            return value if isinstance(value, bytes) else None
        if value.get("bytes") is not None:
            return bytes(value["bytes"])
        if value.get("path") and isinstance(self.location.fs, LocalFileSystem):
            return Path(self._path(file)).parent / str(value["path"])
        return None

    def _path(self, file: SourceFile) -> str:
        return f"{self.location.root}/{file.name}"

    @contextmanager
    def _open(self, file: SourceFile) -> Iterator[pq.ParquetFile]:
        path = self._path(file)
        with open_parquet(self.location.fs, path) as parquet:
            try:
                yield parquet
            except (pa.ArrowException, OSError) as error:
                raise _unreadable(self.location.fs, path, error) from error


def open_parquet_files(
    name: str,
    location: Location,
    *,
    corpus_of: Mapping[str, str],
    columns: Mapping[str, Columns],
    split: str | None = None,
) -> ParquetSource:
    """List Parquet files as a source.

    Args:
        name: What the user asked for.
        location: Where the files are.
        corpus_of: The corpus of each path; paths begin with the location's root.
        columns: The columns of each corpus.
        split: The split of all of them; None to tell it from their names.

    Raises:
        SourceError: There are no rows, or a file is unusable.
    """
    files = [
        _inspect(location, path, corpus, columns[corpus], split)
        for path, corpus in corpus_of.items()
    ]
    if not sum(file.rows for file in files):
        what = "rows" if files else "Parquet files"
        of = f" of the subset '{location.subset}'" if location.subset else ""
        raise SourceError(f"{name}: the source is empty, it has no {what}{of}")
    return ParquetSource(name=name, location=location, files=tuple(files), columns=columns)


def find_parquet(location: Location) -> list[str]:
    """All Parquet files below a location, in order."""
    try:
        paths = location.fs.find(location.root)
    except OSError as error:
        raise _unreadable(location.fs, location.root, error) from error
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
        raise _unreadable(fs, path, error) from error
    with parquet:
        yield parquet


def split_of(path: PurePosixPath) -> str:
    """Our name for the split that a file belongs to, from its name or a folder above it.

    Raises:
        SourceError: Neither names a split.
    """
    for part in (path.name, *reversed(path.parent.parts)):
        match = _SPLIT_NAME.match(part)
        split = SPLIT_ALIASES.get(match[1], match[1]) if match else None
        if split in SPLITS:
            return split
    known = ", ".join((*SPLITS, *SPLIT_ALIASES))
    raise SourceError(
        f"{path}: the name tells no split; let it begin with one of {known}, or name the split of "
        "the whole source with --split"
    )


def stamp(path: Path) -> str:
    """Size and time of change of a local file."""
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}"


def check_stamp(path: Path, expected: str) -> None:
    """Raise `SourceError` if a file is gone or was changed."""
    if not path.is_file():
        raise SourceError(f"{path}: was there when the conversion began, and is gone")
    if stamp(path) != expected:
        raise SourceError(f"{path}: has changed since the conversion began")


def _inspect(
    location: Location, path: str, corpus: str, columns: Columns, split: str | None
) -> SourceFile:
    relative = PurePosixPath(path).relative_to(location.root)
    with open_parquet(location.fs, path) as parquet:
        columns.check(parquet.schema_arrow.names, path)
        footer = parquet.metadata
        chunks = tuple(footer.row_group(group).num_rows for group in range(footer.num_row_groups))
    return SourceFile(
        name=str(relative),
        corpus=corpus,
        split=split or split_of(relative),
        chunks=chunks,
        fingerprint=_fingerprint(location.fs, path),
        stamp=stamp(Path(path)) if isinstance(location.fs, LocalFileSystem) else "",
    )


def _fingerprint(fs: AbstractFileSystem, path: str) -> str:
    """What changes with the content: the hub's digest, or one of size and both ends.

    A Parquet file's last bytes hold the offset and size of every column chunk, so that other
    content gives another fingerprint, without reading gigabytes.
    """
    info = fs.info(path)
    if blob := info.get("blob_id"):
        return str(blob)
    size = int(info["size"])
    digest = hashlib.sha256(str(size).encode())
    with fs.open(path, "rb") as stream:
        digest.update(stream.read(_EDGE))
        stream.seek(max(0, size - _EDGE))
        digest.update(stream.read(_EDGE))
    return digest.hexdigest()


def _unreadable(fs: AbstractFileSystem, path: str, error: Exception) -> SourceError:
    if "hf" in fs.protocol:
        from danish_asr.corpora.hub import explain_path  # noqa: PLC0415 - only if it is used

        if (explained := explain_path(error, path)) is not None:
            return explained
    told = " ".join(str(error).split())
    return SourceError(f"{path}: no whole Parquet file ({told}); fetch it again")


def _is_parquet(path: str) -> bool:
    return path.endswith(".parquet") and not PurePosixPath(path).name.startswith(".")


def _groups_between(chunks: tuple[int, ...], start: int, stop: int) -> tuple[list[int], int]:
    """The row groups that hold some of the rows, and the first row of the first of them."""
    groups: list[int] = []
    first = begin = 0
    for group, rows in enumerate(chunks):
        if begin < stop and begin + rows > start:
            first = first if groups else begin
            groups.append(group)
        begin += rows
    return groups, first


def _batch_rows(footer: pq.FileMetaData, groups: list[int]) -> int:
    """How many rows to hold at a time, so that long recordings do not fill the memory."""
    size = sum(int(footer.row_group(group).total_byte_size) for group in groups)
    rows = sum(int(footer.row_group(group).num_rows) for group in groups)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, size)))


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for row in range(batch.num_rows):
            yield batch.slice(row, 1).to_pylist()[0]
