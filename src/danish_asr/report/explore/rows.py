"""All rows of a built dataset as one table, without their audio."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import METADATA_COLUMNS, SAMPLE_RATE, SPLITS
from danish_asr.corpus.shards import find_shards
from danish_asr.recipe.data.index import Index, read_index

UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of all splits, numbered from 0."""

    indexes: tuple[Index, ...]  # one per split
    table: pa.Table
    """id, text, speaker_id (may be null), dialect, age_group, gender, split, corpus, seconds, and
    ``plain``: the letters and digits of the text in lower case, with single spaces."""

    @property
    def splits(self) -> list[str]:
        """The names of the splits: train, dev, test, then others."""
        return [index.split for index in self.indexes]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A numeric column."""
        values: NDArray[np.float64] = self.table[name].to_numpy()
        return values

    def audio(self, row: int) -> bytes:
        """The FLAC file of a row; thread-safe."""
        for index in self.indexes:
            if row < len(index):
                break
            row -= len(index)
        return index.audio.read(row)


def read_rows(root: Path) -> Rows:
    """Read the index of every split, which the first run also writes to a file.

    Raises:
        DatasetError: There is no built dataset, it has no rows, or a shard is damaged.
    """
    shards = find_shards(root)
    names = sorted({shard.keys["split"] for shard in shards}, key=lambda name: (order(name), name))
    try:
        indexes = [
            read_index([each for each in shards if each.keys["split"] == name], name, root=root)
            for name in names
        ]
    except DatasetError as error:
        hint = f"`danish-asr verify {root}` lists all faults of a dataset"
        raise DatasetError(f"{error}; {hint}") from None
    return Rows(tuple(indexes), pa.concat_tables(map(_columns, indexes)))


def order(split: str) -> int:
    """The place of a split in tables."""
    return SPLITS.index(split) if split in SPLITS else len(SPLITS)


def _columns(index: Index) -> pa.Table:
    table = index.table
    for name in set(METADATA_COLUMNS) - {"speaker_id"}:
        place = table.column_names.index(name)
        table = table.set_column(place, name, pc.fill_null(table[name], UNKNOWN))
    corpora = pa.array([partition.corpus for partition in index.partitions])
    lower = pc.utf8_lower(table["text"])
    spaced = pc.replace_substring_regex(lower, r"[^\p{L}\p{M}\p{N}]+", " ")
    columns = {
        "split": pa.repeat(pa.scalar(index.split), len(index)),
        "corpus": corpora.take(pa.array(index.partition_of)),
        "seconds": pa.array(index.lengths / SAMPLE_RATE),
        "plain": pc.utf8_trim_whitespace(spaced),
    }
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table
