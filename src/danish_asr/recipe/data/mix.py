"""How often an epoch of training shows each row: by its corpus, and by conditions.

A corpus's weight is ``(its share of the hours) ** beta_corpus``, normalised, as in upstream's
``get_partition_weights_from_betas``. Here a weight is a share of the epoch's *hours*, and the epoch
is as long as it must be to show every row at least once: the corpus that its weight favours least
is read once, the others more often. A beta of 1, or null, leaves everything as it is.

Then ``dataset.weights`` multiply this by the factors of all conditions that a row fulfils. A row
with 0.3 repeats is in three of ten epochs, one with 1.3 is in each, and in three of ten twice.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.sampler import RandomStream, Rows

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


def make_mix(index: Index, kept: Rows, beta_corpus: float | None) -> Mix:
    """The mix of the rows that training uses; without beta and weights every row comes once."""
    of_partition = _repeats(index, kept, beta_corpus)
    groups, factors = _groups(index.partition_of[kept], [w.of(kept) for w in index.weights])
    own_hours = index.lengths[kept] / SAMPLE_RATE / 3600
    repeats = [
        of_partition[index.partition_of[kept[group[0]]]] * factor
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
        rows=[row(str(index.partitions[code]), codes == code) for code in np.unique(codes)],
        weighted=[row(weight.name, weight.rows[kept]) for weight in index.weights],
        groups=groups,
        repeats=repeats,
    )


def _repeats(index: Index, kept: Rows, beta_corpus: float | None) -> list[float]:
    """How often the rows of each partition are shown, at least once."""
    if beta_corpus is None:
        return [1.0] * len(index.partitions)
    corpora = sorted({partition.corpus for partition in index.partitions})
    corpus_of_partition = np.array([corpora.index(p.corpus) for p in index.partitions])
    corpus_of = corpus_of_partition[index.partition_of]
    samples = np.bincount(corpus_of, index.lengths).astype(np.float64)
    kept_samples = np.bincount(corpus_of[kept], index.lengths[kept], minlength=len(corpora))
    present = np.flatnonzero(kept_samples)
    repeats = np.ones(len(corpora))
    repeats[present] = corpus_shares(samples, beta_corpus)[present] / kept_samples[present]
    repeats[present] /= repeats[present].min()
    return [float(repeats[corpus]) for corpus in corpus_of_partition]


def corpus_shares(hours: NDArray[np.float64], beta_corpus: float) -> NDArray[np.float64]:
    """The share of an epoch's hours of each corpus; they add up to 1."""
    powers = (hours / hours.sum()) ** beta_corpus
    return np.asarray(powers / powers.sum())


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
