"""Compounds written apart."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.metrics import align_counts
from danish_asr.scoring.compounds import LARGEST_TABLE, errors_without_compounds

WORDS = st.lists(st.sampled_from(["rød", "grød", "rødgrød", "med", "fløde", "å"]), max_size=8)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "errors"),
    [
        ("jeg spiser rødgrød", "jeg spiser rød grød", 0),
        ("rød grød med fløde", "rødgrød med fløde", 0),
        ("arbejds plads holder", "arbejdsplads hold er", 0),
        ("rødgrød og rødgrød", "rød grød på rød grød", 1),
        ("rødgrød", "rød brød", 2),
        ("rødgrød med", "rød grød mad", 1),
        ("rød", "rød", 0),
        ("", "rød grød", 2),
        ("rød grød", "", 2),
        ("a b c d e", "abcde", 5),
    ],
)
def test_compounds_written_apart_are_no_errors(
    reference: str, hypothesis: str, errors: int
) -> None:
    assert errors_without_compounds(reference.split(), hypothesis.split()) == errors


def test_the_same_letters_far_apart_are_no_compound() -> None:
    """To line them up costs as many errors as it saves, and shorter lists are no merit."""
    said, heard = (
        ["rød", "grød", "er", "ret", "koldt", "i", "dag"],
        ["nu", "kom", "hun", "hjem", "til", "rødgrød"],
    )
    assert errors_without_compounds(said, heard) == align_counts(said, heard).errors


@given(WORDS, WORDS)
def test_compounds_never_add_errors_nor_hide_other_letters(
    reference: list[str], hypothesis: list[str]
) -> None:
    errors = errors_without_compounds(reference, hypothesis)
    assert 0 <= errors <= align_counts(reference, hypothesis).errors
    if "".join(reference) != "".join(hypothesis):
        assert errors > 0


@given(WORDS)
def test_one_word_of_all_letters_is_a_compound_up_to_four_words(words: list[str]) -> None:
    errors = errors_without_compounds(words, ["".join(words)] if words else [])
    assert errors == (0 if len(words) <= 4 else len(words))


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ([f"ord{n}" for n in range(20_000)], [f"tal{n}" for n in range(20_000)]),
        (["a"] * 20_000, ["aa"] * 20_000),
        (["a" * 200_000], ["b" * 200_000]),
    ],
)
def test_long_stretches_of_misheard_words_are_counted_at_once(
    said: list[str], heard: list[str]
) -> None:
    begin = time.process_time()
    assert errors_without_compounds(said, heard) == len(said)
    assert time.process_time() - begin < 10


def test_stretches_up_to_the_bound_are_looked_at_and_longer_ones_count_word_by_word() -> None:
    side = int(LARGEST_TABLE**0.5)
    assert errors_without_compounds(["a"] * side, ["aa"] * side) == side // 2
    assert errors_without_compounds(["a"] * (side + 1), ["aa"] * (side + 1)) == side + 1
