"""The index of a split: what each utterance is and how long it lasts, without its audio.

It is one Arrow IPC file, memory-mapped, so that all processes of a node share its pages and a
restart reads nothing again. It is written once per set of shards: its name is a hash of their
names, sizes and modification times, and of the SQL condition. It is in ``.index`` in the dataset's
ROOT or, for a read-only dataset, below ``$XDG_CACHE_HOME/danish-asr/index`` (default
``~/.cache``); if neither can be written, each process builds it in memory. The files may be deleted
while nothing reads the dataset.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, Self, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import SoftFileLease
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import ConfigError, DanishAsrError, DatasetError
from danish_asr.base.files import publish
from danish_asr.base.schema import METADATA_COLUMNS, VERSION_DIR
from danish_asr.corpus.shards import Partition, Shard
from danish_asr.recipe.data.audio_source import (
    AudioChunk,
    AudioSource,
    ParquetAudio,
    RowGroup,
    audio_chunks,
)

INDEX_DIR: Final = ".index"
UNKNOWN_DIALECT: Final = "unknown"
_FORMAT: Final = 2
_GOLDEN_RATIO: Final = (1 + 5**0.5) / 2
_LEASE_SECONDS: Final = 60.0
"""A builder on another host that has not refreshed its lock for this long has been killed."""
_TEXT: Final = ("id", "text", *METADATA_COLUMNS)
_NUMBERS: Final = ("audio_size", "row_group", "row_in_group")
_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in _TEXT] + [(name, pa.int32()) for name in _NUMBERS]
)


@dataclass(frozen=True, eq=False)
class Index:
    """The utterances of a split; row numbers count from 0 in the order of the files."""

    name: str  # of the split or subset: `test` or `test_<corpus>`
    split: str  # that the rows belong to: `test`
    table: pa.Table  # id, text (as the corpus has it) and the metadata columns, as strings
    lengths: NDArray[np.int32]  # samples at 16 kHz, (rows,)
    partition_of: NDArray[np.int16]  # index into `partitions`, (rows,)
    row_group_of: NDArray[np.int32]  # numbered through the split, (rows,)
    partitions: tuple[Partition, ...]
    audio: AudioSource = field(repr=False)

    def __len__(self) -> int:
        return len(self.lengths)

    def values(self, name: str, rows: Iterable[int]) -> list[Any]:
        """The values of a column of ``table`` in these rows."""
        column = self.table.column(name)
        # One scalar at a time: `take` would join all chunks of the column first.
        return [column[row].as_py() for row in rows]

    def dialects(self) -> tuple[NDArray[np.int32], list[str]]:
        """A code per row and the names that occur, by code; null is ``unknown``."""
        return self._codes("dialect")

    def voices(self) -> NDArray[np.int64]:
        """A code per row, the same for rows of one partition and one speaker, ``(rows,)``."""
        codes, names = self._codes("speaker_id")
        return self.partition_of.astype(np.int64) * len(names) + codes

    def _codes(self, name: str) -> tuple[NDArray[np.int32], list[str]]:
        column = self.table.column(name).dictionary_encode()
        chunks = column.unify_dictionaries().chunks
        names = chunks[0].dictionary.to_pylist()
        codes = [chunk.indices.fill_null(len(names)).to_numpy() for chunk in chunks]
        if column.null_count:
            names.append(UNKNOWN_DIALECT)
        return np.concatenate(codes), names

    def take(self, rows: NDArray[np.integer[Any]]) -> Self:
        """The same split with these rows only, e.g. a fixed subset for frequent validation."""
        columns = [pa.array(self.values(name, rows.tolist()), pa.string()) for name in _TEXT]
        return replace(
            self,
            table=pa.table(columns, _TEXT),
            lengths=self.lengths[rows],
            partition_of=self.partition_of[rows],
            row_group_of=self.row_group_of[rows],
            audio=self.audio.take(rows),
        )

    def subset(self, size: int, *, nested: bool = False) -> Self:
        """About ``size`` rows, always the same: of each dialect its share, and at least one row.

        They are at even distances. With ``nested``, a larger size has these rows too, and the
        distances are less even.
        """
        if size >= len(self):
            return self
        codes, _ = self.dialects()
        chosen = []
        for code in np.unique(codes):
            rows = np.flatnonzero(codes == code)
            count = max(round(len(rows) * size / len(self)), 1)
            if nested:
                # Multiples of the golden ratio, modulo 1, are spread evenly at any number.
                place = np.argsort(np.arange(len(rows)) * _GOLDEN_RATIO % 1, kind="stable")[:count]
            else:
                place = np.linspace(0, len(rows) - 1, count).astype(np.int64)
            chosen.append(rows[place])
        return self.take(np.sort(np.concatenate(chosen)))

    def digest(self, rows: NDArray[np.int32]) -> str:
        """A hash of what the rows are, wherever the dataset is; part of a run's checkpoints."""
        digest = hashlib.blake2b(np.ascontiguousarray(rows).tobytes(), digest_size=16)
        digest.update(self.lengths.tobytes())
        for name in ("id", "text"):
            chunks = [chunk.fill_null("") for chunk in self.table.column(name).chunks]
            for chunk in chunks:
                digest.update(pc.binary_length(chunk).to_numpy())
            for chunk in chunks:
                texts = pa.ListArray.from_arrays(pa.array([0, len(chunk)], pa.int32()), chunk)
                digest.update(pc.binary_join(texts, "")[0].as_buffer())
        return digest.hexdigest()


