"""What a conversion left out, counted over its records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from danish_asr.base.schema import SPLITS
from danish_asr.corpus.division import SHARED_SENTENCE
from danish_asr.corpus.shard import Record
from danish_asr.corpus.sources.base import Source
from danish_asr.corpus.tasks import ShardTask

_BY_CHANCE: Final = 10
"""A source or a file of fewer rows may lose all of them without a fault of the whole."""


def lost_wholes(source: Source, tasks: Sequence[ShardTask], records: Sequence[Record]) -> list[str]:
    """Describe the files and splits without any row: such a fault is one of the source."""
    if sum(task.rows for task in tasks) < _BY_CHANCE:
        return []
    dropped = (row for record in records for row in record.dropped)
    rows = Counter(row["source"] for row in dropped if row["reason"] != SHARED_SENTENCE)
    files = (file for file in source.files if rows[file.name] == file.rows >= _BY_CHANCE)
    wholes = [f"{file.name} ({file.rows:,} rows)" for file in files]
    for split in SPLITS:
        of_split = (pair for pair in zip(tasks, records, strict=True) if pair[0].split == split)
        own = [record for _, record in of_split]
        lost = sum(lost_rows(record).total() for record in own)
        if lost and not any(record.rows for record in own):
            wholes.append(f"the split {split} ({lost:,} rows)")
    return wholes


def added(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    """The sum of counts."""
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total


def lost_rows(record: Record) -> Counter[str]:
    """Dropped rows by reason, without those that an option asked to drop."""
    reasons = Counter(row["reason"] for row in record.dropped)
    del reasons[SHARED_SENTENCE]
    return reasons
