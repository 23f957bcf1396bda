"""Analysis of errors: confused words and characters, error categories, the worst utterances.

A category holds the errors that disappear if one property of the writing is ignored: both texts
are changed in the same way, or compounds may be split anywhere. Categories overlap, so their shares
need not add up. What remains after all of them are mostly misrecognised words.
"""

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, NamedTuple

from rapidfuzz.distance import Levenshtein
from text_to_num import alpha2digit

from danish_asr.metrics import AlignedWord, align_counts, align_words, split_words
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.settings import Settings
from danish_asr.text.profiles import is_mark

WORST: Final = 50
WORST_WORDS: Final = 5  # of a reference; shorter utterances are not ranked by WER
LONGEST_WORD: Final = 1_000  # letters; aligning the characters of longer ones takes too long

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often a hypothesis was given for a reference; one is empty in insertions, deletions."""

    reference: str
    hypothesis: str
    count: int


class CategoryShare(NamedTuple):
    """Word errors under ``profile``, with and without one error category."""

    category: str
    profile: str
    errors: int
    errors_without: int
    share: float  # negative if the category hides more errors than it makes


class WorstUtterance(NamedTuple):
    """An utterance with many word errors, and the alignment of its words."""

    row: Prediction
    word_errors: int
    words: int
    wer: float
    reference: Sequence[str]  # its normalised words
    hypothesis: Sequence[str]

    @property
    def alignment(self) -> list[AlignedWord]:
        """The alignment of the words."""
        return align_words(self.reference, self.hypothesis)


def _by_errors(utterance: WorstUtterance) -> tuple[float, float, str]:
    return utterance.word_errors, utterance.wer, utterance.row.id


def _by_wer(utterance: WorstUtterance) -> tuple[float, float, str]:
    return utterance.wer, utterance.word_errors, utterance.row.id


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnalysis:
    """The most frequent errors first; the worst utterances by word errors and by WER."""

    profile: str
    rows: int
    rows_with_errors: int
    word_errors: int
    substitutions: list[Confusion]
    insertions: list[Confusion]
    deletions: list[Confusion]
    character_confusions: list[Confusion]
    categories: list[CategoryShare]
    category_rows: int  # in which the categories were counted
    worst: list[WorstUtterance]
    worst_by_wer: list[WorstUtterance]  # of at least WORST_WORDS words


class ErrorCollector:
    """Collects the errors of utterances, one after the other.

    Error categories take most of the time. With ``at_most``, they are counted in up to twice as
    many rows, evenly over all: whenever there are so many, every other one is dropped.
    """

    def __init__(self, settings: Settings, *, at_most: int | None = None) -> None:
        self._settings, self._at_most = settings, at_most
        self._rows = self._rows_with_errors = 0
        self._pairs: Counter[Pair] = Counter()
        self._every = 1
        self._sampled: list[Mapping[str, Pair]] = []
        self._errors: Counter[tuple[str, str]] = Counter()
        self._worst: list[WorstUtterance] = []
        self._worst_by_wer: list[WorstUtterance] = []

    def add(self, row: Prediction, reference: str, hypothesis: str) -> None:
        """Add an utterance with its normalised texts."""
        self._rows += 1
        if self._rows % self._every == 0:
            texts = {"raw": (row.reference, row.hypothesis)}
            texts[self._settings.profile] = reference, hypothesis
            self._sample(texts)
        if reference == hypothesis:
            return
        words, others = split_words(reference), split_words(hypothesis)
        missed = align_words(words, others, hits=False)
        if not missed:
            return
        self._rows_with_errors += 1
        self._pairs.update((word.reference, word.hypothesis) for word in missed)
        inserted = sum(not word.reference for word in missed)
        coral = self._settings.denominator == "coral"
        wer = len(missed) / max(len(words) + inserted if coral else len(words), 1)
        utterance = WorstUtterance(row, len(missed), len(words), wer, words, others)
        self._worst.append(utterance)
        if len(words) >= WORST_WORDS:
            self._worst_by_wer.append(utterance)
        if len(self._worst) > 20 * WORST:  # bounds the memory
            self._worst = heapq.nlargest(WORST, self._worst, key=_by_errors)
            self._worst_by_wer = heapq.nlargest(WORST, self._worst_by_wer, key=_by_wer)

    def _sample(self, texts: Mapping[str, Pair]) -> None:
        if self._at_most is None:
            self._errors.update(_errors_of_categories(texts))
            return
        self._sampled.append(texts)
        if len(self._sampled) == 2 * self._at_most:
            self._sampled = self._sampled[1::2]
            self._every *= 2

    def analysis(self) -> ErrorAnalysis:
        """Return the analysis of all utterances so far."""
        substitutions = {pair: count for pair, count in self._pairs.items() if all(pair)}
        insertions = {pair: count for pair, count in self._pairs.items() if not pair[0]}
        deletions = {pair: count for pair, count in self._pairs.items() if not pair[1]}
        return ErrorAnalysis(
            profile=self._settings.profile,
            rows=self._rows,
            rows_with_errors=self._rows_with_errors,
            word_errors=self._pairs.total(),
            substitutions=_most_frequent(substitutions),
            insertions=_most_frequent(insertions),
            deletions=_most_frequent(deletions),
            character_confusions=_most_frequent(_confused_characters(substitutions)),
            categories=self._shares(),
            category_rows=self._rows // self._every,
            worst=heapq.nlargest(WORST, self._worst, key=_by_errors),
            worst_by_wer=heapq.nlargest(WORST, self._worst_by_wer, key=_by_wer),
        )

    def _shares(self) -> list[CategoryShare]:
        errors = self._errors.copy()
        for texts in self._sampled:
            errors.update(_errors_of_categories(texts))
        shares: list[CategoryShare] = []
        for profile in dict.fromkeys(["raw", self._settings.profile]):
            total = errors[profile, _NONE]
            for category in CATEGORIES:
                left = errors[profile, category]
                share = (total - left) / max(total, 1)
                shares.append(CategoryShare(category, profile, total, left, share))
        return shares


def analyse_errors(
    predictions: Iterable[Prediction], *, settings: Settings | None = None
) -> ErrorAnalysis:
    """Analyse the errors of all rows that the settings score; all confusions are listed."""
    settings = settings or Settings()
    collector = ErrorCollector(settings)
    for row, reference, hypothesis in settings.scored(predictions):
        collector.add(row, reference, hypothesis)
    return collector.analysis()


_NONE: Final = "nothing"


def _errors_of_categories(texts: Mapping[str, Pair]) -> Counter[tuple[str, str]]:
    """Count the word errors of an utterance by profile and by what is ignored."""
    errors: Counter[tuple[str, str]] = Counter()
    for profile, both in texts.items():
        # A category changes both sides in the same way, so equal texts stay equal.
        if both[0] != both[1]:
            errors[profile, _NONE] = word_errors(*both)
            for category, left in errors_left(*both).items():
                errors[profile, category] = left
    return errors


def _most_frequent(counts: Mapping[Pair, int]) -> list[Confusion]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Confusion(*pair, count) for pair, count in ordered]


def _confused_characters(substitutions: Mapping[Pair, int]) -> Counter[Pair]:
    characters: Counter[Pair] = Counter()
    for (reference, hypothesis), count in substitutions.items():
        if max(len(reference), len(hypothesis)) > LONGEST_WORD:
            continue
        for word in align_words(reference, hypothesis):
            if word.tag != "hit":
                characters[word.reference, word.hypothesis] += count
    return characters


LONGEST_COMPOUND: Final = 4  # words; Danish compounds rarely have more parts
LARGEST_TABLE: Final = 2_500  # compounds are searched in stretches of up to 50 by 50 words

# More than profile ``coral`` removes ("øøh", "mhm"), with the comma behind a filler, which would
# count as a word of its own.
_FILLERS: Final = re.compile(r"\b(?:[eæø]+h+m*|h+m+|m+h+m*|mm+)\b[.,;:!?…]*", re.IGNORECASE)
_without_fillers: Final = partial(_FILLERS.sub, " ")
_SEPARATED_NUMBER: Final = re.compile(r"\d[\d.]*(?:,\d+)?")


@lru_cache(maxsize=1)  # most changes leave most texts as they are
def word_errors(reference: str, hypothesis: str) -> int:
    """Count the word errors of two texts as they are."""
    return align_counts(split_words(reference), split_words(hypothesis)).errors


def _with_digits(text: str) -> str:
    text = _SEPARATED_NUMBER.sub(lambda match: match[0].replace(".", ""), text)
    return str(alpha2digit(text, "da", 1))  # "en" and "et" are articles


def _without_case_and_punctuation(text: str) -> str:
    return "".join(" " if is_mark(character) else character for character in text).lower()


def _after(change: Callable[[str], str]) -> Callable[[str, str], int]:
    return lambda reference, hypothesis: word_errors(change(reference), change(hypothesis))


def _compounds(reference: str, hypothesis: str) -> int:
    return errors_without_compounds(split_words(reference), split_words(hypothesis))


def _all_together(reference: str, hypothesis: str) -> int:
    errors: list[int] = []
    # Digits hide compounds: "hundredebøger" has no numeral, "hundrede bøger" has one.
    for change in (str, _with_digits):
        texts = [change(_without_fillers(text)) for text in (reference, hypothesis)]
        errors.append(_compounds(*map(_without_case_and_punctuation, texts)))
    return min(errors)


_ALL: Final = "all of these together"

CATEGORIES: Final[Mapping[str, Callable[[str, str], int]]] = {
    "case and punctuation": _after(_without_case_and_punctuation),
    "fillers (øh, hmm, mhm)": _after(_without_fillers),
    "numerals (21, enogtyve)": _after(_with_digits),
    "compounds written apart (særskrivning)": _compounds,
    _ALL: _all_together,
}
"""Each takes reference and hypothesis and returns the word errors that remain without it."""


def errors_left(reference: str, hypothesis: str) -> dict[str, int]:
    """Count the errors without each category; all together leave at most what a single one does."""
    left = {name: count(reference, hypothesis) for name, count in CATEGORIES.items()}
    return left | {_ALL: min(left.values())}


def errors_without_compounds(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Count word errors, where "rød grød" for "rødgrød" (in either direction) is not an error.

    Only stretches between two hits of jiwer's alignment are searched.
    """
    errors = begin = other_begin = 0
    for block in Levenshtein.opcodes(reference, hypothesis).as_matching_blocks():
        errors += _stretch_errors(reference[begin : block.a], hypothesis[other_begin : block.b])
        begin, other_begin = block.a + block.size, block.b + block.size
    return errors


def _stretch_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Return the edit distance (Wagner and Fischer 1974) with compounds as steps of no cost."""
    rows, columns = len(reference), len(hypothesis)
    errors = max(rows, columns)
    if errors == 1 or not rows * columns or rows * columns > LARGEST_TABLE:
        return errors
    spans_of: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for begin, end in _spans(columns):
        spans_of["".join(hypothesis[begin:end])].append((begin, end))
    # For each pair of ends the beginnings of runs of the same letters.
    same: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for begin, end in _spans(rows):
        for other_begin, other_end in spans_of.get("".join(reference[begin:end]), ()):
            same[end, other_end].append((begin, other_begin))
    if not same:
        return errors
    table = [list(range(columns + 1))]
    for row in range(1, rows + 1):
        above, line = table[-1], [row]
        table.append(line)
        for column in range(1, columns + 1):
            least = 1 + min(above[column], line[-1], above[column - 1])
            matches = [table[begin][other] for begin, other in same.get((row, column), ())]
            line.append(min([least, *matches]))
    return table[-1][-1]


def _spans(words: int) -> Iterator[tuple[int, int]]:
    for begin in range(words):
        for end in range(begin + 1, min(begin + LONGEST_COMPOUND, words) + 1):
            yield begin, end
