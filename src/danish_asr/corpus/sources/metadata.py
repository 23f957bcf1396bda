"""Metadata of speakers in one form for all corpora; ``sub_dialect`` keeps the corpus's value."""

import math
from dataclasses import dataclass
from typing import Any, Final

from danish_asr.corpus.sources.countries import DENMARK, country_code

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Metadata of a speaker; None where the corpus has no value."""

    speaker_id: str | None = None
    dialect: str | None = None
    sub_dialect: str | None = None
    age: int | None = None
    age_group: str | None = None
    gender: str | None = None
    country_birth: str | None = None
    unread_age: str | None = None  # a value that is no number of years
    country: str | None = None  # what ``country_birth`` was read as, an ISO 3166-1 alpha-2 code


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

    With ``country_codes``, the corpus writes codes as CoRal does: all but DK are countries abroad.
    Otherwise a country that is not recognised is unknown.

    Raises:
        TypeError: A value is nested: a list or a mapping.
        UnicodeDecodeError: A value is bytes that are not UTF-8.
    """
    sub_dialect, birth, years = clean(dialect), clean(country_birth), parse_age(age)
    country = birth.upper() if birth and country_codes else country_code(birth)
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
    return str(plain(value)).strip() or None


def plain(value: Any) -> Any:
    """The value, bytes decoded; errors as for `speaker`."""
    if isinstance(value, list | dict):
        raise TypeError
    return value.decode() if isinstance(value, bytes) else value


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
