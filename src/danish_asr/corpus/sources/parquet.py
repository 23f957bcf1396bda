"""Parquet with audio, as `datasets` writes it, in a folder or on the hub; CoRal is one of them.

CoRal's subsets (v1, v2 and v3) are told by their columns of ids, and have names of corpora of their
own. Licence OpenRAIL-D: no speech synthesis and no biometric identification. Its repositories on
the hub are gated. huggingface_hub is imported only where a source needs it: that takes most of a
worker's start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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

from danish_asr.base.errors import SourceError
from danish_asr.base.folders import Listing, version_of
from danish_asr.base.tables import class_name, class_names
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.columns import TIMES, SourceColumns, values_of
from danish_asr.corpus.rows import Audio, Source, of_each, replaced, table_of

PARQUET_SUFFIXES: Final = (".parquet", ".pq")
"""In lower case."""

_CORAL: Final = {
    "id_recording": "coral_read_aloud",
    "id_conversation,id_segment": "coral_conversation",
}
"""CoRal's subsets by the columns of their ids."""


def source_of_dataset(name: str) -> str | None:
    """Return the source of a dataset that is named after CoRal, such as ``coral_v2_danish``."""
    coral = re.match(r"coral_v([23])", name)
    return f"hf:CoRal-project/coral-v{coral[1]}" if coral else None


def open_parquet(location: str, options: ConvertOptions, listing: Listing) -> Source:
    """Read the Parquet files of a folder or of a dataset on the hub, but not their audio."""
    place = locate(location, listing)
    # A time beside embedded audio may be that of another recording, so it has to be chosen.
    columns = SourceColumns(options.columns, never_guessed=TIMES)
    tables: list[pa.Table] = []
    audio: dict[str, str] = {}  # the name of its column, by file
    for file in place.files:
        with place.open(file) as parquet:
            keys = columns.add(file, parquet.schema_arrow.names)
            audio[file] = keys.pop("audio")
            _check_audio(file, parquet.schema_arrow.field(audio[file]))
            corpus = options.corpus or _CORAL.get(keys.get("id", ""))
            records = _records(parquet, file, keys, corpus)
            tables.append(table_of(records, options))
    if not tables:
        raise SourceError(f"{location}: found no Parquet files")
    rows = pa.concat_tables(tables)
    return Source(
        name=location,
        rows=replaced(rows, version=_versions(place, rows)),
        fetch=partial(_fetch, place, audio),
        versions=partial(_versions, place),
        columns=columns.read,
        ignored=columns.ignored(),
    )


def _records(
    parquet: pq.ParquetFile, file: str, keys: Mapping[str, str], corpus: str | None
) -> Iterator[dict[str, Any]]:
    """The records of a file."""
    wanted = [*dict.fromkeys(",".join(keys.values()).split(","))]
    labels = class_names(parquet.schema_arrow.metadata or {})
    row = 0
    for group in range(parquet.num_row_groups):
        for batch in parquet.iter_batches(10_000, [group], wanted, use_threads=False):
            for values in batch.to_pylist():
                for name in labels.keys() & values.keys():
                    values[name] = class_name(labels[name], values[name])
                record = {"file": file, "row": row, "group": group, "corpus": corpus}
                yield record | values_of(values, keys)
                row += 1


def _check_audio(file: str, audio: pa.Field) -> None:
    """Raise `SourceError` for a column without encoded audio: bytes, or a field of that name."""
    if not re.match(r"(struct<.*\bbytes: )?(large_)?binary(_view)?\b", str(audio.type)):
        raise SourceError(
            f"{file}: {audio.name} holds no encoded audio, but {audio.type}. Decoded audio: "
            "cast_column('audio', Audio(decode=False)) before `datasets` writes it; paths: write a "
            "CSV of path,text,speaker"
        )


def _fetch(place: Location, columns: Mapping[str, str], rows: pa.Table) -> Iterator[Audio]:
    """Yield the audio of rows; ``columns`` has the name of its column by file."""
    pairs = zip(rows["file"].to_pylist(), rows["row"].to_pylist(), strict=True)
    for file, group in groupby(pairs, itemgetter(0)):
        with place.open(file) as parquet:
            for value in _audio_of(parquet, columns[file], {row for _, row in group}):
                yield value["bytes"] if isinstance(value, dict) else value


