"""Predictions files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from danish_asr.errors import PredictionsError
from danish_asr.scoring.predictions import Prediction, read_predictions, write_predictions

ROW = {
    "id": "a",
    "corpus": "coral",
    "split": "test",
    "reference": 'Så\'n, "dér"!',
    "hypothesis": "",
    "duration": 1.5,
}


def _write(path: Path, *lines: Any) -> Path:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    rows = [
        Prediction(**ROW, dialect="Fynsk", extra={"sub_dialect": "sydfynsk", "age": None}),  # type: ignore[arg-type]
        Prediction(**{**ROW, "id": "b", "hypothesis": "så\u2028n"}),  # type: ignore[arg-type]
    ]
    assert write_predictions(tmp_path / "p.jsonl", rows) == 2
    assert list(read_predictions(tmp_path / "p.jsonl")) == rows


def test_numbers_and_flags_beyond_the_contract_become_labels(tmp_path: Path) -> None:
    path = _write(tmp_path / "p.jsonl", {**ROW, "age": 31, "noisy": True})
    (row,) = read_predictions(path)
    assert row.extra == {"age": "31", "noisy": "true"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("9" * 5000, "not JSON"),
        ([1], "expected a JSON object, found list"),
        ({"id": "b"}, "missing corpus, split, reference, hypothesis, duration"),
        (ROW, "duplicate id 'a', first seen on line 1"),
        ({**ROW, "hypothesis": None}, "hypothesis must be a string, found None"),
        ({**ROW, "reference": 3}, "reference must be a string, found 3"),
        ({**ROW, "duration": -1}, "expected a duration .*, found -1"),
        ({**ROW, "duration": "2"}, "expected a duration .*, found '2'"),
        ({**ROW, "duration": float("nan")}, "expected a duration .*, found nan"),
        ({**ROW, "dialect": ["x"]}, "dialect must be a string, found "),
        ({**ROW, "extra": {"a": "b"}}, "extra must be a string"),
        ({**ROW, "gender": ["x" * 99]}, r"gender must be a string, found \['x{38}$"),
    ],
)
def test_an_invalid_line_is_refused_with_file_and_line(
    tmp_path: Path, line: Any, message: str
) -> None:
    path = _write(tmp_path / "p.jsonl", ROW, line)
    with pytest.raises(PredictionsError, match=f"p.jsonl:2: {message}"):
        list(read_predictions(path))


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(json.dumps({**ROW, "reference": "æ"}, ensure_ascii=False).encode("latin-1"))
    with pytest.raises(PredictionsError, match=r"p.jsonl:1: not JSON in UTF-8"):
        list(read_predictions(path))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PredictionsError, match=r"p.jsonl: the file is empty"):
        list(read_predictions(_write(tmp_path / "p.jsonl")))


@pytest.mark.parametrize(("name", "reason"), [("p.jsonl", "No such file"), ("", "Is a directory")])
def test_a_path_that_cannot_be_read_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(PredictionsError, match=f"{reason}.*; expected the predictions.jsonl"):
        list(read_predictions(tmp_path / name))


def test_a_byte_order_mark_and_windows_line_ends_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n")
    assert [row.id for row in read_predictions(path)] == ["a"]


def test_an_empty_label_is_unknown(tmp_path: Path) -> None:
    path = _write(tmp_path / "p.jsonl", {**ROW, "dialect": "", "speaker_id": " ", "age": ""})
    (row,) = read_predictions(path)
    assert (row.dialect, row.speaker_id, row.extra["age"]) == (None, None, None)
