"""Differences of two runs over the same rows, and the tests of whether they are by chance.

MAPSSWE, the matched-pairs test of NIST's evaluations (Gillick and Cox, ICASSP 1989), cuts an
utterance where two words in a row are correct in both runs. With Z the errors of run B minus those
of run A in a segment and n segments, ``W = mean(Z) / sqrt(var(Z) / n)`` is standard normal if the
runs are equally good. It says nothing about other speakers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import erfc, isnan, sqrt
from typing import Any, Final

import numpy as np

from danish_asr.base.errors import PredictionsError
from danish_asr.scoring.intervals import ALPHA, Estimate, Needs, Spread, rates, spreads
from danish_asr.scoring.scored_rows import (
    FloatArray,
    Group,
    GroupSums,
    IntArray,
    ScoredRows,
)
from danish_asr.scoring.settings import Settings

_LISTED: Final = 10  # rows in an error message
MIN_CORRECT: Final = 2  # words between two segments, as in NIST's sc_stats
MIN_SEGMENTS: Final = 30  # with fewer the normal approximation gives too small p-values


@dataclass(frozen=True, slots=True)
class AlignedRun:
    """A run whose rows are in the order of the first file's."""

    name: str
    seeds: Sequence[IntArray]  # the counts of each file, (rows, counts)
    segments: (
        IntArray | None
    )  # (rows, 3), see `segment_sums`; None unless both it and the baseline have one seed


@dataclass(slots=True)
class PairedRate:
    """One rate of both runs over the same rows."""

    a: float
    b: float
    difference: Estimate  # B minus A, negative if B has the lower rate
    p: float | None  # None if the difference is not resolvable
    needs: Needs | None  # likewise
    over_seeds: bool  # interval and p hold for other seeds too, as both runs have several
    p_adjusted: float | None = None  # by Holm, over the groups of a grouping

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data = {
            "a": number_or_none(self.a),
            "b": number_or_none(self.b),
            "difference": self.difference.to_dict(),
        }
        data |= self.needs._asdict() if self.needs else {}
        data |= {"over_seeds": self.over_seeds}
        return data | {"p": self.p, "p_adjusted": self.p_adjusted}


def number_or_none(rate: float) -> float | None:
    """Return a rate as JSON can hold it, None for NaN."""
    return None if isnan(rate) else rate


@dataclass(slots=True)
class MatchedPairs:
    """The test of two runs; ``p`` is None if segments are few or all equal."""

    segments: int
    mean_difference: float  # errors of B minus A per segment
    p: float | None
    p_adjusted: float | None = None  # by Holm, over the groups of a grouping


def correct_words_between(before: int, place: int) -> int:
    """Return how many words of the reference are between two errors in a row, at these places.

    Places are those of `error_places`: 2 i + 1 is word i, 2 i an insertion before word i.
    """
    word_after_before = (before + 1) // 2  # i + 1 after word i; i after an insertion before it
    word_of_place = place // 2  # in both cases the words up to it are correct
    return word_of_place - word_after_before


def segment_sums(a: Sequence[int], b: Sequence[int]) -> tuple[int, int, int]:
    """Return n, sum of Z and sum of Z squared over the segments of an utterance; they add up."""
    if not a and not b:
        return 0, 0, 0
    difference = Counter(b)
    difference.subtract(a)
    segments: list[int] = []
    before = -1
    for place in sorted(difference):
        if not segments or correct_words_between(before, place) >= MIN_CORRECT:
            segments.append(0)
        segments[-1] += difference[place]
        before = place
    return len(segments), sum(segments), sum(z * z for z in segments)


def order_by_id(a: ScoredRows, b: ScoredRows, name_a: str, name_b: str) -> list[int]:
    """Return the rows of B in the order of those of A with the same id."""
    if not a.ids:
        raise PredictionsError(f"{name_a}: the row filter leaves no row to compare")
    position = {row_id: at for at, row_id in enumerate(b.ids)}
    order: list[int] = []
    faults: list[str] = []
    for row_id, reference in zip(a.ids, a.references, strict=True):
        at = position.pop(row_id, None)
        if at is None:
            faults.append(f"id {row_id!r} of {name_a} is not in {name_b}")
        elif reference != b.references[at]:
            faults.append(f"id {row_id!r} has another reference in {name_a} than in {name_b}")
        else:
            order.append(at)
    faults += [f"id {row_id!r} of {name_b} is not in {name_a}" for row_id in position]
    if faults:
        title = f"the runs scored different rows ({len(faults)} of them); use one split:"
        hidden = ["..."] if len(faults) > _LISTED else []
        raise PredictionsError("\n  ".join([title, *faults[:_LISTED], *hidden]))
    return order


