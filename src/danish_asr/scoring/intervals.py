"""95 % intervals by resampling speakers, and an honest refusal where there are too few of them.

The utterances of one speaker are alike, so rows are no independent observations: whole speakers
are drawn with replacement, each with all of their rows (the blockwise bootstrap of Bisani and Ney,
"Bootstrap estimates for confidence intervals in ASR performance evaluation", ICASSP 2004, and of
Liu and Peng, "Statistical Testing on ASR Performance via Blockwise Bootstrap", Interspeech 2020).

With few speakers the plain percentile interval is too narrow. The percentiles are therefore moved
outwards to where a t distribution with k - 1 degrees of freedom puts them (the "expanded
percentile interval" of Hesterberg, "What Teachers Should Know About the Bootstrap", The American
Statistician 69, 2015).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from danish_asr.scoring.scored_rows import FloatArray, GroupSums, IntArray

LEVEL: Final = 0.95
RESAMPLES: Final = 1_000

MIN_SPEAKERS: Final = 8
"""Fewer speakers give no interval. In a simulation of speakers whose WER varies log-normally
(sigma 0.5) the 95 % interval covers the truth in 93 % of cases with 35 speakers and in 91 to 92 %
with 8 to 12, but in 84 % with 4 and 73 % with 3 (``benchmarks/intervals.py``)."""

MAX_SHARE: Final = 0.5
"""A speaker with more than this share of a group's words decides its rate; no interval then."""

_CELLS_AT_ONCE: Final = 2_000_000
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the rate lies if other speakers of the same kind had been recorded, at 95 %."""

    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Return plain data."""
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class NotResolvable:
    """No interval, because the data cannot give one."""

    reason: str

    def to_dict(self) -> dict[str, str]:
        """Return plain data."""
        return {"not_resolvable": self.reason}


Resolution = Interval | NotResolvable


def why_not_resolvable(group: GroupSums, per_speaker: FloatArray) -> str | None:
    """Return why a group's speakers cannot give an interval, or None where they can.

    Args:
        group: The group.
        per_speaker: What is estimated (a rate, a difference), for each line of ``group.sums``.
    """
    if not group.known_speakers:
        return "the speakers are unknown"
    speakers = len(group.speakers)
    if speakers < MIN_SPEAKERS:
        people = "1 speaker" if speakers == 1 else f"{speakers} speakers"
        return f"{people}, {MIN_SPEAKERS} needed"
    words = group.sums[:, 1:4].sum(axis=1)
    share = words.max() / max(words.sum(), 1)
    if share > MAX_SHARE:
        return f"one speaker has {100 * share:.0f} % of the words"
    if np.ptp(per_speaker) == 0:
        return "every speaker has the same value"
    return None


def resampled_sums(
    sums: IntArray, resamples: int, generator: np.random.Generator
) -> Iterator[FloatArray]:
    """Yield sums over drawn speakers, in chunks of shape (some resamples, columns).

    ``sums`` is (speakers, columns). Chunks bound the memory whatever the number of speakers is.
    """
    speakers = len(sums)
    chunk = max(1, _CELLS_AT_ONCE // speakers)
    exact = sums.astype(np.float64)  # sums below 2**53 stay exact
    for begin in range(0, resamples, chunk):
        size = min(chunk, resamples - begin)
        drawn = generator.integers(0, speakers, (size, speakers))
        drawn += speakers * np.arange(size)[:, None]
        times = np.bincount(drawn.reshape(-1), minlength=size * speakers).reshape(size, speakers)
        yield times @ exact


def interval(samples: FloatArray, speakers: int) -> Interval:
    """Return the expanded percentile interval of a bootstrapped statistic."""
    tail = expanded_tail(1 - LEVEL, speakers)
    low, high = np.quantile(samples, [tail, 1 - tail])
    return Interval(float(low), float(high))


def expanded_tail(alpha: float, speakers: int) -> float:
    """Return the share to cut off at each end for an interval of level 1 - alpha."""
    widening = (speakers / (speakers - 1)) ** 0.5
    return _NORMAL.cdf(-widening * t_quantile(1 - alpha / 2, speakers - 1))


def t_quantile(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t (Abramowitz and Stegun 26.7.5), for 7 degrees and more."""
    z = _NORMAL.inv_cdf(probability)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def p_value(differences: FloatArray, speakers: int) -> float:
    """Return the two-sided p-value: the level at which the interval just touches zero.

    ``differences`` is a bootstrapped difference. The share beyond zero counts the observation
    itself, so that the value is never 0.
    """
    beyond = min(np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0))
    share = (beyond + 1) / (len(differences) + 1)
    low, high = 1e-6, 1.0  # expanded_tail grows with alpha: bisect
    for _ in range(40):
        middle = (low + high) / 2
        if expanded_tail(middle, speakers) < share:
            low = middle
        else:
            high = middle
    return high
