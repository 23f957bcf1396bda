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
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from danish_asr.base.errors import SourceError
from danish_asr.base.folders import walk
from danish_asr.base.tables import class_name, class_names
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.columns import (
    USUAL_NAMES,
    check_chosen,
    check_columns,
    columns_of,
    record_key,
    values_of,
)
from danish_asr.corpus.rows import Audio, Source, check_recordings, table_of
from danish_asr.corpus.sources.recordings import find_recording

_HUB: Final = r"hf:([\w.-]+/[\w.-]+)(?::([\w.-]+))?(?:@([\w./-]+))?"

PARQUET_SUFFIXES: Final = (".parquet", ".pq")
"""In lower case."""

_BATCH_BYTES: Final = 16 << 20
_BATCH_ROWS: Final = 16
"""Bytes on average and rows with audio that are read at a time, at most."""

_ROWS_AT_ONCE: Final = 10_000
_USUAL: Final = USUAL_NAMES | dict.fromkeys(("start", "end", "seconds"), ())
"""A time beside embedded audio may be that of another recording, so it has to be chosen."""

_ID: Final = {"read_aloud": "id_recording", "conversation": "id_conversation,id_segment"}
_OTHER_SUBSETS: Final = {"conversational": "conversation"}  # as v2 has it


def source_of_dataset(name: str) -> str | None:
    """Return the source of a dataset that is named after CoRal, such as ``coral_v2_danish``."""
    coral = re.match(r"coral_v([23])", name)
    return f"hf:CoRal-project/coral-v{coral[1]}" if coral else None


class _File(NamedTuple):
    """What is read of a file."""

    name: str
    schema: pa.Schema
    columns: dict[str, str]  # its names by ours
    corpus: str | None  # of CoRal; None: that of the options


def open_parquet(location: str, options: ConvertOptions) -> Source:
    """Read the Parquet files of a folder or of a dataset on the hub."""
    place = locate(location)
    files = [*_files(place, options)]
    if not files:
        raise SourceError(f"{location}: found no Parquet files")
    names = [*dict.fromkeys(name for file in files for name in file.schema.names)]
    check_chosen(names, options.columns)
    is_coral = any(file.corpus for file in files)
    records = chain.from_iterable(_records(place, file) for file in files)
    rows = table_of(records, options, country_codes=is_coral)
    check_recordings(rows)
    columns = {ours: theirs for file in files for ours, theirs in file.columns.items()}
    read = ",".join(columns.values()).split(",")
    return Source(
        name=location,
        rows=rows,
        fetch=partial(_fetch, place, {file.name: file.columns["audio"] for file in files}),
        columns=columns,
        ignored=() if is_coral else tuple(name for name in names if name not in read),
        version="" if place.local else place.root,  # which has the commit
    )


def _files(place: Location, options: ConvertOptions) -> Iterator[_File]:
    """The files to read; a subset is a folder, or one of CoRal's."""
    for name in place.parquet_files():
        with place.open_parquet(name) as parquet:
            schema = parquet.schema_arrow
        own = {*schema.names}
        coral = next((kind for kind, ids in _ID.items() if {*ids.split(",")} <= own), "")
        if coral and not options.corpus and not options.columns:
            if place.subset in {None, coral} or _OTHER_SUBSETS.get(place.subset) == coral:
                chosen = {"id": _ID[coral], "speaker_id": "id_speaker"}
                columns = columns_of(schema.names, chosen, _USUAL)
                yield _File(name, schema, columns, f"coral_{coral}")
        elif not place.subset or name.startswith(f"{place.subset}/"):
            _check_times(name, schema.names, options)
            yield _File(name, schema, columns_of(schema.names, options.columns, _USUAL), None)


def _check_times(file: str, names: Sequence[str], options: ConvertOptions) -> None:
    usual = {name for ours in ("start", "end") for name in USUAL_NAMES[ours]}
    times = [name for name in names if name.lower() in usual]
    if times and not options.columns.keys() & {"start", "end"}:
        raise SourceError(
            f"{file}: found {', '.join(times)}; are these times within the audio? Cut it with "
            f"--column start={times[0]} --column end=COLUMN (or seconds=COLUMN), or read it whole "
            "with --column start="
        )


def _records(place: Location, file: _File) -> Iterator[dict[str, Any]]:
    """The records of a file, without audio that is embedded."""
    check_columns(file.name, file.schema.names, file.columns)
    audio = file.schema.field(file.columns["audio"])
    _check_audio(file.name, audio)
    labels = class_names(file.schema.metadata or {})
    has_paths = pa.types.is_string(audio.type) or pa.types.is_large_string(audio.type)
    read = {
        record_key(ours, theirs): theirs
        for ours, theirs in file.columns.items()
        if ours != "audio" or has_paths
    }
    splits = [name for name in file.schema.names if name.lower() == "split"]
    if splits and file.corpus is None:
        read["split"] = splits[0]
    wanted = [*dict.fromkeys(name for theirs in read.values() for name in theirs.split(","))]
    folder = PurePosixPath(file.name).parent
    row = 0
    with place.open_parquet(file.name) as parquet:
        for group in range(parquet.num_row_groups):
            for batch in parquet.iter_batches(_ROWS_AT_ONCE, [group], wanted, use_threads=False):
                for values in batch.to_pylist():
                    for name in labels.keys() & values.keys():
                        values[name] = class_name(labels[name], values[name])
                    record = {key: values_of(values, theirs) for key, theirs in read.items()}
                    if record.get("audio"):
                        record["audio"] = str(folder / record["audio"])
                    place_of_row = {"file": file.name, "row": row, "group": group}
                    yield record | place_of_row | {"corpus": file.corpus}
                    row += 1


