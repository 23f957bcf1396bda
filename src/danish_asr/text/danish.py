"""Profile ``danish``: numerals, dates, times, amounts and abbreviations as Danes say them.

`RULES` are applied in their order, each to what the one before it left; what a rule does not
know stays a number, which the last of them spells. Numbers are spelled as in profile ``coral``.
"""

import re
from collections.abc import Callable
from typing import Final

from danish_asr.text.danish_words import (
    ABBREVIATIONS,
    COUNTED,
    MONTH,
    MONTHS,
    NEUTER,
    REGENTS,
    UNITS,
)
from danish_asr.text.numerals import BELOW_TWENTY, TENS, spell_integer

_ORDINALS: Final = (
    *("nulte", "første", "anden", "tredje", "fjerde", "femte", "sjette", "syvende", "ottende"),
    *("niende", "tiende", "ellevte", "tolvte", "trettende", "fjortende", "femtende", "sekstende"),
    *("syttende", "attende", "nittende"),
)
_ORDINAL_TENS: Final = (
    *("", "", "tyvende", "tredivte", "fyrretyvende", "halvtredsindstyvende", "tresindstyvende"),
    *("halvfjerdsindstyvende", "firsindstyvende", "halvfemsindstyvende"),
)
_FREE: Final = r"(?<![\w.,:/])"  # nothing before it belongs to the number
_INTEGER: Final = r"(?:\d{1,3}(?:\.\d{3})+|\d+)"
_NUMBER: Final = rf"{_INTEGER}(?:,\d+)?(?![.,]?\d)"
_DECIMAL: Final = rf"(?:{_NUMBER}|\d+\.\d{{1,2}}(?![.,]?\d))"  # "1.50", before a unit only
_NAMED_UNIT: Final = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))

_MEASURE: Final = rf"(?:{_NAMED_UNIT}|år|grader|point)(?!\w)"
_2: Final = r"\d{1,2}"
_HOUR: Final = r"(?P<hour>\d|[01]\d|2[0-4])"
_MINUTE: Final = r"(?P<minute>[0-5]\d)"
_COUNTED: Final = rf"\b(?:(?i:{COUNTED}) |[^\W\d]+(?=1))"  # "side 1", and "P1"
_BOUND: Final = r"\d(?:[\d.,:]*\d)?\.?"  # of a range: 3. or 14.30 or 1.000

Words = Callable[[re.Match[str]], str]


def cardinal(number: int, *, neuter: bool = False) -> str:
    """Spell a number below a billion (10^12), such as ``to hundrede og en``."""
    billions, rest = divmod(number, 1_000_000_000)
    parts = [f"{spell_integer(billions)} milliarder" if billions > 1 else "en milliard"]
    parts = parts * bool(billions) + [spell_integer(rest)] * bool(rest or not billions)
    words = " og ".join(parts) if billions and rest < 100 else " ".join(parts)
    return words[:-2] + "et" if neuter and re.search(r"\ben$", words) else words


def ordinal(number: int, *, neuter: bool = False) -> str:
    """Spell an ordinal below 1,000, such as ``enogtyvende``."""
    hundreds, rest = divmod(number, 100)
    tens, ones = divmod(rest, 10)
    if not rest:
        words = cardinal(number)
    elif rest < 20:
        words = "andet" if neuter and rest == 2 else _ORDINALS[rest]
    else:
        words = f"{BELOW_TWENTY[ones]}og{_ORDINAL_TENS[tens]}" if ones else _ORDINAL_TENS[tens]
    return f"{cardinal(100 * hundreds + 1)[:-2]}{words}" if hundreds and rest else words


def hundreds(number: int) -> str:
    """Spell a year such as 1987 by its hundreds: ``nittenhundrede og syvogfirs``."""
    century, rest = divmod(number, 100)
    head = f"{BELOW_TWENTY[century]}hundrede"
    return f"{head} og {cardinal(rest)}" if rest else head


def number(written: str, *, neuter: bool = False) -> str:
    """Spell digits with or without thousands dots and decimals: ``3,14``, ``1.000``, ``007``."""
    integer, _, decimals = written.partition(",")
    is_dotted, integer = "." in integer, integer.replace(".", "")
    if len(integer) > 12 or (integer[0] == "0" and len(integer) > 1):
        words = _digits(integer)
    elif re.fullmatch(r"1[1-9]\d\d", integer) and not is_dotted and not decimals:
        words = hundreds(int(integer))
    else:
        words = cardinal(int(integer), neuter=neuter and not decimals)
    if not decimals:
        return words
    is_pair = len(decimals) == 2 and decimals[0] != "0"
    return f"{words} komma {cardinal(int(decimals)) if is_pair else _digits(decimals)}"


def _digits(digits: str) -> str:
    return " ".join("et" if digit == "1" else BELOW_TWENTY[int(digit)] for digit in digits)


def _amount(written: str) -> str:
    """A number before a unit: never a year, and "." before one or two digits is a comma."""
    if re.fullmatch(r"\d+\.\d{1,2}", written):
        written = written.replace(".", ",")
    if re.fullmatch(r"1[1-9]\d\d", written):
        return cardinal(int(written))
    return number(written)


