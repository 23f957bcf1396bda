"""Which rows of a split are scored, and what is said of them."""

import re

import pandas as pd
import pytest

from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.rows import TRAINED_ROW, TRAINED_SPEAKER, UNLIKE_DATASET
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import Settings
from tests.score_rows import prediction, scored


@pytest.mark.parametrize(
    ("split", "in_split", "said", "partial"),
    [
        ("test", 2, " of 2 in the split test", False),
        ("test", 3, " of 3 in the split test", True),
        ("test", None, " of the split test", False),
        ("dev\x1b", None, " of the splits dev\\x1b, test", False),
        (None, 9_000, " of 9,000 in the split test", True),
    ],
)
def test_rows_say_of_which_split_they_are_and_whether_some_lack(
    split: str | None, in_split: int | None, said: str, *, partial: bool
) -> None:
    rows = [prediction("a", "ja", "", split=split), prediction("b", "ja", "ja")]
    used = scored(rows, rows_in_split=in_split).rows
    assert (used.of_split(), used.partial) == (said, partial)
    warnings = used.warnings("file")
    assert warnings == [f"file: {line}" for line in used.warnings()]
    assert len(warnings) == 1 + partial
    assert "1 of 2 hypotheses" in warnings[-1]
    if in_split and partial:
        assert f"2 of {in_split:,} rows" in warnings[0]


def test_rows_left_out_are_counted_by_reason_and_are_no_empty_hypotheses() -> None:
    lengths = (("", 2.0), ("ja", 11.0), ("ja", 12.0), ("ja", 2.0), ("!", 2.0))
    rows = [
        prediction(str(n), reference, "", duration=seconds)
        for n, (reference, seconds) in enumerate(lengths)
    ]
    coral = Settings(row_filter="coral")
    used = scored(rows, settings=coral, rows_in_split=5, about={"where": "age > 9"}).rows
    assert (used.scored, used.in_file, used.in_split, used.empty_hypotheses) == (2, 5, 5, 1)
    assert used.left_out == {"10 s or longer": 2, "empty reference": 1}
    assert used.of_split() == (
        " of 5 in the split test, where age > 9"
        " (2 left out: 10 s or longer; 1 left out: empty reference)"
    )
    assert scored(rows[3:], settings=coral).rows.why_left_out() == ""


def test_empty_references_and_rows_without_a_speaker_are_counted() -> None:
    rows = [
        prediction("a", "!", "ja"),
        prediction("b", "!", ""),
        prediction("c", "ja", "ja", speaker_id=None),
        prediction("d", "", "nej", speaker_id=None, duration=11.0),
    ]
    for row_filter, number, total in (("all", 2, 4), ("coral", 1, 3)):
        used = scored(rows, settings=Settings(row_filter=row_filter)).rows
        assert (used.empty_references, used.without_speaker) == (number, number)
        counts = [[int(digits) for digits in re.findall(r"\d+", own)] for own in used.warnings()]
        assert counts == [[number, total], [number, total]]
    unknown = scored(rows[2:3]).rows
    assert (unknown.without_speaker, unknown.warnings()) == (1, [])  # there are no intervals


def test_scored_rows_with_other_labels_than_the_dataset_are_counted_with_an_example() -> None:
    """A file's own dialect took the place of the dataset's without a word."""
    lengths = (11.0, 2.0, 2.0, 2.0)
    rows = [prediction(f"r{n}\x1b", "ja", "ja", duration=own) for n, own in enumerate(lengths)]
    table = read_predictions(rows)
    said = pd.Series(["zero", None, "one", "two"], dtype=object)
    marked = table.assign(**{UNLIKE_DATASET: said})
    used = score_predictions(marked, settings=Settings(row_filter="coral")).rows
    (warning,) = used.warnings()
    assert (used.unlike_dataset, used.unlike_example) == (2, "r2\x1b: one")
    assert warning.startswith("2 of 3 rows ")
    assert "r2\\x1b: one" in warning
    assert score_predictions(table).rows.unlike_dataset == 0


def test_rows_and_speakers_of_the_training_are_counted_among_the_scored_ones() -> None:
    seconds = (2.0, 2.0, 2.0, 11.0)
    rows = [
        prediction(str(n), "ja", "ja", duration=own, speaker_id=f"s{n // 2}")
        for n, own in enumerate(seconds)
    ]
    table = read_predictions(rows)
    for of_row, of_speaker in (("0001", "0011"), ("1101", "1101"), ("0000", "0000")):
        marks = {TRAINED_ROW: of_row, TRAINED_SPEAKER: of_speaker}
        marked = table.assign(**{key: [own == "1" for own in marks[key]] for key in marks})
        used = score_predictions(marked, settings=Settings(row_filter="coral")).rows
        (warning,) = used.warnings() or [""]
        numbers = [int(digits) for digits in re.findall(r"\d+", warning)]
        expected = (of_row[:3].count("1"), int("1" in of_speaker[:2]) + int(of_speaker[2]))
        assert (used.trained_rows, used.trained_speakers) == expected
        assert numbers == ([expected[0], 3, expected[1]] if any(expected) else [])
