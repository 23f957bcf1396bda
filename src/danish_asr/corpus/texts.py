"""Texts that are not what was said: broken encodings, entities, signs without a word."""

import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

from ftfy import fix_encoding
from ftfy.fixes import unescape_html

from danish_asr.corpus import DANISH


def _decoded(text: str) -> str:
    # ftfy leaves "Ã¥r" and "Ã…rhus" alone; no language has these pairs.
    return fix_encoding(text).replace("Ã¥", "å").replace("Ã…", "Å")


MENDS: Final[Mapping[str, Callable[[str], str]]] = {
    "HTML entities": unescape_html,
    "mojibake": _decoded,
}
"""What ``--fix-text`` mends, in this order: ``&aelig;``, and UTF-8 read as another encoding."""

REPLACED: Final = "replacement characters"
"""U+FFFD: what stood there is lost."""


def text_profiles(language: str) -> tuple[str, ...]:
    """Profiles that training targets may have; sentences are compared under the first."""
    return ("coral", "danish") if language == DANISH else ("plain",)


def mended(text: str) -> tuple[str, list[str]]:
    """The text without what `MENDS` mends, and the names of what it was."""
    found = []
    for name, mend in MENDS.items():
        if (better := mend(text)) != text:
            found.append(name)
            text = better
    return text, found


def oddities(text: str) -> dict[str, int]:
    """The reasons to suspect a text, with the number of characters that are odd."""
    lost = text.count("\ufffd")
    found = {name: abs(len(text) - len(mend(text))) for name, mend in MENDS.items()}
    found[REPLACED] = lost
    found["only capitals"] = len(text) if len(text) > 3 and text.isupper() else 0
    if not text.isprintable():
        found["control characters"] = sum(unicodedata.category(char)[0] == "C" for char in text)
    return {name: count for name, count in found.items() if count}


def unusable_text(text: str, odd: Mapping[str, int], split: str) -> str | None:
    """Why a text with these `oddities` cannot be used; None if it can.

    Broken texts are kept out of training only, so that published test sets stay whole.
    """
    if not text.strip():
        return "empty text"
    if not any(map(str.isalnum, text)):  # a dash, or invisible characters
        return "no letter or digit"
    broken = (name for name in (*MENDS, REPLACED) if name in odd and split == "train")
    return next(broken, None)
