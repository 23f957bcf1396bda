"""Rates of groups with their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from danish_asr.scoring.intervals import (
    NotResolvable,
    Resolution,
    interval,
    resampled_sums,
    why_not_resolvable,
)
from danish_asr.scoring.scored_rows import FloatArray, GroupKey, GroupSums, IntArray, rates
from danish_asr.scoring.settings import Settings


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate, or a difference of rates, as a fraction, and how well the data resolve it."""

    value: float
    interval: Resolution

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"value": self.value, **self.interval.to_dict()}


def group_label(values: GroupKey) -> str:
    """Return a group's values for people to read: what cannot be printed is told by its code."""
    named = ("unknown" if value is None else value for value in values)
    label = " · ".join(named) if values else "all"
    if label.isprintable():
        return label
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in label
    )


def estimate_rates(group: GroupSums, settings: Settings) -> tuple[Estimate, Estimate]:
    """Return WER and CER of a group, both resampled together."""
    errors = group.errors
    values = errors.wer(settings.denominator), errors.cer(settings.denominator)
    refusals = [why_not_resolvable(group, rate) for rate in rates(group.sums, settings.denominator)]
    if all(refusals):
        wer, cer = (NotResolvable(str(reason)) for reason in refusals)
        return Estimate(values[0], wer), Estimate(values[1], cer)
    resampled = rates(_resampled(group.sums, settings, stream=0), settings.denominator)
    estimates = [
        Estimate(
            value,
            NotResolvable(refusal) if refusal else interval(samples, len(group.speakers)),
        )
        for value, refusal, samples in zip(values, refusals, resampled, strict=True)
    ]
    return estimates[0], estimates[1]


def estimate_gap(worst: GroupSums, best: GroupSums, settings: Settings) -> Estimate:
    """Return the difference of two groups' WER.

    The speakers of both groups are resampled apart. Where a speaker is in both (a grouping by
    duration, say), the interval is wider than it need be.
    """
    denominator = settings.denominator
    difference = worst.errors.wer(denominator) - best.errors.wer(denominator)
    for group in (worst, best):
        wer, _ = rates(group.sums, denominator)
        if reason := why_not_resolvable(group, wer):
            return Estimate(difference, NotResolvable(f"{group_label(group.values)}: {reason}"))
    high, _ = rates(_resampled(worst.sums, settings, stream=1), denominator)
    low, _ = rates(_resampled(best.sums, settings, stream=2), denominator)
    speakers = min(len(worst.speakers), len(best.speakers))
    return Estimate(difference, interval(high - low, speakers))


def _resampled(sums: IntArray, settings: Settings, *, stream: int) -> FloatArray:
    generator = np.random.default_rng([settings.seed, stream])
    return np.concatenate(list(resampled_sums(sums, settings.resamples, generator)))
