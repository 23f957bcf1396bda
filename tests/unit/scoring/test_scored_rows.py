"""Columns of counts, and their sums per group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from danish_asr.metrics import DENOMINATORS, Denominator, ErrorCounts, count_errors
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scored_rows import GroupSums, rates, score_rows
from danish_asr.scoring.settings import Settings
from danish_asr.text.profiles import normalize
from tests.score_rows import four_rows, prediction, random_rows


def _groups(rows: Iterable[Prediction], *columns: str) -> Sequence[GroupSums]:
    return score_rows(rows, by=columns, settings=Settings()).groups(columns)


def _values(groups: Sequence[GroupSums]) -> list[tuple[str | None, ...]]:
    return [tuple(group.group.values()) for group in groups]


def _total(group: GroupSums) -> ErrorCounts:
    return ErrorCounts.from_tuple(group.sums.sum(axis=0).tolist())


@pytest.mark.parametrize("columns", [(), ("dialect",), ("dialect", "age_group"), ("speaker_id",)])
def test_groups_hold_the_sums_of_their_rows(columns: tuple[str, ...]) -> None:
    expected: dict[tuple[str | None, ...], ErrorCounts] = defaultdict(ErrorCounts)
    for row in random_rows(300):
        key = tuple(getattr(row, column) for column in columns)
        texts = (normalize(text, "coral") for text in (row.reference, row.hypothesis))
        expected[key] += count_errors(*texts)
    groups = _groups(random_rows(300), *columns)
    assert {tuple(group.group.values()): _total(group) for group in groups} == expected


def test_a_group_has_one_line_per_speaker_and_one_for_unknown_speakers() -> None:
    (group,) = _groups(random_rows(300, speakers=7))
    assert group.sums.shape == (7, 9)
    assert group.known_speakers == 7
    rows = [prediction(str(n), "ja", "nej", speaker_id="s" if n else None) for n in range(4)]
    (group,) = _groups(rows)
    assert group.speakers == ("s", None)
    assert group.sums[:, 0].tolist() == [3, 1]
    assert group.known_speakers == 1


def test_groups_are_in_alphabetical_order_bands_by_size_and_unknown_last() -> None:
    groups = _groups(four_rows(), "dialect")
    assert _values(groups) == [
        ("Bornholmsk",),
        ("Fynsk",),
        (None,),
    ]
    lengths = [30.0, 0.2, 1.0, 6.0, 5.0]
    groups = _groups(
        [prediction(str(n), "ja", "ja", duration=s) for n, s in enumerate(lengths)], "duration"
    )
    labels = ["under 1 s", "1–2 s", "4–6 s", "6–10 s", "20 and more s"]
    assert _values(groups) == [(label,) for label in labels]


def test_words_per_second_are_those_of_the_normalised_reference() -> None:
    rows = [prediction("a", "101, øh", "", duration=2.0), prediction("b", "ja", "", duration=0.0)]
    groups = _groups(rows, "words_per_second")
    assert _values(groups) == [("2–2.5 words/s",), (None,)]


def test_rows_can_be_grouped_by_extra_keys() -> None:
    rows = [prediction("a", "ja", "ja", extra={"age": "31"}), prediction("b", "ja", "ja")]
    assert _values(_groups(rows, "age")) == [("31",), (None,)]


def test_lines_count_the_rows_that_are_left_out() -> None:
    rows = [prediction("e", "", "ja"), *four_rows()]
    scored = score_rows(rows, by=(), settings=Settings(row_filter="coral"))
    assert [row.line for row in scored.rows] == [2, 3, 4, 5]


def test_a_product_of_many_columns_has_the_groups_that_occur() -> None:
    """The product of the columns' sizes, 10,000 to the fifth, exceeds 64 bits."""
    columns = [f"column{number}" for number in range(5)]
    rows = [
        prediction(str(n), "ja", "ja", extra={column: str(n // 2) for column in columns})
        for n in range(20_000)
    ]
    groups = _groups(rows, *columns)
    assert len(groups) == 10_000
    assert {_total(group).rows for group in groups} == {2}
    assert _values(groups)[0] == ("0",) * 5


@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_rates_of_sums_are_the_rates_of_counts(denominator: Denominator) -> None:
    numbers = np.array([[2, 3, 1, 1, 1, 9, 2, 0, 3], [1, 0, 0, 0, 4, 0, 0, 0, 7]])
    wer, cer = rates(numbers, denominator)
    counts = [ErrorCounts.from_tuple(line) for line in numbers.tolist()]
    assert wer.tolist() == [line.wer(denominator) for line in counts]
    assert cer.tolist() == [line.cer(denominator) for line in counts]
