"""Comparison of runs over the same rows, each with one or more seeds."""

import json
from dataclasses import replace
from math import isnan
from statistics import mean, stdev

import pytest

from danish_asr.base.errors import PredictionsError
from danish_asr.scoring.comparison import (
    ComparedGroup,
    PairedRate,
    compare_predictions,
    compare_runs,
    holm,
)
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


def _wer(group: ComparedGroup) -> PairedRate:
    assert group.runs[1].wer_paired
    return group.runs[1].wer_paired


def test_a_better_run_is_found_better_overall_and_per_group() -> None:
    a = list(random_rows(1000, speakers=40))
    comparison = compare_predictions(a, _better(a), by=["dialect"])
    groups = comparison.groupings["dialect"]
    for group in (comparison.overall, *groups):
        difference = _wer(group).difference
        assert difference.interval
        assert difference.interval.low < difference.value < difference.interval.high < 0
    p_values = [_wer(group).p or 1 for group in groups]
    assert max(p_values) < 0.01
    assert [_wer(group).p_adjusted for group in groups] == holm(p_values)


def test_the_difference_is_that_of_the_two_scores() -> None:
    a = list(random_rows(600))
    b = _better(a)
    comparison = compare_predictions(a, b, by=["dialect"])
    first, second = (score_predictions(rows, by=["dialect"]) for rows in (a, b))
    one, other = comparison.overall.runs
    assert one.wer == first.overall.wer.value
    assert other.rates["cer"] == second.overall.cer.value
    assert other.words == second.overall.words
    for group, of_a, of_b in zip(
        comparison.groupings["dialect"],
        first.groupings["dialect"].groups,
        second.groupings["dialect"].groups,
        strict=True,
    ):
        assert group.group == of_a.group
        assert _wer(group).difference.value == of_b.wer.value - of_a.wer.value


def test_exchanging_the_runs_reverses_the_difference() -> None:
    a = list(random_rows(600))
    b = _better(a)
    forth = _wer(compare_predictions(a, b, by=[]).overall)
    back = _wer(compare_predictions(b, a, by=[]).overall)
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
    equal = _wer(compare_predictions(many, many, by=[]).overall)
    assert (equal.difference.not_resolvable, equal.p) == ("every speaker has the same value", None)
    better = _wer(compare_predictions(few, _better(few), by=[]).overall)
    assert (better.difference.not_resolvable, better.p) == ("5 speakers, 8 needed", None)


def test_different_rows_are_refused_with_file_and_line() -> None:
    a = four_rows()
    b = [*a[1:], prediction("z", "ja", "ja")]
    expected = (
        r"different rows \(2 of them\).*:\n"
        r"  A:1: id 'a' is not in B\n"
        r"  B:4: id 'z' is not in A$"
    )
    with pytest.raises(PredictionsError, match=expected):
        compare_predictions(a, b)
    many = list(random_rows(100))
    with pytest.raises(PredictionsError, match=r"\(95 of them\)(?s:.*)\n  and 85 more$"):
        compare_predictions(many, many[:5])


def test_other_references_other_splits_and_no_rows_are_refused() -> None:
    a = four_rows()
    b = [replace(row, reference="noget andet") if row.id == "c" else row for row in a]
    with pytest.raises(PredictionsError, match=r"B:3: .* id 'c' .* A:3"):
        compare_predictions(a, b)
    with pytest.raises(PredictionsError, match="splits: a of 9 rows, b of 8 rows;"):
        compare_runs({"A": {"a": a}, "B": {"b": a}}, rows_in_split={"a": 9, "b": 8})
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
    runs = {"A": {"a": a}, "B": {"b": a[:-1]}}
    comparison = compare_runs(runs, settings=chosen, rows_in_split={"a": 7, "b": None})
    document = json.loads(json.dumps(comparison.to_dict()))
    assert document["settings"] == chosen.to_dict()
    left_out = {"0.5 s or shorter": 1}
    rows = {"scored": 4, "in_file": 5, "in_split": 7, "left_out": left_out, "partial": True}
    assert document["rows"]["a"] == rows | {"splits": ["test"], "where": None}
    assert document["rows"]["b"]["in_file"] == 4
    assert document["groupings"]["dialect"][0]["group"] == {"dialect": "Bornholmsk"}


