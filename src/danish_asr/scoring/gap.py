"""The gap: how far the worst group is from the best, and whether any two groups differ.

In: counts of groups, summed by speaker, where each speaker is in one group. Logarithms of rates are
compared, because rates vary by factors, for all pairs of groups at once. The standard error of a
group is that of the speakers around their group's rate, pooled over all groups, so that groups of
a few speakers take part. The critical value is the 95 % quantile of the largest statistic of any
pair when the speakers are permuted over the groups (Westfall and Young, Resampling-Based Multiple
Testing, 1993). Few errors say nothing about groups: nothing is compared below 8 speakers with some.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import ceil, exp
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from danish_asr.base.schema import MIN_SPEAKERS
from danish_asr.metrics import Denominator
from danish_asr.scoring.intervals import (
    ALPHA,
    FloatArray,
    IntArray,
    Interval,
    errors_and_lengths,
    logs_and_errors,
    of_speakers,
    share_speakers,
    takes_part,
)

MOST_GROUPS: Final = 100  # whose pairs are compared
_PERMUTATIONS: Final = 1_999
_NUMBERS: Final = 2_000_000  # of permuted speakers at a time, which bounds the memory


@dataclass(frozen=True, slots=True)
class Gap:
    """The groups with the highest and the lowest WER, or, if only others differ, the clearest pair.

    The interval of the difference excludes 0 exactly if ``p`` is below 0.05; both are adjusted for
    the number of pairs.
    """

    worst: str
    best: str
    groups: int  # that were compared
    difference: float  # of the rates, as a fraction
    interval: Interval
    p: float  # that no two groups differ so clearly by chance

    @property
    def resolved(self) -> bool:
        """Whether the groups differ."""
        return self.p < ALPHA

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self) | {"interval": self.interval._asdict()}


class _Pairs(NamedTuple):
    """The upper triangle of all pairs of groups."""

    ones: IntArray
    others: IntArray

    def statistics(self, logs: FloatArray, errors: FloatArray) -> FloatArray:
        """Return by how many standard errors each pair differs, (draws, pairs)."""
        difference = np.abs(logs[:, self.ones] - logs[:, self.others])
        error = np.hypot(errors[:, self.ones], errors[:, self.others])
        # Without a spread, any difference is larger than those of other draws.
        unlike = np.where(difference > 0, np.inf, 0)
        return np.divide(difference, error, out=unlike, where=error > 0)


def estimate_gap(
    groups: Iterable[tuple[str, pd.DataFrame]], denominator: Denominator
) -> Gap | None:
    """Compare all pairs of groups, each a label and its sums of `COUNTS` by speaker.

    None below two groups that can be compared.
    """
    chosen = [(label, own) for label, own in groups if takes_part(own)]
    labels, sums = [label for label, _ in chosen], [own for _, own in chosen]
    if not 2 <= len(sums) <= MOST_GROUPS or share_speakers(sums):
        return None
    totals = [errors_and_lengths(group, denominator) for group in sums]
    if sum(np.count_nonzero(errors) for errors, _ in totals) < MIN_SPEAKERS:
        return None
    values, starts = of_speakers(sums, denominator)
    (logs,), (errors,) = logs_and_errors(values[:, None, :], starts)
    if not errors.all():  # all speakers of each group are equal
        return None
    rates = np.array([own.sum() / lengths.sum() for own, lengths in totals])
    # Half an error in a small group is no higher rate than a real one.
    logs = np.where(rates > 0, logs, np.minimum(logs, logs[rates > 0].min()))
    pairs = _Pairs(*np.triu_indices(len(sums), 1))
    observed = pairs.statistics(logs[None], errors[None])[0]
    largest = _largest_of_permuted(values, starts, pairs)
    p_of_pairs = (len(largest) - np.searchsorted(largest, observed) + 1) / (_PERMUTATIONS + 1)
    # p is below 0.05 for a statistic above this one.
    critical = float(largest[_PERMUTATIONS + 1 - ceil(ALPHA * (_PERMUTATIONS + 1))])
    pair = _shown_pair(rates, observed, p_of_pairs, pairs)
    shown = sorted((pairs.ones[pair], pairs.others[pair]), key=lambda place: -rates[place])
    worst, best = shown
    return Gap(
        worst=labels[worst],
        best=labels[best],
        groups=len(sums),
        difference=float(rates[worst] - rates[best]),
        interval=_interval(rates[shown], logs[shown], errors[shown], critical),
        p=float(p_of_pairs[pair]),
    )


def _largest_of_permuted(values: FloatArray, starts: IntArray, pairs: _Pairs) -> FloatArray:
    """Return the largest statistic of each permutation, ascending."""
    speakers = values.shape[1]
    generator = np.random.default_rng(0)
    largest: list[FloatArray] = []
    at_a_time = max(1, _NUMBERS // max(speakers, len(pairs.ones)))
    for begin in range(0, _PERMUTATIONS, at_a_time):
        count = min(at_a_time, _PERMUTATIONS - begin)
        order = generator.permuted(np.tile(np.arange(speakers), (count, 1)), axis=1)
        permuted = logs_and_errors(values[:, order], starts)
        largest.append(pairs.statistics(*permuted).max(axis=1))
    return np.sort(np.concatenate(largest))


def _shown_pair(
    rates: FloatArray, observed: FloatArray, p_of_pairs: FloatArray, pairs: _Pairs
) -> int:
    """Return the pair of the extreme rates, or that which differs most clearly if they do not."""
    differences = np.abs(rates[pairs.ones] - rates[pairs.others])
    extremes = int(differences.argmax())
    if p_of_pairs[extremes] >= ALPHA > p_of_pairs.min():
        return int(observed.argmax())
    return extremes


def _interval(rates: FloatArray, logs: FloatArray, errors: FloatArray, critical: float) -> Interval:
    """Return limits of the difference, which exclude 0 exactly if those of the ratio exclude 1.

    All are of the worst and the best group, ``errors`` the standard errors of ``logs``. A best
    group of at least b and a ratio of at least r make a difference of at least b (r - 1).
    """
    difference = float(rates[0] - rates[1])
    reach = critical * float(np.hypot(*(np.exp(logs) * errors)))
    log_reach = critical * float(np.hypot(*errors))
    least_ratio = exp(logs[0] - logs[1] - log_reach)
    if least_ratio > 1:
        least_best = exp(logs[1] - critical * errors[1])
        low = max(difference - reach, least_best * (least_ratio - 1))
    else:
        low = min(difference - reach, 0.0)
    return Interval(low, difference + reach)