def _abbreviation(match: re.Match[str]) -> str:
    return ABBREVIATIONS[match[0].lower()] + " "


def _date(match: re.Match[str]) -> str:
    day, month = int(match["day"]), int(match["month"])
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return match[0]
    year = match["year"]
    return f"{ordinal(day)} i {ordinal(month)} {number(year) if year else ''}"


def _fraction(match: re.Match[str]) -> str:
    upper, lower = int(match[1]), int(match[2])
    if (upper, lower) == (24, 7):
        return "fireogtyve syv"
    if 0 < upper <= 31 and 0 < lower <= 12 and (upper > lower or lower > 10):
        return f"{ordinal(upper)} i {ordinal(lower)}"
    if not 0 < upper < lower <= 10:
        return f"{match[1]} {match[2]}"
    if (upper, lower) == (1, 2):
        return "en halv"
    part = "halve" if lower == 2 else f"{ordinal(lower)}del{'' if upper == 1 else 'e'}"
    return f"{cardinal(upper)} {part}"


def _range(match: re.Match[str]) -> str:
    """Write "5-10" with "til"; a smaller or equal second number makes a result, "3-1"."""
    written = [re.sub(r"\.(?=\d{3}\b)", "", match[i]).rstrip(".,:") for i in (1, 2)]
    first, second = ([int(digits) for digits in re.findall(r"\d+", part)] for part in written)
    if list(map(len, written)) == [4, 2]:  # 1914-18
        first = [first[0] % 100]
    if first < second and (first != [0] or match["unit"]):
        return f"{match[1]} til {match[2]}"
    if len(first) == len(second) == 1:  # a result
        return f"{cardinal(first[0], neuter=True)} {cardinal(second[0], neuter=True)}"
    return f"{match[1]} {match[2]}"


def _time(match: re.Match[str]) -> str:
    hour, minute = int(match["hour"]), match["minute"]
    words = cardinal(hour, neuter=True)
    if minute and minute != "00":
        late = cardinal(int(minute), neuter=True)
        words += f" nul {late}" if minute[0] == "0" else f" {late}"
    return f"{match['before']}{words}"


def _decade(match: re.Match[str]) -> str:
    century, decade = match["century"] or "", int(match["decade"])
    head = {"": "", "20": "totusind"}.get(century) or f"{BELOW_TWENTY[int(century or 0)]}hundrede"
    head *= bool(century)
    tens = {0: "" if century else "null", 1: "ti", 6: "tress"}.get(decade, TENS[decade])
    word = head + tens
    return word + (match["ending"][1:] if word.endswith("e") else match["ending"])


def _crowns(match: re.Match[str]) -> str:
    written = (
        match["number"] if "." not in match["number"][-3:] else match["number"].replace(".", ",")
    )
    integer, _, cents = written.partition(",")
    if len(cents) not in {0, 2}:
        return f"{_amount(written)} kroner"
    crowns = "en krone" if integer == "1" else f"{_amount(integer)} kroner"
    if not cents or cents == "00":
        return crowns
    coins = f"{cardinal(int(cents))} øre"
    return coins if integer == "0" else f"{crowns} og {coins}"


def _with_unit(match: re.Match[str]) -> str:
    one, several = UNITS[match["unit"]]
    words = one if match["number"] == "1" else f"{_amount(match['number'])} {several}"
    return f"{words} "


def _ordinal(match: re.Match[str]) -> str:
    parts = match.groupdict()
    before = parts.get("before") or ""
    neuter = bool(parts.get("neuter")) or before.lower() == "det "
    return before + ordinal(int(match["number"]), neuter=neuter)


def _compound(match: re.Match[str]) -> str:
    written = match["number"]
    words = number(written, neuter=True)
    return words + match["rest"] if " " not in words else f"{words} {match['rest']}"


def _number(match: re.Match[str]) -> str:
    counted = match["counted"] or ""
    neuter = match["neuter"] is not None or bool(counted)
    return f" {counted} {number(match['number'], neuter=neuter)} "


_SHORT: Final = "|".join(sorted(map(re.escape, ABBREVIATIONS), key=len, reverse=True))

