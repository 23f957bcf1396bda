"""Parquet with audio, as `datasets` writes it, in a folder or on the hub; CoRal is one of them.

CoRal's subsets (v1, v2 and v3) are told by their columns of ids, and have names of corpora of their
own. Licence OpenRAIL-D: no speech synthesis and no biometric identification. Its repositories on
the hub are gated. huggingface_hub is imported only where a source needs it: that takes most of a
worker's start.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from danish_asr.base.errors import SourceError
from danish_asr.base.folders import walk
from danish_asr.base.tables import class_name, class_names
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.columns import (
    THEIR_NAMES,
    TIMES,
    check_chosen,
    check_columns,
    columns_of,
    record_keys,
    values_of,
)
from danish_asr.corpus.rows import Audio, Source, table_of

_HUB: Final = r"hf:([\w.-]+/[\w.-]+)(?::([\w.-]+))?(?:@([\w./-]+))?"

PARQUET_SUFFIXES: Final = (".parquet", ".pq")
"""In lower case."""

_BATCH_BYTES: Final = 16 << 20
_BATCH_ROWS: Final = 16
"""Bytes on average and rows with audio that are read at a time, at most."""

_ROWS_AT_ONCE: Final = 10_000
_NAMES: Final = THEIR_NAMES | dict.fromkeys(TIMES, ())
"""A time beside embedded audio may be that of another recording, so it has to be chosen."""

_CORAL: Final = {
    "coral_read_aloud": "id_recording",
    "coral_conversation": "id_conversation,id_segment",
}
"""The columns of the id in CoRal's subsets."""


def source_of_dataset(name: str) -> str | None:
    """Return the source of a dataset that is named after CoRal, such as ``coral_v2_danish``."""
    coral = re.match(r"coral_v([23])", name)
    return f"hf:CoRal-project/coral-v{coral[1]}" if coral else None


def open_parquet(location: str, options: ConvertOptions) -> Source:
    """Read the Parquet files of a folder or of a dataset on the hub, but not their audio."""
    place = locate(location)
    tables: list[pa.Table] = []
    names: dict[str, None] = {}
    columns: dict[str, str] = {}
    audio: dict[str, str] = {}  # the name of its column, by file
    for file in place.parquet_files():
        with place.open_parquet(file) as parquet:
            own = parquet.schema_arrow.names
            coral = _coral_of(own, options)
            chosen = {"id": _CORAL[coral], "speaker_id": "id_speaker"} if coral else options.columns
            of_file = columns_of(own, chosen, _NAMES)
            check_columns(file, own, of_file)
            tables.append(table_of(_records(parquet, file, of_file, coral), options))
        names |= dict.fromkeys(own)
        columns |= of_file
        audio[file] = of_file["audio"]
    if not audio:
        raise SourceError(f"{location}: found no Parquet files")
    check_chosen([*names], options.columns)
    read = {"split", *",".join(columns.values()).split(",")}
    return Source(
        name=location,
        rows=pa.concat_tables(tables),
        fetch=partial(_fetch, place, audio),
        columns=columns,
        ignored=() if coral else tuple(name for name in names if name not in read),
        version="" if place.is_local else place.root,  # which has the commit
    )


def _coral_of(names: Sequence[str], options: ConvertOptions) -> str | None:
    """The corpus of a file of CoRal's, unless the options say what to call it or what to read."""
    if options.corpus or options.columns:
        return None
    fits = (corpus for corpus, ids in _CORAL.items() if {*ids.split(",")} <= {*names})
    return next(fits, None)


def _records(
    parquet: pq.ParquetFile, file: str, columns: Mapping[str, str], corpus: str | None
) -> Iterator[dict[str, Any]]:
    """The records of a file."""
    schema = parquet.schema_arrow
    _check_audio(file, schema.field(columns["audio"]))
    read = record_keys(schema.names, columns)
    del read["audio"]
    wanted = [*dict.fromkeys(name for theirs in read.values() for name in theirs.split(","))]
    labels = class_names(schema.metadata or {})
    row = 0
    for group in range(parquet.num_row_groups):
        for batch in parquet.iter_batches(_ROWS_AT_ONCE, [group], wanted, use_threads=False):
            for values in batch.to_pylist():
                for name in labels.keys() & values.keys():
                    values[name] = class_name(labels[name], values[name])
                record = {key: values_of(values, theirs) for key, theirs in read.items()}
                yield record | {"file": file, "row": row, "group": group, "corpus": corpus}
                row += 1


def _check_audio(file: str, audio: pa.Field) -> None:
    """Raise `SourceError` for a column without encoded audio."""
    is_struct = pa.types.is_struct(audio.type)
    types = {field.name: field.type for field in audio.type} if is_struct else {"bytes": audio.type}
    content = types.get("bytes", pa.null())
    if not (pa.types.is_binary(content) or pa.types.is_large_binary(content)):
        raise SourceError(
            f"{file}: {audio.name} holds no encoded audio, but {audio.type}. Decoded audio: "
            "cast_column('audio', Audio(decode=False)) before `datasets` writes it; paths: write a "
            "CSV of path,text,speaker"
        )


