"""A small Danish grammar; a digest of its text puts each sentence into one split."""

from __future__ import annotations

import hashlib
import re
from random import Random
from typing import Final

from danish_asr.text.numerals import spell_numerals

OPENERS: Final = ("ja", "nej", "så", "øh", "men", "og så")
"""The first words of utterances in conversations; "øh" is a filler, which scoring removes."""

_NAMES = "Anna", "Bo", "Freja", "Søren", "Kåre", "Mette", "Åse", "Jonas", "Ida", "Lærke"
_NUMERALS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 20, 21, 25, 50, 75, 100)
_WORDS: Final = {
    "opener": OPENERS,
    "name": _NAMES,
    "other": _NAMES,
    "verb": ("køber", "sælger", "finder", "henter", "tæller", "maler", "vasker", "låner"),
    "numeral": _NUMERALS,
    "price": _NUMERALS,
    "adjective": ("røde", "små", "gamle", "nye", "blå", "grønne", "store", "pæne"),
    "noun": ("æbler", "biler", "bøger", "både", "heste", "køer", "pærer", "stole", "kager", "får"),
    "place": ("i Aarhus", "på Fyn", "i Ribe", "på Møn", "i Skagen", "i Køge", "på Ærø", "i Odense"),
}

_READ_ALOUD: Final = (
    "{name} {verb} {numeral} {adjective} {noun}",
    "{name} {verb} {adjective} {noun} {place}",
    "{numeral} % af alle {noun} {place} er {adjective}",
    "{name} og {other} {verb} {numeral} {noun}",
    "{numeral} {adjective} {noun} koster {price} kroner",
)
_CONVERSATION: Final = (
    "{opener} jeg {verb} {numeral} {noun} {place}",
    "{opener} {name} {verb} {adjective} {noun}",
    "{opener} {name} og {other} bor {place}",
    "{opener} {adjective} {noun} koster {price} kroner",
)


def draw_sentence(random: Random, split: str, *, conversation: bool) -> str:
    """Draw a sentence of a split, as it is written: with digits and ``%``."""
    # The order of the draws fixes the bytes of the corpus: these words, the template, the others.
    first = "opener noun place" if conversation else "name noun place numeral adjective"
    while True:
        words = {kind: random.choice(_WORDS[kind]) for kind in first.split()}
        template = random.choice(_CONVERSATION if conversation else _READ_ALOUD)
        for kind in re.findall(r"\w+(?=})", template):
            if kind not in words:
                words[kind] = random.choice(_WORDS[kind])
        written = template.format(**words)
        if split_of_sentence(written) == split:
            return written


def speak(written: str) -> str:
    """The sentence as it is spoken: in words only."""
    return spell_numerals(written).replace(" %", " procent")


def split_of_sentence(written: str) -> str:
    """The only split that a sentence can be in: 20 % are in test, 10 % in dev."""
    # Without the opener, so that "ja Bo bor i Ribe" and "Bo bor i Ribe" are in one split.
    for opener in OPENERS:
        written = written.removeprefix(f"{opener} ")
    percent = hashlib.sha256(written.lower().encode()).digest()[0] * 100 // 256
    return "test" if percent < 20 else "dev" if percent < 30 else "train"
