"""Comparison of two runs over the same rows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from danish_asr.errors import PredictionsError
from danish_asr.scoring.comparison import compare_predictions, holm
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import Settings
from tests.score_rows import four_rows, prediction, random_rows


def _better(rows: list[Prediction]) -> list[Prediction]:
    """The same run with a part of each speaker's rows recognised without errors."""
    return [
        replace(row, hypothesis=row.reference) if number // 40 % 4 == 0 else row
        for number, row in enumerate(rows)
    ]


def test_a_better_run_is_found_better_overall_and_per_group() -> None:
    a = list(random_rows(1000, speakers=40))
    comparison = compare_predictions(a, _better(a), by=["dialect"])
    groups = comparison.groupings["dialect"]
    for group in (comparison.overall, *groups):
        difference = group.wer.difference
        assert difference.interval
        assert difference.interval.low < difference.value < difference.interval.high < 0
    assert comparison.overall.wer.p is not None
    assert comparison.overall.wer.p < 0.01
    p_values = [group.wer.p for group in groups if group.wer.p is not None]
    assert [group.wer.p_adjusted for group in groups] == holm(p_values)


def test_the_difference_is_that_of_the_two_scores() -> None:
    a = list(random_rows(600))
    b = _better(a)
    comparison = compare_predictions(a, b, by=["dialect"])
    first, second = (score_predictions(rows, by=["dialect"]) for rows in (a, b))
    assert comparison.overall.wer.a == first.overall.wer.value
    assert comparison.overall.cer.b == second.overall.cer.value
    assert comparison.overall.words_b == second.overall.words
    for group, one, other in zip(
        comparison.groupings["dialect"],
        first.groupings["dialect"].groups,
        second.groupings["dialect"].groups,
        strict=True,
    ):
        assert group.group == one.group
        assert group.wer.difference.value == other.wer.value - one.wer.value


def test_exchanging_the_runs_reverses_the_difference() -> None:
    a = list(random_rows(600))
    b = _better(a)
    forth = compare_predictions(a, b, by=[]).overall.wer
    back = compare_predictions(b, a, by=[]).overall.wer
    assert (back.difference.value, back.p) == (-forth.difference.value, forth.p)
    assert forth.difference.interval
    assert back.difference.interval
    assert back.difference.interval.low == pytest.approx(-forth.difference.interval.high)


def test_rows_are_paired_by_id_and_not_by_position() -> None:
    a = list(random_rows(200))
    comparison = compare_predictions(a, _better(a)[::-1], by=["dialect"])
    assert comparison == compare_predictions(a, _better(a), by=["dialect"])


def test_equal_runs_and_few_speakers_give_no_p_value() -> None:
    many, few = (list(random_rows(1000, speakers=speakers)) for speakers in (60, 5))
    equal = compare_predictions(many, many, by=[]).overall.wer
    assert (equal.difference.not_resolvable, equal.p) == ("every speaker has the same value", None)
    better = compare_predictions(few, _better(few), by=[]).overall.wer
    assert (better.difference.not_resolvable, better.p) == ("5 speakers, 8 needed", None)


def test_different_rows_are_refused_with_file_and_line() -> None:
    a = four_rows()
    b = [*a[1:], prediction("z", "ja", "ja")]
    expected = (
        r"different rows \(2 of them\).*:\n"
        r"  a.jsonl:1: id 'a' is not in b.jsonl\n"
        r"  b.jsonl:4: id 'z' is not in a.jsonl$"
    )
    with pytest.raises(PredictionsError, match=expected):
        compare_predictions(a, b, names=("a.jsonl", "b.jsonl"))
    many = list(random_rows(100))
    with pytest.raises(PredictionsError, match=r"\(95 of them\)(?s:.*)\n  and 85 more$"):
        compare_predictions(many, many[:5])


def test_other_references_other_splits_and_no_rows_are_refused() -> None:
    a = four_rows()
    b = [replace(row, reference="noget andet") if row.id == "c" else row for row in a]
    with pytest.raises(PredictionsError, match=r"B:3: .* id 'c' .* A:3"):
        compare_predictions(a, b)
    with pytest.raises(PredictionsError, match="A is of a split of 9 rows, B of a split of 8"):
        compare_predictions(a, a, rows_in_split=(9, 8))
    short = [prediction("short", "ja", "ja", duration=0.1)]
    coral = Settings(row_filter="coral")
    with pytest.raises(PredictionsError, match="no row to compare"):
        compare_predictions(short, short, settings=coral)
    with pytest.raises(PredictionsError, match="B:4: id 'd' is not in A"):  # counts left out rows
        compare_predictions(short + a[:3], a, settings=coral)


def test_holm_of_worked_examples() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.02, 0.02]) == pytest.approx([0.9, 0.06, 0.06])
    assert holm([]) == []


def test_a_comparison_is_plain_data_with_its_settings_and_rows() -> None:
    chosen = Settings(profile="rye", remove_fillers=True, row_filter="coral")
    a = [*four_rows(), prediction("short", "ja", "ja", duration=0.1)]
    comparison = compare_predictions(a, a[:-1], settings=chosen, rows_in_split=(7, None))
    document = json.loads(json.dumps(comparison.to_dict()))
    assert document["settings"] == chosen.to_dict()
    left_out = {"0.5 s or shorter": 1}
    rows = {"scored": 4, "in_file": 5, "in_split": 7, "left_out": left_out, "partial": True}
    assert document["rows"]["a"] == rows | {"splits": ["test"]}
    assert document["rows"]["b"]["in_file"] == 4
    assert document["groupings"]["dialect"][0]["group"] == {"dialect": "Bornholmsk"}
