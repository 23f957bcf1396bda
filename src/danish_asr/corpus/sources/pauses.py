"""Utterances of timed text that are too long, divided at the pauses between their words.

The times of words are those of a transcript in JSON, or of a tier of words (``words``, or ``Anna
words`` for the tier ``Anna segments``). A text that a person has corrected is divided only where
the words on both sides of a pause are still in it.
"""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from danish_asr.corpus.sources.spans import Span, Tier, TimedFile, Word

_PAUSE: Final = 0.2
"""Seconds between two words, at least, for a cut in the middle of them."""

_OUTSIDE: Final = 0.5
"""Seconds by which a word may begin before its text, or end after it."""

_WORDS: Final = re.compile(r"(?i)(.*?)[\W_]*(words?|ord|ort-mau)")
"""Names of tiers of words, and the name before it."""

_NO_WORDS: Final = "too long, no times of words (danish-asr align writes them)"
_NO_PAUSE: Final = "too long, no pause between its words"


class Piece(NamedTuple):
    """A part of a span, and why it cannot be used; None if it can."""

    span: Span
    refused: str | None = None


def is_longer(span: Span, longest: float) -> bool:
    """Whether a span has times, and more than ``longest`` seconds."""
    return None not in {span.start, span.end} and (span.end or 0) - (span.start or 0) > longest


def divided(span: Span, longest: float) -> Iterator[Piece]:
    """Yield the parts of a span, of at most ``longest`` seconds if it has such pauses."""
    if span.start is None or span.end is None or not is_longer(span, longest):
        yield Piece(span)
        return
    tokens, pauses = span.text.split(), _pauses(span)
    remaining = [(0, len(tokens), span.start, span.end)]
    while remaining:
        first, stop, start, end = remaining.pop()
        inside = [token for token in pauses if first < token < stop]
        if end - start <= longest or not inside:
            part = span._replace(start=start, end=end, text=" ".join(tokens[first:stop]), words=())
            refused = _NO_PAUSE if _has_own_words(span) else _NO_WORDS
            yield Piece(part, refused if end - start > longest else None)
            continue
        quarter = (end - start) / 4
        in_the_middle = [
            token for token in inside if start + quarter <= sum(pauses[token]) / 2 <= end - quarter
        ]
        token = max(in_the_middle or inside, key=lambda token: pauses[token][1] - pauses[token][0])
        cut = sum(pauses[token]) / 2
        remaining += [(token, stop, cut, end), (first, token, start, cut)]


def _pauses(span: Span) -> dict[int, tuple[float, float]]:
    """The times of the pause before a token of the text, by its number.

    Empty if a word lies outside its span: the times may be those of something else.
    """
    if not _has_own_words(span):
        return {}
    tokens = [
        (number, bare) for number, token in enumerate(span.text.split()) if (bare := _bare(token))
    ]
    words = [(word, bare) for word in span.words if (bare := _bare(word.text))]
    texts = [bare for _, bare in tokens], [bare for _, bare in words]
    pauses = {}
    for block in SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks():
        for number in range(1, block.size):
            before, after = (words[block.b + number - step][0] for step in (1, 0))
            if before.end is None or after.start is None:
                continue
            if after.start - before.end >= _PAUSE:
                pauses[tokens[block.a + number][0]] = before.end, after.start
    return pauses


def _has_own_words(span: Span) -> bool:
    """Whether a span has words, in their order and within its times."""
    times = [time for word in span.words for time in (word.start, word.end) if time is not None]
    if span.start is None or span.end is None or not times:
        return False
    inside = span.start - _OUTSIDE <= min(times) and max(times) <= span.end + _OUTSIDE
    starts = [word.start for word in span.words if word.start is not None]
    return inside and starts == sorted(starts)


def _bare(token: str) -> str:
    """The letters and digits of a token; a dash or three dots alone have none."""
    return "".join(filter(str.isalnum, token.casefold()))


def with_words(span: Span, tier: Tier, file: TimedFile) -> Span:
    """The span with the words of the tier of words that belongs to its own, if it has none."""
    named = {match[1]: other for other in file.tiers if (match := _WORDS.fullmatch(other.name))}
    own = [name for name in named if tier.name.startswith(name)]
    if span.words or span.start is None or span.end is None or not own:
        return span
    start, end = span.start, span.end
    words = [
        Word(word.start, word.end, word.text)
        for word in named[max(own, key=len)].spans
        if word.start is not None
        and word.end is not None
        and start <= (word.start + word.end) / 2 <= end
    ]
    return span._replace(words=tuple(words))