def read_index(
    shards: Sequence[Shard], split: str, *, root: Path, condition: str | None = None
) -> Index:
    """The index of these shards, from its file or, the first time, from the shards.

    ``root`` is the dataset's ROOT or ``version=0`` directory; only the rows that fulfil the SQL
    ``condition`` are kept. Strings in it are in single quotes; a null fulfils no comparison.

    Raises:
        DatasetError: A file cannot be read, a needed column is missing, or there are no rows.
        ConfigError: The condition is faulty.
    """
    file = pa.ipc.open_file(_open_or_build(shards, split, root, condition))
    batches, first_groups = [], []
    groups: list[RowGroup] = []
    for number, shard in enumerate(shards):
        batch, metadata = file.get_batch_with_custom_metadata(number)
        batches.append(batch)
        first_groups.append(len(groups))
        for place, values in enumerate(json.loads(metadata[b"row_groups"])):
            groups.append(RowGroup(shard.path, place, AudioChunk(*values)))
    rows = np.array([len(batch) for batch in batches])
    if not rows.any():
        if condition is None:
            raise DatasetError(f"split '{split}': there are no rows in {len(shards)} shards")
        values = _values_of_columns(shards, condition)
        raise DatasetError(f"no row of split '{split}' fulfils \"{condition}\"; {values}")
    filled = [shard.partition for shard, count in zip(shards, rows, strict=True) if count]
    partitions = tuple(sorted(set(filled)))
    table = pa.Table.from_batches(batches)
    lengths, group, within = (table.column(name).to_numpy() for name in _NUMBERS)
    row_group_of = group + np.repeat(np.array(first_groups, np.int32), rows)
    codes = np.array([partitions.index(partition) for partition in filled], np.int16)
    return Index(
        name=split,
        split=shards[0].keys["split"],
        table=table.select(_TEXT),
        lengths=lengths,
        partition_of=np.repeat(codes, rows[rows > 0]),
        row_group_of=row_group_of,
        partitions=partitions,
        audio=ParquetAudio(groups, row_group_of, within),
    )


def _values_of_columns(shards: Sequence[Shard], condition: str) -> str:
    """What the columns of a condition hold, to correct one that no row fulfils."""
    names = list(dict.fromkeys(pl.sql_expr(condition).meta.root_names()))
    paths = [shard.path for shard in shards]
    described = []
    for column in pl.scan_parquet(paths, hive_partitioning=True).select(names).collect():
        values = ", ".join(map(str, column.drop_nulls().unique().sort()[:20]))
        if column.dtype.is_numeric() and values:
            values = f"{column.min()!s} to {column.max()!s}"
        described.append(f"{column.name} has {values or 'nulls only'}")
    return "; ".join(described)


def _open_or_build(
    shards: Sequence[Shard], split: str, root: Path, condition: str | None
) -> pa.NativeFile:
    root = root.parent if root.name == VERSION_DIR else root
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for folder in (root / INDEX_DIR, cache / "danish-asr" / "index"):
        path = folder / f"{split}-{_key(shards, condition)}.arrow"
        try:
            if not path.is_file():
                _write(path, shards, condition)
            return pa.memory_map(str(path))
        except (ConfigError, DatasetError):
            raise
        except (OSError, DanishAsrError):  # read-only or full
            continue
    memory = pa.BufferOutputStream()
    _build(shards, condition, memory)
    return pa.BufferReader(memory.getvalue())


