"""How often an epoch of training shows each row: by its corpus, and by conditions.

A partition's weight is ``(corpus share) ** beta_corpus``, normalised over corpora, times ``(share
in its corpus) ** beta_language``, normalised within the corpus; shares are of training hours, as in
upstream's ``get_partition_weights_from_betas``. Here a weight is a share of the epoch's *hours*,
and the epoch is as long as it must be to show every row at least once: the partition that its
weight favours least is read once, the others more often. Betas of 1 leave everything as it is.

Then ``dataset.weights`` multiply this by the factors of all conditions that a row fulfils. A row
with 0.3 repeats is in three of ten epochs, one with 1.3 is in each, and in three of ten twice.
"""

import csv
import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig

from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.shards import Partition
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.sampler import RandomStream, Rows

_Key = TypeVar("_Key")
_WIDEST: Final = 60  # characters of a condition in the table


class MixRow(NamedTuple):
    """The part in an epoch of a partition, or of the rows that fulfil a condition."""

    name: str
    rows: int
    hours: float  # of these rows
    share: float  # of the epoch's hours
    repeats: float  # how often the epoch shows a row, on average


class Mix(NamedTuple):
    """The effective mix of an epoch."""

    rows: list[MixRow]  # per partition
    weighted: list[MixRow]  # per condition
    groups: list[Rows]  # places in the rows that training uses, of rows with the same weight
    repeats: list[float]  # of each group

    def lines(self) -> list[str]:
        """A plain table."""
        shown = [*self.rows, *self.weighted]
        width = max(32, *(min(len(row.name), _WIDEST) for row in shown))
        lines = [
            f"{'corpus/language':{width}} {'rows':>10} {'hours':>10} {'share':>7} {'repeats':>8}"
        ]
        for row in shown:
            if self.weighted and row is self.weighted[0]:
                lines.append("of them, by dataset.weights")
            counts = f"{_short(row.name):{width}} {row.rows:>10,} {row.hours:>10,.2f}"
            lines.append(f"{counts} {row.share:>7.1%} {row.repeats:>8.2f}")
        return lines

    def digest(self) -> str:
        """A hash of the groups and of their repeats."""
        digest = hashlib.blake2b(digest_size=8)
        for group, repeats in zip(self.groups, self.repeats, strict=True):
            digest.update(f"{repeats:.6f}".encode())
            digest.update(np.ascontiguousarray(group).tobytes())
        return digest.hexdigest()


def _short(name: str) -> str:
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 3]}..."


def make_mix(index: Index, kept: Rows, config: MixtureParquetStorageConfig | None) -> Mix:
    """The mix of the rows that training uses; without betas and weights every row comes once.

    Raises:
        DatasetError: The table of hours does not fit the index.
    """
    counts, hours = _totals(index, kept)
    present = np.flatnonzero(counts)
    partitions = [index.partitions[code] for code in present]
    of_partition = _repeats(index, partitions, hours[present], config)
    groups, factors = _groups(index.partition_of[kept], [w.of(kept) for w in index.weights])
    own_hours = index.lengths[kept] / SAMPLE_RATE / 3600
    repeats = [
        of_partition[index.partitions[index.partition_of[kept[group[0]]]]] * factor
        for group, factor in zip(groups, factors, strict=True)
    ]
    times = np.zeros(len(kept))
    for group, value in zip(groups, repeats, strict=True):
        times[group] = value
    shown_hours = own_hours * times
    epoch_hours = float(shown_hours.sum())

    def row(name: str, chosen: NDArray[np.bool_]) -> MixRow:
        own, shown = float(own_hours[chosen].sum()), float(shown_hours[chosen].sum())
        share = shown / epoch_hours
        return MixRow(name, int(chosen.sum()), own, share, shown / own if own else 0.0)

    codes = index.partition_of[kept]
    return Mix(
        rows=[row(str(index.partitions[code]), codes == code) for code in present],
        weighted=[row(weight.name, weight.rows[kept]) for weight in index.weights],
        groups=groups,
        repeats=repeats,
    )


def _repeats(
    index: Index,
    partitions: Sequence[Partition],
    hours: NDArray[np.float64],
    config: MixtureParquetStorageConfig | None,
) -> dict[Partition, float]:
    """How often the betas show the rows of each partition, at least once."""
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
    return dict(zip(partitions, repeats.tolist(), strict=True))


def _groups(
    partition_of: NDArray[np.int16], factors: Sequence[NDArray[np.float64]]
) -> tuple[list[Rows], list[float]]:
    """The places of the rows of one partition that fulfil the same conditions, and their factor."""
    codes = partition_of.astype(np.int64)
    product = np.ones(len(codes))
    for factor in factors:
        _, codes = np.unique(2 * codes + (factor != 1), return_inverse=True)
        product *= factor
    groups = [np.flatnonzero(codes == code).astype(np.int32) for code in np.unique(codes)]
    return groups, [float(product[group[0]]) for group in groups]


def epoch_entries(kept: Rows, mix: Mix, *, seed: int, epoch: int) -> Rows:
    """The rows of an epoch in ascending order, repeated rows several times.

    A group with 1.37 repeats shows every row once and 37 % of them, drawn anew in each epoch,
    a second time. Over all epochs so far the number of these is exact, to one row.
    """
    rng = RandomStream.REPEATED_ROWS.generator(seed, epoch)
    times = np.ones(len(kept), np.int64)
    for group, repeats in zip(mix.groups, mix.repeats, strict=True):
        full_times, share = divmod(repeats, 1)
        times[group] = int(full_times)
        drawn = round((epoch + 1) * share * len(group)) - round(epoch * share * len(group))
        times[rng.choice(group, min(drawn, len(group)), replace=False)] += 1
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
