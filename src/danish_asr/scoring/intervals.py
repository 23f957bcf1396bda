"""95 % intervals over speakers, and the reason where there are too few speakers for one.

In: `COUNTS` summed by speaker. Out: rates with intervals. Utterances of a speaker are alike, so an
observation is a speaker (Liu and Peng, Interspeech 2020). The variance of a rate is that of the
delete-one-speaker jackknife, around the mean of the rates without one (the cluster jackknife CV3J:
MacKinnon, Nielsen and Webb, Journal of Applied Econometrics 38, 2023). A rate is a regression on a
constant, weighted by words. The interval is Student's t around the logarithm of the rate, which is
less skewed; the standard error of the logarithm is that of the rate divided by the rate. Its
degrees of freedom are the effective number of speakers, (sum of words)^2 / sum of (words^2) (Kish,
Survey Sampling, 1965), minus one. That is a choice of this program: MacKinnon, Nielsen and Webb
take the speakers minus one, which is too many if a few of them have most of the words.

Groups of 3 to 7 speakers have a pooled interval: a speaker's relative deviation from the rate of
the group is assumed to vary equally in all groups. A group that spreads more than the others would
be covered too rarely, so its own interval is taken if that is wider. The rate is the group's own:
shrinking it towards the others' narrows the interval, but hides the one group that differs
(``benchmarks/intervals.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, floor, sqrt
from typing import Any, Final, NamedTuple

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
"""Speakers of a group from which on it has a pooled interval."""

RATES: Final = ("wer", "cer")
_SHARED: Final = 0.05  # of the speakers may be in a second group, by a wrong label perhaps


class Interval(NamedTuple):
    """Bounds that hold the rate over all speakers of the same kind in 95 of 100 such splits."""

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
    both = [counts_of(part) for part in np.split(counts, len(RATES), axis=-1)]
    of_rates = [
        np.where(own.reference_length, own.errors / np.maximum(own.divisor(denominator), 1), np.nan)
        for own in both
    ]
    return np.stack(of_rates)


def counts_of(numbers: npt.NDArray[Any]) -> Any:
    """Return `Counts`, whose fields are arrays (...), of numbers (..., 4)."""
    return Counts(*np.moveaxis(numbers.astype(np.float64), -1, 0))


def word_counts(sums: pd.DataFrame) -> Any:
    """Return `Counts` of the words of each speaker."""
    return counts_of(sums[[*WORD_COUNTS]].to_numpy())


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

    def around(self, alpha: float = ALPHA) -> Interval:
        """Return the interval of a difference, of the level 1 - ``alpha``."""
        reach = self._reach(alpha)
        return Interval(self.value - reach, self.value + reach)

    def _reach(self, alpha: float = ALPHA) -> float:
        return t_quantile(1 - alpha / 2, self.freedom) * self.deviation

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
    words: FloatArray = word_counts(sums).reference_length
    return words


def _why_not_resolvable(sums: pd.DataFrame, effective: float, deviation: float) -> str | None:
    named, words = named_speakers(sums), words_of(sums).sum()
    if not named:
        return "the speakers are unknown"
    if len(sums) < MIN_SPEAKERS:
        others = " and rows without one" if named < len(sums) else ""
        return f"{named} speaker{'s' if named > 1 else ''}{others}, {MIN_SPEAKERS} needed"
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

    Each is the wider of two around the logarithm of the rate: with the spread of the speakers of
    all groups, which is assumed to be the same, and with that of the group alone. Their degrees of
    freedom are the speakers minus the groups, and the group's speakers minus one. A group whose
    speakers are all alike has none, and there are none without a shared spread.
    """
    intervals: list[Interval | None] = [None] * len(groups)
    places = _pooled_places(groups)
    if not places:
        return intervals
    chosen = [groups[place] for place in places]
    values, starts = of_speakers(chosen, denominator)
    logs, errors = logs_and_errors(values[:, None, :], starts)
    freedom = _pooled_freedom(chosen)
    for place, group, log, error in zip(places, chosen, logs[0], errors[0], strict=True):
        own = _own_spread(group, denominator)[0]
        if own is not None:
            reach = t_quantile(1 - ALPHA / 2, freedom) * error
            alone = t_quantile(1 - ALPHA / 2, own.freedom) * own.deviation / own.value
            widest = max(reach, alone)
            intervals[place] = Interval(exp(log - widest), exp(log + widest))
    return intervals


