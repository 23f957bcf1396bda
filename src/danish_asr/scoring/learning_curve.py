"""How an error rate falls with the hours of training: a power law, fitted to some runs.

``rate = a * hours ** -b``, a straight line in logarithms, by least squares (Hestness et al. 2017,
arXiv:1712.00409, who find it for speech and other tasks). A rate of 0 counts as half an error. The
law has no floor, so it promises too much far beyond the hours that were tried.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Final, NamedTuple

import numpy as np

from danish_asr.base.schema import MIN_SPEAKERS
from danish_asr.metrics import REFERENCE_WORDS
from danish_asr.scoring.intervals import ALPHA, MIN_WORDS, Estimate, Interval, rates
from danish_asr.scoring.paired import order_by_id
from danish_asr.scoring.scored_rows import FloatArray, Group, IntArray, ScoredRows
from danish_asr.scoring.settings import Settings

FEWEST: Final = 3
"""Different numbers of hours; two points lie on every curve."""

_DRAWS: Final = 2000
_SEED: Final = 1


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A run's scored rows, the hours that it was trained on, and the share of all that they are."""

    name: str
    share: float
    hours: float
    rows: ScoredRows


class Point(NamedTuple):
    """The mean of the runs on one share."""

    hours: float
    rate: float


@dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """The curve of a group of rows; rates are fractions."""

    label: str
    rows: int
    speakers: int
    points: Sequence[Point]
    exponent: Estimate  # b; 0 if hours change nothing
    next_hour: Estimate  # the change of the rate by one more hour
    doubled: Estimate  # the rate with twice the hours
    misfit: float  # the largest factor between a point and the curve
    bend: float  # the exponent between the last two points, as a part of b

    @property
    def is_flat(self) -> bool:
        """Whether the interval of the exponent holds 0, or it is not above 0."""
        low = self.exponent.interval.low if self.exponent.interval else self.exponent.value
        return low <= 0


class _Fits(NamedTuple):
    """Fits to one or many sets of points: ln a and b, (draws,)."""

    constant: FloatArray
    exponent: FloatArray

    def rate(self, hours: float) -> FloatArray:
        values: FloatArray = np.exp(self.constant - self.exponent * log(hours))
        return values


def learning_curves(
    runs: Sequence[TrainedRun], settings: Settings, by: str
) -> Iterator[LearningCurve]:
    """Yield the curve of all rows, then those of the groups of a column that have enough rows.

    The intervals are percentiles of a bootstrap over the speakers, the same ones for all runs, and
    over the runs of each share if each share has two or more.

    Raises:
        PredictionsError: The runs scored different rows.
    """
    first = runs[0]
    counts = [
        run.rows.counts[order_by_id(first.rows, run.rows, first.name, run.name)] for run in runs
    ]
    (everything,) = first.rows.groups()
    yield _curve(everything, runs, counts, settings)
    for group in first.rows.groups(first.rows.groupings[by]):
        words = counts[0][group.rows][:, REFERENCE_WORDS].sum()
        if None not in group.group.values() and words >= MIN_WORDS:
            yield _curve(group, runs, counts, settings)


def resamples_runs(runs: Sequence[TrainedRun]) -> bool:
    """Whether each share has two runs or more, so that the intervals hold for other runs too."""
    return min(len(members) for members in _by_share(runs).values()) > 1


def _by_share(runs: Sequence[TrainedRun]) -> dict[float, list[int]]:
    """Return the numbers of the runs on each share, ascending."""
    members = defaultdict(list)
    for number in sorted(range(len(runs)), key=lambda number: runs[number].share):
        members[runs[number].share].append(number)
    return dict(members)


def _curve(
    group: Group, runs: Sequence[TrainedRun], counts: Sequence[IntArray], settings: Settings
) -> LearningCurve:
    sums = [group.sums(of_run) for of_run in counts]
    speakers = sums[0].known_speakers
    hours = np.array([run.hours for run in runs])
    shares = _by_share(runs)
    weights = np.ones((1, len(sums[0].speakers)))
    observed = np.stack([_rates(weights, of_run.sums, settings) for of_run in sums])  # (runs, 1)
    fits = _fit(hours[:, None], observed)
    last = float(hours.max())
    points = [
        Point(float(hours[members].mean()), float(observed[members].mean()))
        for members in shares.values()
    ]
    curve = LearningCurve(
        label=sums[0].label,
        rows=len(group.rows),
        speakers=speakers,
        points=points,
        exponent=Estimate(float(fits.exponent[0])),
        next_hour=Estimate(float(fits.rate(last + 1)[0] - fits.rate(last)[0])),
        doubled=Estimate(float(fits.rate(2 * last)[0])),
        misfit=max(_misfit(point, fits) for point in points),
        bend=_bend(points, float(fits.exponent[0])),
    )
    if speakers < MIN_SPEAKERS:
        return curve
    random = np.random.default_rng(_SEED)
    drawn = random.multinomial(len(weights[0]), weights[0] / len(weights[0]), _DRAWS)
    of_draws = np.stack([_rates(drawn, of_run.sums, settings) for of_run in sums])  # (runs, draws)
    chosen = np.repeat(np.arange(len(runs))[:, None], _DRAWS, axis=1)
    if resamples_runs(runs):
        for members in shares.values():
            chosen[members] = random.choice(members, (len(members), _DRAWS))
    resampled = _fit(hours[chosen], np.take_along_axis(of_draws, chosen, axis=0))
    return replace(
        curve,
        exponent=_with_interval(curve.exponent, resampled.exponent),
        next_hour=_with_interval(curve.next_hour, resampled.rate(last + 1) - resampled.rate(last)),
        doubled=_with_interval(curve.doubled, resampled.rate(2 * last)),
    )


def _rates(
    weights: IntArray | FloatArray, sums: FloatArray | IntArray, settings: Settings
) -> FloatArray:
    """Return the WER of weighted speakers, (draws,); at least half an error."""
    totals = weights @ sums
    words = np.maximum(totals[:, REFERENCE_WORDS].sum(axis=1), 1)
    of_draws: FloatArray = np.nan_to_num(rates(totals, settings)[0])
    return np.asarray(np.maximum(of_draws, 0.5 / words))


def _fit(hours: FloatArray, observed: FloatArray) -> _Fits:
    """Fit a line to the logarithms of hours and rates, both (runs, draws)."""
    x, y = np.log(hours), np.log(observed)
    centred = x - x.mean(axis=0)
    exponent = -(centred * y).sum(axis=0) / (centred**2).sum(axis=0)
    return _Fits(y.mean(axis=0) + exponent * x.mean(axis=0), exponent)


def _misfit(point: Point, fits: _Fits) -> float:
    factor = max(point.rate, 1e-9) / float(fits.rate(point.hours)[0])
    return max(factor, 1 / factor)


def _bend(points: Sequence[Point], exponent: float) -> float:
    before, last = points[-2:]
    if last.hours == before.hours or not exponent:
        return 1.0
    rates_of_both = max(before.rate, 1e-9), max(last.rate, 1e-9)
    slope = log(rates_of_both[0] / rates_of_both[1]) / log(last.hours / before.hours)
    return slope / exponent


def _with_interval(estimate: Estimate, draws: FloatArray) -> Estimate:
    low, high = np.quantile(draws, [ALPHA / 2, 1 - ALPHA / 2]).tolist()
    return replace(estimate, interval=Interval(low, high))
