"""Read corpora that lie in Parquet files as the ``datasets`` library writes them.

Audio is taken as the encoded bytes that stand in the file; nothing here decodes it. Rows are
streamed, so that memory is bounded by a row group, not by a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from danish_asr.errors import SourceError
from danish_asr.sources.base import SourceFile, Utterance
from danish_asr.sources.columns import Columns, utterance
from danish_asr.sources.location import Location
from danish_asr.sources.parquet_file import (
    embeds_all,
    largest_group,
    open_parquet,
    read_rows,
    unreadable,
)
from danish_asr.sources.splits import split_of

_EDGE: Final = 1 << 16
"""Bytes at each end of a file that its fingerprint covers; the Parquet footer lies in the last."""

_AUDIO_PARTS: Final = ("bytes", "path", "")
"""Names of what an audio column is made of, in a struct or as it is."""

_LARGE: Final = 280 << 20
"""Bytes of audio in a row group above which a worker needs more than a gibibyte. Arrow writes up to
1024 values as one page, and reads a page at once, holding up to two and a half times its size."""


@dataclass(frozen=True, kw_only=True)
class ParquetSource:
    """A `Source` over Parquet files of any file system that fsspec knows.

    Attributes:
        name: What the user asked for.
        location: Where the files are; their names are relative to its root.
        files: The files, in the order of their names.
        columns: The columns of each corpus.
        notes: What the user should know.
    """

    name: str
    location: Location
    files: tuple[SourceFile, ...]
    columns: Mapping[str, Columns]
    notes: tuple[str, ...] = ()

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
        with self._open(file) as parquet:
            names = columns.among(parquet.schema_arrow.names)
            for row, values in read_rows(parquet, file.chunks, start, stop, names):
                if values is not None:
                    values[columns.audio] = self._audio(file, values.get(columns.audio))
                yield utterance(values, columns, row=row, position=f"{file.name}:{row}")

    def path(self, file: SourceFile) -> Path | None:
        """See `Source.path`. A revision of the hub cannot change."""
        return Path(self._path(file)) if isinstance(self.location.fs, LocalFileSystem) else None

    def audio_files(self, file: SourceFile, start: int, stop: int) -> Iterator[Path]:
        """See `Source.audio_files`. What a row has beside embedded audio is named too."""
        if not file.beside:
            return
        audio = self.columns[file.corpus].audio
        with self._open(file) as parquet:
            struct = pa.types.is_struct(parquet.schema_arrow.field(audio).type)
            names = [f"{audio}.path" if struct else audio]
            for _, values in read_rows(parquet, file.chunks, start, stop, names):
                named = (values or {}).get(audio)
                path = self._audio(file, named | {"bytes": None} if struct and named else named)
                if isinstance(path, Path):
                    yield path

    def _audio(self, file: SourceFile, value: Any) -> bytes | Path | None:
        """Embedded bytes, or else the file that a path beside the Parquet file names."""
        if isinstance(value, dict):
            value = value.get("path") if value.get("bytes") is None else value["bytes"]
        if isinstance(value, bytes):
            return value
        folder = self.path(file)
        return folder.parent / value if folder and value and isinstance(value, str) else None

    def _path(self, file: SourceFile) -> str:
        return f"{self.location.root}/{file.name}"

    @contextmanager
    def _open(self, file: SourceFile) -> Iterator[pq.ParquetFile]:
        path = self._path(file)
        with open_parquet(self.location.fs, path) as parquet:
            try:
                yield parquet
            except (pa.ArrowException, OSError) as error:
                raise unreadable(self.location.fs, path, error) from error


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
    files: list[SourceFile] = []
    present: dict[str, list[str]] = {}
    large: dict[str, int] = {}
    for path, corpus in corpus_of.items():
        with open_parquet(location.fs, path) as parquet:
            file = _inspect(
                location, path, parquet, corpus=corpus, columns=columns[corpus], split=split
            )
            present[file.name] = list(parquet.schema_arrow.names)
            large[file.name] = largest_group(parquet.metadata, columns[corpus].audio)
        files.append(file)
    if not sum(file.rows for file in files):
        what = "rows" if files else "Parquet files"
        of = f" of the subset '{location.subset}'" if location.subset else ""
        raise SourceError(f"{name}: the source is empty, it has no {what}{of}")
    notes = [note for own in columns.values() for note in own.check_asked(present)]
    return ParquetSource(
        name=name,
        location=location,
        files=tuple(files),
        columns=columns,
        notes=(*notes, *_tell_large(large)),
    )


def _inspect(
    location: Location,
    path: str,
    parquet: pq.ParquetFile,
    *,
    corpus: str,
    columns: Columns,
    split: str | None,
) -> SourceFile:
    relative = PurePosixPath(path).relative_to(location.root)
    columns.check(parquet.schema_arrow.names, path)
    _check_types(parquet.schema_arrow, columns, path)
    footer = parquet.metadata
    local = isinstance(location.fs, LocalFileSystem)
    return SourceFile(
        name=str(relative),
        corpus=corpus,
        split=split or split_of(relative),
        chunks=tuple(footer.row_group(group).num_rows for group in range(footer.num_row_groups)),
        fingerprint=_fingerprint(location.fs, path),
        beside=local and not embeds_all(parquet, columns.audio),
    )


def _check_types(schema: pa.Schema, columns: Columns, path: str) -> None:
    """Raise `SourceError` if audio or ids are of a kind that no row could be made of."""
    audio = schema.field(columns.audio).type
    parts = {part.name: part.type for part in audio} if pa.types.is_struct(audio) else {"": audio}
    if not any(_is_text(parts.get(part)) or _is_binary(parts.get(part)) for part in _AUDIO_PARTS):
        raise SourceError(
            f"{path}: column {columns.audio} holds {audio}; expected encoded audio files (binary), "
            "their paths (string) or a struct of 'bytes' and 'path'"
        )
    for name in set(columns.id).intersection(schema.names):
        kind = schema.field(name).type
        if not (_is_text(kind) or pa.types.is_integer(kind)):
            raise SourceError(
                f"{path}: column {name} holds {kind}, and an id is made of texts or whole numbers; "
                "name other columns with --column id=..."
            )


def _is_text(kind: pa.DataType | None) -> bool:
    if kind is not None and pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return kind is not None and (pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType | None) -> bool:
    return kind is not None and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _tell_large(groups: Mapping[str, int]) -> Iterator[str]:
    if large := [name for name, size in groups.items() if size > _LARGE]:
        most = max(large, key=lambda name: groups[name])
        yield (
            f"row groups: {len(large)} of {len(groups)} files have very large ones, such as {most} "
            f"with {groups[most] / 2**30:.1f} GiB; each worker needs up to "
            f"{2.5 * groups[most] / 2**30 + 0.3:.1f} GiB of memory. Write these files with fewer "
            "rows per row group, or run fewer --workers"
        )


def _fingerprint(fs: AbstractFileSystem, path: str) -> str:
    """The hub's digest of the content, or one of size and both ends of a file.

    A Parquet file's last bytes hold the offset, size and statistics of every column chunk. Rows
    that were added, taken away or written anew change it; one that was overwritten in place with
    as many bytes does not, and that is seen by the file's time of change.
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
