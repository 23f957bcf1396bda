"""Word errors by category: errors that disappear if one property of the writing is ignored.

Each category changes the normalised reference and hypothesis in the same way, or ignores where
compounds are split. The errors that are then gone belong to the category. Categories overlap, so
their shares need not add up. What remains after all of them are misrecognised words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from rapidfuzz.distance import Levenshtein

from danish_asr.metrics import align_counts, split_words
from danish_asr.text.number_words import read_number_words
from danish_asr.text.profiles import is_mark

LONGEST_COMPOUND: Final = 4
"""Words; Danish compounds rarely have more parts."""

LARGEST_TABLE: Final = 2_500
"""Compounds are searched in stretches without a hit of up to 50 by 50 words, because the table
grows with the product of both sides."""

# More than profile ``coral`` removes ("øøh", "mhm"), with the comma behind a filler, which would
# count as a word of its own.
_FILLERS: Final = re.compile(r"\b(?:[eæø]+h+m*|h+m+|m+h+m*|mm+)\b[.,;:!?…]*", re.IGNORECASE)
_SEPARATED_NUMBER: Final = re.compile(r"\d[\d.]*(?:,\d+)?")


@lru_cache(maxsize=1)  # most changes leave most texts as they are
def word_errors(reference: str, hypothesis: str) -> int:
    """Count the word errors of two texts as they are."""
    return align_counts(split_words(reference), split_words(hypothesis)).errors


def _without_fillers(text: str) -> str:
    return _FILLERS.sub(" ", text)


def _with_digits(text: str) -> str:
    text = _SEPARATED_NUMBER.sub(lambda match: match[0].replace(".", ""), text)
    return read_number_words(text)


def _without_case_and_punctuation(text: str) -> str:
    return "".join(" " if is_mark(character) else character for character in text).lower()


def _after(change: Callable[[str], str]) -> Callable[[str, str], int]:
    return lambda reference, hypothesis: word_errors(change(reference), change(hypothesis))


def _compounds(reference: str, hypothesis: str) -> int:
    return errors_without_compounds(split_words(reference), split_words(hypothesis))


def _all_together(reference: str, hypothesis: str) -> int:
    for change in (_without_fillers, _with_digits, _without_case_and_punctuation):
        reference, hypothesis = change(reference), change(hypothesis)
    return _compounds(reference, hypothesis)


CATEGORIES: Final[Mapping[str, Callable[[str, str], int]]] = {
    "case and punctuation": _after(_without_case_and_punctuation),
    "fillers (øh, hmm, mhm)": _after(_without_fillers),
    "numerals (21, enogtyve)": _after(_with_digits),
    "compounds written apart (særskrivning)": _compounds,
    "all of these together": _all_together,
}
"""Each takes reference and hypothesis and returns the word errors that remain without it."""


def errors_without_compounds(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Count word errors, where "rød grød" for "rødgrød" (in either direction) is not an error.

    Up to ``LONGEST_COMPOUND`` words match as many words of the same letters. Only stretches
    between two hits of jiwer's alignment are searched.
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
