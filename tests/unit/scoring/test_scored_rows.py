"""Columns of counts, and sums over groups of them."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.errors import ConfigError, PredictionsError
from danish_asr.metrics import DENOMINATORS, Denominator, ErrorCounts, count_errors
from danish_asr.scoring.scored_rows import BANDS, rates, score_rows
from danish_asr.text.profiles import normalize
from tests.score_rows import four_rows, heard_rows, prediction


@pytest.mark.parametrize("columns", [(), ("dialect",), ("dialect", "age_group"), ("speaker_id",)])
def test_groups_hold_the_sums_of_their_rows(columns: tuple[str, ...]) -> None:
    expected: dict[tuple[str | None, ...], ErrorCounts] = defaultdict(ErrorCounts)
    for row in heard_rows(300):
        key = tuple(getattr(row, column) for column in columns)
        texts = (normalize(text, "coral") for text in (row.reference, row.hypothesis))
        expected[key] += count_errors(*texts)
    groups = score_rows(heard_rows(300), columns=columns).groups(columns)
    assert {group.values: group.errors for group in groups} == expected


def test_a_group_has_one_line_per_speaker() -> None:
    (group,) = score_rows(heard_rows(300, speakers=7), columns=()).groups(())
    assert group.sums.shape == (7, 9)
    assert group.known_speakers == 7
    assert group.sums[:, 0].sum() == 300


def test_rows_without_a_speaker_are_one_line_that_is_no_known_speaker() -> None:
    rows = [prediction(str(n), "ja", "nej", speaker_id="s" if n else None) for n in range(4)]
    (group,) = score_rows(rows, columns=()).groups(())
    assert sorted(group.sums[:, 0].tolist()) == [1, 3]
    assert group.known_speakers == 1


def test_names_stand_in_alphabetical_order_bands_by_size_and_unknown_last() -> None:
    rows = score_rows(four_rows(), columns=["dialect"])
    assert [group.values for group in rows.groups(["dialect"])] == [
        ("Bornholmsk",),
        ("Fynsk",),
        (None,),
    ]
    lengths = [30.0, 0.2, 1.0, 6.0, 5.0]
    spoken = [prediction(str(n), "ja", "ja", duration=s) for n, s in enumerate(lengths)]
    groups = score_rows(spoken, columns=["duration"]).groups(["duration"])
    labels = ["under 1 s", "1–2 s", "4–6 s", "6–10 s", "20 and more s"]
    assert [group.values[0] for group in groups] == labels


def test_words_per_second_are_those_of_the_normalised_reference() -> None:
    rows = [prediction("a", "101, øh", "", duration=2.0), prediction("b", "ja", "", duration=0.0)]
    groups = score_rows(rows, columns=["words_per_second"]).groups(["words_per_second"])
    assert [group.values[0] for group in groups] == ["2–2.5 words/s", None]


@given(st.floats(min_value=0, max_value=1e6))
def test_every_value_has_one_band_that_holds_it(value: float) -> None:
    bands = BANDS["duration"]
    place = bands.labels.index(bands.label(value))
    edges = [0.0, *bands.edges, float("inf")]
    assert edges[place] <= value < edges[place + 1]


def test_columns_beyond_the_contract_can_be_grouped_by() -> None:
    rows = [prediction("a", "ja", "ja", extra={"age": "31"}), prediction("b", "ja", "ja")]
    groups = score_rows(rows, columns=["age"]).groups(["age"])
    assert [group.values for group in groups] == [("31",), (None,)]


def test_all_unknown_columns_are_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"2 faults:\n.*'alder' is no.*\n.*'køn' is no column"):
        score_rows(four_rows(), columns=["køn", "dialect", "alder"])


def test_an_utterance_is_scored_once() -> None:
    with pytest.raises(PredictionsError, match="id 'b' occurs twice"):
        score_rows([*four_rows(), prediction("b", "ja", "ja")], columns=())


def test_what_is_left_out_is_counted_by_reason() -> None:
    rows = [*four_rows(), prediction("e", "", "ja"), prediction("f", "ja", "ja", duration=11.0)]
    scored = score_rows(rows, columns=(), row_filter="coral")
    assert scored.left_out == {"empty reference": 1, "10 s or longer": 1}
    assert scored.used(9).to_dict() == {
        "scored": 4,
        "in_file": 6,
        "in_split": 9,
        "left_out": {"empty reference": 1, "10 s or longer": 1},
        "partial": True,
    }
    assert scored.lines.tolist() == [1, 2, 3, 4]


def test_a_product_of_many_columns_has_the_groups_that_occur() -> None:
    """The product of the columns' sizes, 10,000 to the fifth, is no number of 64 bits."""
    columns = [f"column{number}" for number in range(5)]
    rows = [
        prediction(str(n), "ja", "ja", extra={column: str(n // 2) for column in columns})
        for n in range(20_000)
    ]
    groups = score_rows(rows, columns=columns).groups(columns)
    assert len(groups) == 10_000
    assert {group.errors.rows for group in groups} == {2}
    assert groups[0].values == ("0",) * 5


@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_rates_of_sums_are_the_rates_of_counts(denominator: Denominator) -> None:
    numbers = np.array([[2, 3, 1, 1, 1, 9, 2, 0, 3], [1, 0, 0, 0, 4, 0, 0, 0, 7]])
    wer, cer = rates(numbers, denominator)
    counts = [ErrorCounts.from_tuple(line) for line in numbers.tolist()]
    assert wer.tolist() == [line.wer(denominator) for line in counts]
    assert cer.tolist() == [line.cer(denominator) for line in counts]


@given(st.tuples(*[st.integers(min_value=0, max_value=9)] * 9))
def test_counts_survive_the_way_through_a_tuple(numbers: tuple[int, ...]) -> None:
    assert ErrorCounts.from_tuple(numbers).to_tuple() == numbers
