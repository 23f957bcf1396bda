"""The batches of one epoch, computed before any audio is read.

Everything here is a pure function of lengths, settings, seed and epoch. The number of processes
plays no part in a plan, only in how it is dealt out (:func:`deal`), so that a run continues with
another number of processes where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from danish_asr.data.speed import Speeds

Rows = NDArray[np.int32]

BUCKETING_ROWS: Final = 2_000
"""At least so many neighbouring rows are sorted by length together, whatever the shuffle window: a
window of 1 means no shuffling, not batches of mixed lengths."""

LENGTH_STEP: Final = 1.02
"""Training takes lengths within 2 % as equal and leaves their order to chance, so that a row meets
other rows in every epoch; exact sorting would make the same batches again and again."""


@dataclass(frozen=True, slots=True)
class BatchRule:
    """How large a batch may be.

    Attributes:
        max_elements: Most samples of a batch with its padding; None: count rows only.
        max_rows: Most rows of a batch; None: as many as fit.
        multiple_of: A batch with more rows than this holds a multiple of it.
    """

    max_elements: int | None
    max_rows: int | None = None
    multiple_of: int = 1

    def rows(self, longest: int) -> int:
        """How many rows fit when the longest has so many samples; at least 1."""
        count = self.max_rows or np.iinfo(np.int32).max
        if self.max_elements is not None:
            count = min(count, self.max_elements // max(longest, 1))
        if count > self.multiple_of and self.max_elements is not None:
            count -= count % self.multiple_of
        return max(count, 1)


@dataclass(frozen=True, slots=True)
class Shuffling:
    """Windows of the two shuffles: 0 is everything, 1 is none."""

    example_window: int
    batch_window: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Batch ``b`` holds ``rows[offsets[b]:offsets[b + 1]]``, row numbers of an index.

    Attributes:
        rows: ``(entries,)`` int32; a row that weights repeat stands in it several times.
        offsets: ``(batches + 1,)`` int64, rising from 0 to the number of entries.
        speeds: How fast each row is played; None: as it was recorded.
    """

    rows: Rows
    offsets: NDArray[np.int64]
    speeds: Speeds | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def batch(self, number: int) -> Rows:
        """The rows of one batch."""
        return self.rows[self.offsets[number] : self.offsets[number + 1]]

    def padded_samples(self, lengths: NDArray[np.int32]) -> NDArray[np.int64]:
        """Samples of each batch with its padding, ``(batches,)``."""
        if not len(self):
            return np.zeros(0, np.int64)
        longest = np.maximum.reduceat(lengths[self.rows], self.offsets[:-1])
        return np.asarray(longest * np.diff(self.offsets), np.int64)

    def padding(self, lengths: NDArray[np.int32]) -> float:
        """Share of the padded samples that is padding."""
        total = int(self.padded_samples(lengths).sum())
        return 1 - int(lengths[self.rows].sum(dtype=np.int64)) / total if total else 0.0

    def after(self, batches: Sequence[Rows]) -> Plan:
        """The same plan with other batches before it."""
        if not batches:
            return self
        sizes = [len(batch) for batch in batches]
        begins = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        return replace(
            self,
            rows=np.concatenate([*batches, self.rows]).astype(np.int32),
            offsets=np.concatenate([begins, self.offsets + sum(sizes)]),
        )


def plan_evaluation(lengths: NDArray[np.int32], rule: BatchRule) -> Plan:
    """Every row once, longest first: memory runs out in the first batch or never."""
    rows = np.argsort(-lengths, kind="stable").astype(np.int32)
    return Plan(rows, _cut(lengths[rows], np.array([len(rows)]), rule))


def plan_training(
    lengths: NDArray[np.int32],
    block_of: NDArray[np.int32],
    entries: Rows,
    rule: BatchRule,
    shuffling: Shuffling,
    *,
    seed: int,
    epoch: int,
    drop_remainder: bool = False,
    max_batches: int | None = None,
) -> Plan:
    """Shuffle, sort by length within windows, cut into batches, shuffle the batches.

    Row groups always come in a random order; ``example_window`` shuffles the rows of neighbouring
    row groups among each other. Batches come in the order of their first row in that stream.

    Args:
        lengths: Samples of every row of the index.
        block_of: Row group of every row of the index.
        entries: The rows of the epoch; a repeated row stands in it several times, its copies in
            ascending order of rows.
        rule: How large a batch may be.
        shuffling: The two windows.
        seed: The run's seed.
        epoch: Counts from 0.
        drop_remainder: Leave out the epoch's last batch if it is not full.
        max_batches: Keep only so many batches.
    """
    stream = _stream(block_of, entries, shuffling, _rng(seed, epoch, 0))
    count = len(stream)
    horizon = _horizon(count, rule, shuffling)
    ends = np.minimum(np.arange(horizon, count + horizon, horizon), count)
    step = np.log(LENGTH_STEP)
    bins = np.ceil(np.log(np.maximum(lengths[stream], 1)) / step).astype(np.int32)
    # One stable sort: by window, then from long to short; equal bins keep the stream's order.
    key = np.arange(count, dtype=np.int64) // horizon * 4096 + (4095 - bins)
    order = np.argsort(key, kind="stable")
    # A batch is cut for the upper edge of its first row's bin, so that none exceeds the limit.
    edges = np.exp(bins[order] * step).astype(np.int64) + 1
    offsets = _cut(np.minimum(edges, lengths[stream].max(initial=1)), ends, rule)
    plan = Plan(stream[order], offsets)
    if drop_remainder and len(plan) and _is_short(plan, lengths, rule):
        plan = Plan(plan.rows[: offsets[-2]], offsets[:-1])
    placed = order[: len(plan.rows)]
    firsts = np.minimum.reduceat(placed, plan.offsets[:-1]) if len(plan) else placed
    sequence = _windowed(np.argsort(firsts), shuffling.batch_window, _rng(seed, epoch, 1))
    return _reordered(plan, sequence[:max_batches])


