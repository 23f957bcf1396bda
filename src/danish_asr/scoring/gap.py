"""The gap: which group has the highest rate, and whether groups differ by more than chance.

In: counts of groups, summed by speaker. Logarithms of rates are compared, because rates vary by
factors, for all pairs of groups at once. The standard error of a group has two parts: that of
speakers around their group's rate, pooled over all groups, and that of counting few errors. The
critical value is the 95 % quantile of the largest statistic of any pair when the speakers are
permuted over the groups (single-step maxT: Westfall and Young, Resampling-Based Multiple Testing,
1993). If b of m permutations reach a statistic, its p is (b + 1) / (m + 1) (Phipson and Smyth,
Statistical Applications in Genetics and Molecular Biology 9, 2010).

The test assumes that speakers are independent, that each is in one group, and that their rates vary
by the same factors in all groups. A group needs no interval of its own to take part, only two
speakers. Few errors say nothing about groups: nothing is compared below 8 speakers with some.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import ceil, exp
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from danish_asr.base.schema import MIN_SPEAKERS
from danish_asr.metrics import Denominator
from danish_asr.scoring.intervals import (
    ALPHA,
    COUNTS,
    FloatArray,
    IntArray,
    Interval,
    logs_and_errors,
    named_speakers,
    of_speakers,
    rates,
    share_speakers,
    word_counts,
    words_of,
)

MOST_GROUPS: Final = 100  # whose pairs are compared
FEWEST_COMPARED: Final = 2  # speakers of a group; one alone cannot be told from their group
_PERMUTATIONS: Final = 1_999
_NUMBERS: Final = 2_000_000  # of permuted speakers at a time, which bounds the memory


@dataclass(frozen=True, slots=True)
class PairTest:
    """The groups with the highest and the lowest WER, or, if only others differ, the clearest pair.

    Both are of the groups that were compared. The interval of the difference excludes 0 exactly if
    ``p`` is below 0.05; both are adjusted for the number of pairs.
    """

    worst: str
    best: str
    difference: float  # of the rates, as a fraction
    interval: Interval
    p: float  # how often some pair differs so clearly by chance

    @property
    def resolved(self) -> bool:
        """Whether the groups differ."""
        return self.p < ALPHA


class NotCompared(NamedTuple):
    """A group that takes no part in the test, and what it lacks."""

    group: str
    reason: str


@dataclass(frozen=True, slots=True)
class Gap:
    """The worst group by rate, tested or not, and the test of all groups that can be compared."""

    worst: str
    worst_wer: float
    compared: int  # groups
    not_compared: Sequence[NotCompared]
    pair: PairTest | None
    why_none: str | None  # of the groups are compared
    as_bad: int  # other groups with the same rate as the worst

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        document = asdict(self) | {"not_compared": [own._asdict() for own in self.not_compared]}
        if self.pair:
            document["pair"] |= {"interval": self.pair.interval._asdict()}
        return document


class _Pairs(NamedTuple):
    """The upper triangle of all pairs of groups."""

    ones: IntArray
    others: IntArray

    def statistics(self, logs: FloatArray, errors: FloatArray) -> FloatArray:
        """Return by how many standard errors each pair differs, (draws, pairs)."""
        difference = np.abs(logs[:, self.ones] - logs[:, self.others])
        error: FloatArray = np.hypot(errors[:, self.ones], errors[:, self.others])
        return difference / error


def estimate_gap(
    groups: Iterable[tuple[str, pd.DataFrame]], denominator: Denominator
) -> Gap | None:
    """Compare all pairs of groups, each a label and its sums of `COUNTS` by speaker.

    None without a word in the references of any group.
    """
    labels: list[str] = []
    sums: list[pd.DataFrame] = []
    not_compared: list[NotCompared] = []
    rate_of: dict[str, float] = {}
    for label, own in groups:
        spoken = own[words_of(own) > 0]
        if len(spoken):
            rate = float(rates(own[[*COUNTS]].sum().to_numpy(), denominator)[0])
            rate_of[label] = max(rate, rate_of.get(label, 0))
        if reason := _why_not_compared(spoken):
            not_compared.append(NotCompared(label, reason))
        else:
            labels.append(label)
            sums.append(spoken)
    if not rate_of:
        return None
    worst = max(rate_of, key=rate_of.__getitem__)
    why_none = _why_none(sums)
    return Gap(
        worst=worst,
        worst_wer=rate_of[worst],
        compared=0 if why_none else len(sums),
        not_compared=not_compared,
        pair=None if why_none else _test(labels, sums, denominator),
        why_none=why_none,
        as_bad=[*rate_of.values()].count(rate_of[worst]) - 1,
    )


def _why_not_compared(spoken: pd.DataFrame) -> str | None:
    """Return what a group lacks; ``spoken`` are the sums of those who say a word."""
    if not len(spoken):
        return "no word in the references, speakers with words needed"
    speakers = named_speakers(spoken)
    if not speakers:
        return f"unknown speakers, {FEWEST_COMPARED} named ones needed"
    if speakers < FEWEST_COMPARED:
        return f"{speakers} speaker, {FEWEST_COMPARED} needed"
    return None


def _why_none(sums: Sequence[pd.DataFrame]) -> str | None:
    """Return why no groups are compared, and what that needs."""
    if len(sums) < 2:
        return f"{len(sums)} group{'' if len(sums) == 1 else 's'} can be, 2 needed"
    if len(sums) > MOST_GROUPS:
        return f"{len(sums)} groups, at most {MOST_GROUPS} can be"
    if share_speakers(sums):
        return "speakers are in several groups, and each must be in one"
    with_errors = np.count_nonzero(word_counts(pd.concat(sums)).errors)
    if with_errors < MIN_SPEAKERS:
        verb = "speaker has" if with_errors == 1 else "speakers have"
        return f"{with_errors} {verb} errors, {MIN_SPEAKERS} needed"
    return None


def _test(
    labels: Sequence[str], sums: Sequence[pd.DataFrame], denominator: Denominator
) -> PairTest:
    """Permute the speakers over the groups."""
    values, starts = of_speakers(sums, denominator)
    (logs,), (errors,) = logs_and_errors(values[:, None, :], starts)
    totals = np.add.reduceat(values, starts, axis=-1)
    rates_of_groups = totals[0] / totals[1]
    # Half an error in a small group is no higher rate than a real one.
    least = logs[rates_of_groups > 0].min()
    logs = np.where(rates_of_groups > 0, logs, np.minimum(logs, least))
    pairs = _Pairs(*np.triu_indices(len(sums), 1))
    observed = pairs.statistics(logs[None], errors[None])[0]
    largest = _largest_of_permuted(values, starts, pairs)
    p_of_pairs = (len(largest) - np.searchsorted(largest, observed) + 1) / (_PERMUTATIONS + 1)
    # p is below 0.05 for a statistic above this one.
    critical = float(largest[_PERMUTATIONS + 1 - ceil(ALPHA * (_PERMUTATIONS + 1))])
    pair = _shown_pair(rates_of_groups, observed, p_of_pairs, pairs)
    places = (pairs.ones[pair], pairs.others[pair])
    shown = sorted(places, key=lambda place: -rates_of_groups[place])
    worst, best = shown
    return PairTest(
        worst=labels[worst],
        best=labels[best],
        difference=float(rates_of_groups[worst] - rates_of_groups[best]),
        interval=_interval(rates_of_groups[shown], logs[shown], errors[shown], critical),
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
