"""Parquet with audio, as `datasets` writes it, in a folder or on the hub; CoRal is one of them.

CoRal's subsets (v1, v2 and v3) are told by their columns of ids, and have names of corpora of their
own. Licence OpenRAIL-D: no speech synthesis and no biometric identification. Its repositories on
the hub are gated.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.base.errors import SourceError
from danish_asr.base.tables import class_name, class_names
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.rows import (
    USUAL_NAMES,
    Audio,
    Builder,
    Source,
    check_chosen,
    check_columns,
    check_recordings,
    columns_of,
    key_of,
)
from danish_asr.corpus.sources.location import Location, locate
from danish_asr.corpus.sources.recordings import find_recording

_BATCH_BYTES: Final = 16 << 20
_BATCH_ROWS: Final = 16
"""Bytes on average and rows with audio that are read at a time, at most."""

_ROWS_AT_ONCE: Final = 10_000
_USUAL: Final = USUAL_NAMES | dict.fromkeys(("start", "end", "seconds"), ())
"""A time beside embedded audio may be that of another recording, so it has to be chosen."""

_ID: Final = {"read_aloud": "id_recording", "conversation": "id_conversation,id_segment"}
_SUBSETS: Final = {"read_aloud": "read_aloud", "conversation": "conversation"} | {
    "conversational": "conversation"  # as v2 has it
}


class _File(NamedTuple):
    """What is read of a file."""

    name: str
    columns: dict[str, str]
    corpus: str | None  # of CoRal; None: that of the options
    names: list[str]


def open_parquet(location: str, options: ConvertOptions) -> Source:
    """Read the Parquet files of a folder or of a dataset on the hub."""
    place = locate(location)
    files = [*_files(place, location, options)]
    if not files:
        raise SourceError(f"{location}: found no Parquet files")
    names = [*dict.fromkeys(name for file in files for name in file.names)]
    check_chosen(names, options.columns)
    is_coral = any(file.corpus for file in files)
    builder = Builder(options, country_codes=is_coral)
    for file in files:
        with place.open_parquet(file.name) as parquet:
            _add(builder, parquet, file)
    rows = builder.table()
    check_recordings(rows)
    columns = {ours: theirs for file in files for ours, theirs in file.columns.items()}
    read = {name for theirs in columns.values() for name in theirs.split(",")}
    versions = (place.fingerprint(file.name) for file in files)
    return Source(
        name=location,
        rows=rows,
        fetch=_Fetch(place, {file.name: file.columns["audio"] for file in files}),
        columns=columns,
        ignored=() if is_coral else tuple(name for name in names if name not in read),
        version=sha256(" ".join(versions).encode()).hexdigest(),
    )


def _files(place: Location, location: str, options: ConvertOptions) -> Iterator[_File]:
    """The files to read; a subset is a folder, or one of CoRal's."""
    for name in place.parquet_files():
        with place.open_parquet(name) as parquet:
            schema = parquet.schema_arrow
        coral = next(
            (kind for kind, ids in _ID.items() if {*ids.split(",")} <= {*schema.names}), ""
        )
        if coral and not options.corpus and not options.columns:
            if place.subset and place.subset not in _SUBSETS:
                raise SourceError(f"{location}: CoRal has the subsets {', '.join(_SUBSETS)}")
            if coral == _SUBSETS.get(place.subset or "", coral):
                chosen = {"id": _ID[coral], "speaker_id": "id_speaker"}
                columns = columns_of(schema.names, chosen, _USUAL)
                yield _file(place, name, schema, columns, f"coral_{coral}")
        elif not place.subset or name.startswith(f"{place.subset}/"):
            _check_times(name, schema.names, options)
            columns = columns_of(schema.names, options.columns, _USUAL)
            yield _file(place, name, schema, columns, None)


def _file(
    place: Location, name: str, schema: pa.Schema, columns: dict[str, str], corpus: str | None
) -> _File:
    check_columns(f"{place.root}/{name}", schema.names, columns)
    for theirs in (part for own in columns.values() for part in own.split(",")):
        kind = schema.field(theirs).type
        if not pa.types.is_nested(kind):
            continue
        inside = {field.name for field in kind} if pa.types.is_struct(kind) else set()
        if theirs == columns["audio"] and {"bytes", "path"} & inside:
            continue
        found = (
            "decoded audio, not files" if "array" in inside or theirs == columns["audio"] else ""
        )
        raise SourceError(
            f"{name}: {theirs} holds {found or kind}; expected encoded audio files (`datasets`: "
            "cast_column('audio', Audio(decode=False)) before to_parquet), or text and numbers in "
            "other columns"
        )
    return _File(name, columns, corpus, schema.names)


