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


def analyse_errors(
    predictions: Iterable[Prediction], *, settings: Settings | None = None, every: int = 1
) -> ErrorAnalysis:
    """Analyse the errors of all rows that the settings score; all confusions are listed.

    Error categories, which take most of the time, are counted in one of ``every`` rows.
    """
    settings = settings or Settings()
    rows = rows_with_errors = 0
    pairs: Counter[Pair] = Counter()
    errors: Counter[str] = Counter()
    errors_without: Counter[tuple[str, str]] = Counter()
    worst: list[WorstUtterance] = []
    worst_by_wer: list[WorstUtterance] = []
    for row, reference, hypothesis in settings.scored(predictions):
        rows += 1
        if rows % every == 0:
            texts = {"raw": (row.reference, row.hypothesis)}
            texts[settings.profile] = reference, hypothesis
            _count_categories(texts, errors, errors_without)
        if reference == hypothesis:
            continue
        texts_of_words = split_words(reference), split_words(hypothesis)
        missed = align_words(*texts_of_words, hits=False)
        if missed:
            rows_with_errors += 1
            pairs.update((word.reference, word.hypothesis) for word in missed)
            words = len(texts_of_words[0])
            inserted = sum(not word.reference for word in missed)
            length = words + inserted if settings.denominator == "coral" else words
            wer = len(missed) / max(length, 1)
            utterance = WorstUtterance(row, len(missed), words, wer, *texts_of_words)
            worst.append(utterance)
            if words >= WORST_WORDS:
                worst_by_wer.append(utterance)
            if len(worst) > 20 * WORST:  # bounds the memory
                worst = heapq.nlargest(WORST, worst, key=_by_errors)
                worst_by_wer = heapq.nlargest(WORST, worst_by_wer, key=_by_wer)
    substitutions = {pair: count for pair, count in pairs.items() if all(pair)}
    categories: list[CategoryShare] = []
    for profile in dict.fromkeys(["raw", settings.profile]):
        for category in CATEGORIES:
            left = errors_without[profile, category]
            share = (errors[profile] - left) / max(errors[profile], 1)
            categories.append(CategoryShare(category, profile, errors[profile], left, share))
    return ErrorAnalysis(
        profile=settings.profile,
        rows=rows,
        rows_with_errors=rows_with_errors,
        word_errors=pairs.total(),
        substitutions=_most_frequent(substitutions),
        insertions=_most_frequent({pair: count for pair, count in pairs.items() if not pair[0]}),
        deletions=_most_frequent({pair: count for pair, count in pairs.items() if not pair[1]}),
        character_confusions=_most_frequent(_confused_characters(substitutions)),
        categories=categories,
        category_rows=rows // every,
        worst=heapq.nlargest(WORST, worst, key=_by_errors),
        worst_by_wer=heapq.nlargest(WORST, worst_by_wer, key=_by_wer),
    )


def _count_categories(
    texts: Mapping[str, Pair], errors: Counter[str], errors_without: Counter[tuple[str, str]]
) -> None:
    """Add the errors of an utterance under each profile, with and without each category."""
    for profile, both in texts.items():
        # A category changes both sides in the same way, so equal texts stay equal.
        if both[0] != both[1]:
            errors[profile] += word_errors(*both)
            for category, left in errors_left(*both).items():
                errors_without[profile, category] += left


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
