"""Where the words of a text are among what a model hears.

Comes in: the texts that a model writes for pieces of speech, and the words of the text, which may
miss parts, have others, or have them in another order. Goes out: a `Stretch` of words per piece.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise, product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

ISLAND: Final = 10
"""Characters of a run that begins an island, if speech and text both have it, and only once."""

_REACH: Final = 4
"""Words by which the alignment may be wrong at either end of a piece."""

GOOD: Final = 0.5
"""Error rate below which the words of a piece are not those of another one."""


class Island(NamedTuple):
    """Where equal runs of characters begin."""

    spoken: int
    written: int


class Stretch(NamedTuple):
    """Words ``first`` to ``last - 1`` of a text, and the error rate of a hypothesis of them."""

    first: int
    last: int
    cer: float

    @property
    def is_good(self) -> bool:
        """Whether these words are those of no other piece."""
        return self.cer < GOOD


def match(hypotheses: Sequence[str], words: Sequence[str]) -> list[Stretch | None]:
    """Return the words of a text that are most similar to each hypothesis; None: nothing is.

    Islands, runs of characters that speech and text have once, are found first; the most that are
    in one order stay, as in a patience diff, and what is between them is aligned. Then speech and
    text that are left over, and have islands in common, are matched in the same way, so that parts
    in another order are found too.
    """
    islands = _islands(" ".join(hypotheses), " ".join(words))
    found = _in_order(hypotheses, words, islands)
    taken = np.zeros(len(words), bool)
    for stretch in found:
        if stretch and stretch.is_good:
            taken[stretch.first : stretch.last] = True
    if not taken.any():
        return found
    bad = np.array([not (stretch and stretch.is_good) for stretch in found])
    speech, text = _runs(bad), _runs(~taken)
    of_piece = np.searchsorted(_starts(hypotheses), [own.spoken for own in islands], "right") - 1
    of_word = np.searchsorted(_starts(words), [own.written for own in islands], "right") - 1
    in_common = Counter(zip(speech[of_piece].tolist(), text[of_word].tolist(), strict=True))
    for (run, other), _ in in_common.most_common():
        if 0 in {run, other} or run not in speech or other not in text:
            continue
        pieces, places = np.flatnonzero(speech == run), np.flatnonzero(text == other)
        speech[pieces] = text[places] = 0
        first, last, begin, end = pieces[0], pieces[-1] + 1, int(places[0]), places[-1] + 1
        for number, stretch in enumerate(match(hypotheses[first:last], words[begin:end]), first):
            before = found[number]
            if stretch and (before is None or stretch.cer < before.cer):
                found[number] = Stretch(begin + stretch.first, begin + stretch.last, stretch.cer)
    return found


def _runs(values: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number the runs of true values from 1; false ones are 0."""
    begins = np.diff(values, prepend=False) & values
    return np.where(values, np.cumsum(begins), 0)


def _starts(texts: Sequence[str]) -> NDArray[np.int64]:
    """Where each text begins if spaces join them, and where one more would."""
    return np.array([0, *accumulate(len(text) + 1 for text in texts)])


def _islands(spoken: str, written: str) -> list[Island]:
    """Find the runs of `ISLAND` characters that both texts have once, in the order of speech."""
    places = _unique_runs(written)
    runs = _unique_runs(spoken).items()
    return [Island(place, places[run]) for run, place in runs if run in places]


def _unique_runs(text: str) -> dict[str, int]:
    """Return the places of the runs of `ISLAND` characters that a text has once, in order."""
    runs = [text[place : place + ISLAND] for place in range(len(text) - ISLAND + 1)]
    counts = Counter(runs)
    return {run: place for place, run in enumerate(runs) if counts[run] == 1}


def _rising(islands: Sequence[Island]) -> list[Island]:
    """Return the most islands that are in the order of the text too."""
    last: list[int] = []  # by length, of the chains of that length: the lowest end
    ends: list[int] = []  # their islands
    before: list[int] = []  # the island before each in its chain
    for number, island in enumerate(islands):
        length = bisect_left(last, island.written)
        before.append(ends[length - 1] if length else -1)
        last[length : length + 1] = [island.written]
        ends[length : length + 1] = [number]
    chain = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chain.append(islands[number])
        number = before[number]
    return chain[::-1]


def _places(spoken: str, written: str, islands: Sequence[Island]) -> NDArray[np.int64]:
    """Return the place in the text of each character of the speech; -1: none."""
    places = np.full(len(spoken), -1)
    chain = _rising(islands)
    for island in chain:
        places[island.spoken] = island.written
    for before, after in pairwise([Island(-1, -1), *chain, Island(len(spoken), len(written))]):
        first, place = before.spoken + 1, before.written + 1
        parts = spoken[first : after.spoken], written[place : after.written]
        for block in Levenshtein.opcodes(*parts):
            if block.tag == "equal":
                begin, end = first + block.src_start, first + block.src_end
                places[begin:end] = range(place + block.dest_start, place + block.dest_end)
    return places


def _in_order(
    hypotheses: Sequence[str], words: Sequence[str], islands: Sequence[Island]
) -> list[Stretch | None]:
    """Return the most similar stretches of those that have the order of the hypotheses."""
    places = _places(" ".join(hypotheses), " ".join(words), islands)
    starts = _starts(words)
    found: list[Stretch | None] = []
    begin = floor = 0
    for hypothesis in hypotheses:
        of_hypothesis = places[begin : begin + len(hypothesis)]
        matched = np.flatnonzero(of_hypothesis >= 0)
        begin += len(hypothesis) + 1
        stretch = None
        if len(matched):
            # The median ignores characters at the ends that were strewn over other words.
            place = int(np.median(of_hypothesis[matched] - matched))
            ends = np.array([place, place + len(hypothesis)])
            low, high = np.searchsorted(starts, ends + 1).tolist()
            stretch = _most_similar(hypothesis, words, low - 1, high, floor)
        if stretch and stretch.is_good:
            floor = stretch.last
        found.append(stretch)
    return found


def _most_similar(
    hypothesis: str, words: Sequence[str], low: int, high: int, floor: int
) -> Stretch | None:
    """Return the stretch around words ``low`` to ``high - 1`` that is most similar."""
    firsts = range(max(floor, low - _REACH), min(low + _REACH, len(words)) + 1)
    lasts = range(max(floor, high - _REACH), min(high + _REACH, len(words)) + 1)
    stretches = (
        Stretch(first, last, _error_rate(hypothesis, " ".join(words[first:last])))
        for first, last in product(firsts, lasts)
        if first < last
    )
    # A rate, not a distance: a word at the end that is badly heard is still a word of it.
    # Of equals the longest.
    return min(stretches, key=lambda own: (own.cer, own.first - own.last), default=None)


def _error_rate(hypothesis: str, reference: str) -> float:
    return Levenshtein.distance(hypothesis, reference) / len(reference)
