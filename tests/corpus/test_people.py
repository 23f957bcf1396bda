from typing import Any

import pytest

from danish_asr.corpus.people import (
    DIALECTS,
    NON_NATIVE,
    SUB_DIALECTS,
    age_group,
    age_of,
    alike,
    clean,
    dialect_of,
    first_corpora,
    gender_of,
    known,
    persons_of,
    speaker_of,
)


def test_every_name_is_mapped_and_an_unknown_one_is_kept() -> None:
    assert len(DIALECTS) == 10
    names = [(name, dialect) for dialect, own in SUB_DIALECTS.items() for name in own]
    assert len(names) == 34
    others = [("Amagermål", "Københavnsk"), ("færøsk", "færøsk"), (None, None)]
    for name, dialect in (*names, *zip(DIALECTS, DIALECTS, strict=True), *others):
        assert dialect_of(name, "DK") == dialect_of(name, None) == dialect


def test_only_a_country_that_lies_abroad_makes_a_speaker_non_native() -> None:
    denmark = "DK", "dk", "DNK", "Danmark", "Denmark", "da", " DK\n"
    unknown = "", " ", None, float("nan"), "ukendt", "Ukendt", "?", "NA", "-", "unknown"
    assert {dialect_of("fynsk", clean(birth)) for birth in (*denmark, *unknown)} == {"Fynsk"}
    abroad = "SE", "de", "Sverige"
    assert {dialect_of("fynsk", clean(birth)) for birth in abroad} == {NON_NATIVE}


def test_every_age_has_one_group() -> None:
    ages_of = {
        "0-24": ("0", "24", "24,9 år", "teens", "0-24", "13 - 19 år"),
        "25-49": ("25", "49", "thirties", "Fourties", "30–39", "25-49"),
        "50+": ("50", "99", "fifties", "nineties", "50+", "60-69", "60+ år"),
        None: ("tyve", "twenties", "20-29", "45-54", "25+", "-1", "131"),
    }
    for group, ages in ages_of.items():
        assert {age_group(age) for age in ages} == {group}


def test_an_age_is_a_number_of_years_or_unknown() -> None:
    numbers = "34", "34.7", "34,0", "34,", "34 år", "34ÅR", "34 years", "0", "130"
    assert [age_of(text) for text in numbers] == [34] * 7 + [0, 130]
    others = "tyve", "inf", "-1", "131", "20-29", "3 4", "fifties"
    assert {age_of(text) for text in others} == {None}


def test_what_stands_for_no_value_is_none() -> None:
    values = 34.0, " 30-39 ", "Ukendt", "-", "n/a", float("nan"), None, " "
    assert [*map(known, values)] == ["34.0", "30-39", *[None] * 6]


@pytest.mark.parametrize("value", [["DK"], {"land": "DK"}, b"DK"])
def test_a_value_that_is_no_text_or_number_is_an_error(value: Any) -> None:
    with pytest.raises(TypeError):
        clean(value)


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
def test_a_person_has_one_id_and_an_unknown_none(spellings: list[Any], person: str | None) -> None:
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


@pytest.mark.parametrize(
    ("speakers", "said"),
    [
        (
            ["Anna", "ANNA", "bo 1", "bo1", "bo_1", "b2"],
            ": 2, such as ANNA and Anna, bo 1 and bo1; ",
        ),
        (["Å", "å", *"BbCcDd"], ": 4, such as B and b, C and c, D and d; "),
        (["bo_1", "bo2", "bo3"], None),
    ],
)
def test_names_that_differ_in_capitals_or_spaces_are_said(
    speakers: list[str], said: str | None
) -> None:
    for persons in (speakers, persons_of(["a"] * len(speakers), speakers, [])):
        lines = [*alike(filter(None, persons))]
        assert [said in line for line in lines if said] == [True] * bool(said)
        assert len(lines) == bool(said)
    each_of_a_corpus = persons_of(map(str, range(len(speakers))), speakers, [])
    assert [*alike(filter(None, each_of_a_corpus))] == []


SHARED = [["b", "c"], ["e", "f"], ["a", "b"], ["x"]]


@pytest.mark.parametrize("shared", [SHARED, SHARED[::-1]])
def test_a_person_is_a_speaker_of_corpora_that_share_people(shared: list[list[str]]) -> None:
    corpora = ["a", "b", "c", "d", "e", "f", "x", None, "", "a", "c", None]
    speakers = ["1"] * 9 + ["2", None, None]
    persons = persons_of(corpora, speakers, shared)
    groups = [[n for n, own in enumerate(persons) if own == one] for one in persons]
    same = [[0, 1, 2]] * 3 + [[3]] + [[4, 5]] * 2 + [[6]] + [[7, 8]] * 2 + [[9]]
    assert groups[:10] == same
    assert persons[10:] == [None, None]
    assert first_corpora(shared) == dict(zip("abcefx", "aaaeex", strict=True))
