"""All pairs of runs over the same rows: which are better, and in what order.

The intervals hold together at 95 % (Bonferroni) and p-values are adjusted over all pairs (Holm), so
that each pair may be looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from danish_asr.metrics import METRICS
from danish_asr.scoring.intervals import ALPHA
from danish_asr.scoring.paired import AlignedRun, PairedRate, paired_rates, set_adjusted_p
from danish_asr.scoring.scored_rows import Group
from danish_asr.scoring.settings import Settings


@dataclass(frozen=True, slots=True)
class RunPair:
    """Two runs over all rows; the difference is ``b`` minus ``a``, of WER."""

    a: str
    b: str
    wer: PairedRate

    @property
    def resolved(self) -> bool:
        """Whether the simultaneous interval excludes 0."""
        interval = self.wer.difference.interval
        return interval is not None and not interval.low <= 0 <= interval.high

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"a": self.a, "b": self.b, "wer": self.wer.to_dict()}


@dataclass(frozen=True, slots=True)
class Rank:
    """The place of a run: one below each run that is shown to be better."""

    rank: int
    run: str
    wer: float
    better_than: Sequence[str]


def compare_pairs(group: Group, runs: Sequence[AlignedRun], settings: Settings) -> list[RunPair]:
    """Compare each run with each later one."""
    pairs = [*combinations(runs, 2)]
    alpha = ALPHA / len(pairs)
    compared: list[RunPair] = []
    for a, b in pairs:
        paired = paired_rates(group, a, b, settings, alpha=alpha)
        compared.append(RunPair(a.name, b.name, paired[METRICS["wer"].name]))
    set_adjusted_p([pair.wer for pair in compared])
    return compared


def ranking(pairs: Sequence[RunPair], wers: Mapping[str, float]) -> list[Rank]:
    """Return the runs by WER; runs that the data cannot tell apart may share a place."""
    better_than: dict[str, list[str]] = {run: [] for run in wers}
    worse_than: dict[str, int] = dict.fromkeys(wers, 0)
    for pair in pairs:
        if pair.resolved:
            better, worse = sorted((pair.a, pair.b), key=lambda run: wers[run])
            better_than[better].append(worse)
            worse_than[worse] += 1
    in_order = sorted(wers, key=lambda run: wers[run])
    return [Rank(1 + worse_than[run], run, wers[run], better_than[run]) for run in in_order]
