"""Scores per group, with intervals and gaps, and their settings."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danish_asr.base.errors import ConfigError
from danish_asr.metrics import DENOMINATORS, Denominator
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import Settings
from tests.documented import blocks
from tests.score_rows import four_rows, prediction, random_rows
from tests.shards import utterance, write_shard

ROWS = list(random_rows(30, speakers=10))


@settings(max_examples=25)
@given(st.permutations(ROWS))
def test_the_order_of_rows_does_not_matter(shuffled: list[Prediction]) -> None:
    expected = score_predictions(ROWS, by=["dialect"])
    assert expected.overall.wer.interval
    assert score_predictions(shuffled, by=["dialect"]) == expected


def test_scores_and_every_line_carry_their_settings_and_rows() -> None:
    chosen = Settings(profile="rye", row_filter="coral", denominator="coral")
    rows = [*four_rows(), prediction("e", "", "ja"), prediction("f", "ja", "ja", duration=11.0)]
    where = "age > 9"
    scores = score_predictions(rows, settings=chosen, rows_in_split=9, about={"where": where})
    document = json.loads(json.dumps(scores.to_dict()))
    expected = {"profile": "rye", "row_filter": "coral", "denominator": "coral"}
    assert document["settings"] == expected | {"profile_version": 2}
    left_out = {"empty reference": 1, "10 s or longer": 1}
    of_rows = {"scored": 4, "in_file": 6, "in_split": 9, "left_out": left_out, "partial": True}
    assert document["rows"] == of_rows | {
        "empty_hypotheses": 1,
        "splits": ["test"],
        "where": where,
    }
    of_line = document["settings"] | {
        "rows_scored": 4,
        "rows_in_file": 6,
        "rows_in_split": 9,
        "where": where,
        "left_out": "empty reference: 1; 10 s or longer: 1",
    }
    table = scores.to_pandas()
    assert list(table["group"])[:3] == ["all", "Bornholmsk", "Fynsk"]
    for line in table.to_dict("records"):
        assert {key: line[key] for key in of_line} == of_line


@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_a_group_without_a_reference_word_has_no_rate(denominator: Denominator) -> None:
    rows = [
        prediction("a", "", "ja nej", dialect="Fynsk"),
        prediction("b", "!", "", dialect="Fynsk"),
        prediction("c", "ja", "ja", dialect="Jysk"),
    ]
    scores = score_predictions(rows, settings=Settings(denominator=denominator))
    assert math.isnan(scores.groupings["dialect"].groups[0].wer.value)
    line = json.loads(json.dumps(scores.to_dict(), allow_nan=False))["groups"][1]
    assert (line["group"], line["wer"]) == ("Fynsk", None)
    assert line["wer_not_resolvable"] == "1 speaker, 8 needed"
    assert scores.to_pandas()["wer"].isna().tolist()[:3] == [False, True, False]


def test_pooled_intervals_belong_to_groups_and_not_to_their_labels() -> None:
    """Two pairs of values that read alike when joined shared an interval."""
    pairs = (("a · b", "c"), ("a", "b · c"), ("d", "e"), ("d", "f"))
    rows = []
    for row in random_rows(600, speakers=24):
        dialect, gender = pairs[int(str(row.speaker_id)[-3:]) % 4]
        values = {"speaker_id": row.speaker_id, "dialect": dialect, "gender": gender}
        rows.append(prediction(row.id, row.reference, row.hypothesis, **values))
    part = score_predictions(rows, by=["dialect,gender"]).groupings["dialect,gender"]
    assert len({group.wer_pooled for group in part.groups}) == len(part.groups) == 4
    assert part.gap
    assert part.gap.groups == 4


def test_settings_report_all_faults_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(profile="corl", denominator="both", row_filter="x")  # type: ignore[arg-type]
    assert len(caught.value.faults) == 3


def test_a_profile_of_ones_own_scores_and_normalises_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, lines), *_ = blocks("docs/howto/add-a-profile.md")
    (tmp_path / "my_scoring.py").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    profile = "my_scoring:lower"
    scores = score_predictions(
        [prediction("a", "Ja Tak", "ja tak")], settings=Settings(profile=profile)
    )
    assert scores.overall.wer.value == 0
    assert scores.to_dict()["settings"]["profile_version"] is None
    write_shard(tmp_path, [utterance(0, text="Rødgrød")])
    index = DanishAsrDataset(tmp_path).read_index("train").with_targets(profile)
    assert index.rows["target"].to_list() == ["rødgrød"]


def test_a_metric_of_ones_own_is_a_groupby_of_the_table() -> None:
    scores = score_predictions(random_rows(300), by=["dialect"])
    sums = scores.table.filter(like="word_").groupby(scores.table["dialect"]).sum()
    errors = sums["word_substitutions"] + sums["word_deletions"] + sums["word_insertions"]
    words = sums["word_hits"] + sums["word_substitutions"] + sums["word_deletions"]
    expected = [group.wer.value for group in scores.groupings["dialect"].groups]
    assert (errors / words).tolist() == expected