def _horizon(count: int, rule: BatchRule, shuffling: Shuffling) -> int:
    """How many rows of the stream are sorted by length together."""
    window = shuffling.example_window or count
    horizon = max(1, min(count, max(window, BUCKETING_ROWS)))
    if rule.max_elements is None and rule.max_rows:
        # Batches of a fixed size fill a window exactly.
        horizon = -(-horizon // rule.max_rows) * rule.max_rows
    return horizon


def _stream(
    block_of: NDArray[np.int32], entries: Rows, shuffling: Shuffling, rng: np.random.Generator
) -> Rows:
    if not len(entries):
        return entries
    # Each further copy of a row group is a row group of its own, so that copies do not meet.
    new = np.concatenate([[True], entries[1:] != entries[:-1]])
    first = np.maximum.accumulate(np.where(new, np.arange(len(entries)), 0))
    copy = np.arange(len(entries)) - first
    blocks = block_of[entries] + copy * (int(block_of.max()) + 1)
    _, dense = np.unique(blocks, return_inverse=True)
    priority = rng.permutation(int(dense.max()) + 1)
    stream = entries[np.argsort(priority[dense], kind="stable")]
    return _windowed(stream, shuffling.example_window, rng)


def _windowed(items: NDArray[Any], window: int, rng: np.random.Generator) -> NDArray[Any]:
    """Shuffle inside consecutive windows; 0 is one window over everything, 1 is no shuffling."""
    if window == 1 or len(items) < 2:
        return items
    if window == 0 or window >= len(items):
        return rng.permutation(items)
    key = np.arange(len(items)) // window + rng.random(len(items))
    return items[np.argsort(key, kind="stable")]


def _cut(longest: NDArray[Any], ends: NDArray[Any], rule: BatchRule) -> NDArray[np.int64]:
    """Offsets of batches of rows that are sorted from long to short within windows."""
    offsets, position = [0], 0
    for end in ends.tolist():
        while position < end:
            position = min(position + rule.rows(int(longest[position])), end)
            offsets.append(position)
    return np.array(offsets, np.int64)


def _is_short(plan: Plan, lengths: NDArray[np.int32], rule: BatchRule) -> bool:
    last = plan.batch(len(plan) - 1)
    return len(last) < rule.rows(int(lengths[last].max()))


def _reordered(plan: Plan, sequence: NDArray[np.int64]) -> Plan:
    sizes = np.diff(plan.offsets)[sequence]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    source = np.repeat(plan.offsets[:-1][sequence] - offsets[:-1], sizes)
    return Plan(plan.rows[source + np.arange(len(source))], offsets)


def _rng(seed: int, epoch: int, purpose: Literal[0, 1]) -> np.random.Generator:
    return np.random.default_rng([seed, epoch, purpose])


@dataclass(frozen=True, slots=True)
class Step:
    """What one process reads for one step.

    Attributes:
        spans: Parts ``(begin, end)`` of ``plan.rows``, a batch each.
        consumed: Batches of the plan that all processes together read in this step.
    """

    spans: tuple[tuple[int, int], ...]
    consumed: int


def deal(
    plan: Plan, *, position: int, rank: int, world: int, accumulate: int, keep_all: bool
) -> list[Step]:
    """The steps of one process from a position of the plan to its end.

    A step takes ``world * accumulate`` consecutive batches, of which rank r takes the r-th block of
    ``accumulate``; hence two processes compute the loss that one computes with twice the
    accumulation. The last step takes what is left, its largest batches halved until the number of
    batches divides by ``world``: all processes always have equally many. Batches that cannot be
    dealt so, fewer rows than processes, stay for :func:`left_over`, or, with ``keep_all``
    (evaluation), go to the first processes while the others have an empty step.
    """
    whole = world * accumulate
    steps = []
    for first in range(position, len(plan) - whole + 1, whole):
        mine = range(first + rank * accumulate, first + (rank + 1) * accumulate)
        steps.append(Step(tuple(_span(plan.offsets, batch) for batch in mine), whole))
    done = position + len(steps) * whole
    tail = plan.offsets[done:]
    rest = len(tail) - 1
    if rest < 1:
        return steps
    parts = _split(tail, world)
    kept = len(parts) - 1
    if kept % world and not keep_all:
        kept -= kept % world
        parts = tail[: kept + 1]
        rest = kept
    each = -(-kept // world)
    if each:
        mine = range(rank * each, min((rank + 1) * each, kept))
        steps.append(Step(tuple(_span(parts, part) for part in mine), rest))
    return steps


def left_over(plan: Plan, *, position: int, world: int, accumulate: int) -> list[Rows]:
    """The batches that :func:`deal` cannot deal; they begin the next epoch."""
    steps = deal(
        plan, position=position, rank=0, world=world, accumulate=accumulate, keep_all=False
    )
    done = position + sum(step.consumed for step in steps)
    return [plan.batch(number) for number in range(done, len(plan))]


def _span(offsets: NDArray[np.int64], number: int) -> tuple[int, int]:
    return int(offsets[number]), int(offsets[number + 1])


def _split(offsets: NDArray[np.int64], multiple: int) -> NDArray[np.int64]:
    """Halve the largest batches until their number divides by ``multiple``, or all hold one row."""
    parts = offsets.tolist()
    while (len(parts) - 1) % multiple:
        sizes = np.diff(parts)
        largest = int(sizes.argmax())
        if sizes[largest] < 2:
            break
        parts.insert(largest + 1, parts[largest] + (int(sizes[largest]) + 1) // 2)
    return np.array(parts, np.int64)
