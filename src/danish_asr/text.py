"""Danish text normalisation: named profiles, each a pure function from string to string.

A score without its profile is not comparable with anything, so every score names one:

``raw``
    The text as it is.
``coral``
    CoRal's official normalisation, step by step, for reference and hypothesis alike.
``rye``
    The normalisation of RyeAI's Danish leaderboard.

This module imports neither torch nor fairseq2: training calls it for every utterance.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

from danish_asr.errors import ConfigError
from danish_asr.numerals import spell_numerals

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


def normalize(text: str, profile: str) -> str:
    """Return ``text`` in the form that ``profile`` compares.

    Raises:
        ConfigError: There is no such profile.
    """
    return normalizer(profile)(text)


def normalizer(profile: str) -> Callable[[str], str]:
    """Return the function behind a profile, for loops over many texts.

    Raises:
        ConfigError: There is no such profile.
    """
    try:
        return _PROFILES[profile]
    except KeyError:
        known = ", ".join(PROFILES)
        raise ConfigError([f"profile: expected one of {known}; found '{profile}'"]) from None


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


_PROFILES: Final[Mapping[str, Callable[[str], str]]] = {"raw": _raw, "coral": _coral}

PROFILES: Final = tuple(_PROFILES)
"""Names of the profiles."""

PROFILE_VERSIONS: Final[Mapping[str, int]] = dict.fromkeys(PROFILES, 1)
"""A profile's version goes up whenever its output changes for any text."""
