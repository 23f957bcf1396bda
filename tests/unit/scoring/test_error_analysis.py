"""Analysis of errors, and what remains of them without a category."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.metrics import align_counts
from danish_asr.scoring.error_analysis import (
    CATEGORIES,
    LARGEST_TABLE,
    CategoryShare,
    Confusion,
    ErrorAnalysis,
    ErrorCollector,
    analyse_errors,
    errors_without_compounds,
)
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import Settings
from tests.score_rows import prediction, random_rows

CASE, FILLERS, NUMERALS, COMPOUNDS, ALL = CATEGORIES
WORDS = st.lists(st.sampled_from(["rød", "grød", "rødgrød", "med", "fløde", "å"]), max_size=8)
MIXED = [
    prediction("a", "den røde hund", "den røte hund"),
    prediction("b", "den røde hund er", "den røte hunt er løb"),
    prediction("c", "øl", ""),
    prediction("d", "hest bog", "het bogs"),
]


def test_frequent_errors_are_counted_by_kind() -> None:
    analysis = analyse_errors(MIXED)
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


def _shares(analysis: ErrorAnalysis, profile: str) -> dict[str, CategoryShare]:
    return {part.category: part for part in analysis.categories if part.profile == profile}


@pytest.mark.parametrize("profile", ["raw", "coral", "rye"])
def test_the_errors_are_those_of_the_scores(profile: str) -> None:
    settings = Settings(profile=profile, row_filter="coral")
    analysis = analyse_errors(random_rows(400), settings=settings)
    scores = score_predictions(random_rows(400), by=[], settings=settings)
    assert analysis.word_errors == scores.overall.words.errors
    assert analysis.rows == scores.overall.rows
    for share in _shares(analysis, profile).values():
        assert share.errors == analysis.word_errors


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
    for count in CATEGORIES.values():
        assert count("han går hjem", "hun står hjem") == 2


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


def test_compounds_are_searched_in_short_stretches_only() -> None:
    """The table of a stretch of 20,000 by 20,000 words would take minutes."""
    side = int(LARGEST_TABLE**0.5)
    assert errors_without_compounds(["a"] * side, ["aa"] * side) == side // 2
    for many in (side + 1, 20_000):
        assert errors_without_compounds(["a"] * many, ["aa"] * many) == many


def test_categories_of_a_part_of_the_rows_are_those_of_evenly_spaced_rows() -> None:
    rows = list(random_rows(100))
    settings = Settings()
    collector = ErrorCollector(settings, at_most=10)
    for row, reference, hypothesis in settings.scored(rows):
        collector.add(row, reference, hypothesis)
    analysis, whole = collector.analysis(), analyse_errors(rows)
    assert (analysis.category_rows, whole.category_rows) == (12, 100)
    assert analysis.categories == analyse_errors(rows[7::8]).categories
    assert analysis.worst == whole.worst
    assert analysis.substitutions == whole.substitutions
