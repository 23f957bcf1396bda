"""95 % intervals over speakers, and the reason where there are too few speakers for one.

In: `COUNTS` summed by speaker. Out: rates with intervals. Utterances of a speaker are alike, so an
observation is a speaker (Liu and Peng, Interspeech 2020). The variance of a rate is that of the
delete-one-speaker jackknife (the cluster jackknife: MacKinnon, Nielsen and Webb, Journal of Applied
Econometrics 38, 2023). The interval is Student's t around the logarithm of the rate, which is less
skewed. Its degrees of freedom are those of the effective number of speakers, (sum of words)^2 / sum
of (words^2) (Kish, Survey Sampling, 1965), minus one: a speaker with more words counts for more.

Groups of 3 to 7 speakers have a pooled interval: a speaker's relative deviation from the rate of
the group is assumed to vary equally in all groups. The rate is the group's own: shrinking it
towards the others' narrows the interval, but hides the one group that differs
(``benchmarks/intervals.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, floor, sqrt
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import stdtr, stdtrit

from danish_asr.base.schema import MIN_EFFECTIVE, MIN_SPEAKERS
from danish_asr.metrics import Counts, Denominator

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

WORD_COUNTS: Final = tuple(f"word_{kind}" for kind in Counts._fields)
CHARACTER_COUNTS: Final = tuple(f"character_{kind}" for kind in Counts._fields)
COUNTS: Final = (*WORD_COUNTS, *CHARACTER_COUNTS)
"""Columns of integers that add up."""

REFERENCE_WORDS: Final = WORD_COUNTS[:3]
"""Columns whose sum is the number of words in the reference: all but the insertions."""

ALPHA: Final = 0.05
"""One minus the level of the intervals."""

MIN_WORDS: Final = 100
"""Words below which there is no interval (``benchmarks/intervals.py``)."""

FEWEST: Final = 3
"""Speakers of a group from which on it has a pooled interval and is compared with others."""

RATES: Final = ("wer", "cer")
_SHARED: Final = 0.05  # of the speakers may be in a second group, by a wrong label perhaps


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


def rates(counts: FloatArray | IntArray, denominator: Denominator) -> FloatArray:
    """Return WER and CER, (2, ...), of counts (..., 8); NaN without a unit in the reference."""
    parts = counts.reshape(*counts.shape[:-1], len(RATES), 4)
    hits, substitutions, deletions, insertions = np.moveaxis(parts, (-1, -2), (0, 1))
    reference = hits + substitutions + deletions
    length = reference + (insertions if denominator == "coral" else 0)
    errors = substitutions + deletions + insertions
    return np.where(reference > 0, errors / np.maximum(length, 1), np.nan)


class Spread(NamedTuple):
    """A rate of a group, or a difference of two runs, and how much it varies with the speakers."""

    value: float
    deviation: float  # the standard error, by the jackknife
    freedom: float  # of the t distribution
    not_resolvable: str | None

    def limits(self) -> Interval:
        """Return the interval of a rate."""
        factor = exp(self._reach() / self.value)
        return Interval(self.value / factor, self.value * factor)

    def around(self) -> Interval:
        """Return the interval of a difference."""
        reach = self._reach()
        return Interval(self.value - reach, self.value + reach)

    def _reach(self) -> float:
        return t_quantile(1 - ALPHA / 2, self.freedom) * self.deviation

    def p_value(self) -> float:
        """Return the two-sided p-value of no difference."""
        return float(2 * stdtr(self.freedom, -abs(self.value) / self.deviation))


def spreads(
    sums: pd.DataFrame, denominator: Denominator, baseline: pd.DataFrame | None = None
) -> list[Spread]:
    """Return the spread of WER and of CER, or of their differences from ``baseline``.

    ``sums`` has a line of `COUNTS` per speaker, as `Group.by_speaker` returns it.
    """
    estimates = _jackknife(sums, denominator)
    if baseline is not None:
        estimates = estimates - _jackknife(baseline, denominator)
    words = words_of(sums)
    effective = float(words.sum() ** 2 / max((words**2).sum(), 1))  # speakers, by Kish
    of_rates: list[Spread] = []
    for value, *without_one in estimates:
        deviation = sqrt(len(sums) - 1) * float(np.std(without_one))
        reason = _why_not_resolvable(sums, effective, deviation)
        of_rates.append(Spread(float(value), deviation, effective - 1, reason))
    return of_rates


def _jackknife(sums: pd.DataFrame, denominator: Denominator) -> FloatArray:
    """Return the rates over all speakers, then those without each one, (2, 1 + speakers)."""
    counts = sums[[*COUNTS]].to_numpy()
    total = counts.sum(axis=0)
    return rates(np.vstack([total, total - counts]), denominator)


def named_speakers(sums: pd.DataFrame) -> int:
    """Return the number of speakers with a name."""
    return int(np.count_nonzero(sums.index.notna()))


def words_of(sums: pd.DataFrame) -> FloatArray:
    """Return the words of each speaker in the references."""
    words: FloatArray = sums[[*REFERENCE_WORDS]].to_numpy(float).sum(axis=1)
    return words


def _why_not_resolvable(sums: pd.DataFrame, effective: float, deviation: float) -> str | None:
    if not named_speakers(sums):
        return "the speakers are unknown"
    speakers, words = len(sums), words_of(sums).sum()
    if speakers < MIN_SPEAKERS:
        return f"{speakers} speaker{'s' if speakers > 1 else ''}, {MIN_SPEAKERS} needed"
    if words < MIN_WORDS:
        return f"{words:.0f} words, {MIN_WORDS} needed"
    if effective < MIN_EFFECTIVE:
        count = floor(10 * effective) / 10
        return f"words as of {count} equal speakers, {MIN_EFFECTIVE} needed: few have most of them"
    if deviation < 1e-12:
        return "every speaker has the same value"
    return None


def estimate_rates(sums: pd.DataFrame, denominator: Denominator) -> list[Estimate]:
    """Return WER and CER of a group, whose ``sums`` are as for `spreads`."""
    estimates = []
    for spread in spreads(sums, denominator):
        reason = spread.not_resolvable
        estimates.append(Estimate(spread.value, None if reason else spread.limits(), reason))
    return estimates


def t_quantile(probability: float, freedom: float) -> float:
    """Return a quantile of Student's t; ``freedom`` need not be whole."""
    return float(stdtrit(freedom, probability))


