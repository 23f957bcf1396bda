"""What the errors are: confused words and characters, matters of writing, the worst utterances.

::

    analysis = analyse_errors(read_predictions(path), settings=Settings(profile="coral"))
    analysis.substitutions[:10]
    analysis.to_pandas("effects")
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal

from rapidfuzz.distance import Levenshtein

from danish_asr.scoring.alignment import AlignedWord, align_words
from danish_asr.scoring.counts import split_words
from danish_asr.scoring.effects import EFFECTS, word_errors
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.row_filters import row_filter_reason
from danish_asr.scoring.settings import Settings
from danish_asr.text.profiles import normalizer

if TYPE_CHECKING:
    import pandas as pd

FREQUENT: Final = 30
WORST: Final = 50
"""How many of each kind are kept."""

MOST_PAIRS: Final = 1_000_000
"""Distinct confusions that are counted at a time. Beyond it the rarer half is forgotten, so that
memory is bounded; what is frequent over all rows stays, and up to it all counts are exact."""

Pair = tuple[str, str]
"""What was said and what was heard."""

Part = Literal[
    "substitutions", "insertions", "deletions", "character_confusions", "effects", "worst"
]


@dataclass(frozen=True, slots=True)
class Confusion:
    """What was said, what was heard, and how often. An empty side: nothing was said, or heard."""

    reference: str
    hypothesis: str
    count: int


@dataclass(frozen=True, slots=True)
class EffectShare:
    """Word errors of profile ``profile`` before and after an effect is taken out of both sides."""

    effect: str
    profile: str
    errors: int
    errors_without: int

    @property
    def share(self) -> float:
        """The share of the errors that is due to the effect; negative if it hides more errors."""
        return (self.errors - self.errors_without) / max(self.errors, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstUtterance:
    """An utterance with many word errors, and its words side by side."""

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
    effects: tuple[EffectShare, ...]
    worst: tuple[WorstUtterance, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        document = asdict(self)
        for line, effect in zip(document["effects"], self.effects, strict=True):
            line["share"] = effect.share
        return document

    def to_pandas(self, part: Part) -> pd.DataFrame:
        """Return one of the tables as a data frame, with its columns where it is empty too."""
        import pandas as pd  # noqa: PLC0415 - keeps the import of this module light

        lines = self.to_dict()[part]
        kind = WorstUtterance if part == "worst" else Confusion
        return pd.DataFrame(lines, columns=None if lines else [f.name for f in fields(kind)])


def analyse_errors(
    predictions: Iterable[Prediction], *, settings: Settings | None = None
) -> ErrorAnalysis:
    """Look at the errors of all rows that the settings score.

    Raises:
        ConfigError: There is no such profile or row filter.
        PredictionsError: Passed on from ``predictions``.
    """
    settings = settings or Settings()
    reason_of = row_filter_reason(settings.row_filter)
    normalise = normalizer(settings.profile, remove_fillers=settings.remove_fillers)
    collected = _Collected(settings.profile)
    for row in predictions:
        if reason_of(row) is None:
            collected.add(row, normalise(row.reference), normalise(row.hypothesis))
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
    effects: Counter[Pair] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    worst: list[tuple[tuple[int, float, str, int], WorstUtterance]] = field(default_factory=list)

    def add(self, row: Prediction, reference: str, hypothesis: str) -> None:
        self.rows += 1
        self._add_effects("raw", row.reference, row.hypothesis)
        # Both sides change alike, so a row without errors has none without an effect either.
        if reference == hypothesis:
            return
        if self.profile != "raw":
            self._add_effects(self.profile, reference, hypothesis)
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

    def _add_effects(self, profile: str, reference: str, hypothesis: str) -> None:
        if reference == hypothesis:
            return
        self.errors[profile] += word_errors(reference, hypothesis)
        for name, effect in EFFECTS.items():
            self.effects[profile, name] += effect(reference, hypothesis)

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
        substitutions, insertions, deletions = Counter[Pair](), Counter[Pair](), Counter[Pair]()
        for (said, heard), count in self.pairs.items():
            kind = substitutions if said and heard else deletions if said else insertions
            kind[said, heard] = count
        return ErrorAnalysis(
            profile=self.profile,
            rows=self.rows,
            rows_with_errors=self.rows_with_errors,
            word_errors=self.word_errors,
            substitutions=_most_frequent(substitutions),
            insertions=_most_frequent(insertions),
            deletions=_most_frequent(deletions),
            character_confusions=_most_frequent(self.characters),
            effects=tuple(
                EffectShare(name, profile, self.errors[profile], self.effects[profile, name])
                for profile in dict.fromkeys(["raw", self.profile])
                for name in EFFECTS
            ),
            worst=tuple(utterance for _, utterance in sorted(self.worst, reverse=True)),
        )


def _most_frequent(counts: Counter[Pair]) -> tuple[Confusion, ...]:
    first = heapq.nsmallest(FREQUENT, counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Confusion(*pair, count) for pair, count in first)


def _confused_characters(said: str, heard: str) -> Iterable[Pair]:
    """Yield the characters that differ between a word and the word it was taken for."""
    for step in Levenshtein.editops(said, heard):
        yield (
            "" if step.tag == "insert" else said[step.src_pos],
            "" if step.tag == "delete" else heard[step.dest_pos],
        )
