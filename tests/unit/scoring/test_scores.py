"""Scores per group, with intervals and gaps, and their settings and row filters."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danish_asr.base.errors import PredictionsError
from danish_asr.metrics import DENOMINATORS, Denominator
from danish_asr.scoring.digests import digests_of
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import ROW_FILTERS, Settings
from tests.score_rows import four_rows, prediction, random_rows

ROWS = list(random_rows(30, speakers=10))


@settings(max_examples=25)
@given(st.permutations(ROWS))
def test_the_order_of_rows_does_not_matter(shuffled: list[Prediction]) -> None:
    quick = Settings(resamples=100)
    expected = score_predictions(ROWS, by=["dialect"], settings=quick)
    assert expected.overall.wer.interval
    assert score_predictions(shuffled, by=["dialect"], settings=quick) == expected


def test_scores_and_every_line_carry_their_settings_and_rows() -> None:
    chosen = Settings(profile="rye", remove_fillers=True, row_filter="coral", seed=3)
    rows = [*four_rows(), prediction("e", "", "ja"), prediction("f", "ja", "ja", duration=11.0)]
    scores = score_predictions(rows, settings=chosen, rows_in_split=9, where="age > 9")
    document = json.loads(json.dumps(scores.to_dict()))
    assert document["settings"] == {
        "profile": "rye",
        "profile_version": 2,
        "remove_fillers": True,
        "row_filter": "coral",
        "denominator": "standard",
        "resamples": 0,
        "seed": 3,
    }
    left_out = {"empty reference": 1, "10 s or longer": 1}
    expected = {"scored": 4, "in_file": 6, "in_split": 9, "left_out": left_out, "partial": True}
    expected |= {"empty_hypotheses": 1, "similar_labels": [], "words_per_second": 1.375}
    expected |= digests_of(rows)._asdict()
    assert document["rows"] == expected | {"splits": ["test"], "where": "age > 9"}
    expected = document["settings"] | {
        "rows_scored": 4,
        "rows_in_file": 6,
        "rows_in_split": 9,
        "where": "age > 9",
        "left_out": "empty reference: 1; 10 s or longer: 1",
    }
    table = scores.to_pandas()
    assert list(table["group"])[:3] == ["all", "Bornholmsk", "Fynsk"]
    for line in table.to_dict("records"):
        assert {key: line[key] for key in expected} == expected


@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_references_without_a_word_have_no_rate(denominator: Denominator) -> None:
    chosen = Settings(denominator=denominator, resamples=100)
    rows = [
        prediction("a", "", "ja nej", dialect="Fynsk"),
        prediction("b", "!", "", dialect="Fynsk"),
    ]
    with pytest.raises(PredictionsError, match=r"no word .* references of 2 rows .* coral"):
        score_predictions(rows, settings=chosen)
    scores = score_predictions(
        [*rows, prediction("c", "ja", "ja", dialect="Jysk")], settings=chosen
    )
    assert math.isnan(scores.groupings["dialect"].groups[0].wer.value)
    group = json.loads(json.dumps(scores.to_dict()))["groupings"]["dialect"]["groups"][0]
    assert group["wer"] == {"value": None, "not_resolvable": "1 speaker, 8 needed"}
    assert scores.to_pandas()["wer"].isna().tolist()[:3] == [False, True, False]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"duration": 0.5}, "0.5 s or shorter"),
        ({"duration": 0.51}, None),
        ({"duration": 9.99}, None),
        ({"duration": 10.0}, "10 s or longer"),
        ({"duration": None}, "duration unknown"),
        ({"reference": " "}, "empty reference"),
        ({"extra": {"validated": "Rejected"}}, "rejected by the corpus's validators"),
        ({"extra": {"validated": "maybe"}}, None),
    ],
)
def test_the_coral_filter_is_strict_at_its_bounds(
    changes: dict[str, object], reason: str | None
) -> None:
    row = prediction("a", **{"reference": "ja", "hypothesis": "ja"} | changes)  # type: ignore[arg-type]
    assert ROW_FILTERS["coral"](row, row.reference) == reason
    assert ROW_FILTERS["all"](row, "") is None


def test_the_rye_filter_excludes_references_that_normalisation_empties() -> None:
    rows = [prediction("a", "...", "ja"), prediction("b", "ja", "ja")]
    scores = score_predictions(rows, settings=Settings(profile="rye", row_filter="rye"))
    assert (scores.rows.scored, scores.overall.wer.value) == (1, 0)
