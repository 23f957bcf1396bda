"""The words of a text as a model writes them: in the profile of its training and its alphabet."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from danish_asr.base.errors import AlignmentError
from danish_asr.text.numerals import spell_numerals
from danish_asr.text.profiles import normalize

if TYPE_CHECKING:
    from danish_asr.inference.model import Model


@dataclass(frozen=True)
class WrittenWord:
    """One or more words of the text, and what the model writes for them, in one or more words."""

    text: str
    spoken: str


class Spelling:
    """Turns the words of a text into those that a model writes, line by line.

    Attributes:
        count: Words with a letter or a digit, so far.
        silent: Those of which nothing is left.
    """

    def __init__(self, model: Model) -> None:
        encode, unknown = model.tokenizer.create_encoder(), model.tokenizer.vocab_info.unk_idx

        @cache
        def can_write(character: str) -> bool:
            return unknown is None or not bool((encode(character) == unknown).any())

        self.count = 0
        self.silent: list[str] = []
        self._profile, self._can_write = model.text_profile, can_write

    def words(self, line: str) -> list[WrittenWord]:
        """Return the words of a line; one of which nothing is left stays with a neighbour."""
        words: list[WrittenWord] = []
        before = ""
        for text in line.split():
            spoken = _spoken(text, self._profile, self._can_write)
            letters = any(map(str.isalnum, text))
            self.count += letters
            if spoken:
                words.append(WrittenWord(before + text, spoken))
                before = ""
                continue
            self.silent += [text] * letters
            if words:
                words[-1] = replace(words[-1], text=f"{words[-1].text} {text}")
            else:
                before += f"{text} "
        return words

    def check(self, text: str) -> None:
        """Raise AlignmentError if the model can write less than half of the lines so far."""
        if not self.count:
            raise AlignmentError(f"the text '{text:.40}' has no word; expected a transcript")
        if len(self.silent) > self.count / 2:
            raise AlignmentError(
                f"{len(self.silent)} of the text's {self.count} words have no letter that the "
                f"model writes ({' '.join(self.silent[:3]):.40}); expected text in the alphabet "
                "that it was trained on"
            )


def _spoken(text: str, profile: str, can_write: Callable[[str], bool]) -> str:
    """Return a word as the model writes it, '' if nothing of it is left."""
    text = normalize(text, profile)
    if any(c.isdigit() and not can_write(c) for c in text):
        text = spell_numerals(text)
    characters = []
    for character in text:
        base = unicodedata.normalize("NFKD", character)[0]
        forms = (character, character.lower(), base, base.lower())
        characters.append(next((c for c in forms if c == " " or can_write(c)), ""))
    return " ".join("".join(characters).split())
