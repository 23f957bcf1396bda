"""How many errors are matters of writing: score again with one effect taken out of both sides.

Each effect is a change that is made to the normalised reference and hypothesis alike. The errors
that then are gone were due to it. Effects overlap, so their shares need not add up to the share of
all of them together; what remains after all of them is misheard speech.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from danish_asr.scoring.compounds import errors_without_compounds
from danish_asr.scoring.counts import align_counts, split_words
from danish_asr.text.number_words import read_number_words

Effect = Callable[[str, str], int]
"""Takes the normalised reference and hypothesis, and returns the word errors without the effect."""

_FILLERS: Final = re.compile(r"\b(?:[eæø]+h+m*|h+m+|m+h+m*|mm+)\b[.,;:!?…]*", re.IGNORECASE)
"""More than profile ``coral`` takes out, so that "øøh" and "mhm" count as what they are. The comma
behind a filler goes with it; alone it would count as a word."""

_SEPARATED_NUMBER: Final = re.compile(r"\d[\d.]*(?:,\d+)?")


@lru_cache(maxsize=1)  # most effects leave most texts as they are
def word_errors(reference: str, hypothesis: str) -> int:
    """Count the word errors of two texts as they are."""
    return align_counts(split_words(reference), split_words(hypothesis)).errors


def _each(change: Callable[[str], str]) -> Effect:
    def effect(reference: str, hypothesis: str) -> int:
        return word_errors(change(reference), change(hypothesis))

    return effect


def _without_fillers(text: str) -> str:
    return _FILLERS.sub(" ", text)


def _with_digits(text: str) -> str:
    text = _SEPARATED_NUMBER.sub(lambda match: match[0].replace(".", ""), text)
    return read_number_words(text)


def _without_case_and_punctuation(text: str) -> str:
    return text.translate(_MARKS).lower()


class _Marks(dict[int, int]):
    """Maps punctuation and symbols to spaces, and each other character to itself."""

    def __missing__(self, code: int) -> int:
        is_mark = unicodedata.category(chr(code))[0] in "PS"
        return self.setdefault(code, ord(" ") if is_mark else code)


_MARKS: Final = _Marks()


def _compounds(reference: str, hypothesis: str) -> int:
    return errors_without_compounds(split_words(reference), split_words(hypothesis))


def _all_together(reference: str, hypothesis: str) -> int:
    for change in (_without_fillers, _with_digits, _without_case_and_punctuation):
        reference, hypothesis = change(reference), change(hypothesis)
    return _compounds(reference, hypothesis)


EFFECTS: Final[Mapping[str, Effect]] = {
    "case and punctuation": _each(_without_case_and_punctuation),
    "fillers (øh, hmm, mhm)": _each(_without_fillers),
    "numerals (21, enogtyve)": _each(_with_digits),
    "compounds written apart (særskrivning)": _compounds,
    "all of these together": _all_together,
}
"""Name of the effect to the errors that are left without it."""
