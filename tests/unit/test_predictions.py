"""The predictions contract."""

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
        ("{", r"p.jsonl:2: not JSON"),
        ('{"duration": ' + "9" * 5000 + "}", r"p.jsonl:2: a number too long"),
        ("[" * 100_000, r"p.jsonl:2: a number too long or a nesting too deep"),
        ("", r"p.jsonl:2: not JSON"),
        ([1], r"p.jsonl:2: expected a JSON object, found list"),
        (
            json.dumps({**ROW, "id": "b"}).replace("}", ', "hypothesis": "så"}'),
            r'p.jsonl:2: the key "hypothesis" stands there twice; keep one of them',
        ),
        ('{"id": "b", "a": {"x": 1, "x": 2}}', r'p.jsonl:2: the key "x" stands there twice'),
        ({"id": "b"}, r"p.jsonl:2: missing corpus, split, reference, hypothesis, duration"),
        (ROW, r"p.jsonl:2: id 'a' stands in line 1 already"),
        ({**ROW, "hypothesis": None}, r'p.jsonl:2: hypothesis must be a string, found null.*""'),
        ({**ROW, "reference": 3}, r"p.jsonl:2: reference must be a string, found 3"),
        ({**ROW, "duration": -1}, r"p.jsonl:2: duration must be seconds .*, found -1$"),
        ({**ROW, "duration": True}, r"p.jsonl:2: duration must be seconds .*, found true$"),
        ({**ROW, "duration": "2"}, r'p.jsonl:2: duration must be seconds .*, found "2"$'),
        ({**ROW, "duration": float("nan")}, r"p.jsonl:2: duration must be .*, found NaN$"),
        ({**ROW, "duration": 1e308}, r"p.jsonl:2: duration .* 0 to 1000000000, found 1e\+308$"),
        ({**ROW, "duration": 10**400}, r"p.jsonl:2: duration must be .*, found 10{39}\.\.\.$"),
        ({**ROW, "dialect": 1}, r"p.jsonl:2: dialect must be a string, found 1"),
        (
            {**ROW, "id": "b", "hypothesis": "\ud800"},
            r"p.jsonl:2: hypothesis holds half a surrogate",
        ),
        ({**ROW, "extra": {"a": "b"}}, r"p.jsonl:2: extra must be a string"),
        ({**ROW, "\udfff": "b"}, r"p.jsonl:2: a key holds half a surrogate"),
        (
            {**ROW, "gender": ["x" * 99]},
            r'p.jsonl:2: gender must be a string, found \["x{38}\.\.\.$',
        ),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: Any, message: str) -> None:
    path = _write(tmp_path / "p.jsonl", ROW, line)
    with pytest.raises(PredictionsError, match=message):
        list(read_predictions(path))


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PredictionsError, match=r"p.jsonl: the file is empty"):
        list(read_predictions(_write(tmp_path / "p.jsonl")))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("p.jsonl", "No such file"), ("", "Is a directory"), ("file/p.jsonl", "Not a directory")],
)
def test_what_cannot_be_read_is_an_error(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PredictionsError, match=f"{reason}.*; expected the predictions.jsonl"):
        list(read_predictions(tmp_path / name))


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n")
    assert [row.id for row in read_predictions(path)] == ["a"]


def test_an_empty_label_is_unknown(tmp_path: Path) -> None:
    path = _write(tmp_path / "p.jsonl", {**ROW, "dialect": "", "speaker_id": " ", "age": ""})
    (row,) = read_predictions(path)
    assert (row.dialect, row.speaker_id, row.extra["age"]) == (None, None, None)


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(json.dumps({**ROW, "reference": "æ"}, ensure_ascii=False).encode("latin-1"))
    with pytest.raises(PredictionsError, match=r"p.jsonl:1: not UTF-8"):
        list(read_predictions(path))
