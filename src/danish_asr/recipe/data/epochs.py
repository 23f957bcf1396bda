"""The batches of each epoch of training: which rows it shows, how often, and how fast they play.

A corpus's weight is ``(its share of the hours) ** beta_corpus``, normalised, as in upstream's
``get_partition_weights_from_betas``. Here a weight is a share of the epoch's *hours*, and the epoch
is as long as it must be to show every row at least once: the corpus that its weight favours least
is read once, the others more often. A beta of 1, or null, leaves everything as it is.

Then ``dataset.weights`` multiply this by the factors of all conditions that a row fulfils. A row
with 0.3 repeats is in three of ten epochs, one with 1.3 is in each, and in three of ten twice.

All that is random follows from seed and epoch alone. Speeds are drawn before the batches are made,
which are planned with the lengths that come out.
"""

from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.schema import DatasetSection
from danish_asr.recipe.data.index import NUMBERS, Index
from danish_asr.recipe.data.sampler import (
    Batches,
    BatchLimits,
    RandomStream,
    Rows,
    training_batches,
)
from danish_asr.recipe.data.targets import FrameCount, Targets, frames_needed, select_rows
from danish_asr.recipe.data.transforms import samples_at_speed

_GOLDEN: Final = (5**0.5 - 1) / 2


class Epoch(NamedTuple):
    """The batches of an epoch, and how its rows are played."""

    batches: Batches
    lengths: NDArray[np.int32]  # samples of every row of the index as it is played, (rows,)
    speeds: NDArray[np.float64]  # of every row, 1 as recorded


class TrainingEpochs:
    """Makes the batches of each epoch of training.

    ``filtered`` is a table of what the filters kept and removed, ``mix`` one of how often an epoch
    shows the rows of each corpus and condition.

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
        self._kept, self.filtered = select_rows(index, task, self._needed, frames(index.lengths))
        if not self._kept.size:
            fault = f"the filters leave none of its {len(index)} utterances"
            raise DatasetError(f"split '{index.name}': {fault}; see dataset.asr_task_config")
        longest = int(index.lengths[self._kept].max())
        if longest > task.max_num_elements:
            rule = f"must be at least {longest}, the samples of the longest training utterance"
            now = f"but is {task.max_num_elements}; raise it, or lower max_audio_len"
            raise ConfigError([f"dataset.asr_task_config.max_num_elements {rule}, {now}"])
        self._repeats = repeats_of(
            index, self._kept, section.mixture_parquet_storage_config.beta_corpus
        )
        self.mix = mix_table(index, self._kept, self._repeats)

    def make(self, epoch: int) -> Epoch:
        """Return the batches of an epoch, counted from 0."""
        index, seed = self._index, self._seed
        entries = epoch_entries(self._kept, self._repeats, seed=seed, epoch=epoch)
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

    def fingerprint(self) -> dict[str, object]:
        """What a checkpoint must agree with to be continued, by name."""
        task = self._section.asr_task_config
        return {
            "utterances": len(self._kept),
            "content": self._index.digest(self._kept),
            "seed": self._seed,
            "speed_factors": list(self._section.speed_factors),
            "limits": str(BatchLimits.of(self._section)),
            "example_shuffle_window": task.example_shuffle_window,
            "batch_shuffle_window": task.batch_shuffle_window,
            "beta_corpus": self._section.mixture_parquet_storage_config.beta_corpus,
            "weights": [f"{weight.factor:g} x {weight.where}" for weight in self._index.weights],
        }


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
    turns = np.empty(len(kept))
    turns[np.lexsort((rng.random(len(kept)), repeats))] = np.arange(len(kept)) * _GOLDEN % 1
    times = np.floor((epoch + 1) * repeats + turns) - np.floor(epoch * repeats + turns)
    rounds = range(max(1, int(times.max())))
    return np.concatenate([kept[times > n] for n in rounds])
