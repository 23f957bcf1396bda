"""Danish text normalisation: named profiles, each a pure function from string to string.

A score without its profile is not comparable with anything, so every score names one:

``raw``
    The text as it is.
``coral``
    CoRal's official normalisation, step by step, for reference and hypothesis alike.
``rye``
    The normalisation of RyeAI's Danish leaderboard, with number words and digits made one.

This module imports neither torch nor fairseq2: training calls it for every utterance.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from num2words import num2words

from danish_asr.errors import ConfigError
from danish_asr.text.number_words import read_number_words
from danish_asr.text.numerals import spell_numerals

Normalizer = Callable[[str], str]

_FILLERS: Final = re.compile(r"\b(?:eh+m*|øh+m*|h+m+|m+h+)\b")

# In CoRal's order, which matters: "aa" before the accents ("pá a" is no "på"), "kg" and "μg" before
# "μ". Applied as plain substrings, also inside words: "trykgas" becomes "try kilo as".
_REPLACEMENTS: Final = (
    ("aa", "å"),
    ("ğ", "g"),
    ("ñ", "n"),
    ("ń", "n"),
    ("è", "e"),
    ("kg", " kilo "),
    ("μg", " mikrogram "),
    ("hhv", "henholdsvis"),
    ("fx", "for eksempel"),
    ("f.eks.", "for eksempel"),
    ("-", " minus "),
    ("+", " plus "),
    ("μ", " mikro "),
    ("§", " paragraf "),
    ("%", " procent "),
    ("‰", " promille "),
    ("ú", "u"),
    ("ş", "s"),
    ("ê", "e"),
    ("ã", "a"),
    ("ë", "e"),
    ("ć", "c"),
    ("ä", "æ"),
    ("í", "i"),
    ("š", "s"),
    ("î", "i"),
    ("ě", "e"),
    ("ð", "d"),
    ("á", "a"),
    ("ó", "o"),
    ("þ", "th"),
    ("ı", "i"),
    ("ö", "ø"),
    ("ç", "c"),
    ("ș", "s"),
    ("\u0301", " "),
    ("\u200b", " "),
)
_NOT_KEPT: Final = re.compile("[^abcdefghijklmnopqrstuvwxyzæøå0123456789éü |]", re.IGNORECASE)


def normalize(text: str, profile: str, *, remove_fillers: bool = False) -> str:
    """Return ``text`` in the form that ``profile`` compares.

    Raises:
        ConfigError: There is no such profile, or it has no such option.
    """
    return normalizer(profile, remove_fillers=remove_fillers)(text)


def normalizer(profile: str, *, remove_fillers: bool = False) -> Normalizer:
    """Return the function behind a profile, for loops over many texts.

    Args:
        profile: One of ``PROFILES``.
        remove_fillers: An option of ``rye`` alone, whose snapshots differ in it: take "øh", "hmm"
            and the like out as well. ``coral`` always does, ``raw`` never.

    Raises:
        ConfigError: There is no such profile, or it has no such option.
    """
    if profile not in _PROFILES:
        known = ", ".join(PROFILES)
        raise ConfigError([f"profile: expected one of {known}; found '{profile}'"])
    if not remove_fillers:
        return _PROFILES[profile]
    if profile != "rye":
        raise ConfigError([f"remove_fillers: an option of profile rye; found profile '{profile}'"])
    return _rye_without_fillers


def _raw(text: str) -> str:
    return text


def _coral(text: str) -> str:
    """CoRal's steps in CoRal's order; numerals come first, while "." and "," still stand."""
    text = spell_numerals(text).lower()
    text = _FILLERS.sub("", text)
    text = unicodedata.normalize("NFKC", text)
    for old, new in _REPLACEMENTS:
        text = text.replace(old, new)
    text = _NOT_KEPT.sub(" ", text)
    return " ".join(text.split())


_NUMBER_WITH_SEPARATORS: Final = re.compile(r"\d[\d.,]*")
_WHOLE_NUMBER: Final = re.compile(r"(?<!\S)[0-9]+(?!\S)")
# The spelling is num2words', as on the leaderboard ("ettusinde og femogtyve"), not CoRal's.
_MAX_DIGITS: Final = 15


def _rye(text: str) -> str:
    """The leaderboard's steps in its order; "3,14" and "314" become the same, as they do there."""
    text = unicodedata.normalize("NFKC", text)
    text = _NUMBER_WITH_SEPARATORS.sub(lambda match: re.sub("[.,]", "", match[0]), text).lower()
    text = read_number_words(_without_punctuation(text))
    return _WHOLE_NUMBER.sub(lambda match: _cardinal(match[0]), text)


def _rye_without_fillers(text: str) -> str:
    return " ".join(_FILLERS.sub(" ", _rye(text)).split())


def _without_punctuation(text: str) -> str:
    """Drop punctuation and symbols, so that a hyphen joins; an apostrophe inside a word stays."""
    kept = [
        character
        if not _is_mark(character)
        else "'"
        if character in "'’" and text[at - 1 : at].isalpha() and text[at + 1 : at + 2].isalpha()
        else ""
        for at, character in enumerate(text)
    ]
    return "".join(kept)


@lru_cache(maxsize=10_000)
def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


@lru_cache(maxsize=10_000)
def _cardinal(digits: str) -> str:
    return str(num2words(int(digits), lang="da")) if len(digits) <= _MAX_DIGITS else digits


_PROFILES: Final[Mapping[str, Normalizer]] = {"raw": _raw, "coral": _coral, "rye": _rye}

PROFILES: Final = tuple(_PROFILES)
"""Names of the profiles."""

PROFILE_VERSIONS: Final[Mapping[str, int]] = dict.fromkeys(PROFILES, 1)
"""A profile's version goes up whenever its output changes for any text."""
