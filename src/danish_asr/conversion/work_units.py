"""Cut a source into units of work: each becomes one shard, whoever converts it and when.

The plan is a function of the source and the options alone. That makes a conversion resumable, and
its bytes independent of the number of workers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.schema import SPLITS, partition_dir
from danish_asr.sources.base import Source, SourceFile

FORMAT: Final = 2
"""Raised when the same source and options give other shards or another ledger than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """What decides the bytes of a built dataset, beside its source.

    Attributes:
        max_seconds: Longer utterances go to the ledger. The limit also bounds memory.
        shard_rows: Most source rows per shard; row groups of the source stay whole if they fit.
    """

    max_seconds: float = 600.0
    shard_rows: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows ``start`` to ``stop - 1`` of one source file."""

    file: SourceFile
    start: int
    stop: int
    duplicates: frozenset[int]
    """Rows among them whose id stands in an earlier row of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The source rows of one shard."""

    number: int
    corpus: str
    split: str
    part: int
    parts: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        """Source rows in the unit."""
        return sum(piece.stop - piece.start for piece in self.pieces)

    @property
    def fingerprint(self) -> str:
        """Changes with the source rows."""
        return _digest([(piece.file.fingerprint, piece.start, piece.stop) for piece in self.pieces])

    @property
    def beside(self) -> bool:
        """Whether some of the audio may lie in files of its own."""
        return any(piece.file.beside for piece in self.pieces)

    @property
    def told(self) -> str:
        """The source rows as a message has them."""
        return "; ".join(f"{p.file.name}, rows {p.start} to {p.stop - 1}" for p in self.pieces)

    def shard(self, root: Path) -> Path:
        """Where the unit's shard stands in a built dataset."""
        name = f"part-{self.part:05d}-of-{self.parts:05d}.parquet"
        return partition_dir(root, self.corpus, self.split) / name


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPlan:
    """All units of a conversion.

    Attributes:
        key: Digest of everything that decides the result.
        units: One per shard, in order.
    """

    key: str
    units: tuple[Unit, ...]

    @property
    def rows(self) -> int:
        """Rows in the source."""
        return sum(unit.rows for unit in self.units)


def plan_work(source: Source, options: ConvertOptions) -> WorkPlan:
    """Plan the conversion of a source; reads its ids and no audio."""
    duplicates = find_duplicates(source)
    partitions: dict[tuple[str, str], list[SourceFile]] = {}
    for file in source.files:
        partitions.setdefault((file.corpus, file.split), []).append(file)
    units: list[Unit] = []
    for corpus, split in sorted(partitions, key=lambda key: (key[0], SPLITS.index(key[1]))):
        shards = list(_cut(partitions[corpus, split], duplicates, options.shard_rows))
        for part, pieces in enumerate(shards):
            unit = Unit(
                number=len(units),
                corpus=corpus,
                split=split,
                part=part,
                parts=len(shards),
                pieces=tuple(pieces),
            )
            units.append(unit)
    contents = [(file.name, file.corpus, file.split, file.fingerprint) for file in source.files]
    return WorkPlan(
        key=_digest([FORMAT, asdict(options), contents]),
        units=tuple(units),
    )


def find_duplicates(source: Source) -> dict[str, frozenset[int]]:
    """For each file, the rows whose id stands in an earlier row of this or an earlier file."""
    ids = pa.chunked_array([source.ids(file) for file in source.files], pa.string())
    # Codes count up in the order of first appearance, so a new id is always a new maximum.
    codes = pc.dictionary_encode(ids).chunks
    seen = np.concatenate([chunk.indices.to_numpy() for chunk in codes] or [np.empty(0, np.int32)])
    before = np.maximum.accumulate(np.concatenate([[-1], seen]))[:-1]
    repeated = np.flatnonzero(seen <= before)
    duplicates: dict[str, frozenset[int]] = {}
    begin = 0
    for file in source.files:
        low, high = np.searchsorted(repeated, [begin, begin + file.rows])
        duplicates[file.name] = frozenset((repeated[low:high] - begin).tolist())
        begin += file.rows
    return duplicates


def _cut(
    files: list[SourceFile], duplicates: dict[str, frozenset[int]], shard_rows: int
) -> Iterator[list[Piece]]:
    """Group the chunks of a partition's files into shards of at most ``shard_rows``.

    A chunk that is larger than that is cut into equal parts; the others stay whole.
    """
    pieces: list[Piece] = []
    rows = 0
    for file in files:
        for start, stop in _ranges(file.chunks, shard_rows):
            if rows and rows + stop - start > shard_rows:
                yield pieces
                pieces, rows = [], 0
            within = frozenset(row for row in duplicates[file.name] if start <= row < stop)
            pieces = _extend(pieces, Piece(file=file, start=start, stop=stop, duplicates=within))
            rows += stop - start
    if pieces:
        yield pieces


def _ranges(chunks: tuple[int, ...], shard_rows: int) -> Iterator[tuple[int, int]]:
    begin = 0
    for rows in chunks:
        parts = max(1, math.ceil(rows / shard_rows))
        bounds = [begin + rows * part // parts for part in range(parts + 1)]
        yield from ((low, high) for low, high in pairwise(bounds) if high > low)
        begin += rows


def _extend(pieces: list[Piece], piece: Piece) -> list[Piece]:
    """Append a piece, joined with the last one where it continues it."""
    if pieces and pieces[-1].file is piece.file and pieces[-1].stop == piece.start:
        last = pieces.pop()
        piece = Piece(
            file=piece.file,
            start=last.start,
            stop=piece.stop,
            duplicates=last.duplicates | piece.duplicates,
        )
    return [*pieces, piece]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()
