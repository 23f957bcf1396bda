"""From the values of a row to an utterance: text, audio, times, and metadata of the speaker.

Metadata have one form for all corpora; ``sub_dialect`` keeps the corpus's value.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

from danish_asr.corpus.sources.base import (
    SPEAKER_COLUMNS,
    Columns,
    SourceFile,
    Speaker,
    Utterance,
)

DENMARK: Final = "DK"

_DANISH: Final = frozenset(
    (
        *("dk", "dnk", "da", "dan", "danmark", "denmark", "dansk", "danish"),
        *("kongeriget danmark", "kingdom of denmark", "dänemark", "danemark", "dinamarca"),
    )
)
"""Spellings of Denmark as the country of birth, in lower case."""

_UNKNOWN: Final = frozenset(
    (
        *("", "?", "-", "–", "na", "n/a", "nan", "none", "null", "unknown"),
        *("ukendt", "uoplyst", "ikke oplyst", "ved ikke"),
    )
)
"""What stands for no speaker and for no country of birth, in lower case."""

_GENDERS: Final = dict.fromkeys(("male", "m", "man", "mand"), "male") | dict.fromkeys(
    ("female", "f", "k", "woman", "kvinde"), "female"
)
"""Spellings of two genders, in lower case; others stay as they are."""

NON_NATIVE: Final = "Non-native"

SUB_DIALECTS: Final = {
    dialect: tuple(names.split(" | "))
    for dialect, names in {
        "Østjysk": "midtøstjysk | østjysk | sydøstjysk | ommersysselsk | "
        "djurslandsk (nord-, syddjurs m. nord- og sydsamsø, anholt)",
        "Københavnsk": "amagermål",
        "Nordjysk": "nørrejysk | vendsysselsk (m. hanherred og læsø) | himmerlandsk",
        "Vestjysk": "vestjysk | thybomål | morsingmål | sydvestjysk (m. fanø) | sallingmål | "
        "fjandbomål",
        "Sjællandsk": "nordsjællandsk | sjællandsk | nordvestsjællandsk | "
        "sydsjællandsk (sydligt sydsjællandsk) | østsjællandsk | sydvestsjællandsk",
        "Fynsk": "fynsk | sydfynsk | vestfynsk (nordvest-, sydvestfynsk) | langelandsk",
        "Bornholmsk": "bornholmsk",
        "Sønderjysk": "sønderjysk | østligt sønderjysk (m. als) | syd for rigsgrænsen: "
        "mellemslesvisk, angelmål, fjoldemål | vestlig sønderjysk (m. mandø og rømø)",
        "Sydømål": "nordfalstersk | lollandsk | sydømål | sydfalstersk",
    }.items()
}
"""For each dialect, CoRal's names of its sub-dialects."""

DIALECTS: Final = (*SUB_DIALECTS, NON_NATIVE)
"""The ten groups that results are reported for."""

_APART: Final = 0.1
"""Seconds by which rounding may set an end and a duration apart."""

# Values that are mapped already stay the same.
_DIALECT_OF: Final = {name.lower(): name for name in DIALECTS} | {
    sub_dialect: dialect for dialect, names in SUB_DIALECTS.items() for sub_dialect in names
}


def utterance(
    values: Mapping[str, Any] | None,
    columns: Columns,
    file: SourceFile,
    row: int,
    *,
    country_codes: bool = False,
) -> Utterance:
    """Make an utterance of a row; a refused one if the row or one of its values is malformed."""
    id_, name = row_id(values, columns, file, row), "id"
    if values is None:
        return Utterance(row=row, id=id_, text=None, audio=None, refused="malformed row")
    read: dict[str, Any] = {}
    differ = False
    try:
        _joined_id(values, columns["id"])
        for name, convert in _CONVERT.items():
            theirs = columns[name]
            read[name] = convert(values.get(theirs)) if theirs else None
        seconds, name = read["seconds"], "seconds"
        if read["end"] is not None:
            until_end = _seconds(read["end"] - (read["start"] or 0.0)) or 0.0
            seconds = until_end if seconds is None else seconds
            differ = abs(until_end - seconds) > _APART
    except (TypeError, ValueError):
        return Utterance(row=row, id=id_, text=None, audio=None, refused=f"malformed {name}")
    refused = "end and duration differ" if differ else None
    if (read["validated"] or "").lower() == "rejected":
        refused = "rejected"
    metadata = {name: read[name] for name in SPEAKER_COLUMNS}
    return Utterance(
        row=row,
        id=id_,
        text=read["text"],
        audio=values.get(columns["audio"]),
        speaker=speaker(**metadata, country_codes=country_codes),
        start=read["start"] or 0.0,
        seconds=seconds,
        whole=read["start"] is None and read["end"] is None,
        channel=read["channel"],
        refused=refused,
    )


