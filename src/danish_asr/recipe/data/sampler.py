"""Which rows an epoch of training shows, how fast, in which batches, and on which process.

A corpus's weight is ``(its share of the hours) ** beta_corpus``, normalised, as in upstream's
``get_partition_weights_from_betas``. Here a weight is a share of the epoch's *hours*, and the epoch
is as long as it must be to show every row at least once: the corpus that its weight favours least
is read once, the others more often. Null changes nothing, nor does 1 if no row is filtered.

Then ``dataset.weights`` multiply this by the factors of all conditions that a row fulfils. A row
with 0.3 repeats is in three of ten epochs, one with 1.3 is in each, and in three of ten twice.

Batches are computed before any audio is read, from lengths, settings, seed and epoch alone; speeds
are drawn before. The number of processes only decides how batches are shared out (`Sharding`), so
that a run can continue with another number of processes.
"""

import math
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.schema import DatasetSection
from danish_asr.recipe.data.index import NUMBERS, Index, Rows
from danish_asr.recipe.data.targets import FrameCount, Targets, frames_needed, select_rows
from danish_asr.recipe.data.transforms import samples_at_speed

BUCKETING_ROWS: Final = 2_000
"""So many neighbouring rows are sorted by length together, if the rows are not shuffled."""

ATTENTION: Final = 350 * SAMPLE_RATE
"""Samples whose attention takes as much memory as all the rest: in a layer of 300M a frame takes
about 35,000 bytes, and 2 for each frame that it attends to."""

LENGTH_STEP: Final = 1.02
"""Training treats lengths within 2 % as equal and keeps their random order, so that a row meets
other rows in every epoch."""

_GOLDEN: Final = (5**0.5 - 1) / 2


class RandomStream(IntEnum):
    """What is drawn for an epoch, with random numbers of its own; the values are in the seeds."""

    ROW_ORDER = 0
    BATCH_ORDER = 1
    REPEATED_ROWS = 2
    SPEEDS = 3

    def generator(self, seed: int, epoch: int) -> np.random.Generator:
        """The generator of this stream in an epoch."""
        return np.random.default_rng([seed, epoch, self.value])


class Epoch(NamedTuple):
    """The batches of an epoch, and how its rows are played."""

    batches: "Batches"
    lengths: NDArray[np.int32]  # samples of every row of the index as it is played, (rows,)
    speeds: NDArray[np.float64]  # of every row, 1 as recorded


class TrainingEpochs:
    """Makes the batches of each epoch of training.

    ``kept`` are the rows that the filters leave, ``filtered`` is a table of them and of the others,
    ``mix`` one of how often an epoch shows the rows of each corpus and condition.

    Raises:
        ConfigError: The longest utterance fits no batch.
        DatasetError: The filters leave nothing.
    """

    def __init__(
        self,
        index: Index,
        targets: Targets,
        frames: FrameCount,
        section: DatasetSection,
        *,
        seed: int,
    ) -> None:
        self._index, self._frames, self._section, self._seed = index, frames, section, seed
        task = section.asr_task_config
        fastest = np.array(max([1.0, *section.speed_factors]))
        self._needed = frames_needed(
            index, targets, frames(samples_at_speed(index.lengths, fastest))
        )
        self.kept, self.filtered = select_rows(index, task, self._needed, frames(index.lengths))
        if not self.kept.size:
            fault = f"the filters leave none of its {len(index)} utterances"
            raise DatasetError(f"split '{index.name}': {fault}; see dataset.asr_task_config")
        longest = int(index.lengths[self.kept].max())
        if longest > task.max_num_elements:
            rule = f"must be at least {longest}, the samples of the longest training utterance"
            now = f"but is {task.max_num_elements}; raise it, or lower max_audio_len"
            raise ConfigError([f"dataset.asr_task_config.max_num_elements {rule}, {now}"])
        self._repeats = repeats_of(
            index, self.kept, section.mixture_parquet_storage_config.beta_corpus
        )
        self.mix = mix_table(index, self.kept, self._repeats)

    def make(self, epoch: int) -> Epoch:
        """Return the batches of an epoch, counted from 0."""
        index, seed = self._index, self._seed
        entries = epoch_entries(self.kept, self._repeats, seed=seed, epoch=epoch)
        speeds = self._speeds(epoch)
        lengths = samples_at_speed(index.lengths, speeds)
        row_groups = index.rows["_group"].to_numpy()
        batches = training_batches(
            lengths, row_groups, entries, self._section, seed=seed, epoch=epoch
        )
        return Epoch(batches, lengths, speeds)

    def _speeds(self, epoch: int) -> NDArray[np.float64]:
        """Draw the speed of each row; one that would break a limit keeps its own."""
        factors = np.array(self._section.speed_factors or [1.0])
        rng = RandomStream.SPEEDS.generator(self._seed, epoch)
        speeds = factors[rng.integers(0, len(factors), len(self._index), np.uint8)]
        lengths, task = samples_at_speed(self._index.lengths, speeds), self._section.asr_task_config
        longest = min(task.max_audio_len, task.max_num_elements)
        fit = (lengths >= task.min_audio_len) & (lengths <= longest)
        return np.where(fit & (self._needed <= self._frames(lengths)), speeds, 1.0)


