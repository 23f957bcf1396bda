"""95 % intervals over speakers, and the reason where there are too few speakers for one.

Utterances of one speaker are alike, so an observation is a speaker (Liu and Peng, Interspeech
2020). The variance of a rate is that of the delete-one-speaker jackknife (the cluster jackknife:
MacKinnon, Nielsen and Webb, Journal of Applied Econometrics 38, 2023). The interval is Student's t
around the logarithm of the rate, which is less skewed. Its degrees of freedom are those of the
effective number of speakers, (sum of words)^2 / sum of (words^2) (Kish, Survey Sampling, 1965),
minus one, because a speaker with more words counts for more.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import atan, ceil, exp, floor, isnan, pi, sqrt, tan
from typing import Any, Final, NamedTuple

import numpy as np

from danish_asr.base.schema import MIN_EFFECTIVE, MIN_SPEAKERS
from danish_asr.metrics import (
    NUMBERS_PER_METRIC,
    REFERENCE_WORDS,
    WORD_COUNTS,
    reference_of_metric,
)
from danish_asr.scoring.scored_rows import FloatArray, GroupSums, IntArray
from danish_asr.scoring.settings import Settings

ALPHA: Final = 0.05  # one minus the level of the intervals

# Below this and those of ``base.schema`` there is no interval (``benchmarks/intervals.py``).
MIN_WORDS: Final = 100

ALIKE: Final = "every speaker has the same value"


class Interval(NamedTuple):
    """Where the rate would be for other speakers of the same kind, at 95 %."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate or a difference of rates, as a fraction, with its interval or why it has none."""

    value: float
    interval: Interval | None = None
    not_resolvable: str | None = None
    utterances: Interval | None = None  # for other utterances of the same speakers, if requested

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as in the JSON files."""
        data: dict[str, Any] = {"value": None if isnan(self.value) else self.value}
        if self.interval is None:
            data["not_resolvable"] = self.not_resolvable
        else:
            data |= self.interval._asdict()
        if self.utterances is not None:
            data["utterances"] = self.utterances._asdict()
        return data


def rates(sums: IntArray | FloatArray, settings: Settings) -> FloatArray:
    """Return the rate of each metric, (metrics, ...), of sums (..., counts).

    NaN without a unit in the reference.
    """
    metrics = len(settings.all_metrics)
    counts = sums[..., 1:].reshape(*sums.shape[:-1], metrics, NUMBERS_PER_METRIC)
    hits, substitutions, deletions, insertions = np.moveaxis(counts, (-1, -2), (0, 1))
    reference = hits + substitutions + deletions
    length = reference + (insertions if settings.denominator == "coral" else 0)
    errors = substitutions + deletions + insertions
    for number, metric in enumerate(settings.all_metrics):
        if not metric.lower_is_better:
            errors[number] = hits[number]
    return np.where(reference > 0, errors / np.maximum(length, 1), np.nan)


class Spread(NamedTuple):
    """A rate of a group, or a difference of two runs, and how much it varies with the speakers."""

    value: float
    deviation: float  # the standard error, by the jackknife
    freedom: float  # of the t distribution
    not_resolvable: str | None
    over_seeds: float = 0.0  # the part of the variance that more speakers do not make smaller

    def limits(self, alpha: float = ALPHA) -> Interval:
        """Return the interval of a rate at level ``1 - alpha``."""
        factor = exp(self._reach(alpha) / self.value)
        return Interval(self.value / factor, self.value * factor)

    def around(self, alpha: float = ALPHA) -> Interval:
        """Return the interval of a difference at level ``1 - alpha``."""
        reach = self._reach(alpha)
        return Interval(self.value - reach, self.value + reach)

    def _reach(self, alpha: float) -> float:
        return t_quantile(1 - alpha / 2, self.freedom) * self.deviation

    def needs(self, speakers: int, alpha: float = ALPHA) -> "Needs":
        """Return what it would take to show this difference of two runs."""
        critical = t_quantile(1 - alpha / 2, self.freedom)
        return needs(self.value, critical, self.deviation, speakers, self.over_seeds)

    def p_value(self) -> float:
        """Return the two-sided p-value of no difference."""
        return 2 * t_above(abs(self.value) / self.deviation, self.freedom)


def spreads(
    group: GroupSums, settings: Settings, baseline: GroupSums | None = None
) -> list[Spread]:
    """Return the spread of each metric of a group, or of its difference from ``baseline``."""
    values, without_one = _jackknife(group, settings)
    if baseline is not None:
        baseline_values, baseline_without_one = _jackknife(baseline, settings)
        values = values - baseline_values
        without_one = without_one - baseline_without_one
    speakers = len(group.speakers)
    freedom = _effective_speakers(group) - 1
    result: list[Spread] = []
    for number, metric in enumerate(settings.all_metrics):
        deviation = sqrt(speakers - 1) * float(without_one[number].std())
        units = float(group.sums[:, reference_of_metric(number)].sum())
        reason = _why_not_resolvable(group, deviation, units, metric.unit)
        result.append(Spread(values[number].item(), deviation, freedom, reason))
    return result


def _effective_speakers(group: GroupSums) -> float:
    """Return how many speakers with equally many words would count for as much (Kish 1965)."""
    words = group.sums[:, REFERENCE_WORDS].sum(axis=1).astype(float)
    return float(words.sum() ** 2 / max((words**2).sum(), 1))


def _jackknife(group: GroupSums, settings: Settings) -> tuple[FloatArray, FloatArray]:
    """Return rates over all speakers, (metrics,), and without each one, (metrics, speakers)."""
    total = group.sums.sum(axis=0)
    without_one = rates(total - group.sums, settings)
    return rates(total, settings), without_one


def _why_not_resolvable(  # noqa: PLR0911 - a reason each
    group: GroupSums, deviation: float, units: float, unit: str
) -> str | None:
    if not group.known_speakers:
        return "the speakers are unknown"
    speakers = len(group.speakers)
    if speakers < MIN_SPEAKERS:
        return f"{speakers} speaker{'s' if speakers > 1 else ''}, {MIN_SPEAKERS} needed"
    words = group.sums[:, REFERENCE_WORDS].sum()
    if words < MIN_WORDS:
        return f"{words:.0f} words, {MIN_WORDS} needed"
    if units < MIN_WORDS:
        return f"{units:.0f} {unit}, {MIN_WORDS} needed"
    effective = _effective_speakers(group)
    if effective < MIN_EFFECTIVE:
        count = floor(10 * effective) / 10
        return f"words as of {count} equal speakers, {MIN_EFFECTIVE} needed: few have most of them"
    if isnan(deviation):
        return f"one speaker has all {unit}"
    if deviation < 1e-12:
        return ALIKE
    return None


def estimate_rates(group: GroupSums, settings: Settings) -> list[Estimate]:
    """Return the rate of each metric of a group."""
    utterances = _utterance_intervals(group, settings)
    estimates: list[Estimate] = []
    for spread, interval in zip(spreads(group, settings), utterances, strict=True):
        limits = None if spread.not_resolvable else spread.limits()
        estimates.append(Estimate(spread.value, limits, spread.not_resolvable, interval))
    return estimates


def words_and_errors(group: GroupSums) -> float | None:
    """Return the rank correlation of the speakers' words and WER if it is above 0, at 95 %.

    Where those who say more have more errors, the intervals are too narrow.
    """
    hits, substitutions, deletions, insertions = group.sums[:, WORD_COUNTS].T
    words = hits + substitutions + deletions
    ranks = [_ranks(words), _ranks((substitutions + deletions + insertions) / np.maximum(words, 1))]
    if len(words) < MIN_SPEAKERS or min(map(np.ptp, ranks)) == 0:
        return None
    correlation = float(np.corrcoef(ranks)[0, 1])
    freedom = len(words) - 2
    if correlation <= 0:
        return None
    statistic = correlation * sqrt(freedom / max(1 - correlation**2, 1e-12))
    return correlation if t_above(statistic, freedom) < ALPHA / 2 else None


def _ranks(values: FloatArray | IntArray) -> FloatArray:
    """Return ranks; equal values have their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


