"""Text profiles, numerals and number words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from danish_asr.base.errors import ConfigError
from danish_asr.text.numerals import spell_integer
from danish_asr.text.profiles import PROFILES, normalize, profile_in, profile_version

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
    ("profile", "text", "expected"),
    [
        ("plain", "Håkon & Åse: «20 år», naïve ÐÝRT!", "håkon åse 20 år naïve ðýrt"),
        ("plain", "नमस्ते, दुनिया", "नमस्ते दुनिया"),
        ("plain", "ud\u00advikling \u2060a\u200b\u200db\ufeff \u2764\ufe0f", "udvikling ab"),
        ("danish", "a\u00ad\u030a \u200e5\u200b0 skibe\u200cne", "å halvtreds skibene"),
        ("danish", "1\u00a0000\u202fkr. og 2\u2009km", "tusind kroner og to kilometer"),
        ("coral", "0,5", "nul fem"),
        ("coral", "10 ℃", "ti C"),
        ("coral", "a\u200bb", "a b"),
        ("coral", "5 µg", "fem mikrogram"),
        ("coral", "pá a", "pa a"),
        ("coral", "þorn Göteborg Ærø", "thorn gøteborg ærø"),
        ("coral", "café über", "café über"),
        ("rye", "1.234 kr., hej - ja!", "ettusinde og tohundrede og fireogtredive kr hej ja"),
        ("rye", "3,14", "trehundrede og fjorten"),
        ("rye", "A-kasse", "akasse"),
        ("rye", "'det’s' o'clock'", "det's o'clock"),
        ("rye", "ﬁsk m²", "fisk m2"),
        ("rye", "året 2025 og 1960'erne", "året totusinde og femogtyve og 1960erne"),
        ("rye", "nul komma fem", "fem"),
        ("rye", "1" * 5_000, "1" * 5_000),
    ],
)
def test_a_profiles_rules_hold_beyond_the_vectors(profile: str, text: str, expected: str) -> None:
    assert normalize(text, profile) == expected


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


def test_each_published_profile_has_a_version_and_one_from_outside_none() -> None:
    versions = {name: profile_version(name) for name in (*PROFILES, "string:capwords")}
    published = {"raw": 1, "coral": 1, "danish": 4, "plain": 2, "rye": 2}
    assert versions == published | {"string:capwords": None}
    assert normalize("ja tak", "string:capwords") == "Ja Tak"


@pytest.mark.parametrize("name", ["corl", "string:digits", "string:nothing"])
def test_what_is_no_profile_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="profile"):
        normalize("hej", name)


@pytest.mark.parametrize("name", ["string:capwords", None, ["coral"]])
def test_data_names_a_published_profile_and_no_code(name: object) -> None:
    assert profile_in("card.yaml", "coral", "") == "coral"
    with pytest.raises(ConfigError, match=r"(?s)card\.yaml.*; change it"):
        profile_in("card.yaml", name, "change it")
