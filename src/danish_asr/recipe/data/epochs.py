"""The batches of each epoch of training: rows that the filters keep, mixed by weight, at speeds.

A partition's weight is ``(corpus share) ** beta_corpus``, normalised over corpora, times ``(share
in its corpus) ** beta_language``, normalised within the corpus; shares are of training hours, as in
upstream's ``get_partition_weights_from_betas``. Here a weight is a share of the epoch's *hours*,
and the epoch is as long as it must be to show every row at least once: the partition that its
weight favours least is read once, the others more often. Betas of 1 leave everything as it is.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.shards import Partition
from danish_asr.recipe.data.epoch_lengths import AnyTransform, EpochLengths, Join
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.sampler import (
    Batches,
    BatchLimits,
    RandomStream,
    Rows,
    training_batches,
)
from danish_asr.recipe.data.targets import FrameCount, Targets, TokenCounts, select_rows

_Key = TypeVar("_Key")


class MixRow(NamedTuple):
    """One partition's part in an epoch."""

    partition: Partition
    rows: int
    hours: float  # of these rows
    share: float  # of the epoch's hours
    repeats: float  # how often the epoch shows a row, on average; at least 1


class Mix(NamedTuple):
    """The effective mix of an epoch, one row per partition."""

    rows: list[MixRow]

    def lines(self) -> list[str]:
        """A plain table."""
        lines = [f"{'corpus/language':32} {'rows':>10} {'hours':>10} {'share':>7} {'repeats':>8}"]
        for row in self.rows:
            counts = f"{row.partition!s:32} {row.rows:>10,} {row.hours:>10,.2f}"
            lines.append(f"{counts} {row.share:>7.1%} {row.repeats:>8.2f}")
        return lines


