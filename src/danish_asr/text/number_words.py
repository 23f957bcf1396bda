"""Danish number words to digits: ``"der kom et hundrede og en"`` to ``"der kom 101"``.

Reads the spellings of CoRal ("et tusind to hundrede og tre"), of num2words ("ettusinde og
tohundrede og tre") and of everyday writing ("tolvhundrede", "halvtredsindstyve", "fem og tyve").
A single "en" or "et" is an article and stays.
"""

import re
from functools import lru_cache
from typing import Final

from danish_asr.text.numerals import BELOW_TWENTY, TENS

_ARTICLES: Final = ("en", "et", "én", "ét")
_SMALL: Final = dict.fromkeys(_ARTICLES, 1) | {word: n for n, word in enumerate(BELOW_TWENTY)}
_TENS: Final = {
    **{word: 10 * index for index, word in enumerate(TENS) if word},
    **{f"{word}indstyve": 10 * index for index, word in enumerate(TENS) if index >= 5},
    "fyrretyve": 40,
    "treds": 60,
}
_HUNDRED: Final = "hundrede"
_THOUSAND: Final = ("tusind", "tusinde")
_MILLION: Final = ("million", "millioner")

# Longest first; inside a word "tusind" is followed by "e" only before "og".
_PARTS: Final = sorted(
    (*_SMALL, *_TENS, _HUNDRED, "tusind", *_MILLION, "og"), key=len, reverse=True
)
_ATOM: Final = re.compile("|".join(["tusinde(?=og|$)", *_PARTS]))

# In parts; a number below 1,000,000,000 has at most 22. Bounds the search in "to to to to ...".
_LONGEST_NUMBER: Final = 24


def read_number_words(text: str) -> str:
    """Replace each longest run of number words in lower-case ``text`` with digits.

    Words are separated by single spaces in the result.
    """
    words = text.split()
    result: list[str] = []
    at = 0
    while at < len(words):
        value, end = _number_at(words, at)
        result.append(words[at] if value is None else str(value))
        at = end
    return " ".join(result)


def _number_at(words: list[str], begin: int) -> tuple[int | None, int]:
    """Return the number that begins at a word, or None, and the index of the word after it."""
    atoms: list[str] = []
    word_after: dict[int, int] = {}  # number of atoms -> index of the next word
    for index in range(begin, len(words)):
        parts = _split(words[index])
        if not parts or len(atoms) > _LONGEST_NUMBER:
            break
        atoms += parts
        word_after[len(atoms)] = index + 1
    if not atoms:
        return None, begin + 1
    value, used = _Reader(atoms).number()
    if value is None or used not in word_after or (used == 1 and atoms[0] in _ARTICLES):
        return None, begin + 1
    return value, word_after[used]


@lru_cache(maxsize=50_000)
def _split(word: str) -> tuple[str, ...]:
    parts = tuple(_ATOM.findall(word))
    return parts if "".join(parts) == word else ()


class _Reader:
    """Reads the longest number at the beginning of a list of atoms."""

    def __init__(self, atoms: list[str]) -> None:
        self._atoms = [*atoms, "", "", ""]

    def number(self) -> tuple[int | None, int]:
        total: int | None = None
        at = 0
        for names, scale in ((_MILLION, 1_000_000), (_THOUSAND, 1_000)):
            count, after = self._below_thousand(self._past_og(at, total))
            if self._atoms[after] in names:
                total = (total or 0) + scale * (1 if count is None else count)
                at = after + 1
        start = self._past_og(at, total)
        rest, after = self._below_thousand(start)
        if total is not None and (not rest or (start == at and self._is_article(at, after))):
            return total, at
        if rest is None:
            return None, at
        return (total or 0) + rest, after

    def _below_thousand(self, at: int) -> tuple[int | None, int]:
        count, after = self._below_hundred(at)
        if self._atoms[after] != _HUNDRED or (count is not None and count > 19):
            return count, after
        hundreds = 100 * (1 if count is None else count)
        at = after + 1
        start = self._past_og(at, hundreds)
        rest, after = self._below_hundred(start)
        if not rest or (start == at and self._is_article(at, after)):
            return hundreds, at
        return hundreds + rest, after

    def _below_hundred(self, at: int) -> tuple[int | None, int]:
        first, second, third = self._atoms[at : at + 3]
        if 0 < _SMALL.get(first, 0) < 10 and second == "og" and third in _TENS:
            return _SMALL[first] + _TENS[third], at + 3
        value = _TENS.get(first, _SMALL.get(first))
        return value, at if value is None else at + 1

    def _past_og(self, at: int, before: int | None) -> int:
        return at + 1 if before is not None and self._atoms[at] == "og" else at

    def _is_article(self, at: int, after: int) -> bool:
        """Whether the only atom is an article: "hundrede et sted" is not 101."""
        return after == at + 1 and self._atoms[at] in _ARTICLES
