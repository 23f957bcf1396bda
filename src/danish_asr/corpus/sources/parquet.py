"""CoRal (v1, v2 and v3), and other corpora in Parquet files as ``datasets`` writes them.

CoRal's subsets have different columns, and its versions differ slightly. Licence OpenRAIL-D: no
speech synthesis and no biometric identification. Its repositories on the hub are gated.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from danish_asr.base.errors import SourceError
from danish_asr.base.tables import class_name, class_names
from danish_asr.corpus.sources import base
from danish_asr.corpus.sources.ambiguous import check_texts, start_columns
from danish_asr.corpus.sources.location import Location, locate
from danish_asr.corpus.sources.metadata import utterance

_BATCH_BYTES: Final = 16 << 20
_BATCH_ROWS: Final = 16
"""Bytes on average and rows that are read at a time, at most."""


class FileKind(NamedTuple):
    """Which corpus a Parquet file belongs to, and its columns."""

    corpus: str
    columns: base.Columns


KindOf = Callable[[list[str], str], FileKind | None]
"""The kind of a file, from the names of its columns and its path; None leaves the file out."""

_READ_ALOUD: Final = FileKind(
    "coral_read_aloud",
    {**base.COLUMNS, "id": "id_recording", "speaker_id": "id_speaker"},
)
_CONVERSATION: Final = FileKind(
    "coral_conversation",
    {**base.COLUMNS, "id": "id_conversation,id_segment", "speaker_id": "id_speaker"},
)

_SUBSETS: Final = {
    "read_aloud": _READ_ALOUD,
    "conversation": _CONVERSATION,
    "conversational": _CONVERSATION,
}


@dataclass(frozen=True, kw_only=True)
class ParquetSource(base.Source):
    """A `Source` over Parquet files of any file system that fsspec supports."""

    location: Location
    columns: Mapping[str, base.Columns]  # of each file
    country_codes: bool = False  # see `metadata.country_of`

    def ids(self, file: base.SourceFile) -> pa.Array:
        """See `Source.ids`. Reads the id columns only."""
        names = self.columns[file.name]["id"].split(",")
        positions = pa.array([f"{file.name}:{row}" for row in range(file.rows)], pa.string())
        with self.location.open_parquet(file.name) as parquet:
            if not set(names) <= set(parquet.schema_arrow.names):
                return positions
            table = parquet.read(names)
            parts = [_not_blank(table[name].combine_chunks().cast(pa.string())) for name in names]
        return pc.coalesce(pc.binary_join_element_wise(*parts, "_"), positions)

    def read(self, file: base.SourceFile, start: int, stop: int) -> Iterator[base.Utterance]:
        """See `Source.read`."""
        return self._read(file, start, stop, without="")

    def without_audio(self, file: base.SourceFile) -> Iterator[base.Utterance]:
        """See `Source.without_audio`. Reads the other columns only."""
        return self._read(file, 0, file.rows, without=self.columns[file.name]["audio"])

    def _read(
        self, file: base.SourceFile, start: int, stop: int, *, without: str
    ) -> Iterator[base.Utterance]:
        columns = self.columns[file.name]
        audio, wanted = columns["audio"], _names(columns) - {without}
        with self.location.open_parquet(file.name) as parquet:
            names = [name for name in parquet.schema_arrow.names if name in wanted]
            labels = class_names(parquet.schema_arrow.metadata or {})
            for row, values in _read_rows(parquet, start, stop, names):
                if values is not None and audio in values:
                    values[audio] = self._audio(file, values[audio])
                if values is not None:
                    for name in labels.keys() & values.keys():
                        values[name] = class_name(labels[name], values[name])
                yield utterance(values, columns, file, row, country_codes=self.country_codes)

    def local_files(self, file: base.SourceFile) -> Iterator[Path]:
        """See `Source.local_files`. A file has all of its audio inside if its first row has."""
        if not self.location.local:
            return
        yield self._path(file)
        first_row = next(self.read(file, 0, 1), None)
        if first_row is None or isinstance(first_row.audio, bytes):
            return
        audio = self.columns[file.name]["audio"]
        with self.location.open_parquet(file.name) as parquet:
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


def is_coral(path: Path) -> bool:
    """Whether a Parquet file, or the first one of a folder, has CoRal's ids."""
    try:
        place = locate(str(path))
        with place.open_parquet(place.parquet_files()[0]) as parquet:
            return not {"id_recording", "id_conversation"}.isdisjoint(parquet.schema_arrow.names)
    except (SourceError, IndexError):
        return False


