"""95 % intervals over speakers, and the reason where there are too few speakers for one.

Utterances of one speaker are alike, so an observation is a speaker (Liu and Peng, Interspeech
2020). The variance of a rate is that of the delete-one-speaker jackknife (the cluster jackknife:
MacKinnon, Nielsen and Webb, Journal of Applied Econometrics 38, 2023). The interval is Student's t
around the logarithm of the rate, which is less skewed. Its degrees of freedom are those of the
effective number of speakers, (sum of words)^2 / sum of (words^2) (Kish, Survey Sampling, 1965),
minus one, because a speaker with more words counts for more.

Differences of groups come from the limits of both (MOVER: Zou and Donner, Statistics in Medicine
27, 2008), at a level that accounts for the choice of the groups (Bonferroni).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import atan, exp, hypot, log, pi, sqrt, tan
from typing import Any, Final, NamedTuple

import numpy as np

from danish_asr.scoring.scored_rows import FloatArray, GroupSums, IntArray, rates
from danish_asr.scoring.settings import Settings

ALPHA: Final = 0.05
"""One minus the level of the intervals."""

MIN_SPEAKERS: Final = 8
"""Fewer speakers give no interval (``benchmarks/intervals.py``)."""

MIN_WORDS: Final = 100
"""Fewer words of the reference give no interval."""

MAX_SHARE: Final = 0.5
"""A speaker with a larger share of a group's words dominates its rate; no interval then."""


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


def to_plain(scores: Any) -> dict[str, Any]:
    """Return a dataclass of scores as plain data, as in the JSON files."""
    return asdict(scores, dict_factory=_plain)


def _plain(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    data = {name: None if value != value else value for name, value in fields}  # noqa: PLR0124 - NaN
    data.pop("label", None)
    if "interval" in data:
        interval, reason = data.pop("interval"), data.pop("not_resolvable")
        utterances = data.pop("utterances")
        data |= {"not_resolvable": reason} if interval is None else interval._asdict()
        if utterances is not None:
            data["utterances"] = utterances._asdict()
    return data


class Spread(NamedTuple):
    """A rate of a group, or a difference of two runs, and how much it varies with the speakers."""

    value: float
    deviation: float
    """The standard error, by the jackknife."""

    freedom: float
    """Degrees of freedom of the t distribution."""

    not_resolvable: str | None

    def limits(self, alpha: float = ALPHA) -> Interval:
        """Return the interval of a rate at level ``1 - alpha``."""
        factor = exp(self._reach(alpha) / self.value)
        return Interval(self.value / factor, self.value * factor)

    def around(self) -> Interval:
        """Return the interval of a difference."""
        reach = self._reach(ALPHA)
        return Interval(self.value - reach, self.value + reach)

    def _reach(self, alpha: float) -> float:
        return t_quantile(1 - alpha / 2, self.freedom) * self.deviation

    def p_value(self) -> float:
        """Return the two-sided p-value of no difference."""
        return 2 * t_above(abs(self.value) / self.deviation, self.freedom)


def spreads(group: GroupSums, settings: Settings) -> list[Spread]:
    """Return the spread of WER and CER of a group; of two paired runs, that of B minus A."""
    runs = group.sums.shape[1] // 9
    total = group.sums.sum(axis=0)
    each = [
        rates(sums.reshape(-1, runs, 9), settings.denominator)
        for sums in (total, total - group.sums)
    ]
    if runs == 2:
        each = [np.diff(values) for values in each]
    speakers = len(group.speakers)
    words = group.sums[:, 1:4].sum(axis=1).astype(float)
    freedom = words.sum() ** 2 / max((words**2).sum(), 1) - 1
    found: list[Spread] = []
    for value, without_one in zip(*each, strict=True):
        deviation = sqrt(speakers - 1) * float(without_one.std())
        reason = why_not_resolvable(group, deviation)
        found.append(Spread(value.item(), deviation, freedom, reason))
    return found


def why_not_resolvable(group: GroupSums, deviation: float) -> str | None:
    """Return why a group's speakers cannot give an interval, or None if they can."""
    if not group.known_speakers:
        return "the speakers are unknown"
    speakers = len(group.speakers)
    if speakers < MIN_SPEAKERS:
        return f"{speakers} speaker{'s' if speakers > 1 else ''}, {MIN_SPEAKERS} needed"
    words = group.sums[:, 1:4].sum(axis=1)
    if words.sum() < MIN_WORDS:
        return f"{words.sum():.0f} words, {MIN_WORDS} needed"
    share = words.max() / words.sum()
    if share > MAX_SHARE:
        return f"one speaker has {100 * share:.0f} % of the words"
    if deviation < 1e-12:
        return "every speaker has the same value"
    return None


def estimate_rates(group: GroupSums, settings: Settings) -> list[Estimate]:
    """Return WER and CER of a group."""
    utterances = _utterance_intervals(group, settings)
    return [
        Estimate(
            spread.value,
            None if spread.not_resolvable else spread.limits(),
            spread.not_resolvable,
            utterance,
        )
        for spread, utterance in zip(spreads(group, settings), utterances, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Gap:
    """The groups with the highest and the lowest WER, of those that have an interval.

    All three intervals hold together whichever groups turn out to be the worst and the best.
    """

    worst: str
    best: str
    groups: int  # that were compared
    wer: Estimate  # of the worst
    difference: Estimate
    ratio: Estimate


def estimate_gap(groups: Sequence[GroupSums], settings: Settings) -> Gap | None:
    """Compare the worst with the best of the groups that can be resolved; None below two groups."""
    found = [(spreads(group, settings)[0], group.label) for group in groups]
    found = [(spread, label) for spread, label in found if not spread.not_resolvable]
    if len(found) < 2:
        return None
    (best, best_label), (worst, worst_label) = min(found), max(found)
    difference, ratio = worst.value - best.value, worst.value / best.value
    alpha = ALPHA / (len(found) * (len(found) - 1) / 2)
    (low, high), (best_low, best_high) = worst.limits(alpha), best.limits(alpha)
    factor = exp(hypot(log(high / worst.value), log(best_high / best.value)))
    least = difference - hypot(worst.value - low, best_high - best.value)
    least_ratio = ratio / factor
    if least <= 0 or least_ratio <= 1:  # both say the same
        least, least_ratio = min(least, 0), min(least_ratio, 1)
    most = difference + hypot(high - worst.value, best.value - best_low)
    return Gap(
        worst_label,
        best_label,
        len(found),
        Estimate(worst.value, worst.limits(ALPHA / len(found))),
        Estimate(difference, Interval(least, most)),
        Estimate(ratio, Interval(least_ratio, ratio * factor)),
    )


def _utterance_intervals(group: GroupSums, settings: Settings) -> list[Interval | None]:
    """Percentiles of resampled utterances (Bisani and Ney, ICASSP 2004), given these speakers."""
    if not settings.resamples:
        return [None, None]
    generator = np.random.default_rng(settings.seed)
    drawn = resample_sums(np.array(sorted(group.rows)), settings.resamples, generator)
    found = rates(drawn, settings.denominator)
    known = [values[~np.isnan(values)] for values in found]  # a drawn set may have no words
    ends = [ALPHA / 2, 1 - ALPHA / 2]
    return [
        Interval(*map(float, np.quantile(values, ends))) if len(values) else None
        for values in known
    ]


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
