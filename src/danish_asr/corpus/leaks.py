"""What splits share and should not: speakers, sentences, audio."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.base.schema import SPLITS
from danish_asr.corpus.shard_check import COMPARED, ShardFindings

LEAKS: Final = {"speakers": "speaker_id", "sentences": "sentence", "audio": "audio"}
"""What splits should not share, and its column in `COMPARED`."""


class Leak(NamedTuple):
    """What two splits share, with a line that says so."""

    kind: str  # of `LEAKS`
    split: str  # the one that comes first in `SPLITS`
    text: str
    ids: list[str]  # of the rows of that split


def leaks_of(findings: Sequence[ShardFindings], kind: str) -> Iterator[Leak]:
    """Compare each two splits in a column of `LEAKS`."""
    tables, column = by_split(findings), LEAKS[kind]
    for one, other in combinations(SPLITS, 2):
        values = tables[one][column].drop_null()
        common = tables[other].filter(pc.is_in(tables[other][column], values.unique()))
        common = common.filter(pc.is_valid(common[column]))
        if common:
            shared = common[column].unique()
            ids = tables[one].filter(pc.is_in(tables[one][column], shared))["id"].to_pylist()
            example = common["id" if kind == "audio" else column][0].as_py()
            text = (
                f"{one} and {other} share {len(shared):,} {kind}, such as {example!r} "
                f"({len(ids):,} rows in {one}, {len(common):,} in {other})"
            )
            yield Leak(kind, one, text, ids)


def repeated_values(values: pa.ChunkedArray) -> pa.Array:
    """The values that occur more than once."""
    counts = pc.value_counts(values.drop_null())
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def compared_rows(findings: Iterable[ShardFindings]) -> pa.Table:
    """The rows of these shards, with the columns of `COMPARED`."""
    return pa.concat_tables([COMPARED.empty_table(), *(shard.compared for shard in findings)])


def by_split(findings: Sequence[ShardFindings]) -> dict[str, pa.Table]:
    """The same for each split."""
    return {
        split: compared_rows(shard for shard in findings if shard.split == split)
        for split in SPLITS
    }