def _versions(place: Location, rows: pa.Table) -> pa.Array:
    """The versions of the files of rows; on the hub the root, which has the commit."""
    root = Path(place.root)
    return of_each(rows["file"], lambda file: place.root if place.fs else version_of(root / file))


def _audio_of(parquet: pq.ParquetFile, column: str, wanted: set[int]) -> Iterator[Any]:
    """The values of these rows, in their order in the file."""
    # One row group after another: Arrow would keep all that are read together in memory.
    row = 0
    for index in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(index)
        if wanted.isdisjoint(range(row, row + group.num_rows)):
            row += group.num_rows
            continue
        fit = (16 << 20) * group.num_rows // max(1, group.total_byte_size)  # into 16 MiB
        size = max(1, min(16, fit))
        for batch in parquet.iter_batches(size, [index], [column], use_threads=False):
            for value in batch[column]:
                if row in wanted:
                    yield value.as_py()
                row += 1


@dataclass(frozen=True, kw_only=True)
class Location:
    """A folder, and the names of the Parquet files that are read below it."""

    fs: AbstractFileSystem | None  # None: of this machine
    root: str
    files: list[str]

    @contextmanager
    def open(self, name: str) -> Iterator[pq.ParquetFile]:
        """Open a file for streaming; faults of it are `SourceError`."""
        path = f"{self.root}/{name}"
        # Arrow's own reader of local files avoids a copy and the GIL, and streams pages. Elsewhere
        # every read is a request, so it fetches the parts of a row group in a few large ones.
        try:
            stream: Any = self.fs.open(path, "rb", cache_type="none") if self.fs else path
            with pq.ParquetFile(
                stream,
                buffer_size=0 if self.fs else 1 << 20,
                pre_buffer=self.fs is not None,
                page_checksum_verification=True,
            ) as parquet:
                yield parquet
        except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
            if self.fs and isinstance(error, OSError):
                raise _hub_error(path.removeprefix("datasets/"), error) from error
            reason = " ".join(str(error).split())
            raise SourceError(
                f"{path}: not a complete Parquet file without a key ({reason}); download it again"
            ) from error


def locate(location: str, listing: Listing) -> Location:
    """The Parquet files of a folder, or of a revision on the hub or a subset of it, or one file."""
    if location.startswith("hf:"):
        fs, root, paths = _on_hub(location)
    else:
        fs, path, root = None, Path(location), str(listing.root)
        files = [listing.root / path.name] if path.is_file() else listing.of(*PARQUET_SUFFIXES)
        paths = [str(file) for file in files]
    names = (path.removeprefix(f"{root}/") for path in paths)
    parquet = sorted(name for name in names if name.lower().endswith(PARQUET_SUFFIXES))
    return Location(fs=fs, root=root, files=parquet)


def _on_hub(location: str) -> tuple[AbstractFileSystem, str, list[str]]:
    """The hub's file system, the folder of a commit of a dataset, and the paths of its files."""
    import huggingface_hub as hub  # noqa: PLC0415

    match = re.fullmatch(r"hf:([\w.-]+/[\w.-]+)(?::([\w.-]+))?(?:@([\w./-]+))?", location)
    if match is None:
        raise SourceError(f"{location}: expected hf:OWNER/NAME[:SUBSET][@REVISION]")
    repo, subset, revision = match.groups()
    fs = hub.HfFileSystem()
    try:
        commit = hub.HfApi().dataset_info(repo, revision=revision).sha
        root = f"datasets/{repo}@{commit}"
        return fs, root, [*fs.find(f"{root}/{subset or ''}")]
    except OSError as error:
        raise _hub_error(f"{repo}@{revision or 'main'}", error) from error


def _hub_error(name: str, error: OSError) -> SourceError:
    repo = name.partition("@")[0]
    return SourceError(
        f"hf:{name}: cannot be read ({' '.join(str(error).split())}). Check the name and the "
        "revision. If it is gated, accept its terms on its page, then log in with `hf auth login` "
        "or set HF_TOKEN. Without a network, convert a folder that was filled elsewhere: "
        f"`hf download --repo-type dataset {repo} --local-dir FOLDER`"
    )
