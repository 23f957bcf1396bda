"""Analysis of errors: confused words and characters, error categories, the worst utterances.

::

    analysis = analyse_errors(read_predictions(path), settings=Settings(profile="coral"))
    analysis.substitutions[:10]
    pandas.DataFrame(analysis.substitutions)
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from danish_asr.metrics import AlignedWord, align_words, split_words
from danish_asr.scoring.error_categories import CATEGORIES, word_errors
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.settings import ROW_FILTERS, Settings

FREQUENT: Final = 30
WORST: Final = 50
"""How many of each kind are kept."""

Pair = tuple[str, str]
"""Reference and hypothesis."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often a hypothesis was given for a reference; one is empty in insertions, deletions."""

    reference: str
    hypothesis: str
    count: int


class CategoryShare(NamedTuple):
    """Word errors under ``profile``, with and without one error category.

    ``share`` is negative if the category hides more errors than it makes.
    """

    category: str
    profile: str
    errors: int
    errors_without: int
    share: float


class WorstUtterance(NamedTuple):
    """An utterance with many word errors, and the alignment of its words."""

    row: Prediction
    word_errors: int
    words: int
    alignment: list[AlignedWord]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnalysis:
    """The most frequent errors first, the worst utterances first."""

    profile: str
    rows: int
    rows_with_errors: int
    word_errors: int
    substitutions: list[Confusion]
    insertions: list[Confusion]
    deletions: list[Confusion]
    character_confusions: list[Confusion]
    categories: list[CategoryShare]
    worst: list[WorstUtterance]


def analyse_errors(
    predictions: Iterable[Prediction], *, settings: Settings | None = None
) -> ErrorAnalysis:
    """Analyse the errors of all rows that the settings score."""
    settings = settings or Settings()
    reason_of = ROW_FILTERS[settings.row_filter]
    normalize = settings.normalizer()
    rows = rows_with_errors = 0
    pairs: Counter[Pair] = Counter()
    errors: Counter[str] = Counter()
    errors_without: Counter[tuple[str, str]] = Counter()
    worst: list[tuple[int, float, str, int, WorstUtterance]] = []
    for row in predictions:
        if reason_of(row):
            continue
        rows += 1
        reference, hypothesis = normalize(row.reference), normalize(row.hypothesis)
        texts = {"raw": (row.reference, row.hypothesis), settings.profile: (reference, hypothesis)}
        for profile, both in texts.items():
            # A category changes both sides in the same way, so equal texts stay equal.
            if both[0] != both[1]:
                errors[profile] += word_errors(*both)
                errors_without.update(
                    {(profile, name): count(*both) for name, count in CATEGORIES.items()}
                )
        alignment = align_words(split_words(reference), split_words(hypothesis))
        misses = [(word.reference, word.hypothesis) for word in alignment if word.tag != "hit"]
        if misses:
            rows_with_errors += 1
            pairs.update(misses)
            words = sum(bool(word.reference) for word in alignment)
            utterance = WorstUtterance(row, len(misses), words, alignment)
            rate = len(misses) / max(words, 1)
            heapq.heappush(worst, (len(misses), rate, row.id, rows, utterance))
            if len(worst) > WORST:
                heapq.heappop(worst)
    substitutions = Counter({pair: count for pair, count in pairs.items() if all(pair)})
    return ErrorAnalysis(
        profile=settings.profile,
        rows=rows,
        rows_with_errors=rows_with_errors,
        word_errors=pairs.total(),
        substitutions=_most_frequent(substitutions),
        insertions=_most_frequent({pair: count for pair, count in pairs.items() if not pair[0]}),
        deletions=_most_frequent({pair: count for pair, count in pairs.items() if not pair[1]}),
        character_confusions=_most_frequent(_confused_characters(substitutions)),
        categories=[
            CategoryShare(
                name,
                profile,
                errors[profile],
                without := errors_without[profile, name],
                (errors[profile] - without) / max(errors[profile], 1),
            )
            for profile in dict.fromkeys(["raw", settings.profile])
            for name in CATEGORIES
        ],
        worst=[utterance for *_, utterance in sorted(worst, reverse=True)],
    )


def _most_frequent(counts: Mapping[Pair, int]) -> list[Confusion]:
    first = heapq.nsmallest(FREQUENT, counts.items(), key=lambda item: (-item[1], item[0]))
    return [Confusion(*pair, count) for pair, count in first]


def _confused_characters(substitutions: Mapping[Pair, int]) -> Counter[Pair]:
    """Count the characters that differ in substituted words."""
    characters: Counter[Pair] = Counter()
    for (reference, hypothesis), count in substitutions.items():
        for word in align_words(reference, hypothesis):
            if word.tag != "hit":
                characters[word.reference, word.hypothesis] += count
    return characters