def _rows(seed: int, *, better: bool = False) -> list[Prediction]:
    """The same references in every run, with errors by the seed."""
    references = [row.reference for row in random_rows(400, speakers=20)]
    others = random_rows(400, speakers=20, seed=seed)
    return [
        replace(row, reference=reference, hypothesis=reference if better and n % 3 else hypothesis)
        for n, (row, reference) in enumerate(zip(others, references, strict=True))
        for hypothesis in [f"{reference} {row.hypothesis.split(' ')[0]}" if n % 4 else reference]
    ]


def test_seeds_are_averaged_and_their_spread_is_shown() -> None:
    seeds = [_rows(1, better=True), _rows(2), _rows(3)]
    compared = compare_runs({"base": {"x": _rows(4)}, "new": dict(zip("abc", seeds, strict=True))})
    alone = [score_predictions(rows).overall for rows in seeds]
    new = compared.overall.runs[1]
    assert new.wer == pytest.approx(mean(score.wer.value for score in alone))
    assert new.deviations["wer"] == pytest.approx(stdev(score.wer.value for score in alone))
    assert new.deviations["cer"] == pytest.approx(stdev(score.cer.value for score in alone))
    base = compared.overall.runs[0]
    assert (base.deviations["wer"], base.wer_paired, new.mapsswe) == (None, None, None)
    assert new.wer_paired
    assert new.wer_paired.difference.value == pytest.approx(new.wer - base.wer)


def test_a_run_of_one_seed_is_compared_as_by_two_files_and_holm_covers_all_runs() -> None:
    base, one, two = _rows(1), _rows(2, better=True), _rows(3)
    compared = compare_runs({"base": {"x": base}, "one": {"y": one}, "two": {"z": two}})
    p_values = []
    for rows, score in zip((one, two), compared.overall.runs[1:], strict=True):
        alone = compare_predictions(base, rows).overall.runs[1]
        assert score.wer_paired
        assert alone.wer_paired
        assert score.wer_paired.difference == alone.wer_paired.difference
        assert score.mapsswe
        assert alone.mapsswe
        assert score.mapsswe.p == alone.mapsswe.p
        p_values.append(alone.wer_paired.p or 0.0)
    found = [score.wer_paired.p_adjusted for score in compared.overall.runs if score.wer_paired]
    assert found == holm(p_values)
    groups = compared.groupings["dialect"]
    tests = [run.wer_paired for group in groups for run in group.runs if run.wer_paired]
    in_groups = [test.p for test in tests if test.p is not None]
    assert [t.p_adjusted for t in tests if t.p_adjusted is not None] == holm(in_groups)
    json.dumps(compared.to_dict())
    assert len(compared.to_pandas()) == 3 * (1 + sum(map(len, compared.groupings.values())))


def test_a_seed_with_other_rows_is_refused_by_its_file() -> None:
    runs = {"base": {"a.jsonl": _rows(1)}, "new": {"b.jsonl": _rows(2), "c.jsonl": _rows(3)[:-1]}}
    with pytest.raises(PredictionsError, match=r"a.jsonl:400: id 'utt-000399' is not in c.jsonl"):
        compare_runs(runs)


def test_a_group_without_reference_words_has_no_rate_and_no_deviation() -> None:
    rows = [prediction("a", "!", "ja", dialect="X"), prediction("b", "ja", "nej", dialect="Y")]
    runs = compare_runs({"one": {"a": rows, "b": rows}, "two": {"c": rows}}, by=["dialect"])
    first = runs.groupings["dialect"][0].runs[0]
    assert isnan(first.wer)
    assert first.deviations["wer"] is None
    assert "NaN" not in json.dumps(runs.to_dict())
