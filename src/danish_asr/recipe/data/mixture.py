"""Weighted mixing: how often an epoch shows each corpus and language.

A partition's weight is ``(corpus share) ** beta_corpus``, normalised over corpora, times ``(share
in its corpus) ** beta_language``, normalised within the corpus; shares are of training hours, as in
upstream's ``get_partition_weights_from_betas``. Here a weight is a share of the epoch's *hours*,
and the epoch is as long as it must be to show every row at least once: the partition that its
weight favours least is read once, the others more often. Betas of 1 leave everything as it is.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig

from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.shards import Partition
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.sampler import Rows

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class MixRow:
    """One partition's part in an epoch."""

    partition: Partition
    rows: int
    hours: float  # of these rows
    share: float  # of the epoch's hours
    repeats: float  # how often the epoch shows a row, on average; at least 1


@dataclass(frozen=True, slots=True)
class Mix:
    """The effective mix of an epoch, one row per partition."""

    rows: tuple[MixRow, ...]

    def lines(self) -> list[str]:
        """A plain table."""
        lines = [f"{'corpus/language':32} {'rows':>10} {'hours':>10} {'share':>7} {'repeats':>8}"]
        for row in self.rows:
            counts = f"{row.partition!s:32} {row.rows:>10,} {row.hours:>10,.2f}"
            lines.append(f"{counts} {row.share:>7.1%} {row.repeats:>8.2f}")
        return lines


def make_mix(index: Index, kept: Rows, config: MixtureParquetStorageConfig | None) -> Mix:
    """The mix of the rows that training uses; without betas every row comes once.

    Raises:
        DatasetError: The table of hours does not fit the index.
    """
    shares = partition_shares(index, config) if config else None
    counts, hours = _totals(index, kept)
    present = np.flatnonzero(counts)
    hours = hours[present]
    partitions = [index.partitions[code] for code in present]
    wanted = np.array([shares[partition] for partition in partitions]) if shares else hours
    repeats = wanted / hours / (wanted / hours).min()
    epoch_hours = hours * repeats
    share = epoch_hours / math.fsum(epoch_hours)
    rows = [
        MixRow(
            partition,
            rows=int(counts[present[number]]),
            hours=float(hours[number]),
            share=float(share[number]),
            repeats=float(repeats[number]),
        )
        for number, partition in enumerate(partitions)
    ]
    return Mix(tuple(rows))


def epoch_entries(index: Index, kept: Rows, mix: Mix, *, seed: int, epoch: int) -> Rows:
    """The rows of an epoch in ascending order, repeated rows several times.

    A partition with 1.37 repeats shows every row once and 37 % of them, drawn anew in each epoch,
    a second time.
    """
    rng = np.random.default_rng([seed, epoch, 2])
    times = np.ones(len(kept), np.int64)
    codes: NDArray[np.int16] = index.partition_of[kept]
    for row in mix.rows:
        full_times, share = divmod(row.repeats, 1)
        own = np.flatnonzero(codes == index.partitions.index(row.partition))
        times[own] = int(full_times)
        times[rng.choice(own, round(share * len(own)), replace=False)] += 1
    return np.repeat(kept, times)


def partition_shares(
    index: Index, config: MixtureParquetStorageConfig
) -> dict[Partition, float] | None:
    """Shares of an epoch's hours by the section's betas; None: as much of each as there is."""
    corpus, language = config.beta_corpus, config.beta_language
    if corpus is None and language is None:
        return None
    if config.dataset_summary_path is None:
        _, totals = _totals(index, np.arange(len(index), dtype=np.int32))
        hours = dict(zip(index.partitions, totals.tolist(), strict=True))
        hours = {partition: value for partition, value in hours.items() if value}
    else:
        hours = hours_of(Path(config.dataset_summary_path), needed=index.partitions)
    return weights(
        hours,
        beta_corpus=1.0 if corpus is None else corpus,
        beta_language=1.0 if language is None else language,
    )


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
    return {
        partition: corpora[corpus] * weight
        for corpus, part in by_corpus.items()
        for partition, weight in _flattened(part, beta_language).items()
    }


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
        if not 0 < value < math.inf:
            raise DatasetError(
                f"{path}:{number}: expected corpus, language and hours (a number above 0), "
                f"found {row}"
            )
        if partition in hours:
            raise DatasetError(
                f"{path}:{number}: {partition} has a row already; expected one row per corpus and "
                "language, with training hours only"
            )
        hours[partition] = value
    if missing := sorted(set(needed) - set(hours)):
        names = ", ".join(map(str, missing))
        raise DatasetError(
            f"{path}: no row for {names}; add one, or leave its rows out with dataset.train_where"
        )
    return hours
