"""Text profiles, numerals and number words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from danish_asr.errors import ConfigError
from danish_asr.text.number_words import read_number_words
from danish_asr.text.numerals import spell_integer
from danish_asr.text.profiles import PROFILE_VERSIONS, PROFILES, normalize

GOLDEN = Path(__file__).parents[1] / "golden" / "coral_text.tsv"


def _vectors() -> list[list[str]]:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()[1:]
    assert len(lines) == 120
    return [[json.loads(text) for text in line.split("\t")] for line in lines]


@pytest.mark.parametrize(("text", "expected"), _vectors())
def test_coral_matches_the_official_vectors(text: str, expected: str) -> None:
    assert normalize(text, "coral") == expected


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


def test_removing_fillers_is_an_option_of_rye_only_and_unknown_profiles_are_refused() -> None:
    assert normalize("Øh, jeg hmm går", "rye", remove_fillers=True) == "jeg går"
    with pytest.raises(ConfigError, match="only for profile rye; found profile 'raw'"):
        normalize("Øh", "raw", remove_fillers=True)
    with pytest.raises(ConfigError, match="raw, coral, rye; found 'corl'"):
        normalize("hej", "corl")
    assert set(PROFILE_VERSIONS) == set(PROFILES)


@given(st.integers(min_value=2, max_value=999_999_999))
def test_a_spelled_number_is_read_again(number: int) -> None:
    assert read_number_words(spell_integer(number)) == str(number)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("der kom et hundrede og en mand", "der kom 101 mand"),
        ("tohundredeogfemogtyve", "225"),
        ("tolvhundrede", "1200"),
        ("halvtredsindstyve og treds", "50 og 60"),
        ("fem og tyve", "25"),
        ("to og halvfjerds tusind", "72000"),
        ("en to tre", "en 2 3"),
        ("et hus og en have", "et hus og en have"),
        ("hundrede et sted", "100 et sted"),
        ("tusind en", "1000 en"),
        ("og så toget", "og så toget"),
        ("enog", "enog"),
        ("", ""),
    ],
)
def test_number_words_are_read_and_articles_are_not(text: str, expected: str) -> None:
    assert read_number_words(text) == expected
