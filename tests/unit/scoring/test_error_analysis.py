"""Analysis of errors."""

from __future__ import annotations

import pytest

from danish_asr.metrics import ErrorCounts, count_errors
from danish_asr.scoring.error_analysis import (
    WORST,
    CategoryShare,
    Confusion,
    ErrorAnalysis,
    analyse_errors,
)
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import Settings
from tests.score_rows import four_rows, prediction, random_rows

MIXED = [
    prediction("a", "den røde hund", "den røte hund"),
    prediction("b", "den røde hund er", "den røte hunt er løb"),
    prediction("c", "øl", ""),
]


def test_frequent_errors_are_counted_by_kind() -> None:
    analysis = analyse_errors(MIXED)
    assert analysis.substitutions == [Confusion("røde", "røte", 2), Confusion("hund", "hunt", 1)]
    assert analysis.insertions == [Confusion("", "løb", 1)]
    assert analysis.deletions == [Confusion("øl", "", 1)]
    assert analysis.character_confusions == [Confusion("d", "t", 3)]
    assert (analysis.rows, analysis.rows_with_errors, analysis.word_errors) == (3, 3, 5)


def test_characters_that_are_missing_or_added_have_an_empty_side() -> None:
    analysis = analyse_errors([prediction("a", "hest bog", "het bogs")])
    assert analysis.character_confusions == [Confusion("", "s", 1), Confusion("s", "", 1)]


def _shares(analysis: ErrorAnalysis, profile: str) -> dict[str, CategoryShare]:
    return {part.category: part for part in analysis.categories if part.profile == profile}


@pytest.mark.parametrize("profile", ["raw", "coral", "rye"])
def test_the_errors_are_those_of_the_scores(profile: str) -> None:
    settings = Settings(profile=profile, row_filter="coral")
    analysis = analyse_errors(random_rows(400), settings=settings)
    scores = score_predictions(random_rows(400), by=[], settings=settings)
    assert analysis.word_errors == scores.overall.words.errors
    assert analysis.rows == scores.overall.rows
    errors = {share.errors for share in _shares(analysis, profile).values()}
    assert errors == {analysis.word_errors}


def test_categories_of_the_raw_text_are_shares_of_its_own_errors() -> None:
    rows = list(random_rows(200))
    raw = sum((count_errors(row.reference, row.hypothesis) for row in rows), ErrorCounts())
    shares = _shares(analyse_errors(rows), "raw")
    assert {share.errors for share in shares.values()} == {raw.words.errors}
    assert shares["case and punctuation"].share > 0.1
    largest = max(shares.values(), key=lambda share: share.share)
    assert largest.category == "all of these together"


def test_the_worst_utterances_come_first_with_their_words_aligned() -> None:
    worst = analyse_errors(four_rows()).worst
    assert [utterance.row.id for utterance in worst] == ["c", "d", "b"]
    assert worst[0].word_errors == worst[0].words == 4
    assert [word.tag for word in worst[0].alignment] == ["deletion"] * 4
    assert worst[0].row.dialect == "Bornholmsk"


def test_the_worst_of_many_are_kept() -> None:
    rows = list(random_rows(500))
    analysis = analyse_errors(rows)
    errors = sorted((len(w.alignment), w.word_errors) for w in analysis.worst)
    assert len(errors) == WORST
    kept = min(utterance.word_errors for utterance in analysis.worst)
    left = {row.id for row in rows} - {utterance.row.id for utterance in analysis.worst}
    others = analyse_errors([row for row in rows if row.id in left]).worst
    assert kept >= others[0].word_errors


def test_no_errors_give_empty_tables() -> None:
    analysis = analyse_errors([prediction("a", "Hej!", "hej")])
    assert analysis.substitutions == analysis.deletions == []
    assert analysis.worst == []
    assert {share.share for share in _shares(analysis, "coral").values()} == {0}
