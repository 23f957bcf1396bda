"""A small Danish grammar, rich enough that most of its sentences occur once.

A digest of its text puts a sentence into one split, so that no sentence of the test set is in the
training set, whatever the seed and the sizes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from random import Random
from typing import Final

from danish_asr.text.numerals import spell_numerals

NAMES: Final = ("Anna", "Bo", "Freja", "Søren", "Kåre", "Mette", "Åse", "Jonas", "Ida", "Lærke")
VERBS: Final = ("køber", "sælger", "finder", "henter", "tæller", "maler", "vasker", "låner")
NUMERALS: Final = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 20, 21, 25, 50, 75, 100)
ADJECTIVES: Final = ("røde", "små", "gamle", "nye", "blå", "grønne", "store", "pæne")
NOUNS: Final = "æbler", "biler", "bøger", "både", "heste", "køer", "pærer", "stole", "kager", "får"
PLACES: Final = (
    "i Aarhus",
    "på Fyn",
    "i Ribe",
    "på Møn",
    "i Skagen",
    "i Køge",
    "på Ærø",
    "i Odense",
)
OPENERS: Final = ("ja", "nej", "så", "øh", "men", "og så")
"""The first words of utterances in conversations; "øh" is a filler, which scoring removes."""

_DEV_SHARE: Final = 10
_TEST_SHARE: Final = 20
"""Per cent of all sentences."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as it is written, with digits and ``%``, and as it is spoken, in words."""

    written: str
    spoken: str


def draw_sentence(random: Random, split: str, *, conversation: bool) -> Sentence:
    """Draw a sentence of a split."""
    draw = _draw_conversation if conversation else _draw_read_aloud
    while True:
        written = draw(random)
        if split_of_sentence(written) == split:
            return Sentence(written, spell_numerals(written).replace(" %", " procent"))


def split_of_sentence(written: str) -> str:
    """The only split that a sentence can be in."""
    # Without the opener, so that "ja Bo bor i Ribe" and "Bo bor i Ribe" are in one split.
    core = written
    for opener in OPENERS:
        core = core.removeprefix(f"{opener} ")
    place = hashlib.sha256(core.lower().encode()).digest()[0] * 100 // 256
    if place < _TEST_SHARE:
        return "test"
    return "dev" if place < _TEST_SHARE + _DEV_SHARE else "train"


def _draw_read_aloud(random: Random) -> str:
    pick = random.choice
    name, noun, place = pick(NAMES), pick(NOUNS), pick(PLACES)
    numeral, adjective = pick(NUMERALS), pick(ADJECTIVES)
    match random.randrange(5):
        case 0:
            return f"{name} {pick(VERBS)} {numeral} {adjective} {noun}"
        case 1:
            return f"{name} {pick(VERBS)} {adjective} {noun} {place}"
        case 2:
            return f"{numeral} % af alle {noun} {place} er {adjective}"
        case 3:
            return f"{name} og {pick(NAMES)} {pick(VERBS)} {numeral} {noun}"
        case _:
            return f"{numeral} {adjective} {noun} koster {pick(NUMERALS)} kroner"


def _draw_conversation(random: Random) -> str:
    pick = random.choice
    opener, noun, place = pick(OPENERS), pick(NOUNS), pick(PLACES)
    match random.randrange(4):
        case 0:
            return f"{opener} jeg {pick(VERBS)} {pick(NUMERALS)} {noun} {place}"
        case 1:
            return f"{opener} {pick(NAMES)} {pick(VERBS)} {pick(ADJECTIVES)} {noun}"
        case 2:
            return f"{opener} {pick(NAMES)} og {pick(NAMES)} bor {place}"
        case _:
            return f"{opener} {pick(ADJECTIVES)} {noun} koster {pick(NUMERALS)} kroner"
