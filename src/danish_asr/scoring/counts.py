"""Word and character error rates from addable integer counts.

One engine serves training, scoring and comparison: errors are counted as integers per utterance,
integers are added up over any set of utterances, and one division at the end makes a rate. The
counts are those of jiwer, whose alignment (RapidFuzz) and whose idea of a word are used.

Importing this module is cheap: it needs neither torch nor fairseq2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import jiwer
from rapidfuzz.distance import Levenshtein

from danish_asr.errors import ConfigError

Denominator = Literal["standard", "coral"]
"""What errors are divided by. ``standard``: the reference's length, S + D + H. ``coral``: CoRal's
official evaluation, S + D + H + I, which never exceeds 1 and is never above the standard rate."""

DENOMINATORS: Final[tuple[Denominator, ...]] = get_args(Denominator)


def denominator_named(name: str) -> Denominator:
    """Return the denominator of that name.

    Raises:
        ConfigError: There is none.
    """
    for denominator in DENOMINATORS:
        if denominator == name:
            return denominator
    known = ", ".join(DENOMINATORS)
    raise ConfigError([f"denominator: expected one of {known}; found '{name}'"])


@dataclass(frozen=True, slots=True)
class Counts:
    """How a hypothesis differs from its reference, in words or in characters.

    Counts of several utterances add up; ``Counts()`` is the neutral element.
    """

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.hits + other.hits,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )

    def to_tuple(self) -> tuple[int, int, int, int]:
        """Hits, substitutions, deletions, insertions."""
        return self.hits, self.substitutions, self.deletions, self.insertions

    @property
    def errors(self) -> int:
        """Edits that turn the reference into the hypothesis."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference_length(self) -> int:
        """Units (words or characters) of the reference."""
        return self.hits + self.substitutions + self.deletions

    def rate(self, denominator: Denominator = "standard") -> float:
        """Errors as a fraction, not per cent.

        Over an empty reference the standard rate is the number of insertions, as in jiwer.
        """
        length = self.reference_length
        if denominator == "coral":
            length += self.insertions
        return self.errors / max(length, 1)


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """The counts of one utterance, or of any set of utterances, in words and in characters."""

    rows: int = 0
    words: Counts = Counts()
    characters: Counts = Counts()

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        return ErrorCounts(
            self.rows + other.rows, self.words + other.words, self.characters + other.characters
        )

    def wer(self, denominator: Denominator = "standard") -> float:
        """Word error rate, a micro-average: all errors over all words."""
        return self.words.rate(denominator)

    def cer(self, denominator: Denominator = "standard") -> float:
        """Character error rate, a micro-average; spaces between words are characters."""
        return self.characters.rate(denominator)

    @classmethod
    def from_tuple(cls, numbers: Sequence[int]) -> ErrorCounts:
        """Undo `to_tuple`."""
        return cls(numbers[0], Counts(*numbers[1:5]), Counts(*numbers[5:9]))

    def to_tuple(self) -> tuple[int, ...]:
        """Rows, then hits, substitutions, deletions, insertions in words, then in characters."""
        return self.rows, *self.words.to_tuple(), *self.characters.to_tuple()


def count_errors(reference: str, hypothesis: str) -> ErrorCounts:
    """Count the errors of one utterance; both texts are compared as they are."""
    return ErrorCounts(
        1,
        align_counts(split_words(reference), split_words(hypothesis)),
        align_counts(reference.strip(), hypothesis.strip()),
    )


def align_counts(reference: Sequence[str], hypothesis: Sequence[str]) -> Counts:
    """Count hits and edits of the alignment that jiwer chooses."""
    if reference == hypothesis:
        return Counts(hits=len(reference))
    substitutions = deletions = insertions = 0
    for tag, _, _ in Levenshtein.editops(reference, hypothesis).as_list():
        if tag == "replace":
            substitutions += 1
        elif tag == "delete":
            deletions += 1
        else:
            insertions += 1
    hits = len(reference) - substitutions - deletions
    return Counts(hits, substitutions, deletions, insertions)


_SPACES: Final = re.compile(r"\s\s+")


def split_words(text: str) -> list[str]:
    """Split at spaces, exactly as jiwer does: a lone tab or newline does not part two words."""
    return [word for word in _SPACES.sub(" ", text).strip().split(" ") if word]


def compute_wer(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Return jiwer's word error rate over all pairs, as a fraction.

    Raises:
        ValueError: There are not as many predictions as references.
    """
    _require_pairs(predictions, references)
    return float(jiwer.wer(list(references), list(predictions))) if references else 0.0


def compute_cer(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Return jiwer's character error rate over all pairs, as a fraction.

    Raises:
        ValueError: There are not as many predictions as references.
    """
    _require_pairs(predictions, references)
    return float(jiwer.cer(list(references), list(predictions))) if references else 0.0


def _require_pairs(predictions: Sequence[str], references: Sequence[str]) -> None:
    if isinstance(predictions, str) or isinstance(references, str):
        raise TypeError("expected two lists of texts, found a single text")
    if len(predictions) != len(references):
        raise ValueError(
            f"each prediction needs its reference: found {len(predictions)} predictions "
            f"and {len(references)} references"
        )
