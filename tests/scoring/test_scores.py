"""The table of scored rows, its groups, their scores with intervals and gaps, and settings."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.base.tables import Row
from danish_asr.metrics import Denominator, ErrorCounts, count_errors
from danish_asr.scoring.intervals import COUNTS
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scores import Group, groups_of, kept, score_table
from danish_asr.scoring.settings import Settings
from danish_asr.text.profiles import normalize
from tests.documented import script
from tests.score_rows import four_rows, prediction, random_rows, scored

ROWS = list(random_rows(30, speakers=10))


@settings(max_examples=6)
@given(st.permutations(ROWS))
def test_the_order_of_rows_does_not_matter(shuffled: list[Row]) -> None:
    expected = scored(ROWS, by=["dialect"])
    assert expected.overall.wer.interval
    assert scored(shuffled, by=["dialect"], about={"model": "x"}) == expected


def test_scores_and_every_line_carry_their_settings_and_rows() -> None:
    chosen = Settings(profile="rye", row_filter="coral", denominator="coral")
    rows = [*four_rows(), prediction("e", "", "ja"), prediction("f", "ja", "ja", duration=11.0)]
    rows.append(prediction("g", "!", ""))  # empty as its reference is
    scores = scored(
        rows,
        settings=chosen,
        rows_in_split=9,
        about={"where": "age > 9", "rows_in_split": {"x": 9}},
    )
    document = json.loads(json.dumps(scores.to_dict()))
    settings = {"profile": "rye", "row_filter": "coral", "denominator": "coral"}
    assert document["settings"] == settings | {"profile_version": 2}
    left_out = {"empty reference": 1, "10 s or longer": 1}
    of_rows = {"scored": 5, "in_file": 7, "in_split": 9, "left_out": left_out, "partial": True}
    of_rows |= {"empty_hypotheses": 1, "splits": ["x"], "where": "age > 9"}
    of_rows |= {"empty_references": 0, "without_speaker": 0}
    of_rows |= {"trained_rows": None, "trained_speakers": None}
    of_rows |= {"unlike_dataset": 0, "unlike_example": None}
    assert document["rows"] == of_rows
    of_line = document["settings"] | {"rows_scored": 5, "rows_in_file": 7, "rows_in_split": 9}
    of_line |= {"splits": "x", "where": "age > 9"}
    of_line["left_out"] = "empty reference: 1; 10 s or longer: 1"
    assert [*scores.only(["dialect"]).groupings] == ["dialect"]
    table = scores.to_pandas()
    assert list(table["group"])[:3] == ["all", "Bornholmsk", "Fynsk"]
    for line in table.to_dict("records"):
        assert {key: line[key] for key in of_line} == of_line


@pytest.mark.parametrize("denominator", get_args(Denominator))
def test_a_group_without_a_reference_word_has_no_rate(denominator: Denominator) -> None:
    rows = [
        prediction("a", "", "ja nej", dialect="Fynsk"),
        prediction("b", "!", "", dialect="Fynsk"),
        prediction("c", "ja", "ja", dialect="Jysk"),
    ]
    scores = scored(rows, settings=Settings(denominator=denominator))
    assert math.isnan(scores.groupings["dialect"].groups[0].wer.value)
    line = json.loads(json.dumps(scores.to_dict(), allow_nan=False))["groups"][1]
    assert (line["group"], line["wer"]) == ("Fynsk", None)
    assert line["wer_not_resolvable"] == "1 speaker, 8 needed"
    assert scores.to_pandas()["wer"].isna().tolist()[:3] == [False, True, False]


def test_pooled_intervals_belong_to_named_groups_and_not_to_their_labels() -> None:
    """Two pairs of values that read alike when joined shared an interval."""
    pairs = (("a · b", "c"), ("a", "b · c"), ("d", "e"), ("d", "f"), ("d", None))
    rows = []
    for row in random_rows(600, speakers=30):
        dialect, gender = pairs[int(str(row["speaker_id"])[-3:]) % 5]
        values = {"speaker_id": row["speaker_id"], "dialect": dialect, "gender": gender}
        rows.append(prediction(row["id"], row["reference"], row["hypothesis"], **values))
    part = scored(rows, by=["dialect,gender"]).groupings["dialect,gender"]
    assert {group.speakers for group in part.groups} == {6}
    assert len({group.wer_pooled for group in part.groups[:4]} - {None}) == 4
    assert [group.wer_pooled for group in part.groups[4:]] == [None]
    assert part.gap
    assert part.gap.compared == 4


def test_the_profile_of_the_page_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = script("docs/howto/extend.md", "my_scoring.py")
    (tmp_path / "my_scoring.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    profile = "my_scoring:lower"
    scores = scored([prediction("a", "Ja Tak", "ja tak")], settings=Settings(profile=profile))
    assert scores.overall.wer.value == 0
    assert scores.to_dict()["settings"]["profile_version"] is None


def _groups(rows: Iterable[Row], grouping: str) -> list[Group]:
    return groups_of(score_table(read_predictions(rows), Settings()), grouping)


@pytest.mark.parametrize("columns", [(), ("dialect",), ("dialect", "age_group"), ("speaker_id",)])
def test_groups_hold_the_sums_of_their_rows(columns: tuple[str, ...]) -> None:
    expected: dict[tuple[str | None, ...], ErrorCounts] = defaultdict(ErrorCounts)
    for row in random_rows(300):
        key = tuple(row[column] for column in columns)
        texts = (normalize(text, "coral") for text in (row["reference"], row["hypothesis"]))
        expected[key] += count_errors(*texts)
    sums = {}
    for group in _groups(random_rows(300), ",".join(columns)):
        sums[tuple(group.names.values())] = ErrorCounts(len(group.rows), *group.counts())
        assert group.by_speaker().sum().tolist() == group.rows[[*COUNTS]].sum().tolist()
    assert sums == expected


@pytest.mark.parametrize(
    ("grouping", "values", "labels"),
    [
        ("dialect", ["b", None, "a"], ["a", "b", "unknown"]),
        ("dialect", ["unknown", None], ["unknown", "unknown (no value)"]),
        ("dialect", ["\x1b[2J\n\u202eø"], ["\\x1b[2J\\n\\u202eø"]),
        ("speaker_id", ["9", "10"], ["10", "9"]),  # digits of a label and of an id are names
        ("show_id", ["9", "10"], ["10", "9"]),
        ("age", ["100", "9", None, "18", "9"], ["9", "18", "100", "unknown"]),
        ("age", ["20-30", "9", "100"], ["100", "20-30", "9"]),
        (
            "age:18,25.5,50",
            ["17", "18", "25.5", "99"],
            ["under 18", "18–25.5", "25.5–50", "50 and more"],
        ),
        ("age:50,18", ["7", None], ["under 18", "unknown"]),
        ("age:18,25,dialect", ["7", "20"], ["under 18 · unknown", "18–25 · unknown"]),
        ("duration", [None], ["unknown"]),
        (
            "duration",
            [30.0, 0.2, 1.0, 6.0, 5.0],
            ["under 1 s", "1–2 s", "4–6 s", "6–10 s", "20 and more s"],
        ),
        ("duration:3", [3.0, 2.0], ["under 3 s", "3 and more s"]),
        ("loss", [2.0, 10.0, None], ["2.0", "10.0", "unknown"]),
        ("confidence", [2.0, "high", None], ["2.0", "high", "unknown"]),
        ("dialect,dialect", ["b", "a"], ["a", "b"]),
        ("", ["b", "a"], ["all"]),
    ],
)
def test_groups_are_in_order_numbers_by_size_bands_by_their_bounds_and_unknown_last(
    grouping: str, values: list[Any], labels: list[str]
) -> None:
    column = grouping.partition(":")[0].partition(",")[0] or "dialect"
    rows = []
    for number, value in enumerate(values):
        rows.append(prediction(str(number), "ja", "ja", **{column: value}))
    assert [group.label for group in _groups(rows, grouping)] == labels


def test_a_group_is_the_product_of_values_and_none_is_one_of_them() -> None:
    rows = [
        prediction(str(n), "ja", "ja", corpus=corpus, gender=gender)
        for n, (corpus, gender) in enumerate([("a", "unknown"), ("a", None), ("b", None)])
    ]
    groups = _groups(rows, "corpus, gender")
    assert [len(group.rows) for group in groups] == [1, 1, 1]
    assert groups[2].names == {"corpus": "b", "gender": None}


def test_words_per_second_are_those_of_the_normalised_reference() -> None:
    rows = [prediction("a", "101, øh", "", duration=2.0), prediction("b", "ja", "", duration=0.0)]
    labels = [group.label for group in _groups(rows, "words_per_second")]
    assert labels == ["2–2.5 words/s", "unknown"]


@pytest.mark.parametrize(
    ("grouping", "message"),
    [
        ("dialekt", "unknown column 'dialekt'; available: .*dialect.*age.*--dataset"),
        ("reference", "unknown column 'reference'"),
        ("age:x", "such as age:18,25,50"),
        ("dialect:1,2", "such as age:18,25,50"),
        ("age:18,25", "only numbers have bands; found 'ung'"),
        ("snr", r"'snr' has 101 different numbers; name bounds"),
    ],
)
def test_a_grouping_that_cannot_be_made_is_refused(grouping: str, message: str) -> None:
    extras = [{"age": "ung", "snr": str(n), "show_id": str(n)} for n in range(101)]
    rows = [prediction(str(n), "ja", "ja", **extra) for n, extra in enumerate(extras)]
    assert (len(_groups(rows[:100], "snr")), len(_groups(rows, "show_id"))) == (100, 101)
    with pytest.raises(ConfigError, match=f"^the call has .*\n.*{message}"):
        _groups(rows, grouping)


def test_without_a_row_or_a_word_nothing_is_scored() -> None:
    rows = [prediction("a", "", "ja nej"), prediction("b", "!", "")]
    settings = Settings()
    with pytest.raises(PredictionsError, match=r"no word .* references of 2 rows .* coral"):
        kept(score_table(read_predictions(rows), settings), settings)
    with pytest.raises(PredictionsError, match=r"no row to score: there are no rows"):
        kept(score_table(read_predictions([]), settings), settings)
    strict = Settings(row_filter="coral")
    with pytest.raises(PredictionsError, match=r"no row to score \(1 left out: empty reference"):
        kept(score_table(read_predictions(rows[:1]), strict), strict)


def test_a_speaker_is_of_one_corpus_unless_corpora_share_people() -> None:
    rows = [prediction(f"{corpus}", "ja", "ja", corpus=corpus) for corpus in ("coral", "b", None)]
    rows.append(prediction("d", "ja", "ja", speaker_id=None))
    assert scored(rows).overall.speakers == 3
    assert scored(rows, share_people=[["coral", "b"]]).overall.speakers == 2
    with pytest.raises(ConfigError, match="unknown column '_person'"):
        scored(rows, by=["_person"])


def test_a_column_of_ones_own_is_a_grouping() -> None:
    table = score_table(read_predictions(four_rows()), Settings())
    table["long"] = (table["reference"].str.len() > 12).map({True: "long", False: "short"})
    assert [group.label for group in groups_of(table, "long")] == ["long", "short"]
