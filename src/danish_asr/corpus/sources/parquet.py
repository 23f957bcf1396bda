"""CoRal (v1, v2 and v3), and other corpora in Parquet files as ``datasets`` writes them.

CoRal's subsets have different columns, and its versions differ slightly. Licence OpenRAIL-D: no
speech synthesis and no biometric identification. Its repositories on the hub are gated.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources import base
from danish_asr.corpus.sources.location import Location, explain_read_error, locate

_BATCH_BYTES: Final = 16 << 20
_BATCH_ROWS: Final = 16
"""Bytes on average and rows that are read at a time, at most."""

_READ_ALOUD: Final = "coral_read_aloud"
_CONVERSATION: Final = "coral_conversation"
"""Names of the corpora in a built dataset; the versions share them."""

_COLUMNS: Final[Mapping[str, base.Columns]] = {
    _READ_ALOUD: {**base.COLUMNS, "id": "id_recording", "speaker_id": "id_speaker"},
    _CONVERSATION: {**base.COLUMNS, "id": "id_conversation,id_segment", "speaker_id": "id_speaker"},
}

_SUBSETS: Final = {
    "read_aloud": _READ_ALOUD,
    "conversation": _CONVERSATION,
    "conversational": _CONVERSATION,
}


@dataclass(frozen=True, kw_only=True)
class ParquetSource(base.Source):
    """A `Source` over Parquet files of any file system that fsspec supports."""

    location: Location
    columns: Mapping[str, base.Columns]  # of each corpus
    country_codes: bool = False  # see `danish_asr.corpus.sources.metadata.speaker`

    def ids(self, file: base.SourceFile) -> pa.Array:
        """See `Source.ids`. Reads the id columns only."""
        names = self.columns[file.corpus]["id"].split(",")
        positions = pa.array([f"{file.name}:{row}" for row in range(file.rows)], pa.string())
        with self._open(file) as parquet:
            if not set(names) <= set(parquet.schema_arrow.names):
                return positions
            table = parquet.read(names)
            parts = [table[name].combine_chunks().cast(pa.string()) for name in names]
        return pc.coalesce(pc.binary_join_element_wise(*parts, "_"), positions)

    def read(self, file: base.SourceFile, start: int, stop: int) -> Iterator[base.Utterance]:
        """See `Source.read`."""
        return self._read(file, start, stop, self.columns[file.corpus]["audio"])

    def without_audio(self, file: base.SourceFile) -> Iterator[base.Utterance]:
        """See `Source.without_audio`. Reads the other columns only."""
        return self._read(file, 0, file.rows, None)

    def _read(
        self, file: base.SourceFile, start: int, stop: int, audio: str | None
    ) -> Iterator[base.Utterance]:
        columns = self.columns[file.corpus]
        wanted = _wanted(columns) | ({audio} if audio else set())
        with self._open(file) as parquet:
            names = [name for name in parquet.schema_arrow.names if name in wanted]
            for row, values in _read_rows(parquet, start, stop, names):
                if audio and values is not None:
                    values[audio] = self._audio(file, values[audio])
                yield base.utterance(values, columns, file, row, country_codes=self.country_codes)

    def local_files(self, file: base.SourceFile) -> Iterator[Path]:
        """See `Source.local_files`. A file has all of its audio inside if its first row has."""
        if not self.location.local:
            return
        yield self._path(file)
        first = next(self.read(file, 0, 1), None)
        if first is None or isinstance(first.audio, bytes):
            return
        audio = self.columns[file.corpus]["audio"]
        with self._open(file) as parquet:
            in_struct = pa.types.is_struct(parquet.schema_arrow.field(audio).type)
            names = [f"{audio}.path" if in_struct else audio]
            for _, values in _read_rows(parquet, 0, file.rows, names):
                path = self._audio(file, values and values.get(audio))
                if isinstance(path, Path):
                    yield path

    def _audio(self, file: base.SourceFile, value: Any) -> bytes | Path | None:
        """Embedded bytes, or else the path of a local file, relative to the Parquet file."""
        if isinstance(value, dict):
            value = value.get("path") if value.get("bytes") is None else value["bytes"]
        if isinstance(value, bytes):
            return value
        usable = value and isinstance(value, str) and self.location.local
        return self._path(file).parent / value if usable else None

    def _path(self, file: base.SourceFile) -> Path:
        return Path(self.location.root, file.name)

    def _open(self, file: base.SourceFile) -> AbstractContextManager[pq.ParquetFile]:
        return _open_parquet(self.location, f"{self.location.root}/{file.name}")


def open_coral(
    where: str, options: base.SourceOptions, *, split: str | None = None
) -> ParquetSource:
    """Open a local copy of CoRal (any folder above its Parquet files), or CoRal on the hub."""
    if options != base.SourceOptions():
        raise SourceError(
            "--corpus, --column and --split do not apply to CoRal; convert other Parquet files as "
            f"hf-parquet:{where}"
        )
    location = locate(where)
    if location.subset is not None and location.subset not in _SUBSETS:
        raise SourceError(f"{where}: expected one of CoRal's subsets {', '.join(_SUBSETS)}")
    wanted = _SUBSETS.get(location.subset or "")

    def corpus_of(columns: list[str], path: str) -> str | None:
        for column, corpus in (("id_recording", _READ_ALOUD), ("id_conversation", _CONVERSATION)):
            if column in columns:
                return corpus if wanted in {None, corpus} else None
        raise SourceError(
            f"{path}: not a file of CoRal: expected id_recording or id_conversation; found "
            f"{', '.join(columns)}. Convert other Parquet files as hf-parquet:FOLDER"
        )

    source = open_parquet_files(where, location, _COLUMNS, corpus_of, split=split)
    return replace(source, country_codes=True)


def open_hf_parquet(where: str, options: base.SourceOptions) -> ParquetSource:
    """Open the Parquet files of a folder or of a hub dataset, in which a subset is a folder."""
    corpus, requested = options.checked_corpus(), options.checked_columns()
    columns: dict[str, base.Columns] = {corpus: requested}
    all_found, used = dict[str, None](), set[str]()

    def corpus_of(found: list[str], _: str) -> str:
        columns[corpus] = base.usual_columns(requested, found)
        all_found.update(dict.fromkeys(found))
        used.update(columns[corpus].values())
        return corpus

    source = open_parquet_files(where, locate(where), columns, corpus_of, options)
    return replace(source, notes=base.ignored_columns(used, all_found))


def open_parquet_files(
    where: str,
    location: Location,
    columns: Mapping[str, base.Columns],
    corpus_of: Callable[[list[str], str], str | None],
    options: base.SourceOptions | None = None,
    *,
    split: str | None = None,
) -> ParquetSource:
    """List Parquet files, of all splits or one.

    ``corpus_of`` takes the columns and the path of a file, and is None to leave it out.
    """
    # CoRal has no options, and its subsets are no folders.
    folder = f"{location.subset}/" if location.subset and options else ""
    options = options or base.SourceOptions()

    def open_all() -> Iterator[tuple[base.SourceFile, list[str]]]:
        try:
            paths = location.parquet_files()
        except OSError as error:
            raise explain_read_error(error, location.root) from error
        for path in paths:
            name = path.removeprefix(f"{location.root}/")
            if not name.startswith(folder):
                continue
            if split is not None and options.split_of(PurePosixPath(name)) != split:
                continue
            with _open_parquet(location, path) as parquet:
                names = parquet.schema_arrow.names
                corpus = corpus_of(names, path)
                if corpus is None:
                    continue
                _check_types(parquet.schema_arrow, columns[corpus], path)
                groups = map(parquet.metadata.row_group, range(parquet.num_row_groups))
                row_groups = tuple(group.num_rows for group in groups)
            info = location.fs.info(path)
            file = base.SourceFile(
                name=name,
                corpus=corpus,
                split=options.split_of(PurePosixPath(name)),
                row_groups=row_groups,
                # The hub has a digest of the content.
                fingerprint=info.get("blob_id") or f"{info['size']}-{info.get('mtime')}",
            )
            yield file, names

    files = base.list_files(where, open_all(), columns, options, "Parquet files")
    return ParquetSource(name=where, files=files, location=location, columns=columns)


def _wanted(columns: base.Columns) -> set[str]:
    """The columns but that of the audio."""
    return {*columns.values(), *columns["id"].split(",")} - {columns["audio"]}


def _check_types(schema: pa.Schema, columns: base.Columns, path: str) -> None:
    """Raise `SourceError` if a column holds lists or structures, or the audio holds samples."""
    audio = schema.field(columns["audio"]).type if columns["audio"] in schema.names else pa.null()
    fields = {field.name for field in audio} if pa.types.is_struct(audio) else set()
    if pa.types.is_nested(audio) and not fields & {"bytes", "path"}:
        raise SourceError(
            f"{path}: expected encoded audio files, or their paths, in {columns['audio']}; found "
            f"{audio}. Write the files' bytes, such as `datasets` does with Audio(decode=False)"
        )
    wanted = _wanted(columns)
    nested = [
        f"{field.name} ({field.type})"
        for field in schema
        if field.name in wanted and pa.types.is_nested(field.type)
    ]
    if nested:
        raise SourceError(
            f"{path}: expected text or numbers in {', '.join(nested)}; map another column with "
            "--column, or rename this one in the files"
        )


@contextmanager
def _open_parquet(location: Location, path: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for streaming; errors of reading it become a `SourceError`."""
    local = location.local
    try:
        # Arrow's own reader of local files avoids a copy and the GIL, and streams pages. Elsewhere
        # every read is a request, so it fetches the parts of a row group in a few large ones.
        stream = path if local else location.fs.open(path, "rb", cache_type="none")
        buffer = 1 << 20 if local else 0
        with pq.ParquetFile(stream, buffer_size=buffer, pre_buffer=not local) as parquet:
            yield parquet
    except (pa.ArrowException, OSError) as error:
        raise explain_read_error(error, path) from error


def _read_rows(
    parquet: pq.ParquetFile, start: int, stop: int, columns: list[str]
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the positions and values of rows; None for a row with a text that is not UTF-8."""
    # One row group after another: Arrow would keep all that are read together in memory.
    row = 0
    for index in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(index)
        if row >= stop or row + group.num_rows <= start:
            row += group.num_rows
            continue
        # Few rows at a time if recordings are long.
        rows = _BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)
        size = max(1, min(_BATCH_ROWS, rows, stop - start))
        for batch in parquet.iter_batches(size, [index], columns, use_threads=False):
            for offset in range(max(0, start - row), min(len(batch), stop - row)):
                try:
                    (values,) = batch.slice(offset, 1).to_pylist()
                except UnicodeDecodeError:
                    values = None
                yield row + offset, values
            row += len(batch)
