"""Read corpora that lie in Parquet files as the ``datasets`` library writes them.

Audio is taken as the encoded bytes that stand in the file; nothing here decodes it. Columns are
streamed, so that memory does not grow with the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from danish_asr.corpora.base import SourceFile, Utterance
from danish_asr.corpora.metadata import speaker
from danish_asr.errors import SourceError

_BATCH_ROWS: Final = 16
"""Rows decoded from Parquet at a time: 16 utterances of 10 s at 48 kHz are 15 MB."""

_BUFFER: Final = 1 << 20
_EDGE: Final = 1 << 16
"""Bytes at each end of a file that its fingerprint covers; the Parquet footer lies in the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns of a corpus hold what; None where there is no such column."""

    text: str = "text"
    audio: str = "audio"
    id: tuple[str, ...] = ()
    """Joined with ``_``; without any, the file's name and the row make the id."""
    speaker_id: str | None = None
    dialect: str | None = None
    age: str | None = None
    gender: str | None = None
    country_birth: str | None = None
    validated: str | None = None
    """Rows that say "rejected" here are refused."""

    def names(self) -> tuple[str, ...]:
        """All columns that are read, those that a file may lack included."""
        optional = (self.speaker_id, self.dialect, self.age, self.gender, self.country_birth)
        named = (*self.id, self.text, self.audio, *optional, self.validated)
        return tuple(name for name in named if name is not None)


@dataclass(frozen=True, kw_only=True)
class ParquetSource:
    """A `Source` over Parquet files of any file system that fsspec knows.

    Attributes:
        name: What the user asked for.
        root: The directory that file names are relative to.
        files: The files, in the order of their names.
        columns: The columns of each corpus.
        fs: Where the files are.
    """

    name: str
    root: str
    files: tuple[SourceFile, ...]
    columns: Mapping[str, Columns]
    fs: AbstractFileSystem = field(default_factory=LocalFileSystem)

    def ids(self, file: SourceFile) -> pa.Array:
        """See `Source.ids`. Reads the id columns only."""
        columns = self.columns[file.corpus].id
        rows = pa.array([f"{file.name}:{row}" for row in range(file.rows)], pa.string())
        if not columns:
            return rows
        with self._open(file) as parquet:
            table = parquet.read(list(columns))
        parts = [table[name].combine_chunks().cast(pa.string()) for name in columns]
        return pc.coalesce(pc.binary_join_element_wise(*parts, "_"), rows)

    def read(self, file: SourceFile, start: int, stop: int) -> Iterator[Utterance]:
        """See `Source.read`."""
        columns = self.columns[file.corpus]
        groups, first = _groups_between(file.chunks, start, stop)
        with self._open(file) as parquet:
            present = set(parquet.schema_arrow.names)
            batches = parquet.iter_batches(
                batch_size=_BATCH_ROWS,
                row_groups=groups,
                columns=[name for name in columns.names() if name in present],
                use_threads=False,
            )
            for row, values in enumerate(_rows(batches), start=first):
                if row >= stop:
                    return
                if row >= start:
                    yield self._utterance(file, row, values, columns)

    def check_unchanged(self, file: SourceFile) -> None:
        """See `Source.check_unchanged`."""
        path = self._path(file)
        if not self.fs.exists(path):
            raise SourceError(f"{path}: the file was there when the conversion began, and is gone")
        if stamp(self.fs, path) != file.stamp:
            raise SourceError(f"{path}: the file has changed since the conversion began")

    def _utterance(
        self, file: SourceFile, row: int, values: dict[str, Any], columns: Columns
    ) -> Utterance:
        def value(column: str | None) -> Any:
            return None if column is None else values.get(column)

        parts = [value(column) for column in columns.id]
        has_id = bool(parts) and all(part is not None for part in parts)
        refused = str(value(columns.validated)).strip().lower() == "rejected"
        return Utterance(
            row=row,
            id="_".join(str(part) for part in parts) if has_id else f"{file.name}:{row}",
            text=value(columns.text),
            audio=self._audio(file, value(columns.audio)),
            speaker=speaker(
                speaker_id=value(columns.speaker_id),
                dialect=value(columns.dialect),
                age=value(columns.age),
                gender=value(columns.gender),
                country_birth=value(columns.country_birth),
            ),
            refused="rejected" if refused else None,
        )

    def _audio(self, file: SourceFile, value: Any) -> bytes | None:
        """Embedded bytes, or else the file that a path beside the Parquet file names."""
        if not isinstance(value, dict):
            return value if isinstance(value, bytes) else None
        if value.get("bytes") is not None:
            return bytes(value["bytes"])
        if value.get("path"):
            beside = PurePosixPath(self._path(file)).parent / str(value["path"])
            if self.fs.isfile(str(beside)):
                return bytes(self.fs.cat_file(str(beside)))
        return None

    def _path(self, file: SourceFile) -> str:
        return f"{self.root}/{file.name}"

    @contextmanager
    def _open(self, file: SourceFile) -> Iterator[pq.ParquetFile]:
        with open_parquet(self.fs, self._path(file)) as parquet:
            try:
                yield parquet
            except (pa.ArrowInvalid, OSError) as error:
                raise SourceError(
                    f"{self._path(file)}: cannot be read to its end ({error}); fetch it again"
                ) from error


@contextmanager
def open_parquet(fs: AbstractFileSystem, path: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for streaming.

    Raises:
        SourceError: It is no Parquet file, or one whose end is missing.
    """
    stream = _open_stream(fs, path)
    try:
        parquet = pq.ParquetFile(stream, buffer_size=_BUFFER, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"{path}: no complete Parquet file ({error}); fetch it again") from error
    with parquet:
        yield parquet


def _open_stream(fs: AbstractFileSystem, path: str) -> str | IO[bytes]:
    # Arrow's own reader of local files spares a copy and the GIL.
    if isinstance(fs, LocalFileSystem):
        return path
    stream: IO[bytes] = fs.open(path, "rb")
    return stream


def fingerprint(fs: AbstractFileSystem, path: str) -> str:
    """Digest of a file's size and of both its ends.

    A Parquet file's last bytes hold the offset and size of every column chunk, so that other
    content gives another fingerprint, without reading gigabytes.
    """
    size = int(fs.size(path))
    digest = hashlib.sha256(str(size).encode())
    with fs.open(path, "rb") as stream:
        digest.update(stream.read(_EDGE))
        stream.seek(max(0, size - _EDGE))
        digest.update(stream.read(_EDGE))
    return digest.hexdigest()


def stamp(fs: AbstractFileSystem, path: str) -> str:
    """Size and time of change of a local file; what identifies the blob elsewhere."""
    info = fs.info(path)
    if isinstance(fs, LocalFileSystem):
        return f"{info['size']}-{info['mtime']}"
    return str(info.get("blob_id") or fs.ukey(path))


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


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()
