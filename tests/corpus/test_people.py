from typing import Any

import pytest

from danish_asr.corpus.people import (
    DIALECTS,
    NON_NATIVE,
    SUB_DIALECTS,
    age_group,
    age_of,
    clean,
    dialect_of,
    gender_of,
    speaker_of,
)


def test_every_name_is_mapped_and_an_unknown_one_is_kept() -> None:
    assert len(DIALECTS) == 10
    names = [(name, dialect) for dialect, own in SUB_DIALECTS.items() for name in own]
    assert len(names) == 34
    others = [("Amagermål", "Københavnsk"), ("færøsk", "færøsk"), (None, None)]
    for name, dialect in (*names, *zip(DIALECTS, DIALECTS, strict=True), *others):
        assert dialect_of(name, "DK") == dialect_of(name, None) == dialect


DENMARK: list[Any] = ["DK", "dk", "DNK", "Danmark", "Denmark", "da", " DK\n"]


UNKNOWN: list[Any] = ["", " ", None, float("nan"), "ukendt", "Ukendt", "?", "NA", "-", "unknown"]


def test_only_a_country_that_lies_abroad_makes_a_speaker_non_native() -> None:
    births = dict.fromkeys((*DENMARK, *UNKNOWN), "Fynsk")
    births |= dict.fromkeys(("SE", "de", "Sverige"), NON_NATIVE)
    for birth, dialect in births.items():
        assert dialect_of("fynsk", clean(birth)) == dialect


def test_every_age_has_one_group() -> None:
    groups = [age_group(age) for age in (None, 0, 24, 25, 49, 50, 99)]
    assert groups == [None, "0-24", "0-24", "25-49", "25-49", "50+", "50+"]


def test_an_age_is_a_number_of_years_or_unknown() -> None:
    assert [age_of(value) for value in (34, 34.0, "34", " 34 ")] == [34] * 4
    unknown = "ukendt", "", None, float("nan"), float("inf"), -1, 1975
    assert [age_of(value) for value in unknown] == [None] * 7


@pytest.mark.parametrize(
    ("spellings", "person"),
    [
        (["1", 1, 1.0, "1.0", " 1 "], "1"),
        ([1e16, 10**16], "10000000000000000"),
        (
            ["Bj\u00f8rn \u00c5", "Bj\u00f8rn  A\u030a", "Bj\u00f8rn\u00a0\u00c5\n"],
            "Bj\u00f8rn \u00c5",
        ),
        (["001"], "001"),
        (["v1.0"], "v1.0"),
        (["NA"], "NA"),  # initials
        (["unknown", "Ukendt", "n/a", "-", "?", "", " ", None, float("nan")], None),
    ],
)
def test_a_person_has_one_id_and_an_unknown_speaker_none(
    spellings: list[Any], person: str | None
) -> None:
    assert {speaker_of(spelling) for spelling in spellings} == {person}


@pytest.mark.parametrize(
    ("spellings", "gender"),
    [
        (["mand", "MAND", "m", "M ", "Male", "male_masculine"], "male"),
        (["kvinde", "Kvinde", "K", "k", "f", "Female", "female_feminine"], "female"),
        (["nonbinary"], "nonbinary"),
        (["", None], None),
    ],
)
def test_spellings_of_a_gender_are_one(spellings: list[Any], gender: str | None) -> None:
    assert {gender_of(clean(spelling)) for spelling in spellings} == {gender}