def row_id(values: Mapping[str, Any] | None, columns: Columns, file: SourceFile, row: int) -> str:
    """The id of a row that `utterance` makes an utterance of."""
    try:
        own = values and _joined_id(values, columns["id"])
    except (TypeError, ValueError):
        own = None
    return own or f"{file.name}:{row}"


def _joined_id(values: Mapping[str, Any], names: str) -> str | None:
    """The values of the columns ``names``, separated by commas; None if one is missing or blank."""
    parts = [_plain(values.get(name)) for name in names.split(",")]
    if any(part is None or not str(part).strip() for part in parts):
        return None
    return "_".join(map(str, parts))


def _text(value: Any) -> str | None:
    text = _plain(value)
    if not isinstance(text, str | int | None):  # a table may hold a whole number
        raise TypeError
    return None if text is None else str(text)


def _seconds(value: Any) -> float | None:
    if value is None or not str(value).strip():
        return None
    seconds = float(str(value).replace(",", "."))  # "0,5" in Danish tables
    if not 0 <= seconds < math.inf:
        raise ValueError
    return seconds


def _channel(value: Any) -> int | None:
    if value is None or not str(value).strip():
        return None
    channel = int(value)
    if channel < 1:
        raise ValueError
    return channel


def speaker(
    *,
    speaker_id: Any = None,
    dialect: Any = None,
    age: Any = None,
    gender: Any = None,
    country_birth: Any = None,
    country_codes: bool = False,
) -> Speaker:
    """Normalise the raw values of a corpus; an empty value becomes None.

    ``country_codes`` is that of `country_of`. Raises TypeError for a list or a mapping, and
    ValueError for text that is not UTF-8.
    """
    sub_dialect, birth, years = clean(dialect), clean(country_birth), parse_age(age)
    own_gender = clean(gender)
    country = country_of(birth, country_codes=country_codes)
    return Speaker(
        speaker_id=_speaker_id(speaker_id),
        dialect=map_dialect(sub_dialect, country),
        sub_dialect=sub_dialect,
        age=years,
        age_group=age_group(years),
        unread_age=clean(age) if years is None else None,
        gender=_GENDERS.get((own_gender or "").casefold(), own_gender),
        country_birth=birth,
        country=country,
    )


def clean(value: Any) -> str | None:
    """The value as text in NFC with single spaces; None for null, NaN and white space.

    Errors as for `speaker`.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return " ".join(unicodedata.normalize("NFC", str(_plain(value))).split()) or None


def _speaker_id(value: Any) -> str | None:
    """The id without the ``.0`` of whole numbers that pandas wrote; None for an unknown speaker."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    name = clean(value) or ""
    return None if name.casefold() in _UNKNOWN else re.sub(r"^(\d+)\.0+$", r"\1", name)


def _plain(value: Any) -> Any:
    if isinstance(value, list | dict):
        raise TypeError
    if isinstance(value, str):
        value.encode()  # JSON may hold half of a surrogate pair
    return value.decode() if isinstance(value, bytes) else value


def country_of(birth: str | None, *, country_codes: bool = False) -> str | None:
    """``DK`` for Danish spellings, a country abroad in capitals, None for an unknown one.

    With ``country_codes``, as in CoRal, any other text is a country abroad. In other corpora only
    two letters are: a name may be a misspelt Danish town. ``NA`` is missing, not Namibia.
    """
    spelling = " ".join((birth or "").casefold().split())
    if spelling in _DANISH:
        return DENMARK
    is_code = len(spelling) == 2 and spelling.isalpha()
    is_abroad = spelling not in _UNKNOWN and (is_code or country_codes)
    return spelling.upper() if is_abroad else None


def map_dialect(sub_dialect: str | None, country: str | None) -> str | None:
    """One of `DIALECTS` (`NON_NATIVE` for birth outside Denmark); an unknown name is kept."""
    if country not in {None, DENMARK}:
        return NON_NATIVE
    return _DIALECT_OF.get((sub_dialect or "").lower(), sub_dialect)


def parse_age(value: Any) -> int | None:
    """Whole years, from a number or its text; None for anything else ("ukendt", -1, NaN)."""
    try:
        years = float(value)
    except (TypeError, ValueError):
        return None
    return int(years) if 0 <= years <= 130 else None


def age_group(age: int | None) -> str | None:
    """The age group that results are reported for: ``0-24``, ``25-49`` or ``50+``."""
    if age is None:
        return None
    return "0-24" if age < 25 else "25-49" if age < 50 else "50+"


_CONVERT: Final[Mapping[str, Callable[[Any], Any]]] = {
    "validated": clean,
    "text": _text,
    **dict.fromkeys(SPEAKER_COLUMNS, clean),
    "speaker_id": _speaker_id,
    "start": _seconds,
    "seconds": _seconds,
    "end": _seconds,
    "channel": _channel,
}
"""What reads each column but those of the id and the audio."""
