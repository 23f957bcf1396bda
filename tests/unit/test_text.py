"""Text profiles, numerals and number words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from danish_asr.base.errors import ConfigError
from danish_asr.text.profiles import PROFILES, normalize, profile_version, spell_integer

GOLDEN = Path(__file__).parents[1] / "golden"


def _vectors(profile: str, count: int) -> list[list[str]]:
    lines = (GOLDEN / f"{profile}_text.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert len(lines) == count
    return [[profile, *map(json.loads, line.split("\t"))] for line in lines]


@pytest.mark.parametrize(
    ("profile", "text", "expected"), [*_vectors("coral", 120), *_vectors("rye", 150)]
)
def test_a_profile_matches_the_official_vectors(profile: str, text: str, expected: str) -> None:
    assert normalize(text, profile) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.001.000", "en million et tusind"),
        ("101.000", "et hundrede og en tusind"),
        ("100,5", "hundrede komma fem"),
        ("0,5", "nul fem"),
        ("10,01", "ti komma nul et"),
        ("1.000.100", "en million et hundrede"),
        ("1234567890", "1234567890"),
        ("100 og 1000", "hundrede og tusind"),
        ("1.005", "et tusind og fem"),
        ("fx hhv.", "for eksempel henholdsvis"),
        ("10 ℃", "ti C"),
        ("Øhm\tja\nnej", "ja nej"),
        ("a\u200bb", "a b"),
        ("5 µg", "fem mikrogram"),
        ("pá a", "pa a"),
        ("þorn Göteborg Ærø", "thorn gøteborg ærø"),
        ("café über", "café über"),
    ],
)
def test_coral_rules_hold_beyond_the_vectors(text: str, expected: str) -> None:
    assert normalize(text, "coral") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.234 kr., hej - verden!", "ettusinde og tohundrede og fireogtredive kr hej verden"),
        ("3,14", "trehundrede og fjorten"),
        ("A-kasse", "akasse"),
        ("'det’s' o'clock'", "det's o'clock"),
        ("ﬁsk m²", "fisk m2"),
        ("året 2025 og 1960'erne", "året totusinde og femogtyve og 1960erne"),
        ("nittenhundrede og femogtres", "ettusinde og nihundrede og femogtreds"),
        ("et hus og en mand", "et hus og en mand"),
        ("Øh, jeg", "øh jeg"),
        ("den enogtyvende maj", "den enogtyve maj"),
        ("nul komma fem", "fem"),
        ("1" * 5_000, "1" * 5_000),
        ("", ""),
    ],
)
def test_rye_follows_the_leaderboard(text: str, expected: str) -> None:
    assert normalize(text, "rye") == expected


@pytest.mark.parametrize("number", [0, 2, 21, 100, 101, 1000, 2025, 20_100, 1_000_000, 3_000_071])
def test_in_rye_digits_and_both_spellings_of_a_number_are_equal(number: int) -> None:
    digits = normalize(str(number), "rye")
    assert normalize(spell_integer(number), "rye") == digits
    assert normalize(str(num2words(number, lang="da")), "rye") == digits


@given(st.text())
def test_raw_changes_nothing_and_coral_leaves_single_spaces_only(text: str) -> None:
    assert normalize(text, "raw") == text
    normalised = normalize(text, "coral")
    assert normalised == " ".join(normalised.split())


def test_the_older_rye_spells_digits_and_leaves_number_words() -> None:
    assert normalize("1.234 eller tolvhundrede", "rye-2026-06") == (
        "ettusinde og tohundrede og fireogtredive eller tolvhundrede"
    )


def test_removing_fillers_is_an_option_of_rye_only_and_unknown_profiles_are_refused() -> None:
    assert normalize("Øh, jeg hmm går", "rye", remove_fillers=True) == "jeg går"
    with pytest.raises(ConfigError, match="found profile 'raw'"):
        normalize("Øh", "raw", remove_fillers=True)
    with pytest.raises(ConfigError, match=r"coral, raw, rye, rye-2026-06.*corl"):
        normalize("hej", "corl")
    assert [profile_version(name) for name in (*PROFILES, "string:capwords")] == [1, 1, 2, 1, None]
