"""Corpora in Parquet files as the ``datasets`` library writes them.

Audio is the encoded bytes in the file; nothing here decodes it. Rows are streamed, so that memory
is bounded by a row group and not by a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from danish_asr.errors import SourceError
from danish_asr.sources.base import Columns, Source, SourceFile, SourceOptions, Utterance, utterance
from danish_asr.sources.location import Location, explain_read_error, locate

_BATCH_BYTES: Final = 16 << 20
_BATCH_ROWS: Final = 16
"""Bytes on average and rows that are read at a time, at most."""

_BUFFER: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ParquetSource(Source):
    """A `Source` over Parquet files of any file system that fsspec supports.

    Attributes:
        location: Where the files are; their names are relative to its root.
        columns: The columns of each corpus.
    """

    location: Location
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
        with self._open(file) as parquet:
            names = columns.present(parquet.schema_arrow.names)
            for row, values in _read_rows(parquet, start, stop, names):
                values[columns.audio] = self._audio(file, values.get(columns.audio))
                yield utterance(values, columns, row=row, position=f"{file.name}:{row}")

    def local_files(self, file: SourceFile) -> Iterator[Path]:
        """See `Source.local_files`. Reads rows only if some audio is not embedded."""
        if not self.location.local:
            return
        yield Path(self._path(file))
        audio = self.columns[file.corpus].audio
        with self._open(file) as parquet:
            kind = parquet.schema_arrow.field(audio).type
            if _is_embedded(parquet, audio):
                return
            names = [f"{audio}.path" if pa.types.is_struct(kind) else audio]
            for _, values in _read_rows(parquet, 0, file.rows, names):
                path = self._audio(file, values[audio])
                if isinstance(path, Path):
                    yield path

    def _audio(self, file: SourceFile, value: Any) -> bytes | Path | None:
        """Embedded bytes, or else the path of a local file, relative to the Parquet file."""
        if isinstance(value, dict):
            value = value.get("path") if value.get("bytes") is None else value["bytes"]
        if isinstance(value, bytes):
            return value
        return Path(self._path(file)).parent / value if value and self.location.local else None

    def _path(self, file: SourceFile) -> str:
        return f"{self.location.root}/{file.name}"

    def _open(self, file: SourceFile) -> AbstractContextManager[pq.ParquetFile]:
        return open_parquet(self.location, self._path(file))


def open_hf_parquet(where: str, options: SourceOptions) -> ParquetSource:
    """Open the Parquet files of a folder or of a dataset on the hub; a subset is a folder there.

    Raises:
        SourceError: An option is invalid, there are no rows, or a file is unusable.
    """
    corpus, columns = options.checked_corpus(), options.checked_columns(Columns())
    location = locate(where)
    below = f"{location.root}/{location.subset}/" if location.subset else ""
    paths = [path for path in find_parquet(location) if path.startswith(below)]
    corpus_of = dict.fromkeys(paths, corpus)
    return open_parquet_files(
        where, location, corpus_of=corpus_of, columns={corpus: columns}, options=options
    )


def open_parquet_files(
    name: str,
    location: Location,
    *,
    corpus_of: Mapping[str, str],
    columns: Mapping[str, Columns],
    options: SourceOptions | None = None,
) -> ParquetSource:
    """List Parquet files as a source.

    Args:
        name: What the user typed.
        location: Where the files are.
        corpus_of: The corpus of each path; paths begin with the location's root.
        columns: The columns of each corpus.
        options: The split of all files, if it cannot be inferred from their names.

    Raises:
        SourceError: There are no rows, or a file is unusable.
    """
    files: list[SourceFile] = []
    found: dict[str, None] = {}
    for path, corpus in corpus_of.items():
        relative = PurePosixPath(path).relative_to(location.root)
        with open_parquet(location, path) as parquet:
            found |= dict.fromkeys(parquet.schema_arrow.names)
            columns[corpus].check(parquet.schema_arrow.names, path)
            _check_audio(parquet.schema_arrow, columns[corpus].audio, path)
            footer = parquet.metadata
            row_groups = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
        file = SourceFile(
            name=str(relative),
            corpus=corpus,
            split=(options or SourceOptions()).checked_split(relative),
            row_groups=tuple(row_groups),
            fingerprint=_fingerprint(location, path),
        )
        files.append(file)
    if not sum(file.rows for file in files):
        what = "rows" if files else "Parquet files"
        of = f" of the subset '{location.subset}'" if location.subset else ""
        raise SourceError(f"{name}: the source is empty, it has no {what}{of}")
    for own in columns.values():
        own.check_requested(found)
    return ParquetSource(name=name, files=tuple(files), location=location, columns=columns)


def find_parquet(location: Location) -> list[str]:
    """All Parquet files below a location, in order."""
    try:
        paths = map(str, location.fs.find(location.root))
    except OSError as error:
        raise explain_read_error(error, location.root) from error
    return sorted(path for path in paths if PurePosixPath(path).match("[!.]*.parquet"))


@contextmanager
def open_parquet(location: Location, path: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for streaming.

    Raises:
        SourceError: It is not a complete Parquet file, or cannot be read in the block.
    """
    local = location.local
    try:
        # Arrow's own reader of local files avoids a copy and the GIL, and streams pages. Elsewhere
        # every read is a request, so it fetches the parts of a row group in a few large ones.
        stream = path if local else location.fs.open(path, "rb", cache_type="none")
        buffer = _BUFFER if local else 0
        with pq.ParquetFile(stream, buffer_size=buffer, pre_buffer=not local) as parquet:
            yield parquet
    except (pa.ArrowException, OSError) as error:
        raise explain_read_error(error, path) from error


