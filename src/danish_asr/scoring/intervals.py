"""95 % intervals from resampled speakers, and the reason where there are too few speakers for one.

Utterances of one speaker are alike, so whole speakers are drawn with replacement: the blockwise
bootstrap of Bisani and Ney (ICASSP 2004) and of Liu and Peng (Interspeech 2020). For few speakers
the percentiles are moved outwards to those of a t distribution: the "expanded percentile interval"
of Hesterberg (The American Statistician 69, 2015).
"""

from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import numpy as np

from danish_asr.scoring.scored_rows import FloatArray, GroupSums, IntArray, rates
from danish_asr.scoring.settings import Settings

LEVEL: Final = 0.95

MIN_SPEAKERS: Final = 8
"""Fewer speakers give no interval: the 95 % interval covers the truth in 93 % of cases with 35
speakers, in 91 % with 8, but in 84 % with 4 (``benchmarks/intervals.py``)."""

MAX_SHARE: Final = 0.5
"""A speaker with a larger share of a group's words dominates its rate; no interval then."""

_NORMAL: Final = NormalDist()


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


def to_plain(scores: Any) -> dict[str, Any]:
    """Return a dataclass of scores as plain data, as in the JSON files."""
    return asdict(scores, dict_factory=_plain)


def _plain(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(fields)
    data.pop("label", None)
    if "interval" in data:
        interval, reason = data.pop("interval"), data.pop("not_resolvable")
        data |= {"not_resolvable": reason} if interval is None else interval._asdict()
    return data


def estimate_rates(group: GroupSums, settings: Settings) -> tuple[Estimate, Estimate]:
    """Return WER and CER of a group, both from the same resamples."""
    wer, cer = resampled_rates(group, settings, [settings.seed, 0])
    return estimate(group, *wer), estimate(group, *cer)


def estimate_gap(worst: GroupSums, best: GroupSums, settings: Settings) -> Estimate:
    """Return the difference of two groups' WER; the groups are resampled independently."""
    (high, of_worst, samples), _ = resampled_rates(worst, settings, [settings.seed, 1])
    (low, of_best, other_samples), _ = resampled_rates(best, settings, [settings.seed, 2])
    difference = (high - low).item()
    for group, per_speaker in ((worst, of_worst), (best, of_best)):
        if reason := why_not_resolvable(group, per_speaker):
            return Estimate(difference, None, f"{group.label}: {reason}")
    speakers = min(len(worst.speakers), len(best.speakers))
    return Estimate(difference, interval(samples - other_samples, speakers))


def resampled_rates(
    group: GroupSums, settings: Settings, seed: int | list[int]
) -> list[tuple[FloatArray, ...]]:
    """Return rates (lines, runs) of the group, its speakers, its resamples, for WER and CER."""
    resampled = resample_sums(group.sums, settings.resamples, np.random.default_rng(seed))
    runs = group.sums.shape[1] // 9
    views = [
        rates(sums.reshape(-1, runs, 9), settings.denominator)
        for sums in (group.sums.sum(axis=0), group.sums, resampled)
    ]
    return list(zip(*views, strict=True))


def estimate(
    group: GroupSums, total: FloatArray, per_speaker: FloatArray, samples: FloatArray
) -> Estimate:
    """Return the estimate of a rate or a difference of a group, from arrays of shape (..., 1)."""
    if reason := why_not_resolvable(group, per_speaker):
        return Estimate(total.item(), None, reason)
    return Estimate(total.item(), interval(samples, len(group.speakers)))


def why_not_resolvable(group: GroupSums, per_speaker: FloatArray) -> str | None:
    """Return why a group's speakers cannot give an interval, or None if they can."""
    if not group.known_speakers:
        return "the speakers are unknown"
    speakers = len(group.speakers)
    if speakers < MIN_SPEAKERS:
        return f"{speakers} speaker{'s' if speakers > 1 else ''}, {MIN_SPEAKERS} needed"
    words = group.sums[:, 1:4].sum(axis=1)
    share = words.max() / max(words.sum(), 1)
    if share > MAX_SHARE:
        return f"one speaker has {100 * share:.0f} % of the words"
    if np.ptp(per_speaker) == 0:
        return "every speaker has the same value"
    return None


def resample_sums(sums: IntArray, resamples: int, generator: np.random.Generator) -> FloatArray:
    """Return sums over drawn speakers, (resamples, columns), of ``sums`` (speakers, columns)."""
    speakers = len(sums)
    chunk = max(1, 2_000_000 // speakers)  # bounds the memory
    exact = sums.astype(np.float64)  # sums below 2**53 stay exact
    chunks: list[FloatArray] = []
    for begin in range(0, resamples, chunk):
        size = min(chunk, resamples - begin)
        drawn = generator.integers(0, speakers, (size, speakers))
        drawn += speakers * np.arange(size)[:, None]
        times = np.bincount(drawn.reshape(-1), minlength=size * speakers).reshape(size, speakers)
        chunks.append(times @ exact)
    return np.concatenate(chunks)


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

    The share beyond zero counts the observation itself, so the value is never 0.
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
