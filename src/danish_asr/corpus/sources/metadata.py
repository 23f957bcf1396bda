"""From the values of a row to an utterance: text, audio, times, and metadata of the speaker.

Metadata have one form for all corpora; ``sub_dialect`` keeps the corpus's value.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from danish_asr.corpus.sources.base import (
    SPEAKER_COLUMNS,
    Columns,
    SourceFile,
    Speaker,
    Utterance,
)

_Value = TypeVar("_Value")

DENMARK: Final = "DK"

_DANISH: Final = frozenset(
    (
        *("dk", "dnk", "da", "dan", "danmark", "denmark", "dansk", "danish"),
        *("kongeriget danmark", "kingdom of denmark", "dänemark", "danemark", "dinamarca"),
    )
)
_UNKNOWN: Final = frozenset(
    (
        *("na", "n/a", "nan", "none", "null", "unknown", "not available", "other"),
        *("ukendt", "uoplyst", "ikke oplyst", "ingen", "andet"),
    )
)
"""Spellings of the country of birth, in lower case. ``NA`` is missing, not Namibia."""

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

# Values that are mapped already stay the same.
_DIALECT_OF: Final = {name.lower(): name for name in DIALECTS} | {
    sub_dialect: dialect for dialect, names in SUB_DIALECTS.items() for sub_dialect in names
}


class _MalformedError(Exception):
    """A value cannot be read; the argument is our name of its column."""


def utterance(
    values: Mapping[str, Any] | None, columns: Columns, file: SourceFile, row: int
) -> Utterance:
    """Make an utterance of a row; a refused one if the row or one of its values is malformed."""
    id_ = f"{file.name}:{row}"
    try:
        if values is None or not _is_unicode(values):
            raise _MalformedError("row")  # noqa: TRY301
        id_ = _read("id", _joined_id, values, columns["id"]) or id_
        validated = _read("validated", clean, values.get(columns["validated"])) or ""
        text = _read("text", _text, values.get(columns["text"]))
        metadata = {name: _read(name, clean, values.get(columns[name])) for name in SPEAKER_COLUMNS}
        return Utterance(
            row=row,
            id=id_,
            text=text,
            audio=values.get(columns["audio"]),
            speaker=speaker(**metadata),
            start=_read("start", _seconds, values.get(columns["start"])) or 0.0,
            seconds=_read("seconds", _seconds, values.get(columns["seconds"])),
            refused="rejected" if validated.lower() == "rejected" else None,
        )
    except _MalformedError as fault:
        return Utterance(row=row, id=id_, text=None, audio=None, refused=f"malformed {fault}")


def _read(ours: str, convert: Callable[..., _Value], *arguments: Any) -> _Value:
    try:
        return convert(*arguments)
    except (TypeError, ValueError) as error:
        raise _MalformedError(ours) from error


def _is_unicode(values: Mapping[str, Any]) -> bool:
    """Whether all texts can be encoded; JSON may hold half of a surrogate pair."""
    try:
        "".join(value for value in values.values() if isinstance(value, str)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _joined_id(values: Mapping[str, Any], names: str) -> str | None:
    """The values of the columns ``names``, separated by commas; None if one is missing."""
    parts = [_plain(values.get(name)) for name in names.split(",")]
    if None in parts or "" in parts:
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


def speaker(
    *,
    speaker_id: Any = None,
    dialect: Any = None,
    age: Any = None,
    gender: Any = None,
    country_birth: Any = None,
) -> Speaker:
    """Normalise the raw values of a corpus; an empty value becomes None.

    Raises:
        TypeError: A value is nested: a list or a mapping.
        UnicodeDecodeError: A value is bytes that are not UTF-8.
    """
    sub_dialect, birth, years = clean(dialect), clean(country_birth), parse_age(age)
    country = country_of(birth)
    return Speaker(
        speaker_id=clean(speaker_id),
        dialect=map_dialect(sub_dialect, country),
        sub_dialect=sub_dialect,
        age=years,
        age_group=age_group(years),
        unread_age=clean(age) if years is None else None,
        gender=clean(gender),
        country_birth=birth,
        country=country,
    )


def clean(value: Any) -> str | None:
    """The value as stripped text; None for null, NaN and white space. Errors as for `speaker`."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return str(_plain(value)).strip() or None


def _plain(value: Any) -> Any:
    if isinstance(value, list | dict):
        raise TypeError
    return value.decode() if isinstance(value, bytes) else value


def country_of(birth: str | None) -> str | None:
    """``DK`` for Danish spellings, None for an unknown country, the name in capitals for others."""
    spelling = " ".join((birth or "").casefold().split())
    if spelling in _DANISH:
        return DENMARK
    if spelling in _UNKNOWN or sum(map(str.isalpha, spelling)) < 2:
        return None
    return spelling.upper()


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
