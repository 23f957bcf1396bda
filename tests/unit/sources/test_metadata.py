from __future__ import annotations

from typing import Any

import pytest

from danish_asr.sources.metadata import (
    DIALECTS,
    NON_NATIVE,
    SUB_DIALECTS,
    age_group,
    map_dialect,
    parse_age,
    speaker,
)


def test_there_are_34_sub_dialects_of_nine_dialects_and_non_native() -> None:
    assert sum(len(names) for names in SUB_DIALECTS.values()) == 34
    assert len(DIALECTS) == 10


@pytest.mark.parametrize(
    ("sub_dialect", "dialect"),
    [(name, dialect) for dialect, names in SUB_DIALECTS.items() for name in names]
    + [(dialect, dialect) for dialect in DIALECTS]
    + [("Amagermål", "Københavnsk"), ("færøsk", "færøsk"), (None, None)],
)
def test_a_name_is_mapped_and_an_unknown_one_is_kept(
    sub_dialect: str | None, dialect: str | None
) -> None:
    assert map_dialect(sub_dialect, "DK") == dialect
    assert map_dialect(sub_dialect, None) == dialect


@pytest.mark.parametrize("sub_dialect", ["fynsk", "færøsk", None])
def test_birth_abroad_is_non_native_whatever_the_dialect(sub_dialect: str | None) -> None:
    assert map_dialect(sub_dialect, "SE") == NON_NATIVE
    assert map_dialect(sub_dialect, "dk") != NON_NATIVE


@pytest.mark.parametrize(
    ("age", "group"),
    [(0, "0-24"), (24, "0-24"), (25, "25-49"), (49, "25-49"), (50, "50+"), (99, "50+")],
)
def test_every_age_has_one_group(age: int, group: str) -> None:
    assert age_group(age) == group


@pytest.mark.parametrize(
    ("value", "age"),
    [
        (34, 34),
        (34.0, 34),
        ("34", 34),
        ("ukendt", None),
        ("", None),
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
        (-1, None),
        (1975, None),
    ],
)
def test_an_age_is_a_number_of_years_or_unknown(value: Any, age: int | None) -> None:
    assert parse_age(value) == age


def test_the_raw_dialect_is_kept() -> None:
    found = speaker(dialect=" Thybomål ", age="61", gender="female", country_birth="")
    assert (found.sub_dialect, found.dialect) == ("Thybomål", "Vestjysk")
    assert (found.age, found.age_group, found.country_birth) == (61, "50+", None)
