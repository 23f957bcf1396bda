"""What only all shards together tell: ids that repeat, what splits share, rows that are nowhere.

Shards are compared by their digests; what a fault names is read again from one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from danish_asr.conversion.inventory import Inventory
from danish_asr.conversion.verify.shard import NAMED, ShardFindings, digest, few
from danish_asr.schema import LEDGER_FILE, ROW_GROUP_SIZE, SPLITS
from danish_asr.text.profiles import normalize

Positions = Mapping[str, NDArray[np.int64]]
"""Rows of a source file, by its name."""

LEAKAGE: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "speakers": ("speaker_id", str),
    "sentences": ("text", lambda text: normalize(text, "coral")),
}
"""What splits should not share: its column, and the form of the values that is digested."""


def repeated_ids(root: Path, findings: Sequence[ShardFindings]) -> Iterator[str]:
    """Tell the ids that stand in the dataset twice, for each two shards that share any."""
    digests = _joined((found.ids for found in findings), np.uint64)
    order = np.argsort(digests, kind="stable")
    ranked = digests[order]
    again = np.zeros(len(ranked), bool)
    again[1:] = ranked[1:] == ranked[:-1]
    first = np.maximum.accumulate(np.where(again, 0, np.arange(len(ranked))))
    later, earlier = order[again], order[first[again]]
    ends = np.cumsum([len(found.ids) for found in findings])
    shards = (np.searchsorted(ends, rows, side="right").tolist() for rows in (later, earlier))
    rows_of: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for here, there, row in zip(*shards, later.tolist(), strict=True):
        rows_of[here, there].append(row - int(ends[here]) + len(findings[here].ids))
    for (here, there), rows in sorted(rows_of.items()):
        path = findings[here].path
        where = "in it twice" if here == there else f"in {findings[there].path} already"
        named = set(sorted(rows)[:NAMED])
        ids = (str(id_) for row, id_ in enumerate(_values(root / path, "id")) if row in named)
        yield f"{path}: ids that stand {where}: {few(ids, len(rows))}"


def shared(root: Path, findings: Sequence[ShardFindings], kind: str) -> Iterator[str]:
    """Tell what two splits share, for each two splits that share any of a kind of `LEAKAGE`."""
    column, form = LEAKAGE[kind]
    of_split = {
        split: np.unique(
            _joined((getattr(found, kind) for found in findings if found.split == split), np.uint64)
        )
        for split in SPLITS
    }
    for one, other in combinations(SPLITS, 2):
        common = np.intersect1d(of_split[one], of_split[other], assume_unique=True)
        if len(common):
            example = next(
                value
                for found in findings
                if found.split == other and int(common[0]) in getattr(found, kind)
                for value in _values(root / found.path, column)
                if value is not None and digest(form(value)) == common[0]
            )
            what = kind if len(common) > 1 else kind.removesuffix("s")
            yield (
                f"{one} and {other} share {len(common):,} {what}, such as '{example}'; "
                f"--allow-shared {kind} lets that pass"
            )


def uncovered(
    manifest: Inventory, findings: Sequence[ShardFindings], ledger: Positions
) -> Iterator[str]:
    """Tell the source rows that stand neither in a shard nor in the ledger.

    Where the numbers of rows do not add up, that is told elsewhere, and not looked at here.
    """
    rows_of: defaultdict[str, list[NDArray[np.int64]]] = defaultdict(list)
    for name, rows in ledger.items():
        rows_of[name].append(rows)
    for found in findings:
        for name, positions in found.sources.items():
            rows_of[name].append(np.frombuffer(positions, np.int64))
    found_rows = sum(len(part) for parts in rows_of.values() for part in parts)
    if not found_rows == manifest.source_rows == sum(file.rows for file in manifest.files):
        return
    for file in manifest.files:
        there = np.zeros(file.rows, bool)
        for part in rows_of[file.file]:
            there[part[(part >= 0) & (part < file.rows)]] = True
        missing = np.flatnonzero(~there)
        if len(missing):
            yield (
                f"{LEDGER_FILE}: rows of {file.file} that stand neither there nor in a shard: "
                f"{few(map(str, missing), len(missing))}"
            )


def _joined(parts: Iterable[Any], kind: type[np.uint64]) -> NDArray[np.uint64]:
    arrays = [np.frombuffer(part, kind) for part in parts]
    return np.concatenate([np.empty(0, kind), *arrays])


def _values(path: Path, column: str) -> Iterator[str | None]:
    with pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(ROW_GROUP_SIZE, columns=[column], use_threads=False):
            yield from batch.column(0).to_pylist()