class TrainingEpochs:
    """Makes the batches of each epoch of training.

    ``quadratic`` is ``dataset.quadratic_seconds`` in samples.

    Attributes:
        filtered: What the filters kept and removed.
        mix: How often an epoch shows each corpus.

    Raises:
        ConfigError: The longest utterance fits no batch.
        DatasetError: The filters leave nothing, or the table of hours does not fit the rows.
    """

    def __init__(
        self,
        index: Index,
        targets: Targets,
        frames: FrameCount,
        task: AsrTaskConfig,
        storage: MixtureParquetStorageConfig | None,
        *,
        transforms: Sequence[AnyTransform],
        seed: int,
        quadratic: float | None,
    ) -> None:
        self._index, self._frames, self._task = index, frames, task
        self._transforms, self._seed, self._quadratic = transforms, seed, quadratic
        self._counts = TokenCounts(index, targets, remove_unknown=task.remove_unknown)
        self._kept, self.filtered = select_rows(index, self._counts, task, frames)
        if not self._kept.size:
            raise DatasetError(
                f"split '{index.name}': the filters leave none of its {len(index)} utterances; "
                "look at min_audio_len, max_audio_len and min_samples_per_char in "
                "dataset.asr_task_config"
            )
        limit = BatchLimits.of(task).max_samples or task.max_audio_len
        longest = int(index.lengths[self._kept].max())
        if longest > limit:
            fault = (
                "dataset.asr_task_config.max_num_elements: expected room for the longest training "
                f"utterance ({longest} samples), found {limit}; raise it, or lower max_audio_len"
            )
            raise ConfigError([fault])
        self._longest = min(task.max_audio_len, limit)
        self._trained = np.isin(np.arange(len(index)), self._kept)
        self.mix = make_mix(index, self._kept, storage)

    def make(self, epoch: int) -> tuple[Batches, EpochLengths]:
        """The batches of an epoch, counted from 0, and the lengths that its rows have."""
        index, seed = self._index, self._seed
        lengths = EpochLengths.draw(
            self._transforms, index.lengths, self._fit, seed=seed, epoch=epoch
        )
        entries = epoch_entries(index, self._kept, self.mix, seed=seed, epoch=epoch)
        row_group_of = index.row_group_of
        for join in self._transforms:
            if isinstance(join, Join):
                rng = RandomStream.JOINED_ROWS.generator(seed, epoch)
                entries, pairs = join.draw(
                    entries, index.voices(), lengths.lengths, self._longest, rng
                )
                lengths = lengths.joined(pairs)
                row_group_of = np.append(row_group_of, row_group_of[pairs.first])
        batches = training_batches(
            lengths.lengths,
            row_group_of,
            entries,
            self._task,
            self._quadratic,
            seed=seed,
            epoch=epoch,
        )
        return batches, lengths

    def _fit(self, lengths: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which rows may have these lengths."""
        allowed = (lengths >= self._task.min_audio_len) & (lengths <= self._longest)
        return self._counts.enough(self._frames(lengths), self._trained & allowed)

    def fingerprint(self) -> dict[str, object]:
        """What a checkpoint must agree with to be continued, by name."""
        repeats = [f"{row.partition} {row.repeats:.6f}" for row in self.mix.rows]
        return {
            "utterances": len(self._kept),
            "content": self._index.digest(self._kept),
            "seed": self._seed,
            "limits": str(BatchLimits.of(self._task, self._quadratic)),
            "example_shuffle_window": self._task.example_shuffle_window,
            "batch_shuffle_window": self._task.batch_shuffle_window,
            "repeats": ", ".join(repeats),
            "drop_remainder": self._task.drop_remainder,
            "max_num_batches": self._task.max_num_batches,
        }


def make_mix(index: Index, kept: Rows, config: MixtureParquetStorageConfig | None) -> Mix:
    """The mix of the rows that training uses; without betas every row comes once.

    Raises:
        DatasetError: The table of hours does not fit the index.
    """
    counts, hours = _totals(index, kept)
    present = np.flatnonzero(counts)
    hours = hours[present]
    partitions = [index.partitions[code] for code in present]
    wanted = hours
    if config and (config.beta_corpus is not None or config.beta_language is not None):
        if config.dataset_summary_path is None:
            _, totals = _totals(index, np.arange(len(index), dtype=np.int32))
            all_hours = dict(zip(index.partitions, totals.tolist(), strict=True))
        else:
            all_hours = hours_of(Path(config.dataset_summary_path), needed=index.partitions)
        shares = weights(
            all_hours,
            beta_corpus=1.0 if config.beta_corpus is None else config.beta_corpus,
            beta_language=1.0 if config.beta_language is None else config.beta_language,
        )
        wanted = np.array([shares[partition] for partition in partitions])
    repeats = wanted / hours / (wanted / hours).min()
    epoch_hours = hours * repeats
    share = epoch_hours / math.fsum(epoch_hours)
    columns = counts[present].tolist(), hours.tolist(), share.tolist(), repeats.tolist()
    return Mix([MixRow(*values) for values in zip(partitions, *columns, strict=True)])


def epoch_entries(index: Index, kept: Rows, mix: Mix, *, seed: int, epoch: int) -> Rows:
    """The rows of an epoch in ascending order, repeated rows several times.

    A partition with 1.37 repeats shows every row once and 37 % of them, drawn anew in each epoch,
    a second time.
    """
    rng = RandomStream.REPEATED_ROWS.generator(seed, epoch)
    times = np.ones(len(kept), np.int64)
    codes: NDArray[np.int16] = index.partition_of[kept]
    for row in mix.rows:
        full_times, share = divmod(row.repeats, 1)
        own = np.flatnonzero(codes == index.partitions.index(row.partition))
        times[own] = int(full_times)
        times[rng.choice(own, round(share * len(own)), replace=False)] += 1
    return np.repeat(kept, times)


def _totals(index: Index, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows and hours of each partition."""
    codes, size = index.partition_of[rows], len(index.partitions)
    samples = np.bincount(codes, index.lengths[rows], minlength=size)
    return np.bincount(codes, minlength=size), samples / SAMPLE_RATE / 3600


def weights(
    hours: Mapping[Partition, float], *, beta_corpus: float, beta_language: float
) -> dict[Partition, float]:
    """Share of an epoch's hours per partition; they add up to 1."""
    by_corpus: dict[str, dict[Partition, float]] = defaultdict(dict)
    for partition, value in hours.items():
        by_corpus[partition.corpus][partition] = value
    totals = {corpus: math.fsum(part.values()) for corpus, part in by_corpus.items()}
    corpora = _flattened(totals, beta_corpus)
    shares = {}
    for corpus, part in by_corpus.items():
        for partition, share in _flattened(part, beta_language).items():
            shares[partition] = corpora[corpus] * share
    return shares


def _flattened(hours: Mapping[_Key, float], beta: float) -> dict[_Key, float]:
    total = math.fsum(hours.values())
    powers = {key: (value / total) ** beta for key, value in hours.items()}
    norm = math.fsum(powers.values())
    return {key: value / norm for key, value in powers.items()}


def hours_of(path: Path, *, needed: Iterable[Partition]) -> dict[Partition, float]:
    """Training hours per partition from a ``language_distribution`` TSV.

    Raises:
        DatasetError: The file is malformed, has a partition twice, or lacks one that is needed.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t"))
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from error
    hours: dict[Partition, float] = {}
    for number, row in enumerate(rows, start=2):
        try:
            partition, value = Partition(row["corpus"], row["language"]), float(row["hours"])
        except (KeyError, TypeError, ValueError):
            value = math.nan
        if not 0 < value < math.inf or partition in hours:
            raise DatasetError(
                f"{path}:{number}: expected corpus, language and hours (a number above 0), one row "
                f"per corpus and language, found {row}"
            )
        hours[partition] = value
    if missing := sorted(set(needed) - set(hours)):
        names = ", ".join(map(str, missing))
        raise DatasetError(
            f"{path}: no row for {names}; add one, or leave its rows out with dataset.train_where"
        )
    return hours