class Needs(NamedTuple):
    """What it would take to show a difference in four of five such splits (a power of 80 %)."""

    smallest_detectable: float  # the difference that so many speakers show
    speakers_needed: int | None
    """To show the difference that was found; None if it is 0, or the seeds alone vary too much."""


_POWER: Final = 0.8416
"""The 80 % quantile of the normal distribution."""


def needs(
    difference: float, critical: float, deviation: float, speakers: int, over_seeds: float = 0.0
) -> Needs:
    """Return what a difference needs; more speakers shrink its variance but ``over_seeds``."""
    reach = critical + _POWER
    allowed = difference**2 - reach**2 * over_seeds
    if allowed <= 0:
        return Needs(reach * deviation, None)
    shrinks = reach**2 * (deviation**2 - over_seeds)
    return Needs(reach * deviation, ceil(speakers * shrinks / allowed))


def _utterance_intervals(group: GroupSums, settings: Settings) -> list[Interval | None]:
    """Percentiles of resampled utterances (Bisani and Ney, ICASSP 2004), given these speakers."""
    if not settings.resamples:
        return [None] * len(settings.all_metrics)
    generator = np.random.default_rng(settings.seed)
    in_order = group.rows[np.lexsort(group.rows.T[::-1])]  # any order of the file's rows
    drawn = resample_sums(in_order, settings.resamples, generator)
    intervals: list[Interval | None] = []
    for values in rates(drawn, settings):
        known = values[~np.isnan(values)]  # a drawn set may have no words
        ends = np.quantile(known, [ALPHA / 2, 1 - ALPHA / 2]).tolist() if len(known) else None
        intervals.append(Interval(*ends) if ends else None)
    return intervals


