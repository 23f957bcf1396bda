"""The matched-pairs test of segments (MAPSSWE) that NIST's evaluations use.

Gillick and Cox: Some Statistical Issues in the Comparison of Speech Recognition Algorithms, ICASSP
1989. An utterance is cut where at least two words in a row are correct in both runs; what lies
between are the segments. With Z the errors of run B minus those of run A in a segment and n
segments, ``W = mean(Z) / sqrt(var(Z) / n)`` is standard normal if the runs are equally good. The
errors of neighbouring segments are taken as independent, those of one speaker as well, so the test
says nothing about other speakers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt
from typing import Final

from rapidfuzz.distance import Levenshtein

MIN_CORRECT: Final = 2
"""Correct words between two segments, as in NIST's sc_stats."""

MIN_SEGMENTS: Final = 30
"""With fewer segments the normal approximation gives too small p-values."""


@dataclass(frozen=True, slots=True)
class MatchedPairs:
    """The test of two runs; ``p`` is None if segments are few or all equal."""

    segments: int
    mean_difference: float  # errors of B minus A per segment
    p: float | None
    p_adjusted: float | None = None  # by Holm, over the groups of a grouping


def error_places(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[int, ...]:
    """Return the places of the errors: 2 i + 1 for word i, 2 i for an insertion before it."""
    if reference == hypothesis:
        return ()
    return tuple(
        2 * int(place) + (tag != "insert")
        for tag, place, _ in Levenshtein.editops(reference, hypothesis).as_list()
    )


def segment_sums(a: Sequence[int], b: Sequence[int]) -> tuple[int, int, int]:
    """Return n, sum of Z and sum of Z squared over the segments of an utterance; they add up."""
    if not a and not b:
        return 0, 0, 0
    difference = Counter(b)
    difference.subtract(a)
    segments: list[int] = []
    before = -1
    for place in sorted(difference):
        if not segments or place // 2 - (before + 1) // 2 >= MIN_CORRECT:
            segments.append(0)
        segments[-1] += difference[place]
        before = place
    return len(segments), sum(segments), sum(z * z for z in segments)


def matched_pairs(segments: int, total: int, squares: int) -> MatchedPairs:
    """Return the test from the sums over all utterances."""
    mean = total / max(segments, 1)
    variance = (squares - segments * mean**2) / max(segments - 1, 1)
    if segments < MIN_SEGMENTS or variance <= 1e-12:
        return MatchedPairs(segments, mean, None)
    return MatchedPairs(segments, mean, erfc(abs(mean) / sqrt(2 * variance / segments)))