def pooled_intervals(
    groups: Sequence[pd.DataFrame], denominator: Denominator
) -> list[Interval | None]:
    """Return 95 % intervals of WER of the groups that are too small for their own.

    A group whose speakers are all alike has none, and there are none without a shared spread.
    """
    intervals: list[Interval | None] = [None] * len(groups)
    places = [place for place, group in enumerate(groups) if takes_part(group)]
    chosen = [groups[place] for place in places]
    freedom = sum(map(len, chosen)) - len(chosen)
    if len(chosen) < 2 or freedom < MIN_SPEAKERS or share_speakers(chosen):
        return intervals
    values, starts = of_speakers(chosen, denominator)
    logs, errors = logs_and_errors(values[:, None, :], starts)
    if not errors.all():
        return intervals
    reach = t_quantile(1 - ALPHA / 2, freedom)
    for place, group, log, error in zip(places, chosen, logs[0], errors[0], strict=True):
        own_errors, lengths = errors_and_lengths(group, denominator)
        alike = np.allclose(own_errors * lengths.sum(), lengths * own_errors.sum())
        if len(group) < MIN_SPEAKERS and not alike:
            intervals[place] = Interval(exp(log - reach * error), exp(log + reach * error))
    return intervals


def share_speakers(groups: Sequence[pd.DataFrame]) -> bool:
    """Whether speakers are in several groups, so that groups are not independent."""
    times = pd.Index(np.concatenate([group.index.dropna() for group in groups])).value_counts()
    return bool(np.count_nonzero(times > 1) > _SHARED * len(times))


def takes_part(group: pd.DataFrame) -> bool:
    """Whether a group has enough speakers and words to be compared."""
    return named_speakers(group) >= FEWEST and bool(words_of(group).sum() >= MIN_WORDS)


def errors_and_lengths(sums: pd.DataFrame, denominator: Denominator) -> tuple[FloatArray, ...]:
    """Return the word errors of each speaker, and what they are divided by."""
    hits, substitutions, deletions, insertions = sums[[*WORD_COUNTS]].to_numpy(float).T
    lengths = hits + substitutions + deletions
    if denominator == "coral":
        lengths = lengths + insertions
    return substitutions + deletions + insertions, lengths


def of_speakers(
    groups: Sequence[pd.DataFrame], denominator: Denominator
) -> tuple[FloatArray, IntArray]:
    """Return what `logs_and_errors` takes, (5, speakers), and where each group begins."""
    errors, lengths = errors_and_lengths(pd.concat(groups), denominator)
    sizes = np.array([len(group) for group in groups])
    values = np.stack([errors, lengths, errors**2, errors * lengths, lengths**2])
    return values, np.cumsum(sizes) - sizes


def logs_and_errors(values: FloatArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms of the groups' rates and their standard errors, (draws, groups).

    ``values`` are errors, lengths, errors squared, errors times lengths, lengths squared, each
    (draws, speakers). No error counts as half of one, so that the logarithm is finite. A speaker's
    relative deviation from the group's rate has the same variance in all groups. Standard errors
    are 0 where all speakers of each group are equal.
    """
    errors, lengths, squares, products, squared_lengths = np.add.reduceat(values, starts, axis=-1)
    rates_of_groups = np.maximum(errors, 0.5) / lengths
    residuals = squares / rates_of_groups**2 - 2 * products / rates_of_groups + squared_lengths
    speakers, groups = values.shape[-1], len(starts)
    correction = speakers / max(speakers - groups, 1)
    pooled = residuals.sum(axis=-1) / squared_lengths.sum(axis=-1) * correction
    pooled = np.where(pooled > 1e-12, pooled, 0)
    return np.log(rates_of_groups), np.sqrt(pooled[:, None] * squared_lengths) / lengths
