"""Who is one person, and metadata of speakers in one form: values of any corpus in, ours out."""

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

_UNKNOWN: Final = {"", "?", "-", "–", "n/a", "nan", "none", "null", "unknown", "ukendt", "uoplyst"}
"""What stands for no value, in lower case. ``NA`` may be a speaker's initials."""

_DANES: Final = _UNKNOWN | {"na", "dk", "dnk", "da", "dan", "danmark", "denmark", "dansk", "danish"}
"""Countries of birth of native speakers, in lower case; ``NA`` is not Namibia."""

GENDERS: Final = ("male", "female")

_GENDER_OF: Final = dict.fromkeys(
    ("male", "m", "man", "mand", "male_masculine"), "male"
) | dict.fromkeys(("female", "f", "k", "woman", "kvinde", "female_feminine"), "female")
"""Spellings of `GENDERS`, in lower case; others stay as they are."""

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
_DIALECT_OF: Final[Mapping[str, str]] = {name.lower(): name for name in DIALECTS} | {
    sub_dialect: dialect for dialect, names in SUB_DIALECTS.items() for sub_dialect in names
}


@lru_cache(maxsize=50_000, typed=True)
def clean(value: Any) -> str | None:
    """The value as text in NFC with single spaces; None for null, NaN and white space.

    Raises TypeError for a list, a mapping or bytes.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, list | dict | bytes):
        raise TypeError
    return " ".join(unicodedata.normalize("NFC", str(value)).split()) or None


@lru_cache(maxsize=50_000, typed=True)
def known(value: Any) -> str | None:
    """As `clean`, and None for what stands for no value, such as "ukendt"."""
    text = clean(value)
    return None if (text or "").casefold() in _UNKNOWN else text


@lru_cache(maxsize=50_000, typed=True)
def speaker_of(value: Any) -> str | None:
    """The id without the ``.0`` of whole numbers that pandas wrote; None for an unknown speaker."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    name = clean(value) or ""
    return None if name.casefold() in _UNKNOWN else re.sub(r"^(\d+)\.0+$", r"\1", name)


def dialect_of(sub_dialect: str | None, country_birth: str | None) -> str | None:
    """One of `DIALECTS` (`NON_NATIVE` for birth outside Denmark); an unknown name is kept."""
    if (country_birth or "").casefold() not in _DANES:
        return NON_NATIVE
    return _DIALECT_OF.get((sub_dialect or "").lower(), sub_dialect)


def gender_of(gender: str | None) -> str | None:
    """``male`` or ``female`` for their spellings; others stay."""
    return _GENDER_OF.get((gender or "").casefold(), gender)


_OLDEST: Final = 130
_AGE: Final = re.compile(r"(\d{1,3})(?:[.,]\d*)?(?: ?(?:år|years?))?", re.IGNORECASE)
_AGES: Final = re.compile(r"(\d{1,3}) ?(?:[-–] ?(\d{1,3})|\+)(?: ?(?:år|years?))?", re.IGNORECASE)
_GROUP_OF_DECADE: Final = {
    "teens": "0-24",
    **dict.fromkeys(("thirties", "fourties", "forties"), "25-49"),
    **dict.fromkeys(("fifties", "sixties", "seventies", "eighties", "nineties"), "50+"),
}
"""Ages of Common Voice; those in their twenties are of two groups."""


def age_of(text: str) -> int | None:
    """Whole years of ``34``, ``34,0`` or ``34 år``; None for anything else ("fifties", -1)."""
    age = _AGE.fullmatch(text)
    return int(age[1]) if age and int(age[1]) <= _OLDEST else None


def age_group(text: str) -> str | None:
    """The age group that results are reported for, of an age, a decade or ages such as ``30-39``.

    None if it is none of these, or of several groups, as ``20-29`` is.
    """
    age, ages = age_of(text), _AGES.fullmatch(text)
    if age is not None:
        bounds = {age}
    elif ages:
        bounds = {int(ages[1]), int(ages[2] or _OLDEST)}
    else:
        return _GROUP_OF_DECADE.get(text.lower())
    groups = {"0-24" if bound < 25 else "25-49" if bound < 50 else "50+" for bound in bounds}
    return groups.pop() if len(groups) == 1 else None


CORAL: Final = ("coral_conversation", "coral_read_aloud")
"""CoRal's corpora, which share people also if they are converted one by one."""

_SHOWN: Final = 3  # names in a line
_END_OF_CORPUS: Final = "\x1f"  # which ASCII has to separate units; no name has it


def persons_of(
    corpora: Iterable[str | None],
    speakers: Iterable[str | None],
    share_people: Iterable[Sequence[str]],
) -> list[str | None]:
    """The person of each row: a corpus and a speaker's id there; None without a speaker.

    Args:
        corpora: The corpus of each row; None is a corpus of its own.
        speakers: The ``speaker_id`` of each row.
        share_people: Lists of corpora in which an id means the same person, as of one conversion.
            Lists with a common corpus are one.
    """
    first_of = first_corpora(share_people)
    persons: list[str | None] = []
    for corpus, speaker in zip(corpora, speakers, strict=True):
        name = corpus or ""
        known = f"{first_of.get(name, name)}{_END_OF_CORPUS}{speaker}"
        persons.append(None if speaker is None else known)
    return persons


def alike(persons: Iterable[str]) -> Iterator[str]:
    """Say which of these names or `persons_of` differ in capitals or spaces alone."""
    by_letters = defaultdict[str, list[str]](list)
    for person in sorted(persons):
        name = person.rpartition(_END_OF_CORPUS)[2]
        by_letters[person.casefold().replace(" ", "")].append(name)
    if pairs := [" and ".join(names) for names in by_letters.values() if len(names) > 1]:
        yield (
            f"speakers whose names differ in capitals or spaces alone: {len(pairs):,}, such as "
            f"{', '.join(pairs[:_SHOWN])}; if they are one person, write one name"
        )


def first_corpora(share_people: Iterable[Sequence[str]]) -> dict[str, str]:
    """For each corpus that shares people with others, the first of them all."""
    group_of: dict[str, set[str]] = {}
    for corpora in share_people:
        group = {*corpora}.union(*(group_of.get(corpus, ()) for corpus in corpora))
        group_of.update(dict.fromkeys(group, group))
    return {corpus: min(group) for corpus, group in group_of.items()}
