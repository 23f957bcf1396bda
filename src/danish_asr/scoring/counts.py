"""Word and character error rates from integer counts that add up.

Training, scoring and comparison share this code: errors are counted per utterance, counts are
summed over any set of utterances, and one division at the end gives a rate. Counts and alignments
are those of jiwer: this module calls RapidFuzz as jiwer does, without jiwer's overhead per call.

Importing this module loads neither torch nor fairseq2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, Literal, get_args

import jiwer
from rapidfuzz.distance import Levenshtein

from danish_asr.errors import ConfigError

Denominator = Literal["standard", "coral"]
"""What errors are divided by. ``standard``: the length of the reference, S + D + H. ``coral``:
S + D + H + I, as CoRal's official evaluation; at most 1, and at most the standard rate."""

DENOMINATORS: Final[tuple[Denominator, ...]] = get_args(Denominator)


def denominator_named(name: str) -> Denominator:
    """Return the denominator of that name.

    Raises:
        ConfigError: The name is unknown.
    """
    if name not in DENOMINATORS:
        known = ", ".join(DENOMINATORS)
        raise ConfigError([f"denominator: expected one of {known}; found '{name}'"])
    return DENOMINATORS[DENOMINATORS.index(name)]


@dataclass(frozen=True, slots=True)
class Counts:
    """Differences between hypothesis and reference, in words or in characters."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(sum, zip(self.to_tuple(), other.to_tuple(), strict=True)))

    def to_tuple(self) -> tuple[int, int, int, int]:
        """Return hits, substitutions, deletions, insertions."""
        return self.hits, self.substitutions, self.deletions, self.insertions

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference_length(self) -> int:
        """Words or characters of the reference."""
        return self.hits + self.substitutions + self.deletions

    def rate(self, denominator: Denominator = "standard") -> float:
        """Return errors as a fraction; over an empty reference the number of insertions."""
        length = self.reference_length + (self.insertions if denominator == "coral" else 0)
        return self.errors / max(length, 1)


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """The counts of one utterance or of any set of utterances."""

    rows: int = 0
    words: Counts = Counts()
    characters: Counts = Counts()

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        return ErrorCounts(
            self.rows + other.rows, self.words + other.words, self.characters + other.characters
        )

    def wer(self, denominator: Denominator = "standard") -> float:
        """Return the word error rate over all words (a micro-average)."""
        return self.words.rate(denominator)

    def cer(self, denominator: Denominator = "standard") -> float:
        """Return the character error rate; a space between words is a character."""
        return self.characters.rate(denominator)

    @classmethod
    def from_tuple(cls, numbers: Sequence[int]) -> ErrorCounts:
        """Build the counts from the numbers that `to_tuple` returns."""
        return cls(numbers[0], Counts(*numbers[1:5]), Counts(*numbers[5:9]))

    def to_tuple(self) -> tuple[int, ...]:
        """Return rows, then `Counts.to_tuple` of the words and of the characters."""
        return self.rows, *self.words.to_tuple(), *self.characters.to_tuple()


def count_errors(reference: str, hypothesis: str) -> ErrorCounts:
    """Count the errors of one utterance; the texts are compared without normalisation."""
    return ErrorCounts(
        1,
        align_counts(split_words(reference), split_words(hypothesis)),
        align_counts(reference.strip(), hypothesis.strip()),
    )


def align_counts(reference: Sequence[str], hypothesis: Sequence[str]) -> Counts:
    """Count hits and errors of jiwer's alignment."""
    if reference == hypothesis:
        return Counts(hits=len(reference))
    substitutions = deletions = insertions = 0
    # A plain loop: most utterances have few errors, and a Counter is slower for those.
    for tag, _, _ in Levenshtein.editops(reference, hypothesis).as_list():
        if tag == "replace":
            substitutions += 1
        elif tag == "delete":
            deletions += 1
        else:
            insertions += 1
    hits = len(reference) - substitutions - deletions
    return Counts(hits, substitutions, deletions, insertions)


Tag = Literal["hit", "substitution", "deletion", "insertion"]
_TAGS: Final[dict[str, Tag]] = {
    "equal": "hit",
    "replace": "substitution",
    "delete": "deletion",
    "insert": "insertion",
}


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """One column of an alignment; a side without a word is the empty string."""

    tag: Tag
    reference: str
    hypothesis: str


def align_words(reference: Sequence[str], hypothesis: Sequence[str]) -> list[AlignedWord]:
    """Return jiwer's alignment, whose errors `align_counts` counts."""
    aligned: list[AlignedWord] = []
    for step in Levenshtein.opcodes(reference, hypothesis):
        pairs = zip_longest(
            reference[step.src_start : step.src_end],
            hypothesis[step.dest_start : step.dest_end],
            fillvalue="",
        )
        aligned += [AlignedWord(_TAGS[step.tag], *pair) for pair in pairs]
    return aligned


_SPACES: Final = re.compile(r"\s\s+")


def split_words(text: str) -> list[str]:
    """Split at spaces as jiwer does: a single tab or newline does not separate words."""
    return [word for word in _SPACES.sub(" ", text).strip().split(" ") if word]


def compute_wer(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Return jiwer's word error rate over all pairs, as a fraction.

    Raises:
        TypeError: A single text instead of a list.
        ValueError: The numbers of predictions and references differ.
    """
    return _compute(jiwer.wer, predictions, references)


def compute_cer(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Return jiwer's character error rate over all pairs, see `compute_wer`."""
    return _compute(jiwer.cer, predictions, references)


def _compute(
    rate: Callable[[list[str], list[str]], float],
    predictions: Sequence[str],
    references: Sequence[str],
) -> float:
    if isinstance(predictions, str) or isinstance(references, str):
        raise TypeError("expected two lists of texts, found a single text")
    if len(predictions) != len(references):
        raise ValueError(f"found {len(predictions)} predictions and {len(references)} references")
    return float(rate(list(references), list(predictions))) if references else 0.0
