"""Groups of few speakers: their rates, and a spread of the speakers that all groups share.

A speaker's relative deviation from the rate of the group is assumed to vary equally in all groups,
so that a group of three speakers has a standard error. Its rate is its own: shrinking it towards
the others' rates narrows the interval, but hides the one group that differs
(``benchmarks/intervals.py``).
"""

from collections.abc import Sequence
from math import exp
from typing import Final

import numpy as np

from danish_asr.base.schema import MIN_SPEAKERS
from danish_asr.metrics import REFERENCE_WORDS, WORD_COUNTS
from danish_asr.scoring.intervals import ALPHA, MIN_WORDS, Interval, t_quantile
from danish_asr.scoring.scored_rows import FloatArray, GroupSums, IntArray
from danish_asr.scoring.settings import Settings

FEWEST: Final = 3  # speakers of a group
_SHARED: Final = 0.05  # of the speakers, by a wrong label perhaps, are in a second group


def pooled_intervals(groups: Sequence[GroupSums], settings: Settings) -> dict[str, Interval]:
    """Return 95 % intervals of WER by the labels of the groups that are too small for their own.

    A group whose speakers are all alike has none, and there are none without a shared spread.
    """
    groups = [group for group in groups if takes_part(group)]
    speakers = sum(len(group.speakers) for group in groups)
    freedom = speakers - len(groups)
    if len(groups) < 2 or freedom < MIN_SPEAKERS or share_speakers(groups):
        return {}
    values, starts = of_speakers(groups, settings)
    estimates = logs_and_errors(values[:, None, :], starts)
    if estimates is None:
        return {}
    reach = t_quantile(1 - ALPHA / 2, freedom)
    intervals: dict[str, Interval] = {}
    for group, log, error in zip(groups, estimates[0][0], estimates[1][0], strict=True):
        own_errors, lengths = errors_and_lengths(group.sums, settings)
        alike = np.allclose(own_errors * lengths.sum(), lengths * own_errors.sum())
        if len(group.speakers) < MIN_SPEAKERS and not alike:
            intervals[group.label] = Interval(exp(log - reach * error), exp(log + reach * error))
    return intervals


def share_speakers(groups: Sequence[GroupSums]) -> bool:
    """Whether speakers are in several groups, so that groups are not independent."""
    names = [name for group in groups for name in group.speakers if name is not None]
    return len(names) > (1 + _SHARED) * len(set(names))


def takes_part(group: GroupSums) -> bool:
    """Whether a group has enough speakers and words to be compared."""
    words = group.sums[:, REFERENCE_WORDS].sum()
    return group.known_speakers >= FEWEST and words >= MIN_WORDS


def errors_and_lengths(sums: IntArray | FloatArray, settings: Settings) -> tuple[FloatArray, ...]:
    """Return the word errors of each speaker, and what they are divided by."""
    hits, substitutions, deletions, insertions = sums[:, WORD_COUNTS].T.astype(float)
    lengths = hits + substitutions + deletions
    if settings.denominator == "coral":
        lengths = lengths + insertions
    return substitutions + deletions + insertions, lengths


def of_speakers(groups: Sequence[GroupSums], settings: Settings) -> tuple[FloatArray, IntArray]:
    """Return what `logs_and_errors` takes, (5, speakers), and where each group begins."""
    sums = np.concatenate([group.sums for group in groups])
    errors, lengths = errors_and_lengths(sums, settings)
    sizes = np.array([len(group.speakers) for group in groups])
    values = np.stack([errors, lengths, errors**2, errors * lengths, lengths**2])
    return values, np.cumsum(sizes) - sizes


def logs_and_errors(values: FloatArray, starts: IntArray) -> tuple[FloatArray, FloatArray] | None:
    """Return the logarithms of the groups' rates and their standard errors, (draws, groups).

    ``values`` are errors, lengths, errors squared, errors times lengths, lengths squared, each
    (draws, speakers). No error counts as half of one, so that the logarithm is finite. A speaker's
    relative deviation from the group's rate has the same variance in all groups.
    """
    errors, lengths, squares, products, squared_lengths = np.add.reduceat(values, starts, axis=-1)
    rates = np.maximum(errors, 0.5) / lengths
    residuals = squares / rates**2 - 2 * products / rates + squared_lengths
    speakers, groups = values.shape[-1], len(starts)
    if speakers <= groups:
        return None
    pooled = residuals.sum(axis=-1) / squared_lengths.sum(axis=-1) * speakers / (speakers - groups)
    if not (pooled > 1e-12).all():  # all speakers of each group are equal
        return None
    return np.log(rates), np.sqrt(pooled[:, None] * squared_lengths) / lengths
