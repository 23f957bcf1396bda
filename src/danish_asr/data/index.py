"""The index of one split: what every utterance is and how long it lasts, before any audio is read.

Lengths, texts and metadata stand in memory, in less than 200 MB per million rows; the audio stays
in its files and is fetched by row number (:mod:`danish_asr.data.audio_source`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from danish_asr.cluster.cpus import usable_cpus
from danish_asr.data.audio_source import AudioSource, ParquetAudio, RowGroups
from danish_asr.data.packed_strings import PackedStrings
from danish_asr.errors import DatasetError
from danish_asr.schema import METADATA_COLUMNS, SAMPLE_RATE, VERSION_DIR

TEXT_COLUMNS: Final = ("id", "text")
_NEEDED: Final = ("text", "audio_bytes", "audio_size")
_PARTITION_KEYS: Final = ("corpus", "split", "language")


@dataclass(frozen=True, order=True, slots=True)
class Partition:
    """A corpus in a language: the unit of weighted mixing."""

    corpus: str
    language: str

    def __str__(self) -> str:
        return f"{self.corpus}/{self.language}"


@dataclass(frozen=True, eq=False)
class Index:
    """The utterances of a split; row numbers count from 0 in the order of the files.

    Attributes:
        name: What was asked for, e.g. ``test`` or ``test_<corpus>``.
        split: The split that the rows belong to, e.g. ``test``.
        lengths: Samples at 16 kHz, ``(rows,)`` int32.
        partition_of: Index into ``partitions``, ``(rows,)`` int16.
        block_of: Row group, numbered through the split, ``(rows,)`` int32.
        ids: Unique through the dataset.
        texts: As the corpus has them.
        metadata: The metadata columns as dictionaries, in chunks as they were read; joining them
            would need their memory twice.
        partitions: The partitions that have rows here.
        known_partitions: All partitions of the dataset, whatever their split.
        audio: Fetches the encoded audio of a row.
    """

    name: str
    split: str
    lengths: NDArray[np.int32]
    partition_of: NDArray[np.int16]
    block_of: NDArray[np.int32]
    ids: PackedStrings
    texts: PackedStrings
    metadata: pa.Table
    partitions: tuple[Partition, ...]
    known_partitions: frozenset[Partition]
    audio: AudioSource = field(repr=False)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def seconds(self) -> float:
        """Duration of all rows."""
        return float(self.lengths.sum(dtype=np.int64)) / SAMPLE_RATE

    def values(self, name: str, rows: Iterable[int]) -> list[str | None]:
        """What stands in these rows of a metadata column."""
        column = self.metadata.column(name)
        # One scalar at a time: `take` would join all chunks of the column first.
        return [column[row].as_py() for row in rows]

    def dialects(self) -> tuple[NDArray[np.int32], list[str]]:
        """A code per row and the names that occur, by code; null is ``unknown``."""
        chunks = self.metadata.column("dialect").unify_dictionaries().chunks
        names = [*map(str, chunks[0].dictionary.to_pylist()), "unknown"]
        unknown = len(names) - 1
        codes = np.concatenate([chunk.indices.fill_null(unknown).to_numpy() for chunk in chunks])
        present = np.flatnonzero(np.bincount(codes, minlength=len(names)))
        dense = np.zeros(len(names), np.int32)
        dense[present] = np.arange(len(present))
        return dense[codes], [names[code] for code in present]

    def take(self, rows: NDArray[np.integer[Any]]) -> Index:
        """The same split with these rows only, e.g. a fixed subset for frequent validation."""
        return replace(
            self,
            lengths=self.lengths[rows],
            partition_of=self.partition_of[rows],
            block_of=self.block_of[rows],
            ids=self.ids.take(rows),
            texts=self.texts.take(rows),
            metadata=self.metadata.take(pa.array(rows)),
            audio=self.audio.take(rows),
        )


@dataclass(frozen=True, slots=True)
class Shard:
    """One Parquet file with the keys of its path."""

    path: Path
    keys: Mapping[str, str]

    @property
    def partition(self) -> Partition:
        """The corpus and language that the path names."""
        return Partition(self.keys["corpus"], self.keys["language"])


def find_shards(path: Path, *, split_key: str = "split") -> list[Shard]:
    """All shards below a dataset's ROOT or ``ROOT/version=0``, sorted by path.

    Raises:
        DatasetError: There is no such directory, or no shard in it.
    """
    root = path / VERSION_DIR if (path / VERSION_DIR).is_dir() else path
    if not root.is_dir():
        raise DatasetError(f"{path}: no such dataset directory; `danish-asr convert` writes one")
    shards = []
    for file in sorted(root.rglob("*.parquet")):
        keys = dict(part.split("=", 1) for part in file.relative_to(root).parts if "=" in part)
        if split_key in keys:
            keys["split"] = keys[split_key]
        if all(key in keys for key in _PARTITION_KEYS):
            shards.append(Shard(file, keys))
    if not shards:
        raise DatasetError(
            f"{root}: no Parquet shard found; expected corpus=<corpus>/split=<split>/"
            "language=<language>/*.parquet; `danish-asr convert` writes them"
        )
    return shards


def shards_of_split(shards: Iterable[Shard], split: str) -> list[Shard]:
    """The shards of ``<split>`` or ``<split>_<corpus>``.

    Raises:
        DatasetError: No shard answers to the name; the message lists the names that exist.
    """
    every = list(shards)
    name, _, corpus = split.partition("_")
    chosen = [
        shard
        for shard in every
        if shard.keys["split"] == name and corpus in ("", shard.keys["corpus"])
    ]
    if not chosen:
        raise DatasetError(
            f"split '{split}' has no rows; the dataset has: {', '.join(split_names(every))}"
        )
    return chosen


def split_names(shards: Iterable[Shard]) -> list[str]:
    """Every name that :func:`shards_of_split` answers to: splits, then ``<split>_<corpus>``."""
    pairs = {(shard.keys["split"], shard.keys["corpus"]) for shard in shards}
    return [*sorted({split for split, _ in pairs}), *sorted(f"{s}_{c}" for s, c in pairs)]


RowFilter = Callable[[pa.Table], NDArray[np.bool_]]
"""Which rows of a table (all columns but the audio) belong to the subset."""


def read_index(
    shards: Iterable[Shard],
    split: str,
    *,
    known_partitions: Iterable[Partition],
    row_filter: RowFilter | None = None,
) -> Index:
    """Read lengths, texts and metadata of the shards; the audio is not touched.

    Raises:
        DatasetError: A file cannot be read, a needed column is missing, or there are no rows.
    """
    every = list(shards)
    with ThreadPoolExecutor(usable_cpus()) as pool:
        parts = list(pool.map(lambda shard: _read_shard(shard, row_filter), every))
    partitions = tuple(sorted({shard.partition for shard in every}))
    codes = [partitions.index(shard.partition) for shard in every]
    counts = [len(part.lengths) for part in parts]
    if not sum(counts):
        raise DatasetError(f"split '{split}': no rows are left in {len(every)} shards")
    groups_before = np.cumsum([0] + [len(part.groups) for part in parts[:-1]])
    blocks = [p.block_of + np.int32(b) for p, b in zip(parts, groups_before, strict=True)]
    lengths = np.concatenate([part.lengths for part in parts])
    within = np.concatenate([part.within for part in parts])
    block_of = np.concatenate(blocks)
    groups = RowGroups.joined([part.groups for part in parts])
    return Index(
        name=split,
        split=every[0].keys["split"],
        lengths=lengths,
        partition_of=np.repeat(np.array(codes, np.int16), counts),
        block_of=block_of,
        ids=PackedStrings.joined([part.ids for part in parts]),
        texts=PackedStrings.joined([part.texts for part in parts]),
        metadata=pa.concat_tables([part.metadata for part in parts]),
        partitions=partitions,
        known_partitions=frozenset(known_partitions),
        audio=ParquetAudio(groups, block_of, within),
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """What one shard adds to an index; ``block_of`` counts its own row groups."""

    lengths: NDArray[np.int32]
    block_of: NDArray[np.int32]
    within: NDArray[np.int32]
    groups: RowGroups
    ids: PackedStrings
    texts: PackedStrings
    metadata: pa.Table


def _read_shard(shard: Shard, row_filter: RowFilter | None) -> _Part:
    try:
        table, groups = _read_columns(shard, every=row_filter is not None)
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{shard.path}: cannot be read as Parquet ({error})") from error
    for name in ("text", "audio_size"):
        if nulls := table.column(name).null_count:
            raise DatasetError(f"{shard.path}: column {name} has {nulls} nulls; expected none")
    block_of = np.repeat(np.arange(len(groups), dtype=np.int32), groups.num_rows)
    begins = np.cumsum(groups.num_rows, dtype=np.int32) - groups.num_rows
    within = np.arange(len(block_of), dtype=np.int32) - begins[block_of]
    if row_filter is not None:
        keep = row_filter(table)
        table, block_of, within = table.filter(pa.array(keep)), block_of[keep], within[keep]
    return _Part(
        lengths=table.column("audio_size").to_numpy().astype(np.int32),
        block_of=block_of,
        within=within,
        groups=groups,
        ids=PackedStrings.pack(table.column("id").cast(pa.string())),
        texts=PackedStrings.pack(table.column("text").cast(pa.string())),
        metadata=_metadata(table),
    )


def _read_columns(shard: Shard, *, every: bool) -> tuple[pa.Table, RowGroups]:
    """The columns of an index, or every column and the path's keys; never the audio."""
    with pq.ParquetFile(shard.path) as file:
        schema, footer = file.schema_arrow, file.metadata
    if missing := [name for name in _NEEDED if name not in schema.names]:
        raise DatasetError(
            f"{shard.path}: column {', '.join(missing)} is missing; found {schema.names}"
        )
    wanted = {*TEXT_COLUMNS, "audio_size", *METADATA_COLUMNS}
    columns = [n for n in schema.names if n in wanted or (every and n != "audio_bytes")]
    codes = [name for name in METADATA_COLUMNS if name in schema.names]
    # The wanted columns lie in small pieces between the audio; pre-buffering fetches many pieces at
    # a time, which is what a network file system needs.
    with pq.ParquetFile(
        shard.path, metadata=footer, read_dictionary=codes, pre_buffer=True
    ) as file:
        # A chunk per row group costs more memory than what stands in it.
        table = file.read(columns, use_threads=False).unify_dictionaries().combine_chunks()
    if "id" not in table.column_names:
        table = table.append_column("id", _made_ids(shard, len(table)))
    if every:
        for name in [key for key in shard.keys if key not in table.column_names]:
            table = table.append_column(name, pa.array([shard.keys[name]] * len(table)))
    nullable = schema.field("audio_bytes").nullable
    return table, RowGroups.of_file(shard.path, footer, nullable=nullable)


def _made_ids(shard: Shard, rows: int) -> pa.Array:
    """Ids for a foreign dataset without any: the shard's path and the row's number there."""
    stem = "/".join(part.partition("=")[2] or part for part in shard.path.parts[-4:])
    return pa.array([f"{stem}#{number}" for number in range(rows)], pa.string())


def _metadata(table: pa.Table) -> pa.Table:
    """Exactly the metadata columns; what a foreign dataset lacks becomes null."""
    codes = pa.dictionary(pa.int32(), pa.string())
    return pa.table(
        {
            name: table.column(name).cast(codes)
            if name in table.column_names
            else pa.nulls(len(table), codes)
            for name in METADATA_COLUMNS
        }
    )