def _check_times(file: str, names: Iterable[str], options: ConvertOptions) -> None:
    usual = {name for ours in ("start", "end") for name in USUAL_NAMES[ours]}
    times = [name for name in names if name.lower() in usual]
    if times and not options.columns.keys() & {"start", "end"}:
        raise SourceError(
            f"{file}: found {', '.join(times)}; are these times within the audio? Cut it with "
            f"--column start={times[0]} --column end=COLUMN (or seconds=COLUMN), or read it whole "
            "with --column start="
        )


def _add(builder: Builder, parquet: pq.ParquetFile, file: _File) -> None:
    """Add the rows of a file, without their audio."""
    columns, schema = file.columns, parquet.schema_arrow
    labels = class_names(schema.metadata or {})
    named = [name for name in schema.names if name.lower() == "split"][:1]
    split = named[0] if named and file.corpus is None else None
    read = {ours: theirs for ours, theirs in columns.items() if ours != "audio"}
    wanted = {name for theirs in read.values() for name in theirs.split(",")} | {*named}
    audio = _path_column(parquet, columns["audio"])
    row = 0
    for group in range(parquet.num_row_groups):
        for batch in parquet.iter_batches(
            _ROWS_AT_ONCE, [group], [*wanted, *([audio] if audio else [])], use_threads=False
        ):
            values = {name: _values(batch[name], labels.get(name)) for name in wanted}
            count = len(batch)
            raw: dict[str, list[Any]] = {
                key_of(ours, theirs): values[theirs]
                if theirs in values
                else [*zip(*(values[name] for name in theirs.split(",")), strict=True)]
                for ours, theirs in read.items()
            }
            if audio:
                paths = _values(batch[columns["audio"]], None)
                paths = [path["path"] if isinstance(path, dict) else path for path in paths]
                folder = PurePosixPath(file.name).parent
                raw["audio"] = [path and (folder / path).as_posix() for path in paths]
            raw |= {"split": values[split]} if split else {}
            raw |= {"corpus": [file.corpus] * count} if file.corpus else {}
            raw |= {"file": [file.name] * count, "group": [group] * count}
            builder.add(count, raw | {"row": [*range(row, row + count)]})
            row += count


def _path_column(parquet: pq.ParquetFile, name: str) -> str | None:
    """What holds paths, if the first row group has no audio in it."""
    kind = parquet.schema_arrow.field(name).type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return name
    if not (pa.types.is_struct(kind) and parquet.num_row_groups):
        return None
    inside = [field.name for field in kind]
    if "bytes" in inside:  # counted in the footer: a recording may have 100 MB
        group = parquet.metadata.row_group(0)
        columns = map(group.column, range(group.num_columns))
        of_bytes = next(own for own in columns if own.path_in_schema == f"{name}.bytes")
        counts = of_bytes.statistics
        if counts is None or counts.null_count < group.num_rows:
            return None
    return f"{name}.path" if "path" in inside else None


def _values(column: pa.Array, labels: list[str] | None) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:  # a text that is not UTF-8; its row is refused
        values = [_value(value) for value in column]
    return values if labels is None else [class_name(labels, value) for value in values]


def _value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return []  # what no column can have


@dataclass(frozen=True)
class _Fetch:
    """Reads the audio of rows; it crosses to worker processes."""

    place: Location
    columns: Mapping[str, str]  # of the audio, by file

    def __call__(self, rows: pa.Table) -> Iterator[Audio]:
        pairs = zip(rows["file"].to_pylist(), rows["row"].to_pylist(), strict=True)
        for file, group in groupby(pairs, lambda pair: pair[0]):
            wanted = [row for _, row in group]
            with self.place.open_parquet(file) as parquet:
                for value in _audio_of(parquet, self.columns[file], wanted):
                    yield self._audio(file, value)

    def _audio(self, file: str, value: Any) -> Audio:
        """Embedded bytes, or else the path of a local file, relative to the Parquet file."""
        if isinstance(value, dict):
            value = value.get("path") if value.get("bytes") is None else value["bytes"]
        if isinstance(value, bytes):
            return value
        if not value or not isinstance(value, str) or not self.place.local:
            return None
        return find_recording(Path(self.place.root, file).parent, value)


def _audio_of(parquet: pq.ParquetFile, column: str, wanted: list[int]) -> Iterator[Any]:
    """The values of these rows, which ascend."""
    # One row group after another: Arrow would keep all that are read together in memory.
    row, places = 0, iter([*wanted, -1])
    place = next(places)
    for index in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(index)
        if place >= row + group.num_rows or place < 0:
            row += group.num_rows
            continue
        # Few rows at a time if recordings are long.
        most = _BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)
        size = max(1, min(_BATCH_ROWS, most, wanted[-1] - wanted[0] + 1))
        for batch in parquet.iter_batches(size, [index], [column], use_threads=False):
            while row <= place < row + len(batch):
                yield batch[column][place - row].as_py()
                place = next(places)
            row += len(batch)