def segments_of_rows(first: ScoredRows, rows: ScoredRows, order: Sequence[int]) -> IntArray:
    """Return `segment_sums` of each utterance, (rows, 3), for MAPSSWE."""
    errors_of_rows = [rows.errors_at[at] for at in order]
    pairs = zip(first.errors_at, errors_of_rows, strict=True)
    return np.array([segment_sums(a, b) for a, b in pairs], np.int64)


def matched_pairs(segments: int, total: int, squares: int) -> MatchedPairs:
    """Return the test from the sums over all utterances."""
    mean = total / max(segments, 1)
    variance = (squares - segments * mean**2) / max(segments - 1, 1)
    if segments < MIN_SEGMENTS or variance <= 1e-12:
        return MatchedPairs(segments, mean, None)
    return MatchedPairs(segments, mean, erfc(abs(mean) / sqrt(2 * variance / segments)))


def _mean_sums(group: Group, run: AlignedRun) -> GroupSums:
    """Return the counts of a run, each the mean over its seeds."""
    of_seeds = [group.sums(counts) for counts in run.seeds]
    sums = np.mean([seed.sums for seed in of_seeds], axis=0)
    return replace(of_seeds[0], sums=sums, rows=np.mean([seed.rows for seed in of_seeds], axis=0))


def paired_rates(
    group: Group,
    baseline: AlignedRun,
    run: AlignedRun,
    settings: Settings,
    *,
    alpha: float = ALPHA,
) -> dict[str, PairedRate]:
    """Return each metric of the baseline, A, and of a run, B; intervals at ``1 - alpha``."""
    a, b = _mean_sums(group, baseline), _mean_sums(group, run)
    rates_a = rates(a.sums.sum(axis=0), settings).tolist()
    rates_b = rates(b.sums.sum(axis=0), settings).tolist()
    over_speakers = spreads(b, settings, a)
    over_rows = spreads(_by_utterance(b), settings, _by_utterance(a))
    paired: dict[str, PairedRate] = {}
    over_seeds = min(len(baseline.seeds), len(run.seeds)) > 1
    seeds_of_both = [_rates_of_seeds(group, each, settings) for each in (baseline, run)]
    for number, metric in enumerate(settings.all_metrics):
        spread, of_rows = over_speakers[number], over_rows[number]
        resolvable = not spread.not_resolvable
        if over_seeds and resolvable:
            spread = _with_seeds(spread, [seeds[:, number] for seeds in seeds_of_both])
        difference = Estimate(
            spread.value,
            spread.around(alpha) if resolvable else None,
            spread.not_resolvable,
            None if of_rows.not_resolvable else of_rows.around(alpha),
        )
        paired[metric.name] = PairedRate(
            rates_a[number],
            rates_b[number],
            difference,
            spread.p_value() if resolvable else None,
            spread.needs(len(a.speakers), alpha) if resolvable else None,
            over_seeds,
        )
    return paired


def _rates_of_seeds(group: Group, run: AlignedRun, settings: Settings) -> FloatArray:
    """Return the rates of each seed, (seeds, metrics)."""
    sums = np.array([group.sums(counts).sums.sum(axis=0) for counts in run.seeds])
    return rates(sums, settings).T


def _with_seeds(spread: Spread, seeds_of_both: Sequence[FloatArray]) -> Spread:
    """Add the variance over seeds to that over speakers; degrees of freedom by Satterthwaite."""
    variances, freedoms = [spread.deviation**2], [spread.freedom]
    for seeds in seeds_of_both:
        variances.append(float(seeds.var(ddof=1)) / len(seeds))
        freedoms.append(len(seeds) - 1)
    total = sum(variances)
    parts = zip(variances, freedoms, strict=True)
    freedom = total**2 / sum(variance**2 / own for variance, own in parts)
    over_seeds = sum(variances[1:])
    return spread._replace(deviation=sqrt(total), freedom=freedom, over_seeds=over_seeds)


def _by_utterance(sums: GroupSums) -> GroupSums:
    """Return the same with each utterance as an observation."""
    return replace(sums, speakers=[str(row) for row in range(len(sums.rows))], sums=sums.rows)


def set_adjusted_p(tests: Sequence[PairedRate] | Sequence[MatchedPairs]) -> None:
    """Set ``p_adjusted`` of each test, adjusted over all of the tests."""
    resolvable = [test for test in tests if test.p is not None]
    adjusted = holm([test.p for test in resolvable if test.p is not None])
    for test, p in zip(resolvable, adjusted, strict=True):
        test.p_adjusted = p


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple tests, in the given order."""
    order = np.argsort(p_values)
    products = np.sort(p_values) * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(products), 1)
    return [float(p) for p in adjusted]
