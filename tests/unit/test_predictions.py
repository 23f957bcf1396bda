"""Predictions files."""

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from danish_asr.base.errors import PredictionsError
from danish_asr.scoring.predictions import Prediction, read_predictions, write_predictions
from danish_asr.scoring.references import read_reference_file
from danish_asr.text.profiles import normalizer

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
        Prediction(**{**ROW, "id": "b", "hypothesis": "så\u2028n"}, loss=0.25, confidence=0.9),
        Prediction(**{**ROW, "id": "c"}, confidence=0.0, seconds_per_character=0.1),
    ]
    assert write_predictions(tmp_path / "p.jsonl", rows) == 3
    assert list(read_predictions(tmp_path / "p.jsonl")) == rows


def test_labels_are_texts_and_empty_ones_unknown(tmp_path: Path) -> None:
    # Other tools have a confidence of their own.
    labels = {"dialect": "", "city": " ", "age": 31, "noisy": True, "chunks": [1]}
    labels |= {"confidence": "high", "loss": None}
    (row,) = _read(tmp_path, {**ROW, **labels, "id": 7})
    assert (row.id, row.dialect) == ("7", None)
    others = {"city": None, "age": "31", "noisy": "true", "chunks": "[1]"}
    assert row.extra == others | {"confidence": "high"}


def test_a_label_is_the_same_however_it_is_typed(tmp_path: Path) -> None:
    typed = ["Århus", "A\u030arhus", "Århus ", "\tÅrhus"]
    lines = [
        {**ROW, "id": f"{number}", "speaker_id": name, "dialect": name, "city": name}
        for number, name in enumerate(typed)
    ]
    rows = _read(tmp_path, *lines)
    assert {(row.speaker_id, row.dialect, row.extra["city"]) for row in rows} == {("Århus",) * 3}


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(gzip.compress(json.dumps(ROW).encode(), mtime=0)[:-12])
    with pytest.raises(PredictionsError, match=r"p\.jsonl: .*Compressed file ended"):
        list(read_predictions(tmp_path / "p.jsonl"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000 + "]" * 100_000, "not JSON .*recursion"),
        ({**ROW, "id": "b", "hypothesis": "nej \ud800"}, r"half of a character"),
        ({"id": "b"}, "missing reference, hypothesis; found 'id'; .* --columns reference=NAME$"),
        (ROW, "duplicate id 'a', first seen on line 1"),
        ({**ROW, "hypothesis": None}, "hypothesis must be a string, found None"),
        ({**ROW, "duration": float("nan")}, "expected a duration .*, found nan"),
    ],
)
def test_an_invalid_line_is_refused_with_file_and_line(
    tmp_path: Path, line: Any, message: str
) -> None:
    with pytest.raises(PredictionsError, match=f"p.jsonl:2: {message}"):
        _read(tmp_path, ROW, line)


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


@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz", "p.csv", "p.tsv", "p.parquet"])
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


def test_ids_that_a_dataset_lacks_are_all_counted(tmp_path: Path) -> None:
    _write(tmp_path / "p.csv", [{"id": f"u{number}", "pred": "ja"} for number in range(8)])
    references = {"u0": {"reference": "ja"}}
    with pytest.raises(PredictionsError, match=r"7 ids are not in .*\n.*p.csv:3: id 'u1'"):
        list(read_predictions(tmp_path / "p.csv", references))


NEMO = {
    "audio_filepath": "a.wav",
    "text": "det er koldt",
    "pred_text": "det var koldt",
    "duration": 2,
}


def test_a_manifest_of_nemo_a_trn_and_other_names_of_columns_are_read(tmp_path: Path) -> None:
    (tmp_path / "nemo.json").write_text(json.dumps(NEMO) + "\n")
    (row,) = read_predictions(tmp_path / "nemo.json")
    assert (row.id, row.reference, row.hypothesis) == ("a.wav", "det er koldt", "det var koldt")
    (tmp_path / "other.csv").write_text("key;ord;whisper\n1;ja;nej\n")
    columns = {"id": "key", "reference": "ord", "hypothesis": "whisper"}
    (row,) = read_predictions(tmp_path / "other.csv", columns=columns)
    assert (row.id, row.reference, row.hypothesis, row.extra) == ("1", "ja", "nej", {})
    with pytest.raises(PredictionsError, match=r"csv:2: no column tale; found 'key', 'ord'"):
        list(read_predictions(tmp_path / "other.csv", columns={"hypothesis": "tale"}))
    (tmp_path / "hyp.trn").write_text("det var koldt (s1_u%5F1)\n(s2-2)\n")
    (tmp_path / "ref.trn").write_text("det er koldt (s1_u%5F1)\nja (s2-2)\n")
    references = read_reference_file(tmp_path / "ref.trn")
    one, other = read_predictions(tmp_path / "hyp.trn", references)
    assert (one.id, one.speaker_id, one.reference) == ("s1_u_1", "s1", "det er koldt")
    assert (other.id, other.speaker_id, other.hypothesis) == ("s2-2", "s2", "")


def test_references_of_a_file_are_the_same_if_they_are_under_the_profile(tmp_path: Path) -> None:
    _write(tmp_path / "ref.jsonl", [{"id": "a", "text": "Det er koldt.", "dialect": "Fynsk"}])
    _write(tmp_path / "p.jsonl", [{"id": "a", "reference": "det er koldt", "hypothesis": ""}])
    references = read_reference_file(tmp_path / "ref.jsonl")
    (row,) = read_predictions(tmp_path / "p.jsonl", references, normalize=normalizer("coral"))
    assert (row.reference, row.dialect) == ("Det er koldt.", "Fynsk")
    with pytest.raises(PredictionsError, match="1 references differ"):
        list(read_predictions(tmp_path / "p.jsonl", references, normalize=normalizer("raw")))


def test_classes_of_the_library_datasets_have_their_names(tmp_path: Path) -> None:
    rows = {"id": ["a", "b"], "reference": ["ja"] * 2, "pred": ["ja"] * 2, "dialect": [1, None]}
    features = {name: Value("string") for name in rows} | {
        "dialect": ClassLabel(names=["Jysk", "Fynsk"])
    }
    Dataset.from_dict(rows, Features(features)).to_parquet(tmp_path / "p.parquet")
    assert [row.dialect for row in read_predictions(tmp_path / "p.parquet")] == ["Fynsk", None]


LINE = json.dumps(ROW).encode() + b"\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", bz2.compress(LINE), "bunzip2"),
        ("p.csv", b"PK\x03\x04...", "zip archive or a spreadsheet"),
        ("p.jsonl", LINE.decode().encode("utf-32"), "UTF-32"),
        ("p.csv", "id,reference\n".encode("utf-16"), "UTF-16"),
        ("p.jsonl.gz", gzip.compress(gzip.compress(LINE)), "gzip twice"),
        ("p.txt", b"id,reference,hypothesis\na,b,c\n", r"ends in \.csv or \.tsv"),
        ("p.jsonl", LINE[:-2] + b', "id": "b"}\n', "repeated keys: id"),
        ("p.trn", b"det er koldt\n", "expected `text .speaker-utterance.`"),
    ],
)
def test_advice_about_a_file_that_cannot_be_read_fits_the_file(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PredictionsError, match=message):
        list(read_predictions(tmp_path / name))
