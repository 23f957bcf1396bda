"""Which errors a system makes, and which rows a model contradicts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.base.tables import Row
from danish_asr.metrics import align_counts
from danish_asr.scoring.errors import (
    LARGEST_TABLE,
    WORST,
    WORST_WORDS,
    Confusion,
    ErrorAnalysis,
    analyse_errors,
    errors_without_compounds,
)
from tests.score_rows import prediction, random_rows, scored

WORDS = st.lists(st.sampled_from(["rød", "grød", "rødgrød", "med", "fløde", "å"]), max_size=8)


def _analysis(rows: list[Row]) -> ErrorAnalysis:
    return analyse_errors(scored(rows, by=[]).table)


def test_frequent_errors_are_counted_by_kind() -> None:
    analysis = _analysis(
        [
            prediction("a", "den røde hund", "den røte hund"),
            prediction("b", "den røde hund er", "den røte hunt er løb"),
            prediction("c", "øl", ""),
            prediction("d", "hest bog", "het bogs"),
        ]
    )
    assert analysis.substitutions == [
        Confusion("røde", "røte", 2),
        *(Confusion("bog", "bogs", 1), Confusion("hest", "het", 1), Confusion("hund", "hunt", 1)),
    ]
    assert analysis.insertions == [Confusion("", "løb", 1)]
    assert analysis.deletions == [Confusion("øl", "", 1)]
    assert analysis.character_confusions == [
        *(Confusion("d", "t", 3), Confusion("", "s", 1), Confusion("s", "", 1))
    ]
    assert (analysis.rows, analysis.rows_with_errors, analysis.word_errors) == (4, 4, 7)


def test_the_worst_utterances_are_those_with_most_errors_and_then_by_wer() -> None:
    analysis = _analysis([*random_rows(400), prediction("one", "a b c d e", "x y z v w")])
    errors = [row["errors"] for row in analysis.worst[:WORST]]
    assert errors == sorted(errors, reverse=True)
    rates = [row["wer"] for row in analysis.worst[WORST:]]
    assert rates == sorted(rates, reverse=True)
    assert all(row["words"] >= WORST_WORDS for row in analysis.worst[WORST:])
    ids = [row["id"] for row in analysis.worst]
    assert "one" in ids
    assert len(ids) == len({*ids})
    rows = [prediction(name, "ja", "ja nej nej") for name in "ab"]
    table = scored(rows, by=[]).table
    worst = analyse_errors(table, "coral").worst
    assert [(row["id"], row["words"], row["errors"]) for row in worst] == [("b", 1, 2), ("a", 1, 2)]
    assert worst[0]["wer"] == pytest.approx(2 / 3)
    assert [word.tag for word in worst[0]["alignment"]] == ["hit", "insertion", "insertion"]


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
    analysis = _analysis([prediction("a", reference, hypothesis), prediction("b", "ja", "ja")])
    assert analysis.word_errors - analysis.compound_errors == errors


@given(WORDS, WORDS)
def test_compounds_never_add_errors_nor_hide_other_letters(
    reference: list[str], hypothesis: list[str]
) -> None:
    errors = errors_without_compounds(reference, hypothesis)
    assert 0 <= errors <= align_counts(reference, hypothesis).errors
    if "".join(reference) != "".join(hypothesis):
        assert errors > 0


def test_compounds_are_searched_in_short_stretches_only() -> None:
    """The table of a stretch of 20,000 by 20,000 words would take minutes."""
    side = int(LARGEST_TABLE**0.5)
    assert errors_without_compounds(["a"] * side, ["aa"] * side) == side // 2
    for many in (side + 1, 20_000):
        assert errors_without_compounds(["a"] * many, ["aa"] * many) == many