def resample_sums(sums: IntArray, resamples: int, generator: np.random.Generator) -> FloatArray:
    """Return sums over drawn rows, (resamples, columns), of ``sums`` (rows, columns)."""
    rows = len(sums)
    chunk = max(1, 2_000_000 // rows)  # bounds the memory
    exact = sums.astype(np.float64)  # sums below 2**53 stay exact
    chunks: list[FloatArray] = []
    for begin in range(0, resamples, chunk):
        size = min(chunk, resamples - begin)
        drawn = generator.integers(0, rows, (size, rows))
        drawn += rows * np.arange(size)[:, None]
        times = np.bincount(drawn.reshape(-1), minlength=size * rows).reshape(size, rows)
        chunks.append(times @ exact)
    return np.concatenate(chunks)


def t_quantile(probability: float, freedom: float) -> float:
    """Return a quantile, of 0.5 or more, of Student's t; ``freedom`` need not be whole."""
    angles, above = _student(freedom)
    return sqrt(freedom) * tan(float(np.interp(1 - probability, above[::-1], angles[::-1])))


def t_above(quantile: float, freedom: float) -> float:
    """Return the probability above a quantile of 0 or more."""
    return float(np.interp(atan(quantile / sqrt(freedom)), *_student(freedom)))


@lru_cache(maxsize=1_000)
def _student(freedom: float) -> tuple[FloatArray, FloatArray]:
    """Angles, and the probability that t is above sqrt(freedom) * tan(angle).

    Its density over the angle is proportional to cos(angle) ** (freedom - 1).
    """
    angles, step = np.linspace(0, pi / 2, 20_001, retstep=True)
    density = np.cos(angles[:-1] + step / 2) ** (freedom - 1)
    above = np.cumsum(density[::-1])[::-1]  # from the tail, so that small probabilities are exact
    return angles, np.append(above, 0) / (2 * above[0])
