"""The bucketing batch sampler: the batches of an epoch, and the share of each rank.

Batches are computed before any audio is read, from lengths, settings, seed and epoch alone. The
number of processes only decides how they are shared out (:class:`Sharding`), so that a run can
continue with another number of processes.
"""

import math
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.schema import DatasetSection

Rows = NDArray[np.int32]
"""Row numbers of an index."""

BUCKETING_ROWS: Final = 2_000
"""So many neighbouring rows are sorted by length together, if the rows are not shuffled."""

ATTENTION: Final = 350 * SAMPLE_RATE
"""Samples whose attention takes as much memory as all the rest: in a layer of 300M a frame takes
about 35,000 bytes, and 2 for each frame that it attends to."""

LENGTH_STEP: Final = 1.02
"""Training treats lengths within 2 % as equal and keeps their random order, so that a row meets
other rows in every epoch."""


class RandomStream(IntEnum):
    """What is drawn for an epoch, with random numbers of its own; the values are in the seeds."""

    ROW_ORDER = 0
    BATCH_ORDER = 1
    REPEATED_ROWS = 2
    SPEEDS = 3

    def generator(self, seed: int, epoch: int) -> np.random.Generator:
        """The generator of this stream in an epoch."""
        return np.random.default_rng([seed, epoch, self.value])