def mix_table(index: Index, kept: Rows, repeats: NDArray[np.float64]) -> str:
    """A table of the rows that training uses: of corpora, then of the conditions of weights.

    It has their hours, their share of an epoch's, and how often they come in it on average.
    """
    rows = index.rows.select("corpus", NUMBERS)[kept]
    parts = {name: rows["corpus"] == name for name in rows["corpus"].unique(maintain_order=True)}
    for weight in index.weights:
        parts[f"{weight.factor:g} x {weight.where}"] = rows[f"_{weight.where}"]
    hours = (rows["_samples"] / SAMPLE_RATE / 3600).to_numpy()
    shown = hours * repeats
    width = max(32, *map(len, parts))
    lines = [f"{'corpus':{width}} {'rows':>10} {'hours':>10} {'share':>7} {'repeats':>8}"]
    for name, is_part in parts.items():
        mask = is_part.to_numpy()
        own, of_epoch = hours[mask].sum(), shown[mask].sum()
        times = of_epoch / own if own else 0.0
        counts = f"{name:{width}} {np.count_nonzero(mask):>10,} {own:>10,.2f}"
        lines.append(f"{counts} {of_epoch / shown.sum():>7.1%} {times:>8.2f}")
    return "\n".join(lines)


def repeats_of(index: Index, kept: Rows, beta_corpus: float | None) -> NDArray[np.float64]:
    """How often an epoch shows each row that training uses; once without beta and weights."""
    rows, repeats = index.rows.select("corpus", NUMBERS)[kept], np.ones(len(kept))
    if beta_corpus is not None:
        samples = pl.col("_samples").cast(pl.Int64).sum()
        corpora = index.rows.group_by("corpus", maintain_order=True).agg(samples)
        shares = corpus_shares(corpora["_samples"].to_numpy(), beta_corpus)
        share_of = dict(zip(corpora["corpus"], shares, strict=True))
        share = pl.col("corpus").replace_strict(share_of)
        repeats = rows.select(share / samples.over("corpus")).to_series().to_numpy()
        repeats = repeats / repeats.min()
    for weight in index.weights:
        repeats = repeats * np.where(rows[f"_{weight.where}"], weight.factor, 1.0)
    return repeats


def corpus_shares(hours: NDArray[np.float64], beta_corpus: float) -> NDArray[np.float64]:
    """The share of an epoch's hours of each corpus; they add up to 1."""
    powers = (hours / hours.sum()) ** beta_corpus
    return np.asarray(powers / powers.sum())


def epoch_entries(kept: Rows, repeats: NDArray[np.float64], *, seed: int, epoch: int) -> Rows:
    """The rows of an epoch in ascending order, then those that come twice, and so on.

    A row with 1.37 repeats comes once in each epoch, and in 37 of 100 a second time. Rows with the
    same repeats take turns, in an order that the seed draws, so that each epoch has its part.
    """
    rng = RandomStream.REPEATED_ROWS.generator(seed, 0)
    order = np.lexsort((rng.random(len(kept)), repeats))
    turns = np.empty(len(kept))
    turns[order] = np.arange(len(kept)) * _GOLDEN % 1  # spread evenly over 0 to 1
    # A row comes in an epoch as often as its sum of repeats passes a whole number in it.
    shown = (epoch + 1) * repeats + turns
    times = np.floor(shown) - np.floor(epoch * repeats + turns)
    if not times.any():  # the next one
        times[np.argmax(shown % 1)] = 1
    return np.concatenate([kept[times > n] for n in range(int(times.max()))])


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
    upper_lengths = np.ceil(np.exp(bins[positions] * step)).astype(np.int64)
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

    def largest_first(self, memory: NDArray[np.float64], position: int) -> NDArray[np.int64]:
        """An order in which the largest batches from ``position`` on fill the next two steps.

        They come from small to large, dealt out to the processes, and all others as they were. An
        optimizer has its moments from the end of the first step on, and gradients exist from the
        second batch of a step on: the last batches of the second step need the most memory.
        """
        steps = min(2, (len(memory) - position) // self.batches_per_step)
        ascending = position + np.argsort(memory[position:], kind="stable")
        largest = ascending[len(ascending) - steps * self.batches_per_step :]
        # A process reads a block of a step, so the neighbours of a round go to different blocks.
        rounds = largest.reshape(steps, self.num_accumulate, self.world_size)
        dealt = rounds.swapaxes(1, 2).ravel()
        others = np.setdiff1d(np.arange(position, len(memory)), largest)
        return np.concatenate([np.arange(position), dealt, others])


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
