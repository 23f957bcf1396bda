"""Analysis of errors: confused words and characters, error categories, the worst utterances.

::

    analysis = analyse_errors(read_predictions(path), settings=Settings(profile="coral"))
    analysis.substitutions[:10]
    pandas.DataFrame(analysis.substitutions)
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from rapidfuzz.distance import Levenshtein

from danish_asr.scoring.counts import AlignedWord, align_words, split_words
from danish_asr.scoring.error_categories import CATEGORIES, word_errors
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.settings import ROW_FILTERS, Settings

FREQUENT: Final = 30
WORST: Final = 50
"""How many of each kind are kept."""

MOST_PAIRS: Final = 1_000_000
"""Distinct confusions that are counted at a time. Beyond that the rarer half is dropped, which
bounds the memory and keeps what is frequent over all rows."""

Pair = tuple[str, str]
"""Reference and hypothesis."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often a hypothesis was given for a reference; one is empty in insertions, deletions."""

    reference: str
    hypothesis: str
    count: int


@dataclass(frozen=True, slots=True)
class CategoryShare:
    """Word errors under ``profile``, with and without one error category.

    ``share`` is negative if the category hides more errors than it makes.
    """

    category: str
    profile: str
    errors: int
    errors_without: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstUtterance:
    """An utterance with many word errors, and the alignment of its words."""

    id: str
    word_errors: int
    words: int
    duration: float
    speaker_id: str | None
    dialect: str | None
    age_group: str | None
    gender: str | None
    alignment: tuple[AlignedWord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnalysis:
    """The most frequent errors first, the worst utterances first."""

    profile: str
    rows: int
    rows_with_errors: int
    word_errors: int
    substitutions: tuple[Confusion, ...]
    insertions: tuple[Confusion, ...]
    deletions: tuple[Confusion, ...]
    character_confusions: tuple[Confusion, ...]
    categories: tuple[CategoryShare, ...]
    worst: tuple[WorstUtterance, ...]


def analyse_errors(
    predictions: Iterable[Prediction], *, settings: Settings | None = None
) -> ErrorAnalysis:
    """Analyse the errors of all rows that the settings score."""
    settings = settings or Settings()
    reason_of = ROW_FILTERS[settings.row_filter]
    normalize = settings.normalizer()
    collected = _Collected(settings.profile)
    for row in predictions:
        if reason_of(row) is None:
            collected.add(row, normalize(row.reference), normalize(row.hypothesis))
    return collected.result()


@dataclass(slots=True)
class _Collected:
    """Counts that grow row by row."""

    profile: str
    rows: int = 0
    rows_with_errors: int = 0
    word_errors: int = 0
    pairs: Counter[Pair] = field(default_factory=Counter)
    characters: Counter[Pair] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    errors_without: Counter[tuple[str, str]] = field(default_factory=Counter)
    worst: list[tuple[tuple[int, float, str, int], WorstUtterance]] = field(default_factory=list)

    def add(self, row: Prediction, reference: str, hypothesis: str) -> None:
        self.rows += 1
        self._add_categories("raw", row.reference, row.hypothesis)
        if reference == hypothesis:
            return
        if self.profile != "raw":
            self._add_categories(self.profile, reference, hypothesis)
        alignment = align_words(split_words(reference), split_words(hypothesis))
        misses = [word for word in alignment if word.tag != "hit"]
        if not misses:
            return
        self.rows_with_errors += 1
        self.word_errors += len(misses)
        for miss in misses:
            self.pairs[miss.reference, miss.hypothesis] += 1
            if miss.tag == "substitution":
                self.characters.update(_confused_characters(miss.reference, miss.hypothesis))
        if len(self.pairs) > MOST_PAIRS:
            self.pairs = Counter(dict(self.pairs.most_common(MOST_PAIRS // 2)))
        self._keep_if_bad(row, alignment, len(misses))

    def _add_categories(self, profile: str, reference: str, hypothesis: str) -> None:
        # Both sides change in the same way, so equal texts stay equal.
        if reference != hypothesis:
            self.errors[profile] += word_errors(reference, hypothesis)
            for name, count in CATEGORIES.items():
                self.errors_without[profile, name] += count(reference, hypothesis)

    def _keep_if_bad(self, row: Prediction, alignment: list[AlignedWord], errors: int) -> None:
        words = sum(bool(word.reference) for word in alignment)
        badness = (errors, errors / max(words, 1), row.id, self.rows)
        if len(self.worst) == WORST and badness <= self.worst[0][0]:
            return
        utterance = WorstUtterance(
            id=row.id,
            word_errors=errors,
            words=words,
            duration=row.duration,
            speaker_id=row.speaker_id,
            dialect=row.dialect,
            age_group=row.age_group,
            gender=row.gender,
            alignment=tuple(alignment),
        )
        push = heapq.heappush if len(self.worst) < WORST else heapq.heapreplace
        push(self.worst, (badness, utterance))

    def result(self) -> ErrorAnalysis:
        pairs = self.pairs.items()
        return ErrorAnalysis(
            profile=self.profile,
            rows=self.rows,
            rows_with_errors=self.rows_with_errors,
            word_errors=self.word_errors,
            substitutions=_most_frequent(item for item in pairs if all(item[0])),
            insertions=_most_frequent(item for item in pairs if not item[0][0]),
            deletions=_most_frequent(item for item in pairs if not item[0][1]),
            character_confusions=_most_frequent(self.characters.items()),
            categories=tuple(
                self._share(name, profile)
                for profile in dict.fromkeys(["raw", self.profile])
                for name in CATEGORIES
            ),
            worst=tuple(utterance for _, utterance in sorted(self.worst, reverse=True)),
        )

    def _share(self, name: str, profile: str) -> CategoryShare:
        errors, without = self.errors[profile], self.errors_without[profile, name]
        return CategoryShare(name, profile, errors, without, (errors - without) / max(errors, 1))


def _most_frequent(counts: Iterable[tuple[Pair, int]]) -> tuple[Confusion, ...]:
    first = heapq.nsmallest(FREQUENT, counts, key=lambda item: (-item[1], item[0]))
    return tuple(Confusion(*pair, count) for pair, count in first)


def _confused_characters(reference: str, hypothesis: str) -> Iterator[Pair]:
    """Yield the characters that differ in a substituted word."""
    for step in Levenshtein.editops(reference, hypothesis):
        yield (
            "" if step.tag == "insert" else reference[step.src_pos],
            "" if step.tag == "delete" else hypothesis[step.dest_pos],
        )
