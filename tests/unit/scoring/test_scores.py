"""Scores per group, with intervals and gaps."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danish_asr.errors import ConfigError, PredictionsError
from danish_asr.metrics import ErrorCounts
from danish_asr.scoring.intervals import Interval, NotResolvable
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import Settings
from tests.score_rows import four_rows, heard_rows, prediction


def test_groups_of_every_grouping_add_up_to_all_rows() -> None:
    scores = score_predictions(heard_rows(500), by=["dialect", "age_group,gender", "duration"])
    for grouping in scores.groupings.values():
        total = sum((group.errors for group in grouping.groups), ErrorCounts())
        assert total == scores.overall.errors


ROWS = list(heard_rows(30, speakers=10))


@settings(max_examples=25)
@given(st.permutations(ROWS))
def test_the_order_of_rows_does_not_matter(shuffled: list[Prediction]) -> None:
    quick = Settings(resamples=100)
    expected = score_predictions(ROWS, by=["dialect"], settings=quick)
    assert isinstance(expected.overall.wer.interval, Interval)
    assert score_predictions(shuffled, by=["dialect"], settings=quick) == expected


def test_a_value_lies_in_its_interval_and_more_speakers_narrow_it() -> None:
    widths = []
    for speakers in (12, 200):
        wer = score_predictions(heard_rows(2000, speakers=speakers), by=[]).overall.wer
        assert isinstance(wer.interval, Interval)
        assert wer.interval.low < wer.value < wer.interval.high
        widths.append(wer.interval.high - wer.interval.low)
    assert widths[1] < widths[0] / 2


def test_few_speakers_are_not_resolvable_however_many_rows_they_have() -> None:
    scores = score_predictions(heard_rows(3000, speakers=5), by=["dialect"])
    assert scores.overall.wer.interval == NotResolvable("5 speakers, 8 needed")
    assert scores.groupings["dialect"].groups[0].wer.interval == NotResolvable(
        "1 speaker, 8 needed"
    )


def test_the_gap_is_between_the_worst_and_the_best_named_group() -> None:
    gap = score_predictions(four_rows(), by=["dialect"]).groupings["dialect"].gap
    assert gap is not None
    assert (gap.worst, gap.best) == ("Bornholmsk", "Fynsk")
    assert gap.difference.value == pytest.approx(1 - 1 / 6)
    assert gap.difference.interval == NotResolvable("Bornholmsk: 1 speaker, 8 needed")


def test_the_gap_has_an_interval_where_both_groups_have_speakers() -> None:
    grouping = score_predictions(heard_rows(3000), by=["dialect"]).groupings["dialect"]
    assert grouping.gap is not None
    bounds = grouping.gap.difference.interval
    assert isinstance(bounds, Interval)
    assert bounds.low < grouping.gap.difference.value < bounds.high


def test_there_is_no_gap_where_no_two_named_groups_differ() -> None:
    rows = [prediction("a", "ja", "nej", gender="female"), prediction("b", "ø", "å", gender="male")]
    groupings = score_predictions(rows, by=["dialect", "corpus", "gender"]).groupings
    assert [grouping.gap for grouping in groupings.values()] == [None, None, None]


def test_the_denominators_give_different_rates_and_are_named() -> None:
    rows = [prediction("a", "ja", "ja nej nej")]
    standard = score_predictions(rows, by=[])
    coral = score_predictions(rows, by=[], settings=Settings(denominator="coral"))
    assert standard.overall.wer.value == 2
    assert coral.overall.wer.value == pytest.approx(2 / 3)
    assert coral.to_dict()["settings"]["denominator"] == "coral"


def test_scores_carry_everything_they_depend_on() -> None:
    chosen = Settings(profile="rye", remove_fillers=True, row_filter="coral", seed=3)
    document = score_predictions(four_rows(), settings=chosen, rows_in_split=9).to_dict()
    assert document["settings"] == {
        "profile": "rye",
        "profile_version": 1,
        "remove_fillers": True,
        "row_filter": "coral",
        "denominator": "standard",
        "resamples": 1000,
        "seed": 3,
    }
    assert document["rows"] == {
        "scored": 4,
        "in_file": 4,
        "in_split": 9,
        "left_out": {},
        "partial": True,
    }
    json.dumps(document)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([prediction("a", "ja", "nej", duration=0.1)], r"score \(1 left out: 0.5 s or shorter\)"),
        ([], "no row to score"),
    ],
)
def test_no_row_left_after_the_filter_is_refused_and_no_rate_of_zero(
    rows: list[Prediction], message: str
) -> None:
    with pytest.raises(PredictionsError, match=message):
        score_predictions(rows, settings=Settings(row_filter="coral"))


def test_a_data_frame_has_one_line_per_group() -> None:
    frame = score_predictions(heard_rows(600), by=["dialect"]).to_pandas()
    assert list(frame["group"])[:2] == ["all", "Bornholmsk"]
    assert len(frame) == 6
    assert frame["wer_low"].notna().all()
    assert (frame["wer_low"] < frame["wer"]).all()


def test_every_line_carries_what_its_numbers_depend_on() -> None:
    chosen = Settings(profile="rye", remove_fillers=True, row_filter="coral", seed=3)
    rows = [*four_rows(), prediction("e", "", "ja"), prediction("f", "ja", "ja", duration=11.0)]
    scores = score_predictions(rows, settings=chosen, rows_in_split=9)
    expected = chosen.to_dict() | {
        "profile_version": 1,
        "rows_scored": 4,
        "rows_in_file": 6,
        "rows_in_split": 9,
        "left_out": "empty reference: 1; 10 s or longer: 1",
    }
    for line in scores.to_pandas().to_dict("records"):
        assert {key: line[key] for key in expected} == expected


def test_a_column_named_twice_in_a_product_counts_once() -> None:
    scores = score_predictions(four_rows(), by=["dialect, dialect"])
    assert scores.groupings["dialect, dialect"].columns == ("dialect",)


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ConfigError, match="'age' is no column"):
        score_predictions(four_rows(), by=["age"])
