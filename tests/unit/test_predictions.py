"""Predictions files."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.base.errors import DatasetError, PredictionsError
from danish_asr.scoring.predictions import (
    Prediction,
    read_predictions,
    read_references,
    write_predictions,
)
from tests.builders import build_dataset

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
    labels = {"id": 7, "age": 31, "noisy": True, "chunks": [1, {"text": "så"}]}
    (row,) = _read(tmp_path, {**ROW, **empty, **labels})
    extra = {"age": "31", "noisy": "true", "city": None, "chunks": '[1,{"text":"så"}]'}
    assert (row.id, row.extra) == ("7", extra)
    assert (row.dialect, row.speaker_id) == (None, None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ({**ROW, "pred": "ja"}, "found hypothesis and pred; keep the one"),
        ([1], "expected a JSON object, found list"),
        ({"id": "b"}, "missing reference, hypothesis; found 'id'$"),
        ({**ROW, "id": True}, "id must be a string, found True"),
        ({"id": "b", "hypothesis": "ja"}, "missing reference; .*--dataset"),
        ({**ROW, "id": " "}, "the id is empty"),
        (ROW, "duplicate id 'a', first seen on line 1"),
        ({**ROW, "hypothesis": None}, "hypothesis must be a string, found None"),
        ({**ROW, "duration": -1}, "expected a duration .*, found -1"),
        ({**ROW, "duration": "to"}, "expected a duration .*, found 'to'"),
        ({**ROW, "duration": float("nan")}, "expected a duration .*, found nan"),
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
        (b"", "the file has no rows"),
        (None, "no such file; expected the predictions.jsonl"),
        (
            json.dumps(ROW, ensure_ascii=False).encode("latin-1"),
            r"1: not UTF-8 \(byte 0xe5 .*iconv",
        ),
        (json.dumps(ROW).encode("utf-16"), r"1: not UTF-8 \(byte 0xff .*iconv -f UTF-16"),
        (gzip.compress(json.dumps(ROW).encode(), mtime=0)[:-12], ".*Compressed file ended"),
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


def test_a_byte_order_mark_windows_line_ends_and_blank_lines_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n\r\n")
    assert [row.id for row in read_predictions(path)] == ["a"]


def _table(path: Path, rows: list[dict[str, Any]], separator: str = ",") -> None:
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    path.write_text("".join(separator.join(line) + "\r\n" for line in lines), encoding="utf-8-sig")


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix in {".csv", ".tsv"}:
        _table(path, rows, "," if path.suffix == ".csv" else "\t")
    else:
        lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)


FORMATS = ["p.jsonl", "p.jsonl.gz", "p.csv", "p.tsv", "p.parquet"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read_more_than_once_and_needs_three_columns(
    tmp_path: Path, name: str
) -> None:
    rows: list[dict[str, Any]] = [
        {"id": key, "reference": "så 'n", "hypothesis": ""} for key in "ab"
    ]
    _write(tmp_path / name, rows)
    expected = [Prediction(**row) for row in rows]
    read = read_predictions(str(tmp_path / name))
    for _ in range(2):
        assert list(read) == expected


def test_numbers_of_a_table_are_read_and_a_short_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    row = {"id": "a", "reference": "ja", "pred": "nej", "duration": "2.5", "age": "31"}
    _table(path, [row, row | {"id": "b", "duration": ""}])
    one, other = read_predictions(path)
    assert (one.hypothesis, one.duration, one.extra) == ("nej", 2.5, {"age": "31"})
    assert other.duration is None
    _table(path, [row, {"id": "b"}])
    with pytest.raises(PredictionsError, match=r"p.csv:3: expected 5 fields"):
        list(read_predictions(path))


@pytest.mark.parametrize("name", FORMATS)
def test_hypotheses_take_references_and_metadata_of_a_dataset(tmp_path: Path, name: str) -> None:
    build_dataset(tmp_path / "data")
    references = read_references(str(tmp_path / "data"), "test")
    ids = list(references)
    _write(tmp_path / name, [{"id": key, "prediction": "ja"} for key in ids[:-1]])
    rows = list(read_predictions(tmp_path / name, references))
    assert [row.id for row in rows] == ids[:-1]
    assert {row.corpus for row in rows} == {"coral_read_aloud", "coral_conversation"}
    for row in rows:
        assert row.hypothesis == "ja"
        assert (row.reference, row.split) == (references[row.id]["reference"], "test")
        assert row.duration
        assert row.dialect
        assert set(row.extra) == {"age", "sub_dialect"}
    assert len(read_references(tmp_path / "data", "test_coral_read_aloud")) == 6
    with pytest.raises(DatasetError, match=r"no row of split 'valid'; .*dev, test, train"):
        read_references(tmp_path / "data", "valid")


def test_a_table_with_semicolons_is_read(tmp_path: Path) -> None:
    row = {"id": "a", "reference": "ja, tak", "hypothesis": "ja"}
    _table(tmp_path / "p.csv", [row], ";")
    assert [row.reference for row in read_predictions(tmp_path / "p.csv")] == ["ja, tak"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'id,pred\na,"x"y\n', "2: cannot be read .*expected after"),
        (b"id;pred;a,b\na;\xe6;c\n", r"2: not UTF-8 \(byte 0xe6 at position 3 .*iconv"),
        (b"id,pred,pred,x,x\na,b,c,d,e\n", "1: repeated columns: pred, x"),
        (b"id\tpred\na\tja\n", r"2: missing id, hypothesis; found 'id.*pred'; .*separator"),
        (b"id,pred\n", " the file has no rows"),
        (b"", " the file has no rows"),
    ],
)
def test_a_broken_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "p.csv").write_bytes(content)
    with pytest.raises(PredictionsError, match=f"p.csv:{message}"):
        list(read_predictions(tmp_path / "p.csv", {"a": {"reference": "ja"}}))


def test_ids_that_a_dataset_lacks_are_all_counted(tmp_path: Path) -> None:
    _write(tmp_path / "p.csv", [{"id": f"u{number}", "pred": "ja"} for number in range(8)])
    references = {"u0": {"reference": "ja"}}
    with pytest.raises(
        PredictionsError, match=r"7 ids are not in .*\n.*p.csv:3: id 'u1'"
    ) as caught:
        list(read_predictions(tmp_path / "p.csv", references))
    assert len(str(caught.value).splitlines()) == 7
