"""The gap: which groups differ in WER, by how much, and what it would take to show it.

Logarithms of rates are compared, because rates vary by factors, for all pairs of groups at once.

Where a speaker is in one group (dialect, gender), the standard error of a group is that of the
speakers around their group's rate, pooled over all groups, so that groups of a few speakers take
part. The critical value is the 95 % quantile of the largest statistic of any pair when the speakers
are permuted over the groups (Westfall and Young, Resampling-Based Multiple Testing, 1993).

Where speakers are in several groups (noise, duration), the jackknife leaves a speaker out of all
groups at once, so that what is difficult about a speaker cancels out. The critical value is that of
Student's t, adjusted for the number of pairs (Bonferroni). A group without errors has no spread;
the variance of its logarithm is that of half an error by Poisson's distribution, 2.

Few errors say nothing about groups: nothing is compared below 8 speakers with errors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import ceil, exp, nan
from typing import Any, Final, NamedTuple

import numpy as np

from danish_asr.base.schema import MIN_SPEAKERS
from danish_asr.scoring.intervals import (
    ALIKE,
    ALPHA,
    Estimate,
    Interval,
    Needs,
    Spread,
    needs,
    spreads,
    t_above,
    t_quantile,
)
from danish_asr.scoring.pooled import (
    errors_and_lengths,
    logs_and_errors,
    of_speakers,
    share_speakers,
    takes_part,
)
from danish_asr.scoring.scored_rows import FloatArray, GroupSums, IntArray
from danish_asr.scoring.settings import Settings

MOST_GROUPS: Final = 100  # whose pairs are compared
_PERMUTATIONS: Final = 1_999
_NO_ERROR: Final = 2.0  # the variance of the logarithm of half an error
_NUMBERS: Final = 2_000_000  # of permuted speakers at a time, which bounds the memory


class Pair(NamedTuple):
    """Two groups that differ; ``p`` is adjusted over all pairs."""

    worse: str
    better: str
    p: float


@dataclass(frozen=True, slots=True)
class Gap:
    """The groups with the highest and the lowest WER, or the two that differ most clearly.

    Those are others where a group with an extreme rate has too few speakers.
    """

    worst: str
    best: str
    groups: int  # that were compared
    wer: Estimate  # of the worst
    difference: Estimate  # its interval excludes 0 exactly if p is below 0.05
    ratio: Estimate  # none if the best has no errors
    p: float  # that no two groups differ so clearly by chance
    paired: bool  # the same speakers are in several groups
    pairs: Sequence[Pair]  # all that differ
    extreme: bool  # they are those with the highest and the lowest WER
    needs: Needs

    @property
    def resolved(self) -> bool:
        """Whether the groups differ."""
        return self.p < ALPHA

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data: dict[str, Any] = {"worst": self.worst, "best": self.best, "groups": self.groups}
        data |= {name: getattr(self, name).to_dict() for name in ("wer", "difference", "ratio")}
        data |= {"p": self.p, "paired": self.paired, "extreme": self.extreme}
        data |= self.needs._asdict()
        return data | {"pairs": [pair._asdict() for pair in self.pairs]}


class _Compared(NamedTuple):
    """Groups with what their pairs need; arrays are (groups,) or (groups, groups)."""

    labels: Sequence[str]
    logs: FloatArray  # of the rates; no error counts as half of one, at most as the next rate
    rates: FloatArray
    errors: FloatArray  # the standard error of each logarithm
    log_errors: FloatArray  # of the differences of the logarithms
    rate_errors: FloatArray  # of the differences of the rates
    critical: FloatArray  # how many standard errors a difference must have
    p: FloatArray  # of each pair, adjusted
    speakers: IntArray


def estimate_gap(groups: Sequence[GroupSums], settings: Settings) -> Gap | None:
    """Compare all pairs of groups; None below two groups that can be compared."""
    paired = share_speakers(groups)
    own = {group.label: spreads(group, settings)[0] for group in groups}
    if paired:
        groups = [group for group in groups if _is_resolvable(own[group.label])]
    else:
        groups = [group for group in groups if takes_part(group)]
    if not 2 <= len(groups) <= MOST_GROUPS:
        return None
    if _speakers_with_errors(groups, settings) < MIN_SPEAKERS:
        return None
    compared = (_by_jackknife if paired else _by_permutation)(groups, settings)
    if compared is None:
        return None
    worst, best = _most_telling(compared)
    value = compared.logs[worst] - compared.logs[best]
    reach = compared.critical[worst, best] * compared.log_errors[worst, best]
    ratio = Interval(exp(value - reach), exp(value + reach))
    difference = compared.rates[worst] - compared.rates[best]
    of_worst, p = own[groups[worst].label], float(compared.p[worst, best])
    no_ratio = "the best group has no errors"
    limits = None if of_worst.not_resolvable else of_worst.limits(ALPHA / len(groups))
    return Gap(
        worst=compared.labels[worst],
        best=compared.labels[best],
        groups=len(groups),
        wer=Estimate(of_worst.value, limits, of_worst.not_resolvable),
        difference=Estimate(float(difference), _difference_limits(compared, worst, best, ratio)),
        ratio=Estimate(exp(value), ratio)
        if compared.rates[best]
        else Estimate(nan, None, no_ratio),
        p=p,
        paired=paired,
        pairs=[*_pairs_that_differ(compared)],
        extreme=bool(difference >= np.ptp(compared.rates)),
        needs=needs(
            float(difference),
            float(compared.critical[worst, best]),
            float(compared.rate_errors[worst, best]),
            int(compared.speakers[[worst, best]].sum()) // (2 if paired else 1),
        ),
    )


def _is_resolvable(spread: Spread) -> bool:
    no_errors = spread.value == 0 and spread.not_resolvable == ALIKE
    return no_errors or not spread.not_resolvable


def _speakers_with_errors(groups: Sequence[GroupSums], settings: Settings) -> int:
    names: set[str | None] = set()
    for group in groups:
        errors, _ = errors_and_lengths(group.sums, settings)
        names |= {name for name, own in zip(group.speakers, errors, strict=True) if own}
    return len(names)


def _most_telling(compared: _Compared) -> tuple[int, int]:
    """Return the worst and the best group, or the two that differ while those do not."""
    worst, best = int(compared.rates.argmax()), int(compared.rates.argmin())
    if compared.p[worst, best] >= ALPHA > compared.p.min():
        statistics = np.abs(compared.logs[:, None] - compared.logs) / compared.log_errors
        statistics[compared.p >= ALPHA] = 0
        one, other = np.unravel_index(int(statistics.argmax()), statistics.shape)
        worst, best = sorted((int(one), int(other)), key=lambda n: -float(compared.logs[n]))
    elif worst == best:
        worst, best = 0, 1
    return worst, best


def _pairs_that_differ(compared: _Compared) -> Iterator[Pair]:
    order = np.argsort(-compared.logs)
    for worse, better in combinations(order.tolist(), 2):
        p = float(compared.p[worse, better])
        if p < ALPHA:
            yield Pair(compared.labels[worse], compared.labels[better], p)


def _difference_limits(compared: _Compared, worst: int, best: int, ratio: Interval) -> Interval:
    """Return limits in points, which exclude 0 exactly if those of the ratio exclude 1.

    A best group of at least b and a ratio of at least r make a difference of at least b (r - 1).
    """
    difference = float(compared.rates[worst] - compared.rates[best])
    critical = float(compared.critical[worst, best])
    reach = critical * float(compared.rate_errors[worst, best])
    low = difference - reach
    if ratio.low > 1:
        least_best = exp(compared.logs[best] - critical * compared.errors[best])
        low = max(low, least_best * (ratio.low - 1))
    else:
        low = min(low, 0.0)
    return Interval(low, difference + reach)


def _by_permutation(groups: Sequence[GroupSums], settings: Settings) -> _Compared | None:
    values, starts = of_speakers(groups, settings)
    own = logs_and_errors(values[:, None, :], starts)
    if own is None:
        return None
    rates, (logs,), (deviations,) = _rates(groups, settings), *own
    logs = _no_higher(logs, rates)
    ones, others = np.triu_indices(len(groups), 1)

    def statistics(logs: FloatArray, deviations: FloatArray) -> FloatArray:
        of_pairs = np.hypot(deviations[:, ones], deviations[:, others])
        return np.abs(logs[:, ones] - logs[:, others]) / of_pairs  # type: ignore[no-any-return]

    generator = np.random.default_rng(0)
    largest: list[FloatArray] = []
    at_a_time = max(1, _NUMBERS // max(values.shape[1], len(ones)))
    for begin in range(0, _PERMUTATIONS, at_a_time):
        count = min(at_a_time, _PERMUTATIONS - begin)
        order = generator.permuted(np.tile(np.arange(values.shape[1]), (count, 1)), axis=1)
        permuted = logs_and_errors(values[:, order], starts)
        if permuted is not None:
            largest.append(statistics(*permuted).max(axis=1))
    permuted_largest = np.sort(np.concatenate(largest))
    observed = statistics(logs[None], deviations[None])[0]
    above = len(permuted_largest) - np.searchsorted(permuted_largest, observed)
    p = np.ones((len(groups), len(groups)))
    p[ones, others] = p[others, ones] = (above + 1) / (len(permuted_largest) + 1)
    # p is below 0.05 for a statistic above this one.
    draws = len(permuted_largest)
    critical = permuted_largest[draws + 1 - ceil(ALPHA * (draws + 1))]
    rate_errors = np.exp(logs) * deviations
    return _Compared(
        labels=[group.label for group in groups],
        logs=logs,
        rates=rates,
        errors=deviations,
        log_errors=np.hypot(deviations[:, None], deviations),
        rate_errors=np.hypot(rate_errors[:, None], rate_errors),
        critical=np.full_like(p, critical),
        p=p,
        speakers=np.diff([*starts, values.shape[1]]),
    )


def _by_jackknife(groups: Sequence[GroupSums], settings: Settings) -> _Compared | None:
    names = sorted(set(chain(*(group.speakers for group in groups))), key=lambda name: name or "")
    place = {name: number for number, name in enumerate(names)}
    rates, logs = _rates(groups, settings), np.empty(len(groups))
    without_one = np.empty((len(groups), len(names)))
    for number, group in enumerate(groups):
        errors, lengths = errors_and_lengths(group.sums, settings)
        without_one[number] = max(errors.sum(), 0.5) / lengths.sum()
        logs[number] = np.log(without_one[number, 0])
        left = np.maximum(lengths.sum() - lengths, 1)
        at = [place[name] for name in group.speakers]
        without_one[number, at] = np.maximum(errors.sum() - errors, 0.5) / left
    unknown = np.where(rates > 0, 0, _NO_ERROR)
    log_errors = _difference_errors(np.log(without_one), unknown)
    if not (log_errors[np.triu_indices(len(groups), 1)] > 1e-12).all():
        return None
    logs = _no_higher(logs, rates)
    freedoms = np.array([spreads(group, settings)[0].freedom for group in groups])
    pairs = len(groups) * (len(groups) - 1) / 2
    critical, p = np.ones_like(log_errors), np.ones_like(log_errors)
    for one, other in combinations(range(len(groups)), 2):
        freedom = min(freedoms[one], freedoms[other])
        statistic = abs(logs[one] - logs[other]) / log_errors[one, other]
        critical[one, other] = critical[other, one] = t_quantile(1 - ALPHA / 2 / pairs, freedom)
        p[one, other] = p[other, one] = min(1, 2 * pairs * t_above(statistic, freedom))
    return _Compared(
        labels=[group.label for group in groups],
        logs=logs,
        rates=rates,
        errors=np.sqrt((len(names) - 1) * np.log(without_one).var(axis=1) + unknown),
        log_errors=log_errors,
        rate_errors=_difference_errors(without_one, unknown * np.exp(2 * logs)),
        critical=critical,
        p=p,
        speakers=np.array([len(group.speakers) for group in groups]),
    )


def _rates(groups: Sequence[GroupSums], settings: Settings) -> FloatArray:
    totals = [errors_and_lengths(group.sums, settings) for group in groups]
    return np.array([errors.sum() / lengths.sum() for errors, lengths in totals])


def _no_higher(logs: FloatArray, rates: FloatArray) -> FloatArray:
    """Return the logarithms with half an error, in a small group, no higher than a real rate."""
    return np.where(rates > 0, logs, np.minimum(logs, logs[rates > 0].min()))


def _difference_errors(without_one: FloatArray, more: FloatArray) -> FloatArray:
    """Return the jackknife's standard error of each difference of two groups.

    ``more`` is added to the variance of each group.
    """
    speakers = without_one.shape[1]
    covariance = (speakers - 1) * np.cov(without_one, bias=True)
    covariance += np.diag(more)
    variances = np.diag(covariance)
    errors = np.sqrt(np.maximum(variances[:, None] + variances - 2 * covariance, 0))
    np.fill_diagonal(errors, np.inf)  # a group does not differ from itself
    return errors  # type: ignore[no-any-return]