def _read_rows(
    parquet: pq.ParquetFile, start: int, stop: int, columns: list[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the positions and values of rows ``start`` to ``stop - 1``.

    Row groups are read one by one: Arrow would keep all that are read together in memory.
    """
    row = 0
    for index in range(parquet.metadata.num_row_groups):
        group = parquet.metadata.row_group(index)
        if row >= stop or row + group.num_rows <= start:
            row += group.num_rows
            continue
        # Few rows at a time if recordings are long.
        rows = _BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)
        batches = parquet.iter_batches(
            batch_size=max(1, min(_BATCH_ROWS, rows)),
            row_groups=[index],
            columns=columns,
            use_threads=False,
        )
        for batch in batches:
            if row + len(batch) > start and row < stop:
                rows_of_batch = enumerate(batch.to_pylist(), row)
                yield from (item for item in rows_of_batch if start <= item[0] < stop)
            row += len(batch)


def _is_embedded(parquet: pq.ParquetFile, audio: str) -> bool:
    """Whether every row has its audio in the file, as far as the statistics show."""
    kind = parquet.schema_arrow.field(audio).type
    if pa.types.is_struct(kind) and kind.get_field_index("path") < 0:
        return True
    if not pa.types.is_struct(kind):
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
    nulls = [
        chunk.statistics.null_count if chunk.is_stats_set else None
        for group in map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
        for chunk in map(group.column, range(group.num_columns))
        if chunk.path_in_schema == f"{audio}.bytes"
    ]
    return bool(nulls) and not any(count is None or count for count in nulls)


def _check_audio(schema: pa.Schema, audio: str, path: str) -> None:
    """Raise `SourceError` if the audio is of a type that cannot be used."""
    kind = schema.field(audio).type
    if pa.types.is_struct(kind):
        usable = not {"bytes", "path"}.isdisjoint(part.name for part in kind)
    else:
        usable = not (pa.types.is_nested(kind) or pa.types.is_primitive(kind))
    if not usable:
        raise SourceError(
            f"{path}: column {audio} holds {kind}; expected encoded audio files (binary), "
            "their paths (string) or a struct of 'bytes' and 'path'"
        )


def _fingerprint(location: Location, path: str) -> str:
    """The hub's digest of the content, or size and time of change of a file."""
    info = location.fs.info(path)
    return str(info.get("blob_id") or f"{info['size']}-{info.get('mtime')}")
