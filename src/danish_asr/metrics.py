"""Word and character error rates, from integer counts that add up and are divided once.

In: two texts. Out: hits, substitutions, deletions and insertions. Counts and alignments are those
of jiwer: this module calls RapidFuzz as jiwer does. Importing it loads neither torch nor fairseq2.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import add
from typing import Literal, NamedTuple

from rapidfuzz.distance import Levenshtein

Denominator = Literal["standard", "coral"]
"""What errors are divided by. ``standard``: the length of the reference, S + D + H. ``coral``:
S + D + H + I, as CoRal's official evaluation; at most 1, and at most the standard rate."""


class Counts(NamedTuple):
    """Hits and errors of a hypothesis, in words or in characters: numbers, or arrays of them."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        """All but the hits."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference_length(self) -> int:
        """All but the insertions."""
        return self.hits + self.substitutions + self.deletions

    def divisor(self, denominator: Denominator = "standard") -> int:
        """Return what errors are divided by."""
        return self.reference_length + (self.insertions if denominator == "coral" else 0)

    def rate(self, denominator: Denominator = "standard") -> float:
        """Return errors as a fraction; over an empty reference the insertions, or 1 (coral)."""
        return self.errors / max(self.divisor(denominator), 1)


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """The counts of one utterance or of any set of utterances."""

    rows: int = 0
    words: Counts = field(default=Counts())
    characters: Counts = field(default=Counts())

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        return ErrorCounts.from_tuple([*map(add, self.to_tuple(), other.to_tuple())])

    def wer(self, denominator: Denominator = "standard") -> float:
        """Return the word error rate over all words (a micro-average)."""
        return self.words.rate(denominator)

    def cer(self, denominator: Denominator = "standard") -> float:
        """Return the character error rate; a space between words is a character."""
        return self.characters.rate(denominator)

    @classmethod
    def from_tuple(cls, numbers: Sequence[int]) -> ErrorCounts:
        """Build the counts from the nine numbers that `to_tuple` returns."""
        return cls(numbers[0], Counts(*numbers[1:5]), Counts(*numbers[5:9]))

    def to_tuple(self) -> tuple[int, ...]:
        """Return rows, then hits, substitutions, deletions, insertions of words, of characters."""
        return self.rows, *self.words, *self.characters


def count_errors(reference: str, hypothesis: str) -> ErrorCounts:
    """Count the errors of one utterance; the texts are compared without normalisation."""
    words = align_counts(split_words(reference), split_words(hypothesis))
    return ErrorCounts(1, words, align_counts(reference.strip(), hypothesis.strip()))


def align_counts(reference: Sequence[str], hypothesis: Sequence[str]) -> Counts:
    """Count hits and errors of jiwer's alignment of words, or of the characters of two texts."""
    if reference == hypothesis:
        return Counts(hits=len(reference))
    tags = [tag for tag, _, _ in Levenshtein.editops(reference, hypothesis).as_list()]
    deletions = tags.count("delete")
    insertions = deletions + len(hypothesis) - len(reference)
    substitutions = len(tags) - deletions - insertions
    hits = len(reference) - substitutions - deletions
    return Counts(hits, substitutions, deletions, insertions)


def split_words(text: str) -> list[str]:
    """Split at spaces as jiwer does: a single tab or newline does not separate words."""
    words = text.split()
    if " ".join(words) == text:  # usual, and faster
        return words
    return [word for word in re.sub(r"\s\s+", " ", text).strip().split(" ") if word]


class AlignedWord(NamedTuple):
    """One column of an alignment; a side without a word is the empty string."""

    tag: str  # hit, substitution, deletion or insertion
    reference: str
    hypothesis: str


def align_words(reference: Sequence[str], hypothesis: Sequence[str]) -> list[AlignedWord]:
    """Return jiwer's alignment, whose errors `align_counts` counts."""
    tags = {"replace": "substitution", "delete": "deletion", "insert": "insertion"}
    aligned: list[AlignedWord] = []
    for step in Levenshtein.opcodes(reference, hypothesis):
        words = reference[step.src_start : step.src_end]
        others = hypothesis[step.dest_start : step.dest_end]
        pairs = zip_longest(words, others, fillvalue="")
        aligned += [AlignedWord(tags.get(step.tag, "hit"), *pair) for pair in pairs]
    return aligned


def compute_wer(predictions: Iterable[str], references: Iterable[str]) -> float:
    """Return the word error rate over all pairs, as a fraction; see `compute_metrics`."""
    return compute_metrics(predictions, references)["wer"]


def compute_cer(predictions: Iterable[str], references: Iterable[str]) -> float:
    """Return the character error rate over all pairs, as a fraction; see `compute_metrics`."""
    return compute_metrics(predictions, references)["cer"]


def compute_metrics(predictions: Iterable[str], references: Iterable[str]) -> dict[str, float]:
    """Return ``{"wer": ..., "cer": ...}`` over all pairs, as fractions; equal to jiwer's rates.

    Mind that jiwer takes the references first. Use `danish_asr.normalize` on the texts before.

    Raises:
        TypeError: A single text, a table, a mapping or a set; an entry that is not a string,
            such as None or NaN.
        ValueError: The numbers of predictions and references differ.
    """
    total = sum(_counts(predictions, references), ErrorCounts())
    return {"wer": total.wer(), "cer": total.cer()}


def metrics_by_group(
    predictions: Iterable[str], references: Iterable[str], groups: Iterable[Hashable]
) -> dict[Hashable, dict[str, float]]:
    """Return `compute_metrics` of each group; ``groups`` has the group of each pair, NaN is None.

    Raises what `compute_metrics` does.
    """
    sums: defaultdict[Hashable, ErrorCounts] = defaultdict(ErrorCounts)
    names, counts = list(groups), _counts(predictions, references)
    if len(names) != len(counts):
        raise ValueError(f"{len(names)} groups for {len(counts)} pairs")
    for name, errors in zip(names, counts, strict=True):
        sums[None if name != name else name] += errors  # noqa: PLR0124
    return {name: {"wer": total.wer(), "cer": total.cer()} for name, total in sums.items()}


def _counts(predictions: Iterable[str], references: Iterable[str]) -> list[ErrorCounts]:
    for texts in (predictions, references):
        if isinstance(texts, str):
            raise TypeError("expected lists of texts, found a single text")
        if isinstance(texts, Mapping | AbstractSet) or getattr(texts, "ndim", 1) != 1:
            raise TypeError(f"expected lists of texts, found a {type(texts).__name__}")
    hypotheses, expected = list(predictions), list(references)
    if len(hypotheses) != len(expected):
        raise ValueError(f"{len(hypotheses)} predictions for {len(expected)} references")
    for number, pair in enumerate(zip(expected, hypotheses, strict=True)):
        if not all(isinstance(text, str) for text in pair):
            raise TypeError(f"pair {number}: expected two strings, found {pair!r:.80}")
    return list(map(count_errors, expected, hypotheses))
