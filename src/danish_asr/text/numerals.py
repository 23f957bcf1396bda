"""Danish numerals in words, in the spelling of CoRal's official normalisation.

In: an integer or digits. Out: words. `spell_numerals` is CoRal's step over a text; the functions
behind it spell what CoRal's rules do not have: ordinals, billions, years, digits one by one.
"""

import re
from functools import lru_cache
from typing import Final

# num2words 0.5.14 differs in 67 of the 103 official vectors with a numeral: "toogtreds" for 62.
NUMERAL: Final = re.compile(r"\b(?:0|[1-9]\d{0,2}(?:(?:\.\d{3})*|\d*)(?:,\d+)?)\b")
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
_LARGE: Final = (
    (1_000_000_000, "en milliard", "milliarder"),
    (1_000_000, "en million", "millioner"),
    (1_000, "et tusind", "tusind"),
)
_ORDINALS: Final = (
    *("nulte", "første", "anden", "tredje", "fjerde", "femte", "sjette", "syvende", "ottende"),
    *("niende", "tiende", "ellevte", "tolvte", "trettende", "fjortende", "femtende", "sekstende"),
    *("syttende", "attende", "nittende"),
)
_ORDINAL_TENS: Final = (
    *("", "", "tyvende", "tredivte", "fyrretyvende", "halvtredsindstyvende", "tresindstyvende"),
    *("halvfjerdsindstyvende", "firsindstyvende", "halvfemsindstyvende"),
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
    return f"{words} komma {spell_digits(decimals)}"


def spell_integer(number: int) -> str:
    """Spell a number from 0 to 999,999,999,999."""
    if exception := {0: "nul", 100: "hundrede", 1000: "tusind"}.get(number):
        return exception
    parts: list[str] = []
    for size, one, several in _LARGE:
        count, number = divmod(number, size)
        if count:
            parts.append(one if count == 1 else f"{_below_thousand(count)} {several}")
    if number:
        if parts and number < 100:
            parts.append("og")
        parts.append(_below_thousand(number))
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


def cardinal(number: int, *, neuter: bool = False) -> str:
    """Spell a number below a billion (10^12), such as ``to hundrede og en``."""
    words = spell_integer(number)
    return re.sub(r"\ben$", "et", words) if neuter else words


def ordinal(number: int, *, neuter: bool = False) -> str:
    """Spell an ordinal below 1,000, such as ``enogtyvende``."""
    hundreds, rest = divmod(number, 100)
    tens, ones = divmod(rest, 10)
    if hundreds and not rest:
        return cardinal(number)
    if rest < 20:
        words = "andet" if neuter and rest == 2 else _ORDINALS[rest]
    else:
        words = f"{BELOW_TWENTY[ones]}og{_ORDINAL_TENS[tens]}" if ones else _ORDINAL_TENS[tens]
    return f"{_below_thousand(100 * hundreds + 1)[:-2]}{words}" if hundreds else words


def by_hundreds(number: int) -> str:
    """Spell a year such as 1987: ``nittenhundrede og syvogfirs``."""
    century, rest = divmod(number, 100)
    head = f"{BELOW_TWENTY[century]}hundrede"
    return f"{head} og {cardinal(rest)}" if rest else head


def spell_digits(digits: str) -> str:
    """Spell digits one by one; 1 is neuter, as in ``ni komma nul et``."""
    return " ".join("et" if digit == "1" else BELOW_TWENTY[int(digit)] for digit in digits)
