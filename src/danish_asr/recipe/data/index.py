"""The index of a split: what each utterance is and how long it lasts, without its audio.

`read_index` reads it from a file, see `index_file.py`, which is written the first time.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from danish_asr.base.errors import DatasetError
from danish_asr.base.excluded import read_excluded
from danish_asr.base.schema import VERSION_DIR
from danish_asr.corpus.shards import Partition, Shard
from danish_asr.recipe.data.audio_source import (
    AudioChunk,
    AudioSource,
    ParquetAudio,
    RowGroup,
)
from danish_asr.recipe.data.index_file import (
    NUMBERS,
    TEXT,
    Chosen,
    open_or_build,
    values_of_columns,
)

UNKNOWN_DIALECT: Final = "unknown"
_GOLDEN_RATIO: Final = (1 + 5**0.5) / 2


class Weight(NamedTuple):
    """Rows that training shows more or less often."""

    where: str
    factor: float
    rows: NDArray[np.bool_]  # which fulfil the condition, (rows,)

    @property
    def name(self) -> str:
        """As a table shows it."""
        return f"{self.factor:g} x {self.where}"

    def of(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """The factor of each of these rows, 1 for those that do not fulfil the condition."""
        return np.where(self.rows[rows], self.factor, 1.0)


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
    weights: tuple[Weight, ...] = ()

    def __len__(self) -> int:
        return len(self.lengths)

    def values(self, name: str, rows: Iterable[int]) -> list[Any]:
        """The values of a column of ``table`` in these rows."""
        column = self.table.column(name)
        # One scalar at a time: `take` would join all chunks of the column first.
        return [column[row].as_py() for row in rows]

    def dialects(self) -> tuple[NDArray[np.int32], list[str]]:
        """A code per row and the names that occur, by code; null is ``unknown``."""
        column = self.table.column("dialect").dictionary_encode()
        chunks = column.unify_dictionaries().chunks
        names = chunks[0].dictionary.to_pylist()
        codes = [chunk.indices.fill_null(len(names)).to_numpy() for chunk in chunks]
        if column.null_count:
            names.append(UNKNOWN_DIALECT)
        return np.concatenate(codes), names

    def take(self, rows: NDArray[np.integer[Any]]) -> Self:
        """The same split with these rows only, e.g. a fixed subset for frequent validation."""
        columns = [pa.array(self.values(name, rows.tolist()), pa.string()) for name in TEXT]
        return replace(
            self,
            table=pa.table(columns, TEXT),
            lengths=self.lengths[rows],
            partition_of=self.partition_of[rows],
            row_group_of=self.row_group_of[rows],
            audio=self.audio.take(rows),
            weights=tuple(weight._replace(rows=weight.rows[rows]) for weight in self.weights),
        )

    def weighted(self, others: Iterable[tuple[str, float, Self]]) -> Self:
        """This index with weights: condition, factor, and an index of the rows that fulfil it."""
        weights = []
        for where, factor, index in others:
            ids = index.table["id"].combine_chunks()
            rows = pc.is_in(self.table["id"], ids).to_numpy()
            weights.append(Weight(where, factor, rows))
        return replace(self, weights=tuple(weights))

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
    root = root.parent if root.name == VERSION_DIR else root
    chosen = Chosen(condition, frozenset(read_excluded(root)))
    file = pa.ipc.open_file(open_or_build(shards, split, root, chosen))
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
        values = values_of_columns(shards, condition)
        raise DatasetError(f"no row of split '{split}' fulfils \"{condition}\"; {values}")
    filled = [shard.partition for shard, count in zip(shards, rows, strict=True) if count]
    partitions = tuple(sorted(set(filled)))
    table = pa.Table.from_batches(batches)
    lengths, group, within = (table.column(name).to_numpy() for name in NUMBERS)
    row_group_of = group + np.repeat(np.array(first_groups, np.int32), rows)
    codes = np.array([partitions.index(partition) for partition in filled], np.int16)
    return Index(
        name=split,
        split=shards[0].keys["split"],
        table=table.select(TEXT),
        lengths=lengths,
        partition_of=np.repeat(codes, rows[rows > 0]),
        row_group_of=row_group_of,
        partitions=partitions,
        audio=ParquetAudio(groups, row_group_of, within),
    )