RULES: Final[tuple[tuple[re.Pattern[str], Words | str], ...]] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        # what stands beside an abbreviation decides between its readings
        (r"(?i)(?<!\w)stk\.? ?(?=\d)", "stykke "),
        (r"(?i)(?<=\d) ?pct\b(?!\.)", " procent"),
        (
            r"(?i)(?<![\w.])(kl|ca|nr|tlf) (?=\d)",
            lambda match: f"{ABBREVIATIONS[match[1].lower() + '.']} ",
        ),
        (r"(?i)\bkr\.?/ ?kg\b", "kr. per kilo"),
        (r"(?i)\bkr\.?/ ?(?=[^\W\d])", "kr. per "),
        (
            r"(?i)(?<![^\W\d])(tusind|mio\.?|mia\.?|million(?:er)?|milliard(?:er)?) ?kr\b\.?",
            r"\1 kroner",
        ),
        (rf"(?i)(?<![\w.])(?:{_SHORT})(?![^\W\d])", _abbreviation),
        (r"(?i)(?<!\w)d\.? ?(?=\d{1,2}[./])", "den "),
        (r"(\d)½", r"\1 en halv"),
        ("½", "en halv"),
        ("¼", "en kvart"),
        ("¾", "tre kvart"),
        (r"(\d ?[ckd]?m)2\b", r"\1²"),
        (r"(\d ?[ckd]?m)3\b", r"\1³"),
        # dates and fractions
        (rf"{_FREE}(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)(?!\d)", _date),
        (
            rf"{_FREE}(?P<day>{_2})(?P<sign>[./-])(?P<month>{_2})(?P=sign)(?P<year>\d{{4}})(?!\d)",
            _date,
        ),
        (
            rf"{_FREE}(?P<day>{_2})(?P<sign>[./])(?P<month>{_2})(?P=sign)(?P<year>\d\d)(?!\.?\d)",
            _date,
        ),
        (rf"{_FREE}(?P<day>{_2})/(?P<month>{_2})[ -](?P<year>\d{{4}})(?!\d)", _date),
        (rf"{_FREE}({_2})-({_2})-({_2})(?![\d-])", r"\1 \2 \3"),  # 7-9-13
        (rf"(?<=\bden )(?P<day>{_2})/(?P<month>{_2})(?P<year>)(?!\d)", _date),
        (rf"{_FREE}({_2})/({_2})(?![\d/])", _fraction),
        # decades and centuries
        (
            rf"{_FREE}(?P<century>1[1-9]|20)?(?P<decade>\d)0['’]?(?P<ending>er(?:ne)?s?)\b-?",
            _decade,
        ),
        (rf"{_FREE}(\d+)-tal(?=let|s|\b)", lambda match: f"{number(match[1])}tal".replace(" ", "")),
        # ranges and results, minus, times
        (
            rf"{_FREE}({_BOUND})\s?[-–—]\s?({_BOUND})(?![-–]?\d)(?=(?P<unit> ?{_MEASURE})?)",
            _range,
        ),
        (rf"{_FREE}(\d[\d.,]*) ?[x×*] ?(?=\d)", r"\1 gange "),
        (r"(?<![\w)])[-−–](?=\d)", "minus "),
        (r"\+", " plus "),
        (r"=", " er lig med "),
        # amounts
        (rf"{_FREE}(?P<number>{_DECIMAL})(?:,-| ?(?:kr\b\.?|kroner\b|DKK\b))", _crowns),
        (rf"(?i)(?<!\w)(?:kr\.?|DKK) ?(?P<number>{_DECIMAL})(?:,-)?", _crowns),
        (rf"(?P<unit>[€$£]) ?(?P<number>{_DECIMAL})", _with_unit),
        (rf"{_FREE}(?P<number>{_DECIMAL})\s?(?P<unit>{_NAMED_UNIT})(?![\w/²³])", _with_unit),
        # ordinals
        (
            rf"(?<!\w)({REGENTS}) (\d+)\.",
            lambda match: f"{match[1]} den {ordinal(int(match[2]))} ",
        ),
        (
            rf"(?i){_FREE}(\d{{1,2}})\. ?{MONTH}",
            lambda match: f"{ordinal(int(match[1]))} {MONTHS[match['month'].lower()]} ",
        ),
        (r"(?P<before>\b[Dd]e[nt] )(?P<number>\d{1,3})\.", _ordinal),
        (rf"{_FREE}(?P<number>\d{{1,3}})\.(?= (?:(?P<neuter>(?:{NEUTER})\b)|[a-zæøå]))", _ordinal),
        # times of day
        (
            rf"(?P<before>klokken ){_HOUR}(?:[.:]{_MINUTE})?(?![.,:]?\d)",
            _time,
        ),
        (
            rf"(?P<before>{_FREE}){_HOUR}[.:]{_MINUTE}(?![.,:]?\d)",
            _time,
        ),
        # what is left
        (rf"{_FREE}(?P<number>\d{{1,4}})-(?P<rest>[a-zæøå]+)", _compound),
        (r"§+", " paragraf "),
        (r"%", " procent "),
        (r"&", " og "),
        (
            rf"(?P<counted>{_COUNTED})?\s*(?P<number>{_NUMBER})(?P<neuter>(?= (?:{NEUTER})s?\b))?",
            _number,
        ),
        (r"\d+", lambda match: f" {number(match[0])} "),
        ("²", " i anden "),
        ("³", " i tredje "),
        (r"(?<=\w)['’](?=\w|\b|$)", ""),
    )
)
"""Patterns with what replaces a match, in the order in which they are applied."""


_CHANGES: Final = re.compile(rf"[\d½¼¾²³+=§%&/'’]|(?i:kr\b|(?<![\w.])(?:{_SHORT})(?![^\W\d]))")
"""What a text has that a rule changes; one without is done in a sixth of the time."""


def say(text: str) -> str:
    """Write a text as it is spoken; case and punctuation of other words stay."""
    if not _CHANGES.search(text):
        return text
    for pattern, words in RULES:
        text = pattern.sub(words, text)
    return text
