"""The file of an index: Arrow IPC, memory-mapped, so that all processes of a node share its pages.

It is written once per set of shards: its name is a hash of their names, sizes and modification
times, of the SQL condition and of the ids that are left out. It is in ``.index`` in the dataset's
ROOT or, for a read-only dataset, below ``$XDG_CACHE_HOME/danish-asr/index`` (default
``~/.cache``); if neither can be written, each process builds it in memory. The files may be deleted
while nothing reads the dataset.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

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
from danish_asr.base.schema import METADATA_COLUMNS
from danish_asr.corpus.shards import Shard
from danish_asr.recipe.data.audio_source import AudioChunk, audio_chunks

INDEX_DIR: Final = ".index"
TEXT: Final = ("id", "text", *METADATA_COLUMNS)
NUMBERS: Final = ("audio_size", "row_group", "row_in_group")
_FORMAT: Final = 2
_LEASE_SECONDS: Final = 60.0
"""A builder on another host that has not refreshed its lock for this long has been killed."""
_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in TEXT] + [(name, pa.int32()) for name in NUMBERS]
)


class Chosen(NamedTuple):
    """Which rows of the shards belong to an index."""

    condition: str | None
    excluded: frozenset[str]  # ids


def values_of_columns(shards: Sequence[Shard], condition: str) -> str:
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


def open_or_build(shards: Sequence[Shard], split: str, root: Path, chosen: Chosen) -> pa.NativeFile:
    """Open the file of these shards, a record batch for each, and write it if there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for folder in (root / INDEX_DIR, cache / "danish-asr" / "index"):
        path = folder / f"{split}-{_key(shards, chosen)}.arrow"
        try:
            if not path.is_file():
                _write(path, shards, chosen)
            return pa.memory_map(str(path))
        except (ConfigError, DatasetError):
            raise
        except (OSError, DanishAsrError):  # read-only or full
            continue
    memory = pa.BufferOutputStream()
    _build(shards, chosen, memory)
    return pa.BufferReader(memory.getvalue())


def _write(path: Path, shards: Sequence[Shard], chosen: Chosen) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # The processes of all hosts wait for the first one. Its lock is a file that it refreshes,
    # because a file system may keep the system's locks on one host.
    with SoftFileLease(path.with_suffix(".lock"), lease_duration=_LEASE_SECONDS):
        if path.exists():
            return
        for unfinished in path.parent.glob(f".{path.name}.*"):  # by a killed builder
            unfinished.unlink(missing_ok=True)
        with publish(path) as stream:
            _build(shards, chosen, stream)


def _key(shards: Sequence[Shard], chosen: Chosen) -> str:
    files = []
    for shard in shards:
        status = shard.path.stat()
        files.append([*shard.path.parts[-4:], status.st_size, status.st_mtime_ns])
    content = json.dumps([_FORMAT, files, chosen.condition, sorted(chosen.excluded)])
    return hashlib.blake2b(content.encode(), digest_size=12).hexdigest()


def _build(shards: Sequence[Shard], chosen: Chosen, sink: IO[bytes] | pa.NativeFile) -> None:
    """Write a record batch per shard, in their order, whatever order they are read in."""
    with ThreadPoolExecutor(usable_cpus()) as pool, pa.ipc.new_file(sink, _SCHEMA) as writer:
        for batch, chunks in pool.map(lambda shard: _read_shard(shard, chosen), shards):
            writer.write_batch(batch, {"row_groups": json.dumps(chunks)})


def _read_shard(shard: Shard, chosen: Chosen) -> tuple[pa.RecordBatch, list[AudioChunk]]:
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
            if chosen.condition is None:
                columns = [name for name in columns if name in _SCHEMA.names]
            table = file.read(columns, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{shard.path}: cannot be read as Parquet ({error})") from error
    for name in ("text", "audio_size"):
        if nulls := table.column(name).null_count:
            raise DatasetError(f"{shard.path}: column {name} has {nulls} nulls; expected none")
    chunks = audio_chunks(footer, nullable=schema.field("audio_bytes").nullable)
    table = _with_missing_columns(shard, table, [chunk.num_rows for chunk in chunks])
    if chosen.excluded:
        names = pa.array(chosen.excluded, pa.string())
        table = table.filter(pc.invert(pc.is_in(table["id"], names)))
    if chosen.condition is not None:
        for name in shard.keys.keys() - {*table.column_names}:
            table = table.append_column(name, pa.array([shard.keys[name]] * len(table)))
        table = table.take(_fulfilling_rows(table, chosen.condition))
    combined = table.select(_SCHEMA.names).cast(_SCHEMA).combine_chunks()
    (batch,) = combined.to_batches() or [pa.RecordBatch.from_pylist([], _SCHEMA)]
    return batch, chunks


def _with_missing_columns(shard: Shard, table: pa.Table, sizes: list[int]) -> pa.Table:
    """Add each row's row group and place in it, and the columns that a foreign dataset lacks."""
    row_group = np.repeat(np.arange(len(sizes)), sizes)
    within = np.concatenate([np.arange(size) for size in [0, *sizes]])
    table = table.append_column("row_group", pa.array(row_group))
    table = table.append_column("row_in_group", pa.array(within))
    for name in [name for name in TEXT if name not in table.column_names]:
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
