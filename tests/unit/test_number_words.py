"""Danish number words, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.text.number_words import read_number_words
from danish_asr.text.numerals import spell_integer, spell_numerals


@given(st.integers(min_value=2, max_value=999_999_999))
def test_what_is_spelled_is_read_again(number: int) -> None:
    assert read_number_words(spell_integer(number)) == str(number)


@given(st.text())
def test_text_without_digits_is_spelled_as_it_is(text: str) -> None:
    if not any(character.isdigit() for character in text):
        assert spell_numerals(text) == text


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