class BatchLimits(NamedTuple):
    """How large a batch may be."""

    max_samples: int  # with padding
    multiple_of: int = 1  # a batch with more rows than this holds a multiple of it
    quadratic: float | None = None  # q: a row of L samples counts as L + L²/q

    @classmethod
    def of(cls, section: DatasetSection) -> Self:
        """The limits of training in a configuration."""
        task, seconds = section.asr_task_config, section.quadratic_seconds
        quadratic = seconds * SAMPLE_RATE if seconds else None
        return cls(task.max_num_elements, task.num_seqs_multiple_of, quadratic)

    @classmethod
    def of_evaluation(cls, section: DatasetSection) -> Self:
        """The limits of validation and evaluation."""
        training = cls.of(section)
        most = section.valid_elements or training.max_samples
        return training._replace(max_samples=most, quadratic=None)

    def rows(self, longest: int) -> int:
        """How many rows fit if the longest has so many samples; at least 1."""
        cost = longest + longest**2 / self.quadratic if self.quadratic else longest
        count = int(self.max_samples // max(cost, 1))
        if count > self.multiple_of:
            count -= count % self.multiple_of
        return max(count, 1)


class Batches:
    """Batch ``b`` holds ``rows[offsets[b]:offsets[b + 1]]``; repeated rows occur several times."""

    def __init__(self, rows: Rows, offsets: NDArray[np.int64]) -> None:
        self.rows, self.offsets = rows, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def padded_samples(self, lengths: NDArray[np.int32]) -> NDArray[np.int64]:
        """Samples of each batch including padding, ``(batches,)``."""
        return np.asarray(self._longest(lengths) * np.diff(self.offsets), np.int64)

    def memory(self, lengths: NDArray[np.int32]) -> NDArray[np.float64]:
        """What each batch needs of memory, in samples of a short row, ``(batches,)``."""
        return self.padded_samples(lengths) * (1 + self._longest(lengths) / ATTENTION)

    def _longest(self, lengths: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.asarray(np.maximum.reduceat(lengths[self.rows], self.offsets[:-1]))

    def padding(self, lengths: NDArray[np.int32]) -> float:
        """Share of the padded samples that is padding."""
        samples = int(lengths[self.rows].sum(dtype=np.int64))
        return 1 - samples / int(self.padded_samples(lengths).sum())

    def take(self, numbers: NDArray[np.int64]) -> Self:
        """Some of the batches, in the given order."""
        sizes = np.diff(self.offsets)[numbers]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        source = np.repeat(self.offsets[:-1][numbers] - offsets[:-1], sizes)
        return type(self)(self.rows[source + np.arange(len(source))], offsets)


def evaluation_batches(lengths: NDArray[np.int32], limits: BatchLimits) -> Batches:
    """Every row once, the largest batch first: memory runs out there or never."""
    rows = np.argsort(-lengths, kind="stable").astype(np.int32)
    batches = Batches(rows, _cut(lengths[rows], np.array([len(rows)]), limits))
    return batches.take(np.argsort(-batches.memory(lengths), kind="stable"))


def training_batches(
    lengths: NDArray[np.int32],
    row_group_of: NDArray[np.int32],
    entries: Rows,
    section: DatasetSection,
    *,
    seed: int,
    epoch: int,
) -> Batches:
    """Shuffle, sort by length within windows, cut into batches, shuffle the batches.

    With an ``example_shuffle_window`` of 1 the rows of a row group stay together, and row groups
    come in a random order. With a ``batch_shuffle_window`` of 1 batches come in the order of their
    first row. ``lengths`` and ``row_group_of`` are of every row of the index, in this epoch;
    ``entries`` are the epoch's rows in ascending order, then those that come twice, and so on.
    """
    task, rng = section.asr_task_config, RandomStream.ROW_ORDER.generator(seed, epoch)
    stream = _by_row_group(row_group_of, entries, rng)
    bucketing_window = BUCKETING_ROWS
    if task.example_shuffle_window != 1:
        stream, bucketing_window = rng.permutation(stream), len(stream)
    window_of = np.arange(len(stream)) // bucketing_window
    step = np.log(LENGTH_STEP)
    bins = np.ceil(np.log(np.maximum(lengths[stream], 1)) / step).astype(np.int32)
    # Positions in the stream by window, then from long to short; equal bins keep their order.
    positions = np.lexsort((-bins, window_of))
    # A batch is cut for the upper length of its first row's bin, so that none exceeds the limit.
    upper_lengths = np.exp(bins[positions] * step).astype(np.int64) + 1
    longest = np.minimum(upper_lengths, lengths[stream].max(initial=1))
    window_ends = np.append(np.arange(bucketing_window, len(stream), bucketing_window), len(stream))
    batches = Batches(stream[positions], _cut(longest, window_ends, BatchLimits.of(section)))
    # A batch stands where its first row stands in the stream.
    place_of_batch = np.minimum.reduceat(positions, batches.offsets[:-1])
    numbers = np.argsort(place_of_batch)
    if task.batch_shuffle_window != 1:
        numbers = RandomStream.BATCH_ORDER.generator(seed, epoch).permutation(numbers)
    return batches.take(numbers)


def _by_row_group(row_group_of: NDArray[np.int32], entries: Rows, rng: np.random.Generator) -> Rows:
    """The entries by row group, and row groups in random order."""
    # Each time that entries begin anew, their row groups are others, so that repeats stay apart.
    repeat = np.cumsum(np.diff(entries, prepend=-1) <= 0)
    group_keys = row_group_of[entries] + repeat * (int(row_group_of.max()) + 1)
    _, group_of_entry = np.unique(group_keys, return_inverse=True)
    place_of_group = rng.permutation(int(group_of_entry.max()) + 1)
    return entries[np.argsort(place_of_group[group_of_entry], kind="stable")]


def _cut(longest: NDArray[Any], ends: NDArray[Any], limits: BatchLimits) -> NDArray[np.int64]:
    """Offsets of batches of rows that are sorted from long to short within windows."""
    offsets, position = [0], 0
    for end in ends.tolist():
        while position < end:
            position = min(position + limits.rows(int(longest[position])), end)
            offsets.append(position)
    return np.array(offsets, np.int64)


class Sharding(NamedTuple):
    """Shares batches out over ``world_size`` data-parallel processes; this is ``rank``."""

    rank: int
    world_size: int
    num_accumulate: int

    @property
    def batches_per_step(self) -> int:
        """Batches that all processes together read in a step; in the last one what is left."""
        return self.world_size * self.num_accumulate

    def steps(
        self, batches: Batches, position: int, *, keep_all: bool
    ) -> list[list[tuple[int, int]]]:
        """The steps of this rank from a position to the end: spans of `Batches.rows`, one a batch.

        A step takes ``world_size * num_accumulate`` consecutive batches, of which rank r takes the
        r-th block; hence two processes compute the loss that one computes with twice the
        accumulation. The last step takes what is left, its largest batches halved until their
        number divides by ``world_size``: all processes always have equally many. Where that is
        impossible, some rows remain, fewer than processes. Training leaves them out, others in
        each epoch; with ``keep_all`` (evaluation) the first processes take them.
        """
        offsets, size = batches.offsets[position:], self.batches_per_step
        end = (len(offsets) - 1) // size * size
        steps = [offsets[begin : begin + size + 1] for begin in range(0, end, size)]
        last = _split(offsets[end:], self.world_size)
        if not keep_all:
            last = last[: len(last) - (len(last) - 1) % self.world_size]
        if len(last) > 1:
            steps.append(last)
        return [self._own(step) for step in steps]

    def _own(self, offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
        count = math.ceil((len(offsets) - 1) / self.world_size)
        return list(pairwise(offsets[self.rank * count : (self.rank + 1) * count + 1].tolist()))

    def largest_first(self, batches: Batches, position: int, lengths: NDArray[np.int32]) -> Batches:
        """Let the largest batches from ``position`` on fill the next two steps of all processes.

        They come from small to large, dealt out to the processes, and all others as they were. An
        optimizer has its moments from the end of the first step on, and gradients exist from the
        second batch of a step on: the last batches of the second step need the most memory.
        """
        steps = min(2, (len(batches) - position) // self.batches_per_step)
        order = position + np.argsort(batches.memory(lengths)[position:], kind="stable")
        largest = order[len(order) - steps * self.batches_per_step :]
        dealt = largest.reshape(steps, self.num_accumulate, self.world_size).swapaxes(1, 2).ravel()
        others = np.setdiff1d(np.arange(position, len(batches)), largest)
        return batches.take(np.concatenate([np.arange(position), dealt, others]))


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