def open_coral(location: str, options: base.SourceOptions) -> ParquetSource:
    """Open a local copy of CoRal (any folder above its Parquet files), or CoRal on the hub."""
    if options != base.SourceOptions():
        raise SourceError(
            "--corpus, --column and --split do not apply to CoRal; convert other Parquet files as "
            f"hf-parquet:{location}"
        )
    place = locate(location)
    if place.subset is not None and place.subset not in _SUBSETS:
        raise SourceError(f"{location}: expected one of CoRal's subsets {', '.join(_SUBSETS)}")
    wanted = _SUBSETS.get(place.subset or "")
    place = replace(place, subset=None)  # CoRal's subsets are no folders

    def kind_of(names: list[str], path: str) -> FileKind | None:
        if "id_recording" in names:
            kind = _READ_ALOUD
        elif "id_conversation" in names:
            kind = _CONVERSATION
        else:
            raise SourceError(
                f"{path}: not a file of CoRal: expected id_recording or id_conversation; found "
                f"{', '.join(names)}. Convert other Parquet files as hf-parquet:FOLDER"
            )
        if wanted not in (None, kind):
            return None
        own = base.usual_columns(kind.columns, names, kind.columns)
        return kind._replace(columns={**own, "id": kind.columns["id"]})

    listing = base.FileListing(location, options, "Parquet files")
    return replace(open_parquet_files(listing, place, kind_of), country_codes=True)


def open_hf_parquet(location: str, options: base.SourceOptions) -> ParquetSource:
    """Open the Parquet files of a folder or of a hub dataset, in which a subset is a folder."""
    corpus, columns = options.checked_corpus(), options.checked_columns()
    decided = any(pair.partition("=")[0] in {"start", "end"} for pair in options.columns)
    listing = base.FileListing(location, options, "Parquet files")

    def kind_of(names: list[str], path: str) -> FileKind:
        times = start_columns(names)
        if times and not decided:
            raise SourceError(
                f"{path}: found {', '.join(times)}; are these times within the audio? Cut the "
                f"audio with --column start={times[0]} and --column end=COLUMN (or "
                "seconds=COLUMN), or read it whole with --column start="
            )
        check_texts(path, names, options)
        return FileKind(corpus, base.usual_columns(columns, names))

    source = open_parquet_files(listing, locate(location), kind_of)
    return replace(source, notes=listing.notes())


def open_parquet_files(
    listing: base.FileListing,
    location: Location,
    kind_of: KindOf,
) -> ParquetSource:
    """Open the Parquet files of a location, whose subset is a folder."""
    folder = f"{location.subset}/" if location.subset else ""
    columns: dict[str, base.Columns] = {}
    for name in location.parquet_files():
        if not name.startswith(folder):
            continue
        root = Path(location.root if location.local else "")
        own_split = listing.options.split_of(base.split_path(root, name))
        path = f"{location.root}/{name}"
        with location.open_parquet(name) as parquet:
            names = parquet.schema_arrow.names
            kind = kind_of(names, path)
            if kind is None:
                continue
            _check_types(parquet.schema_arrow, kind.columns, path)
            groups = map(parquet.metadata.row_group, range(parquet.num_row_groups))
            row_groups = tuple(group.num_rows for group in groups)
        file = base.SourceFile(
            name=name,
            corpus=kind.corpus,
            split=own_split,
            row_groups=row_groups,
            fingerprint=location.fingerprint(name),
        )
        columns[name] = kind.columns
        listing.add(file, names, kind.columns)
    return ParquetSource(
        name=listing.location,
        files=listing.checked(),
        location=location,
        columns=columns,
    )


def _not_blank(values: pa.Array) -> pa.Array:
    """The values, null where there is only white space."""
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(values), ""), None, values)


def _names(columns: base.Columns) -> set[str]:
    """The names of all columns that are read."""
    return set(",".join(columns.values()).split(","))


def _check_types(schema: pa.Schema, columns: base.Columns, path: str) -> None:
    """Raise `SourceError` if a column holds lists or structures, or the audio holds samples."""
    for field in schema:
        if field.name not in _names(columns) or not pa.types.is_nested(field.type):
            continue
        expected = "text or numbers"
        if field.name == columns["audio"]:
            expected = "encoded audio files, as `datasets` writes them, or their paths,"
            if pa.types.is_struct(field.type) and {"bytes", "path"} & {x.name for x in field.type}:
                continue
        raise SourceError(
            f"{path}: expected {expected} in {field.name}; found {field.type}. Name another "
            "column by --column"
        )


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
