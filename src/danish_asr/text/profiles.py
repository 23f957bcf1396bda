"""Danish text normalisation: named profiles, each a pure function from string to string.

Scores are comparable only under the same profile, so every score names its own. `PROFILES` has the
published ones; ``package.module:function`` names one from outside.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from num2words import num2words
from text_to_num import alpha2digit

from danish_asr.base.errors import ConfigError, find_named, user_code
from danish_asr.text.numerals import spell_numerals

Normalizer = Callable[[str], str]

_FILLERS: Final = re.compile(r"\b(?:eh+m*|øh+m*|h+m+|m+h+)\b")

# In CoRal's order, which matters: "aa" before the accents ("pá a" does not become "på"), "kg" and
# "μg" before "μ". Plain substrings, also inside words: "trykgas" becomes "try kilo as".
_REPLACEMENTS: Final = (
    *(("aa", "å"), ("ğ", "g"), ("ñ", "n"), ("ń", "n"), ("è", "e"), ("kg", " kilo ")),
    *(("μg", " mikrogram "), ("hhv", "henholdsvis"), ("fx", "for eksempel")),
    *(("f.eks.", "for eksempel"), ("-", " minus "), ("+", " plus "), ("μ", " mikro ")),
    *(("§", " paragraf "), ("%", " procent "), ("‰", " promille ")),
    *zip("úşêãëćäíšîěðáó", "useaecæisiedao", strict=True),
    *(("þ", "th"), ("ı", "i"), ("ö", "ø"), ("ç", "c"), ("ș", "s"), ("\u0301", " ")),
    ("\u200b", " "),
)
_NOT_KEPT: Final = re.compile("[^abcdefghijklmnopqrstuvwxyzæøå0123456789éü |]", re.IGNORECASE)

# Soft hyphens, zero-width characters, marks of direction, selectors of variants.
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)


def normalize(text: str, profile: str) -> str:
    """Return ``text`` normalised by a profile; see `normalizer`."""
    return normalizer(profile)(text)


def normalizer(profile: str) -> Normalizer:
    """Return the function of a profile: a name in `PROFILES`, or ``package.module:function``.

    The name must be the user's own; `profile_in` checks one from a file.

    Raises:
        ConfigError: There is no such profile.
    """
    function = find_named(profile, PROFILES, "profile")
    if isinstance(function, Profile):
        return function.normalize
    if not callable(function):
        raise ConfigError([f"profile: {profile} must be a function from text to text"])

    def normalize_by_user(text: str) -> str:
        with user_code(function, "normalising a text"):
            return str(function(text))

    return normalize_by_user


def profile_in(file: object, name: object, remedy: str) -> str:
    """Return the profile that ``file`` names, which came with data or weights.

    Such a file names values and no code, so only `PROFILES` are accepted. ``remedy`` says how the
    user can name this profile himself.

    Raises:
        ConfigError: It is another one, which is not imported.
    """
    if str(name) in PROFILES:
        return str(name)
    rule = f"expected one of {', '.join(PROFILES)}, as data names no code; found {name!r}"
    raise ConfigError([f"text profile: {rule}; {remedy}"], where=str(file))


def profile_version(profile: str) -> int | None:
    """Return the version of a profile; None for one from outside."""
    return PROFILES[profile].version if profile in PROFILES else None


def _coral(text: str) -> str:
    # Numerals first, because "." and "," go later.
    text = spell_numerals(text).lower()
    text = _FILLERS.sub("", text)
    text = unicodedata.normalize("NFKC", text)
    for old, new in _REPLACEMENTS:
        text = text.replace(old, new)
    text = _NOT_KEPT.sub(" ", text)
    return " ".join(text.split())


def _danish(text: str) -> str:
    from danish_asr.text.danish import say  # noqa: PLC0415 - its patterns would delay each start

    visible = unicodedata.normalize("NFC", _INVISIBLE.sub("", text))
    return _plain(_FILLERS.sub("", say(visible).lower()))


def _plain(text: str) -> str:
    lower = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).lower()
    return " ".join("".join(char if _is_kept(char) else " " for char in lower).split())


@lru_cache(maxsize=10_000)
def _is_kept(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


_NUMBER_WITH_SEPARATORS: Final = re.compile(r"\d[\d.,]*")
_INTEGER: Final = re.compile(r"(?<!\S)\d+(?!\S)")


def _rye(text: str) -> str:
    """Apply the leaderboard's steps in its order; "3,14" and "314" become equal, as there."""
    # text2num writes ordinals ("21.") and decimals ("3,5") with separators.
    return _spelled(_joined(alpha2digit(_rye_words(text), "da")))


def _rye_words(text: str) -> str:
    return _without_punctuation(_joined(unicodedata.normalize("NFKC", text)).lower())


def _joined(text: str) -> str:
    return _NUMBER_WITH_SEPARATORS.sub(lambda match: re.sub("[.,]", "", match[0]), text)


def _spelled(text: str) -> str:
    # num2words' spelling ("ettusinde og femogtyve"), not CoRal's.
    return " ".join(_INTEGER.sub(lambda match: _cardinal(match[0]), text).split())


def _without_punctuation(text: str) -> str:
    """Remove punctuation and symbols, which joins "A-kasse"; keep apostrophes inside words."""
    kept: list[str] = []
    for at, character in enumerate(text):
        if not is_mark(character):
            kept.append(character)
        elif character in "'’" and text[at - 1 : at].isalpha() and text[at + 1 : at + 2].isalpha():
            kept.append("'")
    return "".join(kept)


@lru_cache(maxsize=10_000)
def is_mark(character: str) -> bool:
    """Whether a character is punctuation or a symbol."""
    return unicodedata.category(character)[0] in "PS"


@lru_cache(maxsize=10_000)
def _cardinal(digits: str) -> str:
    try:
        return str(num2words(int(digits), lang="da"))
    except (ValueError, OverflowError):  # too long for int or for num2words
        return digits


class Profile(NamedTuple):
    """A published normalisation."""

    normalize: Normalizer
    version: int
    """Increased whenever the output changes for any text."""

    about: str


PROFILES: Final[Mapping[str, Profile]] = {
    "raw": Profile(str, 1, "nothing is changed: case, punctuation and digits count"),
    "coral": Profile(
        _coral,
        1,
        "CoRal's official steps, for comparison with its model cards: numerals to words, lower "
        'case, no fillers ("øh", "hmm"), accents and signs replaced, only letters and digits kept',
    ),
    "danish": Profile(
        _danish,
        4,
        "what was said, for training targets and your own comparisons: years, dates, times, "
        "ordinals, decimals, amounts, units, ranges and safe abbreviations as Danes say them, "
        "numbers of telephones and people digit by digit; "
        "lower case, no fillers, only letters kept",
    ),
    "plain": Profile(_plain, 2, "any language: lower case, only letters and digits kept"),
    "rye": Profile(
        _rye,
        2,
        "RyeAI's leaderboard in its newest stored version (text2num 3.1.0): NFKC, lower case, no "
        "punctuation (hyphens join, inner apostrophes stay); a number is spelled in one way, "
        "whether it is written in words or in digits",
    ),
}
"""All published profiles: messages, help and configurations read their names here."""
