"""Two runs over the same rows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.errors import PredictionsError
from danish_asr.scoring.comparison import compare_predictions, holm
from danish_asr.scoring.intervals import Interval, NotResolvable
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import Settings
from tests.score_rows import four_rows, heard_rows, prediction

QUICK = Settings(resamples=500)


def _better(rows: list[Prediction], every: int = 4) -> list[Prediction]:
    """The same run with every so-manyth row of a speaker heard right."""
    return [
        replace(row, hypothesis=row.reference) if number // 40 % every == 0 else row
        for number, row in enumerate(rows)
    ]


def test_a_better_run_is_found_better_overall_and_per_group() -> None:
    a = list(heard_rows(1000, speakers=40))
    comparison = compare_predictions(a, _better(a), by=["dialect"], settings=QUICK)
    for group in (comparison.overall, *comparison.groupings["dialect"]):
        bounds = group.wer.difference.interval
        assert isinstance(bounds, Interval)
        assert bounds.low < group.wer.difference.value < bounds.high < 0
    assert comparison.overall.wer.p is not None
    assert comparison.overall.wer.p < 0.01


def test_the_difference_is_that_of_the_two_scores() -> None:
    a = list(heard_rows(600))
    b = _better(a)
    comparison = compare_predictions(a, b, by=["dialect"], settings=QUICK)
    scored = [score_predictions(rows, by=["dialect"]) for rows in (a, b)]
    assert comparison.overall.wer.a == scored[0].overall.wer.value
    assert comparison.overall.cer.b == scored[1].overall.cer.value
    for group, first, second in zip(
        comparison.groupings["dialect"],
        *(scores.groupings["dialect"].groups for scores in scored),
        strict=True,
    ):
        assert group.values == first.values
        assert group.wer.difference.value == second.wer.value - first.wer.value


def test_exchanging_the_runs_turns_the_difference_round() -> None:
    a = list(heard_rows(600))
    b = _better(a)
    forth = compare_predictions(a, b, by=[], settings=QUICK).overall.wer
    back = compare_predictions(b, a, by=[], settings=QUICK).overall.wer
    assert back.difference.value == -forth.difference.value
    assert back.p == forth.p
    assert isinstance(forth.difference.interval, Interval)
    assert isinstance(back.difference.interval, Interval)
    assert back.difference.interval.low == pytest.approx(-forth.difference.interval.high)


def test_rows_are_paired_by_id_and_not_by_place() -> None:
    a = list(heard_rows(200))
    comparison = compare_predictions(a, _better(a)[::-1], by=["dialect"], settings=QUICK)
    assert comparison == compare_predictions(a, _better(a), by=["dialect"], settings=QUICK)


def test_a_run_and_itself_are_not_told_apart() -> None:
    rows = list(heard_rows(200))
    overall = compare_predictions(rows, rows, by=[], settings=QUICK).overall
    assert overall.wer.difference.value == 0
    assert overall.wer.difference.interval == NotResolvable("every speaker has the same value")
    assert overall.wer.p is None


def test_few_speakers_give_no_verdict() -> None:
    a = list(heard_rows(1000, speakers=5))
    overall = compare_predictions(a, _better(a, every=2), by=[], settings=QUICK).overall
    assert overall.wer.difference.interval == NotResolvable("5 speakers, 8 needed")
    assert overall.wer.p is None


def test_different_rows_are_refused_and_listed_by_file_and_line() -> None:
    a = four_rows()
    b = [*four_rows()[1:], prediction("z", "ja", "ja")]
    expected = (
        r"different rows \(2 of them\).*:\n"
        r"  a.jsonl:1: id 'a' is not in b.jsonl\n"
        r"  b.jsonl:4: id 'z' is not in a.jsonl$"
    )
    with pytest.raises(PredictionsError, match=expected):
        compare_predictions(a, b, names=("a.jsonl", "b.jsonl"))


def test_a_long_list_of_different_rows_is_cut_and_counted() -> None:
    a = list(heard_rows(100))
    with pytest.raises(PredictionsError, match=r"\(95 of them\)(?s:.*)\n  and 85 more$"):
        compare_predictions(a, a[:5])


def test_other_references_are_refused_and_listed() -> None:
    b = [replace(row, reference="noget andet") if row.id == "c" else row for row in four_rows()]
    with pytest.raises(PredictionsError, match=r"B:3: the reference of id 'c' .* in A:3"):
        compare_predictions(four_rows(), b)


def test_splits_of_different_sizes_are_refused() -> None:
    rows = four_rows()
    compare_predictions(rows, rows, rows_in_split=(9, None))
    with pytest.raises(PredictionsError, match="A is of a split of 9 rows, B of one of 8"):
        compare_predictions(rows, rows, rows_in_split=(9, 8))


def test_a_filter_that_leaves_nothing_is_refused() -> None:
    rows = [prediction("a", "ja", "ja", duration=0.1)]
    with pytest.raises(PredictionsError, match="leaves no row to compare"):
        compare_predictions(rows, rows, settings=Settings(row_filter="coral"))


def test_holm_is_that_of_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(min_value=0, max_value=1), max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(after >= before for before, after in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    assert [adjusted[index] for index in order] == sorted(adjusted)


def test_p_values_of_a_grouping_are_adjusted() -> None:
    a = list(heard_rows(1000, speakers=40))
    groups = compare_predictions(a, _better(a), by=["dialect"], settings=QUICK).groupings["dialect"]
    raw = [group.wer.p for group in groups if group.wer.p is not None]
    assert len(raw) == len(groups)
    assert [group.wer.p_adjusted for group in groups] == holm(raw)


def test_a_p_value_that_resampling_cannot_resolve_is_a_bound() -> None:
    a = list(heard_rows(600, speakers=12))
    much = [replace(row, hypothesis=row.reference) for row in a]
    mixed = [
        replace(row, hypothesis={0: row.reference, 50: ""}.get(n % 97, row.hypothesis))
        for n, row in enumerate(a)
    ]
    clear, unclear = (
        compare_predictions(a, b, by=[], settings=QUICK).overall.wer for b in (much, mixed)
    )
    assert clear.p_is_bound
    assert not unclear.p_is_bound
    assert clear.p is not None
    more = compare_predictions(a, much, by=[], settings=replace(QUICK, resamples=5000)).overall.wer
    assert more.p is not None
    assert more.p < clear.p


def test_a_comparison_is_plain_data_and_a_data_frame() -> None:
    a = list(heard_rows(600))
    comparison = compare_predictions(a, _better(a), by=["dialect"], settings=QUICK)
    json.dumps(comparison.to_dict())
    assert comparison.to_dict()["rows"]["b"] == {
        "scored": 600,
        "in_file": 600,
        "in_split": None,
        "left_out": {},
        "partial": False,
    }
    frame = comparison.to_pandas()
    assert list(frame["group"])[:2] == ["all", "Bornholmsk"]
    assert (frame["wer_difference"] == frame["wer_b"] - frame["wer_a"]).all()


def test_every_line_carries_what_its_numbers_depend_on() -> None:
    chosen = Settings(profile="rye", remove_fillers=True, row_filter="coral", resamples=500)
    a = [*heard_rows(100), prediction("short", "ja", "ja", duration=0.1)]
    frame = compare_predictions(a, a[:-1], settings=chosen, rows_in_split=(200, None)).to_pandas()
    (left_out,) = set(frame["left_out_a"])
    assert "0.5 s or shorter: 4" in left_out
    for name, value in chosen.to_dict().items():
        assert set(frame[name]) == {value}
    assert set(frame["rows_in_split_a"]) == {200}
    assert set(frame["rows_in_file_a"]) == {101}
    assert set(frame["rows_in_file_b"]) == {100}
    assert frame["rows_in_split_b"].isna().all()