def _check_audio(file: str, audio: pa.Field) -> None:
    """Raise `SourceError` for audio that is no file, nor the path of one."""
    inside = {field.name for field in audio.type} if pa.types.is_struct(audio.type) else set()
    if pa.types.is_nested(audio.type) and not {"bytes", "path"} & inside:
        raise SourceError(
            f"{file}: {audio.name} holds decoded audio; expected encoded files (`datasets`: "
            "cast_column('audio', Audio(decode=False)) before to_parquet)"
        )


def _fetch(place: Location, columns: Mapping[str, str], rows: pa.Table) -> Iterator[Audio]:
    """Yield the audio of rows; ``columns`` has the name of its column by file."""
    pairs = zip(rows["file"].to_pylist(), rows["row"].to_pylist(), strict=True)
    for file, group in groupby(pairs, itemgetter(0)):
        with place.open_parquet(file) as parquet:
            for value in _audio_of(parquet, columns[file], [row for _, row in group]):
                yield _audio(place, file, value)


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


def _audio(place: Location, file: str, value: Any) -> Audio:
    """Embedded bytes, or else the path of a local file, relative to the Parquet file."""
    if isinstance(value, dict):
        value = value.get("path") if value.get("bytes") is None else value["bytes"]
    if isinstance(value, bytes):
        return value
    if not value or not isinstance(value, str) or not place.local:
        return None
    return find_recording(Path(place.root, file).parent, value)


@dataclass(frozen=True, kw_only=True)
class Location:
    """A directory of a file system, and the subset or the file in it to read, or None for all."""

    fs: AbstractFileSystem
    root: str
    subset: str | None = None
    file: str | None = None

    @property
    def local(self) -> bool:
        """Whether the files are on this machine."""
        return isinstance(self.fs, LocalFileSystem)

    def parquet_files(self) -> list[str]:
        """The names below the root of the Parquet files, sorted."""
        if self.file is not None:
            return [self.file]
        if self.local:
            paths = [
                str(folder / name) for folder, names in walk(Path(self.root)) for name in names
            ]
        else:
            with self._explained(self.root):
                paths = self.fs.find(self.root)
        names = (path.removeprefix(f"{self.root}/") for path in paths)
        return sorted(name for name in names if name.lower().endswith(PARQUET_SUFFIXES))

    @contextmanager
    def open_parquet(self, name: str) -> Iterator[pq.ParquetFile]:
        """Open a file for streaming; faults of it are `SourceError`."""
        path = f"{self.root}/{name}"
        # Arrow's own reader of local files avoids a copy and the GIL, and streams pages. Elsewhere
        # every read is a request, so it fetches the parts of a row group in a few large ones.
        with self._explained(path):
            stream: Any = path if self.local else self.fs.open(path, "rb", cache_type="none")
            with pq.ParquetFile(
                stream,
                buffer_size=1 << 20 if self.local else 0,
                pre_buffer=not self.local,
                page_checksum_verification=True,
            ) as parquet:
                yield parquet

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
            if not self.local and isinstance(error, OSError):
                raise _hub_error(error, path.removeprefix("datasets/")) from error
            reason = " ".join(str(error).split())
            raise SourceError(
                f"{path}: not a complete Parquet file without a key ({reason}); download it again"
            ) from error


def locate(location: str) -> Location:
    """Resolve a folder, a file or a revision on the hub, whose cache is read without a network."""
    if not location.startswith("hf:"):
        path = Path(location).resolve()
        if path.is_file():
            return Location(fs=LocalFileSystem(), root=str(path.parent), file=path.name)
        return Location(fs=LocalFileSystem(), root=str(path))
    import huggingface_hub as hub  # noqa: PLC0415
    from huggingface_hub import errors  # noqa: PLC0415

    match = re.fullmatch(_HUB, location)
    if match is None:
        raise SourceError(f"{location}: expected hf:OWNER/NAME[:SUBSET][@REVISION]")
    repo, subset, revision = match.groups()
    try:
        commit = hub.HfApi().dataset_info(repo, revision=revision).sha
        return Location(fs=hub.HfFileSystem(), root=f"datasets/{repo}@{commit}", subset=subset)
    except errors.HfHubHTTPError as error:
        raise _hub_error(error, f"{repo}@{revision}") from error
    except OSError:
        pass
    try:
        root = hub.snapshot_download(
            repo, repo_type="dataset", revision=revision, local_files_only=True
        )
    except errors.LocalEntryNotFoundError:
        raise SourceError(
            f"hf:{repo}: the hub cannot be reached and its cache holds no copy; where there is a "
            f"network, run `hf download --repo-type dataset {repo}`"
        ) from None
    return Location(fs=LocalFileSystem(), root=root, subset=subset)


def _hub_error(error: Exception, name: str) -> SourceError:
    """What to do; the terms of a gated repository are checked when a file of it is read."""
    from huggingface_hub import constants, errors  # noqa: PLC0415

    if isinstance(error, errors.GatedRepoError):
        repo = name.partition("@")[0]
        return SourceError(
            f"hf:{repo} is gated: accept its terms at {constants.ENDPOINT}/datasets/{repo}, then "
            "log in with `hf auth login` or set HF_TOKEN"
        )
    reason = " ".join(str(error).split())
    return SourceError(f"hf:{name}: cannot be read ({reason}); check the name and the revision")
