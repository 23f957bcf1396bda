"""Errors that remain without an error category."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.metrics import align_counts
from danish_asr.scoring.error_analysis import (
    CATEGORIES,
    LARGEST_TABLE,
    errors_without_compounds,
)

CASE, FILLERS, NUMERALS, COMPOUNDS, ALL = CATEGORIES
WORDS = st.lists(st.sampled_from(["rød", "grød", "rødgrød", "med", "fløde", "å"]), max_size=8)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "category"),
    [
        ("Hej, verden!", "hej verden", CASE),
        ("øh jeg mhm går", "jeg går", FILLERS),
        ("jeg går", "øøh jeg går hmm", FILLERS),
        ("Øh, jeg går, hmm...", "jeg går,", FILLERS),
        ("21 æbler", "enogtyve æbler", NUMERALS),
        ("1.203 kr", "et tusind to hundrede og tre kr", NUMERALS),
        ("rødgrød med", "rød grød med", COMPOUNDS),
    ],
)
def test_each_category_removes_its_own_errors_and_no_others(
    reference: str, hypothesis: str, category: str
) -> None:
    plain = align_counts(reference.split(), hypothesis.split()).errors
    remaining = {name: count(reference, hypothesis) for name, count in CATEGORIES.items()}
    assert remaining == dict.fromkeys(CATEGORIES, plain) | {category: 0, ALL: 0}


@pytest.mark.parametrize("name", CATEGORIES)
def test_misrecognised_words_stay_errors(name: str) -> None:
    assert CATEGORIES[name]("han går hjem", "hun står hjem") == 2


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        *((text, 0) for text in ("ehm", "Øh", "øhm", "hm", "hmm", "mhm", "mmm", "æh", "øøh")),
        *((text, 1) for text in ("ohm", "ø", "hjem", "eh1", "m", "uh")),
    ],
)
def test_fillers_are_removed_and_similar_words_are_not(text: str, errors: int) -> None:
    assert CATEGORIES[FILLERS](text, "") == errors


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
        # To align the same letters here costs as many errors as it saves.
        ("rød grød er ret koldt i dag", "nu kom hun hjem til rødgrød", 7),
    ],
)
def test_compounds_written_apart_are_not_errors(
    reference: str, hypothesis: str, errors: int
) -> None:
    assert errors_without_compounds(reference.split(), hypothesis.split()) == errors


@given(WORDS, WORDS)
def test_compounds_never_add_errors_nor_hide_other_letters(
    reference: list[str], hypothesis: list[str]
) -> None:
    errors = errors_without_compounds(reference, hypothesis)
    assert 0 <= errors <= align_counts(reference, hypothesis).errors
    if "".join(reference) != "".join(hypothesis):
        assert errors > 0


@pytest.mark.parametrize(
    ("reference", "hypothesis"),
    [
        ([f"ord{n}" for n in range(20_000)], [f"tal{n}" for n in range(20_000)]),
        (["a"] * 20_000, ["aa"] * 20_000),
        (["a" * 200_000], ["b" * 200_000]),
    ],
)
def test_long_stretches_without_a_hit_take_seconds(
    reference: list[str], hypothesis: list[str]
) -> None:
    begin = time.process_time()
    assert errors_without_compounds(reference, hypothesis) == len(reference)
    assert time.process_time() - begin < 10


def test_compounds_are_searched_up_to_the_bound_only() -> None:
    side = int(LARGEST_TABLE**0.5)
    assert errors_without_compounds(["a"] * side, ["aa"] * side) == side // 2
    assert errors_without_compounds(["a"] * (side + 1), ["aa"] * (side + 1)) == side + 1
