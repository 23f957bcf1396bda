"""Scored rows, and their sums per group."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pytest

from danish_asr.metrics import DENOMINATORS, Denominator, ErrorCounts, count_errors
from danish_asr.scoring.intervals import rates
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scored_rows import GroupSums, score_rows
from danish_asr.scoring.settings import Settings
from danish_asr.text.profiles import normalize
from tests.score_rows import four_rows, prediction, random_rows

Values = tuple[str | None, ...]


def _groups(rows: Iterable[Prediction], *columns: str) -> dict[Values, GroupSums]:
    scored = score_rows(rows, by=[",".join(columns)] if columns else [], settings=Settings())
    groups = [group.sums(scored.counts) for group in scored.groups(columns)]
    return {tuple(group.group.values()): group for group in groups}


@pytest.mark.parametrize("columns", [(), ("dialect",), ("dialect", "age_group"), ("speaker_id",)])
def test_groups_hold_the_sums_of_their_rows(columns: tuple[str, ...]) -> None:
    expected: dict[Values, ErrorCounts] = defaultdict(ErrorCounts)
    for row in random_rows(300):
        key = tuple(getattr(row, column) for column in columns)
        texts = (normalize(text, "coral") for text in (row.reference, row.hypothesis))
        expected[key] += count_errors(*texts)
    groups = _groups(random_rows(300), *columns)
    sums = {values: group.sums.sum(axis=0).tolist() for values, group in groups.items()}
    assert sums == {values: list(counts.to_tuple()) for values, counts in expected.items()}


def test_groups_are_in_alphabetical_order_bands_by_size_and_unknown_last() -> None:
    assert list(_groups(four_rows(), "dialect")) == [("Bornholmsk",), ("Fynsk",), (None,)]
    lengths = [30.0, 0.2, 1.0, 6.0, 5.0]
    rows = [prediction(str(n), "ja", "ja", duration=s) for n, s in enumerate(lengths)]
    labels = ["under 1 s", "1–2 s", "4–6 s", "6–10 s", "20 and more s"]
    assert list(_groups(rows, "duration")) == [(label,) for label in labels]


@pytest.mark.parametrize(("text", "missing"), [("unknown", "unknown (no value)"), ("x", "unknown")])
def test_a_missing_value_and_the_text_unknown_have_different_labels(
    text: str, missing: str
) -> None:
    rows = [prediction("a", "ja", "ja", gender=text), prediction("b", "ja", "ja", gender=None)]
    assert [group.label for group in _groups(rows, "gender").values()] == [text, missing]


def test_words_per_second_are_those_of_the_normalised_reference() -> None:
    rows = [prediction("a", "101, øh", "", duration=2.0), prediction("b", "ja", "", duration=0.0)]
    assert list(_groups(rows, "words_per_second")) == [("2–2.5 words/s",), (None,)]


def test_confidence_is_grouped_in_bands_whoever_measured_it() -> None:
    own, other = {"confidence": 0.95}, {"extra": {"confidence": "0.2"}}
    rows = [prediction("a", "ja", "ja", **own), prediction("b", "nej", "nej", **other)]
    assert list(_groups(rows, "confidence:0.5,0.9")) == [("under 0.5",), ("0.9 and more",)]


@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_rates_of_sums_are_the_rates_of_counts(denominator: Denominator) -> None:
    numbers = np.array([[2, 3, 1, 1, 1, 9, 2, 0, 3], [1, 0, 0, 0, 4, 0, 0, 0, 7]])
    settings = Settings(denominator=denominator)
    wer, cer = rates(numbers, settings)
    counts = ErrorCounts.from_tuple(numbers[0].tolist())
    assert (wer[0], cer[0]) == (counts.wer(denominator), counts.cer(denominator))
    assert np.isnan([wer[1], cer[1]]).all()  # insertions without a reference


def _ages(*ages: object) -> list[Prediction]:
    return [
        prediction(
            str(n), "ja", "ja", duration=None, extra={"age": None if age is None else f"{age}"}
        )
        for n, age in enumerate(ages)
    ]


@pytest.mark.parametrize(
    ("column", "ages", "labels"),
    [
        ("age", [100, 9, None, 18, 9], ["9", "18", "100", None]),
        ("age", range(20, 60), ["under 30", "30–40", "40–50", "50 and more"]),
        ("age:2", [-3.25, 9.11, 9.126, 9.1201], ["under 9.12", "9.12 and more"]),
        ("age:2", [1, 1, 1, 7, None], ["1", "7", None]),
        ("age:18,25.5,50", [17, 18, 25.5, 99], ["under 18", "18–25.5", "25.5–50", "50 and more"]),
        ("age:50,18", [7, None], ["under 18", None]),
        ("age:18,25,dialect", [7, 20], ["under 18", "18–25"]),
        ("age", ["20-30", 9, 100], ["100", "20-30", "9"]),
        ("duration", [7], [None]),
    ],
)
def test_numbers_are_in_numeric_order_and_many_are_in_bands(
    column: str, ages: Iterable[object], labels: list[str | None]
) -> None:
    scored = score_rows(_ages(*ages), by=[column], settings=Settings())
    groups = scored.groups(scored.groupings[column])
    assert [next(iter(group.group.values())) for group in groups] == labels
    assert sum(len(group.rows) for group in groups) == len(scored.ids)
