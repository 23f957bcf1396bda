"""Danish numerals in words, in the spelling of CoRal's official normalisation."""

import re
from functools import lru_cache
from typing import Final

# num2words 0.5.14 differs in 67 of the 103 official vectors with a numeral: "toogtreds" for 62.
NUMERAL: Final = re.compile(r"\b(0|[1-9]\d{0,2}(?:(?:\.\d{3})*|\d*)(?:,\d+)?)\b")
"""A numeral without leading zeros; "." groups thousands, "," is the decimal sign. Source: CoRal's
``NUMERAL_REGEX``."""

MAX_DIGITS: Final = 9  # longer whole numbers stay digits, as in CoRal's tables

BELOW_TWENTY: Final = (
    *("nul", "en", "to", "tre", "fire", "fem", "seks", "syv", "otte", "ni", "ti", "elleve"),
    *("tolv", "tretten", "fjorten", "femten", "seksten", "sytten", "atten", "nitten"),
)
TENS: Final = (
    *("", "", "tyve", "tredive", "fyrre", "halvtreds"),
    *("tres", "halvfjerds", "firs", "halvfems"),
)


def spell_numerals(text: str) -> str:
    """Replace every numeral in ``text`` with words."""
    return NUMERAL.sub(lambda match: spell_numeral(match[0]), text)


@lru_cache(maxsize=10_000)
def spell_numeral(numeral: str) -> str:
    """Spell one numeral, e.g. ``"1.203,1"`` as ``"et tusind to hundrede og tre komma et"``."""
    integer, _, decimals = numeral.replace(".", "").partition(",")
    words = spell_integer(int(integer)) if len(integer) <= MAX_DIGITS else integer
    if not decimals:
        return words
    # Decimals are neuter: "ni komma et".
    digits = ("et" if digit == 1 else BELOW_TWENTY[digit] for digit in map(int, decimals))
    return " ".join([words, "komma", *digits])


def spell_integer(number: int) -> str:
    """Spell a number from 0 to 999,999,999."""
    if exception := {0: "nul", 100: "hundrede", 1000: "tusind"}.get(number):
        return exception
    millions, rest = divmod(number, 1_000_000)
    thousands, units = divmod(rest, 1_000)
    parts: list[str] = []
    if millions:
        parts.append("en million" if millions == 1 else f"{_below_thousand(millions)} millioner")
    if thousands:
        parts.append("et tusind" if thousands == 1 else f"{_below_thousand(thousands)} tusind")
    if units:
        if parts and units < 100:
            parts.append("og")
        parts.append(_below_thousand(units))
    return " ".join(parts)


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _below_hundred(rest)
    head = f"{'et' if hundreds == 1 else BELOW_TWENTY[hundreds]} hundrede"
    return f"{head} og {_below_hundred(rest)}" if rest else head


def _below_hundred(number: int) -> str:
    tens, ones = divmod(number, 10)
    if number < 20:
        return BELOW_TWENTY[number]
    return f"{BELOW_TWENTY[ones]}og{TENS[tens]}" if ones else TENS[tens]