def _write(path: Path, shards: Sequence[Shard], condition: str | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # The processes of all hosts wait for the first one. Its lock is a file that it refreshes,
    # because a file system may keep the system's locks on one host.
    with SoftFileLease(path.with_suffix(".lock"), lease_duration=_LEASE_SECONDS):
        if path.exists():
            return
        for unfinished in path.parent.glob(f".{path.name}.*"):  # by a killed builder
            unfinished.unlink(missing_ok=True)
        with publish(path) as stream:
            _build(shards, condition, stream)


def _key(shards: Sequence[Shard], condition: str | None) -> str:
    files = []
    for shard in shards:
        status = shard.path.stat()
        files.append([*shard.path.parts[-4:], status.st_size, status.st_mtime_ns])
    content = json.dumps([_FORMAT, files, condition])
    return hashlib.blake2b(content.encode(), digest_size=12).hexdigest()


def _build(shards: Sequence[Shard], condition: str | None, sink: IO[bytes] | pa.NativeFile) -> None:
    """Write a record batch per shard, in their order, whatever order they are read in."""
    with ThreadPoolExecutor(usable_cpus()) as pool, pa.ipc.new_file(sink, _SCHEMA) as writer:
        for batch, chunks in pool.map(lambda shard: _read_shard(shard, condition), shards):
            writer.write_batch(batch, {"row_groups": json.dumps(chunks)})


def _read_shard(shard: Shard, condition: str | None) -> tuple[pa.RecordBatch, list[AudioChunk]]:
    """The rows of a shard, and the audio of its row groups."""
    try:
        # The columns are small pieces between the audio; pre-buffering fetches many at a time,
        # which is what a network file system needs.
        with pq.ParquetFile(shard.path, pre_buffer=True) as file:
            schema, footer = file.schema_arrow, file.metadata
            if missing := {"text", "audio_bytes", "audio_size"} - {*schema.names}:
                names = ", ".join(sorted(missing))
                raise DatasetError(f"{shard.path}: column {names} is missing; found {schema.names}")
            columns = [name for name in schema.names if name != "audio_bytes"]
            if condition is None:
                columns = [name for name in columns if name in _SCHEMA.names]
            table = file.read(columns, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{shard.path}: cannot be read as Parquet ({error})") from error
    for name in ("text", "audio_size"):
        if nulls := table.column(name).null_count:
            raise DatasetError(f"{shard.path}: column {name} has {nulls} nulls; expected none")
    chunks = audio_chunks(footer, nullable=schema.field("audio_bytes").nullable)
    table = _with_missing_columns(shard, table, [chunk.num_rows for chunk in chunks])
    if condition is not None:
        for name in shard.keys.keys() - {*table.column_names}:
            table = table.append_column(name, pa.array([shard.keys[name]] * len(table)))
        table = table.take(_fulfilling_rows(table, condition))
    combined = table.select(_SCHEMA.names).cast(_SCHEMA).combine_chunks()
    (batch,) = combined.to_batches() or [pa.RecordBatch.from_pylist([], _SCHEMA)]
    return batch, chunks


def _with_missing_columns(shard: Shard, table: pa.Table, sizes: list[int]) -> pa.Table:
    """Add each row's row group and place in it, and the columns that a foreign dataset lacks."""
    row_group = np.repeat(np.arange(len(sizes)), sizes)
    within = np.concatenate([np.arange(size) for size in [0, *sizes]])
    table = table.append_column("row_group", pa.array(row_group))
    table = table.append_column("row_in_group", pa.array(within))
    for name in [name for name in _TEXT if name not in table.column_names]:
        values = pa.nulls(len(table), pa.string())
        if name == "id":
            stem = "/".join(part.partition("=")[2] or part for part in shard.path.parts[-4:])
            values = pa.array([f"{stem}#{row}" for row in range(len(table))], pa.string())
        table = table.append_column(name, values)
    return table


def _fulfilling_rows(table: pa.Table, condition: str) -> NDArray[np.int64]:
    frame = cast(pl.DataFrame, pl.from_arrow(table)).with_row_index("__row")
    try:
        return frame.filter(pl.sql_expr(condition))["__row"].to_numpy().astype(np.int64)
    except PolarsError as error:
        reason = str(error).partition("\n")[0].partition("; valid columns")[0]
        fault = (
            f'expected an SQL condition, found "{condition}" ({reason}); strings are in single '
            f"quotes, columns are {', '.join(table.column_names)}"
        )
        raise ConfigError([fault]) from error
