"""Profile ``danish``: numerals, dates, times, amounts and abbreviations as Danes say them.

In: a text in NFC. Out: the same in words. `RULES` are applied in their order, each to what the one
before it left; what a rule does not know stays a number, which the last of them spells. Numbers are
spelled as in profile ``coral``.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Final, NamedTuple

from danish_asr.text import danish_words as known
from danish_asr.text.numerals import BELOW_TWENTY, by_hundreds, cardinal, ordinal, spell_digits

Match = re.Match[str]


def say(text: str) -> str:
    """Write a text as it is spoken; case and punctuation of other words stay."""
    text = " ".join(text.translate(CHARACTERS).replace("⁄", "/").split())
    if not _CHANGES.search(text):
        return text
    for rule in RULES:
        if rule.sign in text:
            text = rule.pattern.sub(rule.words, text)
    return text


class Rule(NamedTuple):
    """What replaces a pattern; a text without ``sign`` does not match it, which saves time."""

    sign: str
    pattern: re.Pattern[str]
    words: Callable[[Match], str] | str


def _number(written: str, *, neuter: bool = False) -> str:
    """Spell digits that may be a year or a name: ``1987``, ``007``, ``33120456``."""
    if re.fullmatch(r"1[1-9]\d\d", written):
        return by_hundreds(int(written))
    if re.fullmatch(r"\d{8,}", written) and not written.endswith("000"):
        return spell_digits(written)
    return _amount(written, neuter=neuter)


def _amount(written: str, *, neuter: bool = False) -> str:
    """Spell a quantity; before one or two digits a "." is a comma: ``1.000``, ``3,14``, ``1.5``."""
    written = re.sub(r"^(\d+)\.(\d{1,2})$", r"\1,\2", written)
    integer, _, decimals = written.replace(".", "").partition(",")
    if len(integer) > 12 or re.match(r"0\d", integer):
        words = spell_digits(integer)
    else:
        words = cardinal(int(integer), neuter=neuter and not decimals)
    if not decimals:
        return words
    is_pair = len(decimals) == 2 and decimals[0] != "0"
    return f"{words} komma {cardinal(int(decimals)) if is_pair else spell_digits(decimals)}"


def _any_number(match: Match) -> str:
    written = match["number"]
    neuter = match["neuter"] is not None
    if written.endswith("1") and _COUNTED.fullmatch(_word_before(match)):
        neuter = True
    return f" {_number(written, neuter=neuter)} "


def _word_before(match: Match) -> str:
    *_, last = re.split(r"\W", match.string[: match.start()].rstrip(" "))
    return last


def _name(match: Match) -> str:
    """Read a number that is a name digit by digit, but pairs of digits as pairs."""
    written = match["number"]
    if not re.fullmatch(r"\d\d(?: \d\d)+", written):
        written = spell_digits(re.sub("[ -]", "", written))
    return f"{match['before']}{written}"


def _thousands(match: Match) -> str:
    """Join "12 500"; in "klokken 20 200 gæster" and "AB 12 345" the first digits stand alone."""
    before = _word_before(match)
    stands_alone = _COUNTED.fullmatch(before) or re.fullmatch("[A-ZÆØÅ]{2}", before)
    return match[0] if stands_alone else match[0].replace(" ", ".")


def _power(match: Match) -> str:
    """Read raised digits as a power; behind a word they number a note, but for ² and ³."""
    is_note = re.search(r"[^\W\d]{2}$", match.string[: match.start()])
    exponent = unicodedata.normalize("NFKC", match[1]).lstrip("−-")
    if not exponent.isdecimal() or len(exponent) > 2 or (is_note and match[1] not in "²³"):
        return " "
    minus = "minus " if match[1][0] in "⁻-" else ""
    return f" i {minus}{ordinal(int(exponent))} "


def _noun(match: Match) -> str:
    """Read "5'er" and "1980'erne" as nouns: ``femmer``, ``nittenhundredefirserne``."""
    century, written = match["century"], match["number"]
    stems = {"1": "ett", "3": "tre", "5": "femm", "60": "tress", "00": "null"}
    stem = stems.get(written) or cardinal(int(written)).removesuffix("e")
    if century:
        head = "totusind" if century == "20" else f"{BELOW_TWENTY[int(century)]}hundrede"
        stem = head.removesuffix("e") if written == "00" else head + stem
    return stem + match["ending"]


def _regent(match: Match) -> str:
    return " den " if re.fullmatch(known.REGENTS, _word_before(match)) else " "


def _compound(match: Match) -> str:
    words, rest = _number(match["number"], neuter=True), match["rest"]
    if rest.startswith("tal"):
        return words.replace(" ", "") + rest
    return f"{words} {rest}" if " " in words else words + rest


def _abbreviation(match: Match) -> str:
    return f"{_SAID[_letters(match[0])]} "


def _letters(form: str) -> str:
    return re.sub("[. ]", "", form).lower()


def _short_forms() -> str:
    """Return the pattern of all abbreviations, by first letters, which makes the search fast."""
    rests: dict[str, list[str]] = {}
    for form in known.ABBREVIATIONS:
        rest = re.escape(form[1:]).replace(r"\.", r"\. ?").removesuffix(" ?")
        has_inner_dot = "." in form[:-1]
        rests.setdefault(form[0], []).append(f"{rest}?" if has_inner_dot else rest)
    return "|".join(f"[{a}{a.upper()}](?i:{'|'.join(forms)})" for a, forms in rests.items())


def _with_unit(match: Match) -> str:
    parts = match.groupdict("")
    unit, number = parts["unit"], parts.get("number")
    one, several = known.UNITS.get(unit) or known.UNITS[unit.lower()]  # "Kr."
    words = f"{_amount(number)} {several}" if number else several
    return f"{parts.get('before', '')} {one if number == '1' else words} "


def _one_unit(match: Match) -> str:
    return f"{match['before']} {known.UNITS[match['unit']][0].split(' ', 1)[1]} "


def _currency_behind(match: Match) -> str:
    currency = match["unit"].lower() if match["unit"][0] in "Kk" else match["unit"]
    return f"{match['amount']}{match['large'] or ''} {currency} "


def _crowns(match: Match) -> str:
    written = re.sub(r"\.(?=\d{1,2}$)", ",", match["number"])
    integer, _, cents = written.partition(",")
    if len(cents) not in {0, 2}:
        return f"{_amount(written)} kroner"
    crowns = "en krone" if integer == "1" else f"{_amount(integer)} kroner"
    if not cents or cents == "00":
        return crowns
    coins = f"{cardinal(int(cents))} øre"
    return coins if integer == "0" else f"{crowns} og {coins}"


def _date(match: Match) -> str:
    parts = match.groupdict("")
    day, month = int(parts["day"]), int(parts["month"])
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return match[0]
    year = _number(parts["year"]) if parts.get("year") else ""
    until = "til " if parts.get("until") else ""
    return f"{parts.get('before', '')}{ordinal(day)} i {ordinal(month)} {year}{until}"


def _days(match: Match) -> str:
    """Read "24-26/12" as days of a month, and "1-2/3" as fractions."""
    first, last, month = map(int, match.groups())
    is_date = last > month or month > 10 or _word_before(match).lower() in {"den", "fra"}
    return f"{first}{'.' if is_date and first < last <= 31 else ''} til {last}/{month}"


def _month(match: Match) -> str:
    day = f"{ordinal(int(match['number']))} " if match["number"] else ""
    return f"{day}{known.MONTHS[match['month'].lower()]} " if match["month"] else day


def _weekday(match: Match) -> str:
    return known.WEEKDAYS[match[0][:2].lower()]


def _time(match: Match) -> str:
    hour, minute = int(match["hour"]), match["minute"]
    words = cardinal(hour, neuter=True)
    if minute and minute != "00":
        late = cardinal(int(minute), neuter=True)
        words += f" nul {late}" if minute[0] == "0" else f" {late}"
    return f"{match['before']}{words}"


def _ordinal(match: Match) -> str:
    parts = match.groupdict("")
    before = parts.get("before", "")
    neuter = bool(parts.get("neuter")) or before.lower() == "det "
    ending = " " if "apart" in parts else parts.get("ending", "")
    return f"{before}{ordinal(int(parts['number']), neuter=neuter)}{ending}"


def _fraction(match: Match) -> str:
    upper, lower = int(match[1]), int(match[2])
    if (upper, lower) == (24, 7):
        return "fireogtyve syv"
    if 0 < upper <= 31 and 0 < lower <= 12 and (upper > lower or lower > 10):
        return f"{ordinal(upper)} i {ordinal(lower)}"
    if not 0 < upper < lower <= 10:
        return f"{match[1]} {match[2]}"
    return f"{cardinal(upper)} {ordinal(lower)}del{'' if upper == 1 else 'e'}"


def _half(match: Match) -> str:
    if match["one"]:
        return "halvandet" if match["neuter"] else "halvanden"
    return " et halvt" if match["neuter"] else " en halv"


def _range(match: Match) -> str:
    """Write "5-10" with "til"; a smaller or equal second number makes a result, "3-1"."""
    start, end = match["start"], match["end"]
    if match["ordinal"] is not None and start.isdigit():  # 3-5. maj
        start += "."
    written = [re.sub(r"\.(?=\d{3}\b)", "", bound).rstrip(".,:") for bound in (start, end)]
    first, second = ([int(part) for part in re.findall(r"\d+", bound)] for bound in written)
    if list(map(len, written)) == [4, 2]:  # 1914-18
        first = [first[0] % 100]
    is_from_zero = first == [0] and not (match["unit"] or start.endswith("."))
    is_time = len(first + second) > 2 or _word_before(match).lower() == "klokken"
    if is_time or (first < second and not is_from_zero):
        return f"{start} til {end}"
    return _result(match)


def _result(match: Match) -> str:
    points = (re.sub(r"\D", "", match[name]) for name in ("start", "end"))
    words = " ".join(cardinal(int(number), neuter=True) for number in points)
    return match.groupdict("").get("before", "") + words


CHARACTERS: Final = str.maketrans(
    dict.fromkeys("–—‐‑‒", "-")
    | dict.fromkeys("’‘´`", "'")
    | {"º": "°", "˚": "°", "℃": "°C", "·": "×", "™": " "}
    | {"−": " minus ", "÷": " minus ", "±": " plus minus ", "≈": " cirka "}
    | {"≥": " større end eller lig med ", "≤": " mindre end eller lig med "}
    | {chr(ord("₀") + digit): str(digit) for digit in range(10)}
    | {sign: f" {unicodedata.normalize('NFKC', sign)}" for sign in "⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞⅐⅑⅒"}
)
"""Characters that stand for another, or for a word."""

_SAID: Final = {_letters(form): words for form, words in known.ABBREVIATIONS.items()}
_SHORT: Final = rf"\b(?<!\.)(?:{_short_forms()})(?![^\W\d])"
_COUNTED: Final = re.compile(known.COUNTED, re.IGNORECASE)

_FREE: Final = r"(?<![\w.,:/])"  # nothing before it belongs to the number
_NUMBER: Final = r"(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?(?![.,]?\d)"
_DECIMAL: Final = rf"(?:{_NUMBER}|\d+\.\d{{1,2}}(?![.,]?\d))"  # "1.50", before a unit only
_AMOUNT: Final = rf"{_FREE}(?P<number>{_DECIMAL})"
_UNITS: Final = "|".join(sorted(map(re.escape, known.UNITS), key=len, reverse=True))
_UNIT: Final = rf"(?P<unit>{_UNITS})(?![\w/²³])(?!(?<=min) (?:{known.KIN})\b)"
_MEASURE: Final = rf"(?:{_UNITS}|år|grader|point)(?!\w)"
_CROWNS: Final = r"(?:(?i:kr)\b\.?|kroner\b|DKK\b)"
_CURRENCY: Final = r"(?P<unit>(?i:kr)\b\.?|(?:DKK|EUR|USD|GBP|SEK|NOK)\b|US\$|[€$£])"
_LARGE: Final = r"(?:[Tt]usind|[Mm](?:i[oa]\b\.?|ill\.|illion(?:er)?\b|illiard(?:er)?\b))"
_NOT_OF_AMOUNT: Final = (
    r"(?<![\w.])(?<!\d )(?<!mi[oa] )(?<!mi[oa]\. )(?<!tusind )(?<!llioner )(?<!lliarder )"
)
_AMOUNTS: Final = rf"(?P<amount>{_DECIMAL}(?: ?- ?{_DECIMAL})?)(?:,-)?"
_2: Final = r"\d{1,2}"
_M: Final = r"(?:0?[1-9]|1[0-2])"
_DAY: Final = rf"(?P<day>{_2})"
_DATE: Final = rf"{_DAY}/(?P<month>{_2})"
_SIGNED: Final = rf"{_FREE}{_DAY}(?P<sign>[./-])(?P<month>{_2})(?P=sign)"
_YEAR: Final = r"(?P<year>\d{4})"
_LIFETIME: Final = rf"(?:1[5-9]|20)\d\d(?![\d.,]*\d| ?{_MEASURE}| ?{_CROWNS})"  # a year of birth
_UNTIL: Final = r"(?: til | ?- ?)"
_PARTS: Final = rf"[1-3]/[2-4]{_UNTIL}[1-3]/[2-4](?!\d)"  # 1/4-1/2
_MONTHS: Final = "|".join(known.MONTHS.values())
_DAYS: Final = "|".join(known.WEEKDAYS.values())
_SHORT_DAY: Final = "(?:man|tirs?|ons|tors?|fre|lør|søn)"
_ON: Final = rf"\b(?:den|fra|senest|inden|per|før|efter|siden|{_DAYS}|i \w+ til)|\d\. til"
_HOUR: Final = r"(?P<hour>\d|[01]\d|2[0-4])"
_MINUTE: Final = r"(?P<minute>[0-5]\d)"
_BOUND: Final = r"\d(?:[\d.,:]*\d)?\.?"  # of a range: 3. or 14.30 or 1.000
_RANGE: Final = rf"{_FREE}(?P<start>{_BOUND}) ?- ?(?P<end>{_BOUND})(?!-?\d)"
_OF_THE: Final = rf"(?=(?P<ordinal>(?<=\.) ?[a-zæøå]| (?i:{_MONTHS})\b)?)"
_PLAYED: Final = rf"(?i)(?P<before>\b(?:{known.RESULTS})(?: [a-zæøå]+){{0,3}} (?<!klokken ))"
_POINTS: Final = (
    rf"(?P<start>{_2})-(?P<end>{_2})"
    r"(?=[,;!?)]|\.(?! ?[a-zæøå\d])|$| (?:til|over|mod|i|ved|på|efter|og|men|da|før)\b)"
)
_SET: Final = r"(?P<start>\d)-(?P<end>\d)(?![-.:]?\d)"  # of tennis
_CENTURY: Final = r"(?:(?P<century>1[1-9]|20)(?=\d0\D))?"
_ENDING: Final = r"(?P<ending>er(?:en|ne|e)?s?)\b(?:-(?!\d))?"  # of a noun
_NTH: Final = rf"{_FREE}(?P<number>\d{{1,3}})\."
_NOT_COUNTED: Final = "".join(
    rf"(?<!{noun} )" for noun in ("punkt", "bilag", "afsnit", "opgave", "figur", "tabel", "kapitel")
)
_NEUTER: Final = rf"(?=(?: (?:til|eller) [\d.]+| [a-zæøå]+t)? (?:{known.NEUTER})s?\b|[a-hA-H]\b)"
_NO_DATE: Final = r"(?<![Dd]en )(?<![Dd]\. )(?<!dag )"  # before a day
_BIRTHDAY: Final = r"(?:0[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])\d\d"
_NAMED: Final = (
    r"(?:et|n)?:?(?: er| på)?:? )(?P<number>(?=(?:\d[ -]?){4})\d+(?:[ -]\d\d+)*)"
    rf"(?![\w%]|[.,/]\d| ?{_MEASURE})"
)
_POWERS: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹"

RULES: Final = tuple(
    Rule(sign, re.compile(pattern), words)
    for sign, pattern, words in (
        ("'", r"(?<=[sxzSXZ])'s\b", "es"),
        ("'", r"(?<=[^\W\d])'(?=[^\W\d])", ""),
        # abbreviations; what stands beside one decides between its readings
        ("Nr.", r"\bNr\.(?= [A-ZÆØÅ][a-zæøå]{2})", "Nørre"),
        ("nr.", r"(?<=[a-zæøå])(?<!tlf)nr\. ?", "nummer "),
        ("tk", r"(?<!\w)[Ss]tk\.? ?(?=\d)", "stykke "),
        ("", r"(?i)(?<![\w.])(?:kl|ca|nr|tlf) ?(?=\d)", _abbreviation),
        ("s.", r"(?<![\w.])s\. ?(?=\d)", "side "),
        (". kl", rf"{_NO_DATE}{_FREE}((?:10|\d)\.) kl\b\.?+(?! ?(?:ca\.? ?)?\d)", r"\1 klasse"),
        ("in.", r"(?<!\d)(?<!\d )\b[Mm]in\.(?= \d)", "minimum"),
        ("ax.", r"\b[Mm]ax\. ?(?=\d)", "maksimalt "),
        ("min", r"(?<=\d\. )min\b\.?", "minut"),
        (", st", r", st\.? ?(?=t[vh]\b)", ", stuen "),
        ("t.v.", r"(?<![\w.])t\.v\.", "til venstre"),
        ("t.h.", r"(?<![\w.])t\.h\.", "til højre"),
        ("tv", r"(?:(?<=\d\.)|(?<=stuen)|(?<= sal)),? ?tv\b\.?(?=,|$| \d{4})", " til venstre"),
        ("th", r"(?:(?<=\d\.)|(?<=stuen)|(?<= sal)),? ?th\b\.?(?=,|$| \d{4})", " til højre"),
        ("p", r"(?<=\d) ?(?:%|pct\.?)[- ]?point", " procentpoint"),
        ("pct", r"(?<=\d) ?pct\b(?!\.)", " procent"),
        ("u.", r"(?<![\w.])u\. ?(?=\d+ år\b)", "under "),
        ("f.", rf"(?<![\w.])f\. ?(?={_LIFETIME})", "født "),
        ("d.", rf"(?<![\w.])d\. ?(?={_LIFETIME})", "død "),
        ("el.", r"\bel\.(?= [a-zæøå])", "eller"),
        ("v/", r"(?<!\w)v/ ?(?=\w)", "ved "),
        ("m/", r"(?<!\w)m/ ?(?=[^\W\d]{3})", "med "),
        ("", rf"{_SHORT} ?", _abbreviation),
        ("", rf"(?i)(?<!\w)d\.? ?(?=\d{{1,2}}(?:[./]| (?:{_MONTHS})\b))", "den "),
        # numbers that are names, thousands with spaces
        ("", rf"(?P<before>{_FREE})(?P<number>{_BIRTHDAY}[- ]\d{{4}})(?![\w-])", _name),
        ("", rf"{_FREE}(\d\d)([-.])(\d\d)\2(\d\d)\2(\d\d)(?!\d|[-.]\d)", r"\1 \3 \4 \5"),
        ("", rf"(?P<before>\b(?:{known.NAMED}){_NAMED}", _name),
        ("nummer", rf"(?<=[a-zæøå]{{3}})(?<!post)(?P<before>nummer{_NAMED}", _name),
        (" ", rf"{_FREE}(?<!\d )\d{{1,3}}(?: \d{{3}})+(?! ?\d)", _thousands),
        # money in front
        ("/", r"(?i)((?<![^\W\d])kr\.?|,-)/ ?(?=[^\W\d])", r"\1 per "),
        ("", rf"{_NOT_OF_AMOUNT}{_CURRENCY} ?{_AMOUNTS}(?P<large> ?{_LARGE})?", _currency_behind),
        ("", rf"(?P<before>(?<![^\W\d]){_LARGE}) ?{_CURRENCY}", _with_unit),
        # units after words
        ("/", rf"(?<=\d)( ?)(?!km/[thls]|m/s|Mbit)({_UNITS})/ ?(?=\d|[^\W\d]+\b)", r"\1\2 per "),
        ("per ", rf"(?P<before>\bper ){_UNIT}", _one_unit),
        ("", rf"(?P<before>[½¼¾]) ?{_UNIT}", _one_unit),
        ("/", rf"(?P<before>\d/(?:\d|10)) ?{_UNIT}", _one_unit),
        ("", rf"(?<![\w.,/-])(?<!\d )(?P<unit>{known.UNITS_ALONE})(?![\w/²³])", _with_unit),
        ("°", r"(?<=\d) ?° (?=[CF]\b)", "°"),
        ("2", r"(\d ?[ckd]?m)2\b", r"\1²"),
        ("3", r"(\d ?[ckd]?m)3\b", r"\1³"),
        # spans and dates
        ("-", r"(?<=[./-]\d{4}) ?- ?(?=\d{1,2}[./]\d{1,2}[./-]\d)", " til "),
        ("-", rf"(?i)(?<=\d)(\. ?{known.MONTH}\.?(?: \d{{4}})?) ?- ?(?=\d{{1,2}}\.)", r"\1 til "),
        ("-", rf"(?i)\b{_SHORT_DAY}(?:\.(?= ?- ?{_SHORT_DAY}\b)|(?=-{_SHORT_DAY}\b))", _weekday),
        ("dag", rf"(?:(?<=dag-)(?i:{_SHORT_DAY})\b|(?<=dag - )(?i:{_SHORT_DAY})\.)", _weekday),
        ("klokken", rf"\b(?!man)(?i:{_SHORT_DAY})\.(?= klokken)", _weekday),
        ("-", rf"(?i)\b({_MONTHS}|{_DAYS}) ?- ?(?=(?:{_MONTHS}|{_DAYS})\b)", r"\1 til "),
        ("-", rf"{_FREE}({_2})\. ?- ?({_2})\.({_M})\.(?!\d)", r"\1. til \2/\3 "),
        (".", rf"{_FREE}({_2})\.({_M})\.{_UNTIL}({_2})\.({_M})\.(?=\d{{4}}|\D|$)", r"\1/\2-\3/\4 "),
        ("/", rf"{_FREE}({_2})\.? ?- ?({_2})/({_M})(?!\d|/(?!\d{{4}}))", _days),
        ("/", rf"{_FREE}(?!{_PARTS}){_DATE}(?P<until>{_UNTIL})(?={_2}/\d)", _date),
        ("-", rf"{_FREE}{_YEAR}-(?P<month>\d\d)-(?P<day>\d\d)(?!\d)", _date),
        ("", rf"{_SIGNED}{_YEAR}(?!\d)", _date),
        ("", rf"{_SIGNED}(?<!-)(?P<year>\d\d)(?!\.?\d)", _date),
        ("/", rf"{_FREE}{_DATE}[ -](?P<year>\d{{4}}|(?<=-)\d\d)(?!\d)", _date),
        (" i ", rf"{_FREE}{_DAY}\. i (?P<month>{_2})\.(?!\d)", _date),
        ("-", rf"{_FREE}({_2})-({_2})-({_2})(?![\d-])", r"\1 \2 \3"),  # 7-9-13
        ("/", rf"(?i)(?P<before>(?:{_ON}) )(?!{_PARTS}){_DATE}(?![\d/]|{known.PARTED})", _date),
        ("en ", rf"(?P<before>\b[Dd]en ){_DAY}\.(?P<month>{_2})\b\.?(?!\d| ?{_MEASURE})", _date),
        (".", rf"{_FREE}(?P<day>2[4-9]|3[01])\.(?P<month>0[1-9]|1[0-2])\.(?!\d)", _date),
        # fractions
        ("1/2", rf"{_FREE}1/2(?![\d/])", "½"),
        ("½", r"(?<=½) ?- ?(?=\d)|(?<=\d) ?- ?(?=\d* ?½)", " til "),
        ("/", r"(?<=\d/\d) ?- ?(?=\d/\d)", " til "),
        ("½", r"(?<=klokken )½ ?(?=\d)", "halv "),
        ("", r"(?i)\be[nt] (?=½|1/[3-9](?![\d/]))", ""),
        ("½", rf"(?P<one>{_FREE}(?<!\d )1 ?)?½(?=(?P<neuter> +(?:{known.NEUTER})\b)?)", _half),
        ("¼", "¼", " en kvart"),
        ("¾", "¾", " tre kvart"),
        ("/", rf"{_FREE}({_2})/({_2})(?:-?del(?:e|en)?\b)?(?![\d/])", _fraction),
        # centuries, decades and other nouns
        ("-tal", rf"{_FREE}(\d{{3,4}}) ?- ?(?=\d{{3,4}}-tal)", r"\1 til "),
        ("er", rf"{_FREE}(\d\d(?:\d\d)?) ?- ?(?=(?:\d\d)?\d0'?er)", r"\1 til "),
        ("er", rf"{_FREE}{_CENTURY}(?P<number>\d{{1,3}})['-]?{_ENDING}", _noun),
        # ordinals beside other signs
        (".", r" (?=\d+\.)", _regent),
        (".-", rf"(?P<before>\b[Dd]et )?{_NTH}-(?=[a-zæøå]| og | eller )", _ordinal),
        (".,", rf"{_NTH}(?=,)", _ordinal),
        ("", rf"{_FREE}(?P<number>\d{{1,3}})'?(?:ste|de[nt]?|d[ji]e|e?nde|te)\b", _ordinal),
        # ranges and results, signs
        ("^", r"(?<=[\d)])\^(-?\d{1,2})(?!\d)", _power),
        ("-", rf"{_PLAYED}{_POINTS}", _result),
        ("-", rf"{_FREE}(?:(?=\d-\d, \d-\d)|(?<=\d-\d, ))(?=\d-[67]|[67]-){_SET}", _result),
        ("=", r"(?<=\d) ?- ?(?=\d+(?:,\d+)? ?=)", " minus "),
        ("-", rf"{_RANGE}(?=(?P<unit> ?{_MEASURE})?){_OF_THE}", _range),
        ("", rf"{_FREE}(\d[\d.,]*) ?[x×*] ?(?=\d)", r"\1 gange "),
        (":", rf"{_FREE}(\d+):(?=\d{{3}}|\d{{1,3}}\.\d{{3}})", r"\1 til "),
        ("-", r"(?<![\w)])-(?=\d)", "minus "),
        ("+", r"\+/- ?", " plus minus "),
        ("+", r"\+", " plus "),
        ("=", "=", " er lig med "),
        ("<", r"<(?= ?\d)", " mindre end "),
        (">", r">(?= ?\d)", " større end "),
        # amounts
        ("", rf"{_AMOUNT}(?:,-(?: ?{_CROWNS})?| ?{_CROWNS})", _crowns),
        ("", rf"{_AMOUNT} ?{_UNIT}", _with_unit),
        ("", rf"([⁻{_POWERS}]+)", _power),
        # ordinals before words
        ("", rf"(?i){_FREE}(?P<number>{_2})(?:\. ?{known.MONTH}| (?=(?:{_MONTHS})\b))", _month),
        (". ", rf"(?i)(?P<number>(?<!\w)){known.MONTH}\.(?= (?:1[5-9]|20)\d\d\b)", _month),
        (".", rf"(?i){_NTH}(?P<apart> ?)(?=(?:{known.ORDERED}|g)\b|g'?er)", _ordinal),
        (".", rf"{_NOT_COUNTED}{_NTH}(?P<apart>)(?=[a-g]\b)", _ordinal),  # a class at school
        ("", rf"(?P<before>\b[Dd]e[nt] ){_NTH}(?!\d)(?:'?(?P<ending>s)\b)?", _ordinal),
        (".", rf"{_NTH}(?= (?:(?P<neuter>(?:{known.NEUTER})\b)|[a-zæøå]))", _ordinal),
        # times of day
        ("klokken ", rf"(?P<before>klokken ){_HOUR}(?:[.:]{_MINUTE})?(?![.,:]?\d)", _time),
        ("", rf"(?P<before>{_FREE}){_HOUR}[.:]{_MINUTE}(?![.,:]?\d)", _time),
        # what is left
        ("-", rf"{_FREE}(?P<number>\d{{1,4}})-(?P<rest>[a-zæøå]+)", _compound),
        ("§", "§+", " paragraf "),
        ("%", "%", " procent "),
        ("&", "&", " og "),
        ("", rf"(?P<number>{_NUMBER}|\d+)(?P<neuter>(?<=[^\W\d]1)|{_NEUTER})?", _any_number),
        ("'", r"(?<=\w)'(?=\w|\b|$)", ""),
        ("", rf"\b(?P<unit>{known.WORDS_OF_UNITS})\b", _with_unit),
    )
)
"""Patterns with what replaces a match, in the order in which they are applied."""

_CHANGES: Final = re.compile(
    rf"[\d½¼¾⁻{_POWERS}+=§%&/'-]|nr\.|el\.|t\.?[vh]\b|\. klokken|{_CURRENCY}|{_SHORT}"
    rf"|\b(?:per |{known.UNITS_ALONE}|(?:{known.WORDS_OF_UNITS})\b)"
)
"""What a text has that a rule changes; one without is done in a fraction of the time."""