def pooled_differences(
    groups: Sequence[tuple[pd.DataFrame, pd.DataFrame]], denominator: Denominator
) -> list[list[tuple[Spread, ...]]]:
    """Return spreads of the differences of WER and of CER of groups that are too small.

    ``groups`` are sums of the baseline and of a run over the same speakers. A speaker's deviation
    from the difference of the group, relative to the group's rate in both runs, is assumed to vary
    equally in all groups. Each group has two spreads per rate, with that of all groups and with its
    own; the wider holds. There is none for other groups, as in `pooled_intervals`.
    """
    found: list[list[tuple[Spread, ...]]] = [[() for _ in RATES] for _ in groups]
    references = [baseline for baseline, _ in groups]
    places = _pooled_places(references)
    freedom = _pooled_freedom([references[place] for place in places])
    for number in range(len(RATES)):
        squares, weights = 0.0, 0.0
        scales: dict[int, float] = {}
        for place in places:
            deviations, words = _deviations(groups[place], number, denominator)
            both = sum(
                rates(own[[*COUNTS]].to_numpy().sum(axis=0), denominator)[number]
                for own in groups[place]
            )
            scale = max(both / 2, 1e-12)
            squares += float(((deviations / scale) ** 2).sum())
            weights += float((words**2).sum())
            scales[place] = scale * sqrt(float((words**2).sum())) / float(words.sum())
        for place, scale in scales.items():
            own = _own_spread(groups[place][1], denominator, groups[place][0])[number]
            if own is None:
                continue
            correction = (freedom + len(places)) / freedom
            deviation = sqrt(squares / weights * correction) * scale
            found[place][number] = (own._replace(deviation=deviation, freedom=freedom), own)
    return found


def _deviations(
    group: tuple[pd.DataFrame, pd.DataFrame], number: int, denominator: Denominator
) -> tuple[FloatArray, FloatArray]:
    """Return each speaker's deviation from the group's difference, in errors, and the words."""
    words = words_of(group[0])
    deviations = np.zeros(len(words))
    for sign, sums in zip((-1, 1), group, strict=True):
        counts = counts_of(np.split(sums[[*COUNTS]].to_numpy(), len(RATES), axis=-1)[number])
        errors, lengths = counts.errors, counts.divisor(denominator)
        rate = errors.sum() / max(lengths.sum(), 1)
        # In words of the reference, so that both runs have the same unit.
        deviations += sign * (errors - rate * lengths) * words.sum() / max(lengths.sum(), 1)
    return deviations, words


def _pooled_places(groups: Sequence[pd.DataFrame]) -> list[int]:
    """Return the places of groups whose spread is shared; none if there are too few speakers."""
    places = [place for place, group in enumerate(groups) if takes_part(group)]
    chosen = [groups[place] for place in places]
    if len(chosen) < 2 or _pooled_freedom(chosen) < MIN_SPEAKERS or share_speakers(chosen):
        return []
    return places


def _pooled_freedom(groups: Sequence[pd.DataFrame]) -> int:
    return sum(map(len, groups)) - len(groups)


def _own_spread(
    sums: pd.DataFrame, denominator: Denominator, baseline: pd.DataFrame | None = None
) -> list[Spread | None]:
    """Return the spreads of a group alone, for intervals of few speakers; None if it needs none.

    That is a group of 8 speakers or more, or whose speakers are all alike.
    """
    own: list[Spread | None] = []
    for spread in spreads(sums, denominator, baseline):
        usable = len(sums) < MIN_SPEAKERS and spread.deviation > 1e-12
        own.append(spread._replace(freedom=len(sums) - 1) if usable else None)
    return own


def share_speakers(groups: Sequence[pd.DataFrame]) -> bool:
    """Whether speakers are in several groups, so that groups are not independent."""
    times = pd.Index(np.concatenate([group.index.dropna() for group in groups])).value_counts()
    return bool(np.count_nonzero(times > 1) > _SHARED * len(times))


def takes_part(group: pd.DataFrame) -> bool:
    """Whether a group has enough speakers and words for a pooled interval."""
    return named_speakers(group) >= FEWEST and bool(words_of(group).sum() >= MIN_WORDS)


def of_speakers(
    groups: Sequence[pd.DataFrame], denominator: Denominator
) -> tuple[FloatArray, IntArray]:
    """Return what `logs_and_errors` takes, (5, speakers), and where each group begins."""
    counts = word_counts(pd.concat(groups))
    errors, lengths = counts.errors, counts.divisor(denominator)
    sizes = np.array([len(group) for group in groups])
    values = np.stack([errors, lengths, errors**2, errors * lengths, lengths**2])
    return values, np.cumsum(sizes) - sizes


def logs_and_errors(values: FloatArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms of the groups' rates and their standard errors, (draws, groups).

    ``values`` are errors, lengths, errors squared, errors times lengths, lengths squared, each
    (draws, speakers). No error counts as half of one, so that the logarithm is finite. A speaker's
    relative deviation from the group's rate has two variances: one of the speakers, which is the
    same in all groups, and one of counting errors, which is that of Poisson's distribution
    (extra-Poisson variation, here by moments: Breslow, Applied Statistics 33, 1984).
    """
    errors, lengths, squares, products, squared_lengths = np.add.reduceat(values, starts, axis=-1)
    rates_of_groups = np.maximum(errors, 0.5) / lengths
    residuals = squares / rates_of_groups**2 - 2 * products / rates_of_groups + squared_lengths
    counting = lengths / rates_of_groups
    speakers, groups = values.shape[-1], len(starts)
    correction = speakers / max(speakers - groups, 1)
    beyond_counting = residuals.sum(axis=-1) * correction - counting.sum(axis=-1)
    pooled = np.maximum(beyond_counting, 0) / squared_lengths.sum(axis=-1)
    variances = (pooled[:, None] * squared_lengths + counting) / lengths**2
    return np.log(rates_of_groups), np.sqrt(variances)