def _fetch(place: Location, columns: Mapping[str, str], rows: pa.Table) -> Iterator[Audio]:
    """Yield the audio of rows; ``columns`` has the name of its column by file."""
    pairs = zip(rows["file"].to_pylist(), rows["row"].to_pylist(), strict=True)
    for file, group in groupby(pairs, itemgetter(0)):
        with place.open_parquet(file) as parquet:
            for value in _audio_of(parquet, columns[file], [row for _, row in group]):
                yield value["bytes"] if isinstance(value, dict) else value


def _audio_of(parquet: pq.ParquetFile, column: str, wanted: Sequence[int]) -> Iterator[Any]:
    """The values of these rows, which ascend."""
    # One row group after another: Arrow would keep all that are read together in memory.
    row, waiting = 0, deque(wanted)
    for index in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(index)
        if not waiting or waiting[0] >= row + group.num_rows:
            row += group.num_rows
            continue
        # Few rows at a time if recordings are long.
        most = _BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)
        size = max(1, min(_BATCH_ROWS, most, wanted[-1] - wanted[0] + 1))
        for batch in parquet.iter_batches(size, [index], [column], use_threads=False):
            while waiting and waiting[0] < row + len(batch):
                yield batch[column][waiting.popleft() - row].as_py()
            row += len(batch)


@dataclass(frozen=True, kw_only=True)
class Location:
    """A directory of a file system."""

    fs: AbstractFileSystem
    root: str
    only: str = ""  # the file or the folder in it that is read, if not all

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine."""
        return isinstance(self.fs, LocalFileSystem)

    def parquet_files(self) -> list[str]:
        """The names below the root of the Parquet files, sorted."""
        place = f"{self.root}/{self.only}"
        if not self.is_local:
            with self._explained(place):
                paths = self.fs.find(place)
        elif Path(place).is_file():
            return [self.only]
        else:
            paths = [f"{folder}/{name}" for folder, names in walk(Path(place)) for name in names]
        names = (path.removeprefix(f"{self.root}/") for path in paths)
        return sorted(name for name in names if name.lower().endswith(PARQUET_SUFFIXES))

    @contextmanager
    def open_parquet(self, name: str) -> Iterator[pq.ParquetFile]:
        """Open a file for streaming; faults of it are `SourceError`."""
        path = f"{self.root}/{name}"
        # Arrow's own reader of local files avoids a copy and the GIL, and streams pages. Elsewhere
        # every read is a request, so it fetches the parts of a row group in a few large ones.
        with self._explained(path):
            stream: Any = path if self.is_local else self.fs.open(path, "rb", cache_type="none")
            with pq.ParquetFile(
                stream,
                buffer_size=1 << 20 if self.is_local else 0,
                pre_buffer=not self.is_local,
                page_checksum_verification=True,
            ) as parquet:
                yield parquet

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
            if not self.is_local and isinstance(error, OSError):
                raise _hub_error(path.removeprefix("datasets/"), error) from error
            reason = " ".join(str(error).split())
            raise SourceError(
                f"{path}: not a complete Parquet file without a key ({reason}); download it again"
            ) from error


def locate(location: str) -> Location:
    """Resolve a folder, a file, or a revision on the hub with the folder of a subset."""
    if not location.startswith("hf:"):
        path = Path(location).resolve()
        if path.is_file():
            return Location(fs=LocalFileSystem(), root=str(path.parent), only=path.name)
        return Location(fs=LocalFileSystem(), root=str(path))
    import huggingface_hub as hub  # noqa: PLC0415

    match = re.fullmatch(_HUB, location)
    if match is None:
        raise SourceError(f"{location}: expected hf:OWNER/NAME[:SUBSET][@REVISION]")
    repo, subset, revision = match.groups()
    try:
        commit = hub.HfApi().dataset_info(repo, revision=revision).sha
    except OSError as error:
        raise _hub_error(f"{repo}@{revision or 'main'}", error) from error
    root = f"datasets/{repo}@{commit}"
    return Location(fs=hub.HfFileSystem(), root=root, only=subset or "")


def _hub_error(name: str, error: OSError) -> SourceError:
    repo = name.partition("@")[0]
    return SourceError(
        f"hf:{name}: cannot be read ({' '.join(str(error).split())}). Check the name and the "
        "revision. If it is gated, accept its terms on its page, then log in with `hf auth login` "
        "or set HF_TOKEN. Without a network, convert a folder that was filled elsewhere: "
        f"`hf download --repo-type dataset {repo} --local-dir FOLDER`"
    )
