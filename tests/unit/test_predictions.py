"""Predictions files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from danish_asr.errors import PredictionsError
from danish_asr.scoring.predictions import Prediction, read_predictions, write_predictions

ROW: dict[str, Any] = {
    "id": "a",
    "corpus": "coral",
    "split": "test",
    "duration": 1.5,
    "reference": 'Så\'n, "dér"!',
    "hypothesis": "",
}


def _read(folder: Path, *lines: Any) -> list[Prediction]:
    path = folder / "p.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return list(read_predictions(path))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    rows = [
        Prediction(**ROW, dialect="Fynsk", extra={"sub_dialect": "sydfynsk", "age": None}),
        Prediction(**{**ROW, "id": "b", "hypothesis": "så\u2028n"}),
    ]
    assert write_predictions(tmp_path / "p.jsonl", rows) == 2
    assert list(read_predictions(tmp_path / "p.jsonl")) == rows


def test_numbers_and_flags_become_labels_and_empty_labels_are_unknown(tmp_path: Path) -> None:
    empty = {"dialect": "", "speaker_id": " ", "city": ""}
    (row,) = _read(tmp_path, {**ROW, **empty, "age": 31, "noisy": True})
    assert row.extra == {"age": "31", "noisy": "true", "city": None}
    assert (row.dialect, row.speaker_id) == (None, None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ([1], "expected a JSON object, found list"),
        ({"id": "b"}, "missing corpus, split, reference, hypothesis, duration"),
        (ROW, "duplicate id 'a', first seen on line 1"),
        ({**ROW, "hypothesis": None}, "hypothesis must be a string, found None"),
        ({**ROW, "duration": -1}, "expected a duration .*, found -1"),
        ({**ROW, "duration": "2"}, "expected a duration .*, found '2'"),
        ({**ROW, "duration": float("nan")}, "expected a duration .*, found nan"),
        ({**ROW, "extra": {"a": "b"}}, "extra must be a string"),
        ({**ROW, "gender": ["x" * 99]}, r"gender must be a string, found \['x{38}$"),
    ],
)
def test_an_invalid_line_is_refused_with_file_and_line(
    tmp_path: Path, line: Any, message: str
) -> None:
    with pytest.raises(PredictionsError, match=f"p.jsonl:2: {message}"):
        _read(tmp_path, ROW, line)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (None, "No such file.*; expected the predictions.jsonl"),
        (json.dumps(ROW, ensure_ascii=False).encode("latin-1"), "1: not JSON in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "p.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PredictionsError, match=f"p.jsonl: ?{message}"):
        list(read_predictions(path))


def test_a_byte_order_mark_and_windows_line_ends_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n")
    assert [row.id for row in read_predictions(path)] == ["a"]
