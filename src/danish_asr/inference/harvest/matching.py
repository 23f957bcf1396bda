"""Which words of a loose text a piece of speech has.

The hypotheses of a whole recording and its whole text are aligned once, by their characters: so
parts that are missing on either side, and texts with wrong times or none, do not matter. Around the
place that this gives a piece, the stretch of words is taken that is most similar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from typing import Final, NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from danish_asr.inference.harvest.pieces import error_rate

_REACH: Final = 4
"""Words by which the alignment may be wrong at either end of a piece."""

_GOOD: Final = 0.5
"""Error rate below which the words of a piece are not those of the next one."""


class Stretch(NamedTuple):
    """Words ``first`` to ``last - 1`` of a text, and the error rate of a hypothesis of them."""

    first: int
    last: int
    cer: float


def match(hypotheses: Sequence[str], words: Sequence[str]) -> Iterator[Stretch | None]:
    """Yield the words of a text that are most similar to each hypothesis, in order.

    None where no character fits. Time grows with the product of the lengths: 3 s for three hours.
    """
    spoken, text = " ".join(hypotheses), " ".join(words)
    places = np.full(len(spoken), -1)
    for block in Levenshtein.opcodes(spoken, text):
        if block.tag == "equal":
            places[block.src_start : block.src_end] = range(block.dest_start, block.dest_end)
    starts = np.array([0, *accumulate(len(word) + 1 for word in words)])
    begin = floor = 0
    for hypothesis in hypotheses:
        own = places[begin : begin + len(hypothesis)]
        matched = np.flatnonzero(own >= 0)
        begin += len(hypothesis) + 1
        if not len(matched):
            yield None
            continue
        # The median ignores characters at the ends that the alignment has strewn over other words.
        place = int(np.median(own[matched] - matched))
        ends = np.array([place, place + len(hypothesis)])
        low, high = np.searchsorted(starts, ends + 1).tolist()
        stretch = _most_similar(hypothesis, words, low - 1, high, floor)
        if stretch is not None and stretch.cer < _GOOD:
            floor = stretch.last
        yield stretch


def _most_similar(
    hypothesis: str, words: Sequence[str], low: int, high: int, floor: int
) -> Stretch | None:
    """Return the stretch around words ``low`` to ``high - 1`` that is most similar."""
    firsts = range(max(floor, low - _REACH), min(low + _REACH, len(words)) + 1)
    lasts = range(max(floor, high - _REACH), min(high + _REACH, len(words)) + 1)
    stretches = (
        Stretch(first, last, error_rate(hypothesis, " ".join(words[first:last])))
        for first, last in product(firsts, lasts)
        if first < last
    )
    # A rate, not a distance: a word at the end that is badly heard is still a word of it.
    return min(stretches, key=lambda own: (own.cer, own.first - own.last), default=None)
