"""Pieces of speech, and the transcripts that they may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rapidfuzz.distance import Levenshtein

from danish_asr.decoding.transcript import Word


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A transcript that a piece of speech may have; times in seconds of the recording."""

    text: str
    start: float
    end: float
    cer: float
    """Character error rate of the other reading: the model's of a text, a second model's."""
    confidence: float
    """Geometric mean over the characters, from 0 to 1."""
    first: int = 0
    """In words of the recording's text: where it begins."""
    last: int = 0
    """The word after its last one."""
    speaker: str | None = None


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Speech without a cut, as the first model hears it."""

    start: float
    end: float
    hypothesis: str
    matched: Candidate | None = None
    """What the recording's text says; None if there is no text."""
    labelled: Candidate | None = None
    """What the models say; None with one model."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return what `dataclasses.asdict` made a mapping of."""
        names = ("matched", "labelled")
        candidates = {name: values[name] and Candidate(**values[name]) for name in names}
        return cls(**{**values, **candidates})


def divide(words: Sequence[Word], longest: float) -> list[Sequence[Word]]:
    """Cut words into parts of at most ``longest`` seconds, where the pauses are longest."""
    begin, end = words[0].start, words[-1].end
    if end - begin <= longest or len(words) < 2:
        return [words]
    quarter = (end - begin) / 4
    cuts = range(1, len(words))
    inner = [i for i in cuts if begin + quarter <= words[i].start <= end - quarter]
    cut = max(inner or cuts, key=lambda i: words[i].start - words[i - 1].end)
    return divide(words[:cut], longest) + divide(words[cut:], longest)


def error_rate(hypothesis: str, reference: str) -> float:
    """Return the character error rate; 1 for an empty reference."""
    return Levenshtein.distance(hypothesis, reference) / len(reference) if reference else 1.0
