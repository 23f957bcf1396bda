"""Predictions files, and what a dataset adds to them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.scoring.predictions import (
    MEASURES,
    Prediction,
    load,
    read_predictions,
    read_references,
    to_row,
    write_predictions,
)
from danish_asr.text.profiles import normalizer
from tests.builders import build_dataset
from tests.shards import utterance, write_shard

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
    return read_predictions(path)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    rows = [
        Prediction(**ROW, dialect="Fynsk", extra={"sub_dialect": "sydfynsk", "age": None}),
        Prediction(**{**ROW, "id": "b", "hypothesis": "så\u2028n"}, loss=0.25, confidence=0.9),
        Prediction(**{**ROW, "id": "c"}, confidence=0.0, seconds_per_character=0.1),
    ]
    assert write_predictions(tmp_path / "p.jsonl", rows) == 3
    assert read_predictions(tmp_path / "p.jsonl") == rows
    assert not {*MEASURES} & {*to_row(rows[0])}
    frame = pd.DataFrame([to_row(row) for row in rows])
    assert read_predictions(rows) == rows
    assert [row.key for row in read_predictions(frame)] == [row.key for row in rows]


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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ({"id": "b"}, "missing reference, hypothesis; found 'id'; .* --columns reference=NAME$"),
        (ROW, "duplicate id 'a', first seen in .*p.jsonl:1"),
        ({**ROW, "id": "b", "hypothesis": None}, 'hypothesis must be .*found null; write ""'),
        ({**ROW, "id": "b", "duration": float("nan")}, "expected a duration .*, found nan"),
        ({**ROW, "id": "b", "duration": -0.1}, "expected a duration .*, found -0.1"),
        ({**ROW, "id": "b", "duration": float("inf")}, "expected a duration .*, found inf"),
        ({**ROW, "id": "b", "duration": "x"}, "expected a duration .*, found 'x'"),
        ({**ROW, "id": " "}, "the id is empty"),
    ],
)
def test_an_invalid_line_is_refused_with_file_and_line(
    tmp_path: Path, line: Any, message: str
) -> None:
    with pytest.raises(PredictionsError, match=f"p.jsonl:2: {message}"):
        _read(tmp_path, ROW, line)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "a"}], "row 1: missing reference, hypothesis"),
        ([ROW, 5], "row 2: expected a dict .*, found int"),
        ({"id": ["a"]}, "found dict"),
        (None, "found NoneType"),
    ],
)
def test_rows_that_are_none_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(PredictionsError, match=message):
        read_predictions(rows)


def test_a_row_is_named_by_its_corpus_and_its_id_in_nfc(tmp_path: Path) -> None:
    assert len(_read(tmp_path, ROW, {**ROW, "corpus": "radio"})) == 2
    with pytest.raises(PredictionsError, match=r"jsonl:2: duplicate id 'å', first seen in .*:1"):
        _read(tmp_path, {**ROW, "id": "a\u030a"}, {**ROW, "id": "å"})


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    frame = pd.DataFrame(rows)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix in {".csv", ".tsv"}:
        separator = "," if path.suffix == ".csv" else "\t"
        frame.to_csv(path, sep=separator, index=False, encoding="utf-8-sig", lineterminator="\r\n")
    else:
        frame.to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz", "p.csv", "p.tsv", "p.parquet"])
def test_every_format_needs_three_columns(tmp_path: Path, name: str) -> None:
    rows: list[dict[str, Any]] = [
        {"id": key, "reference": "så 'n", "hypothesis": ""} for key in "ab"
    ]
    _write(tmp_path / name, rows)
    assert read_predictions(str(tmp_path / name)) == [Prediction(**row) for row in rows]


def test_numbers_of_a_table_are_read_and_a_short_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    row = {"id": "a", "reference": "ja", "pred": "nej", "duration": "2.5", "age": "31"}
    _write(path, [row, row | {"id": "b", "duration": ""}])
    one, other = read_predictions(path)
    assert (one.hypothesis, one.duration, one.extra) == ("nej", 2.5, {"age": "31"})
    assert other.duration is None
    _write(path, [row | {"pred_text": "to"}])
    with pytest.raises(PredictionsError, match=r"p.csv:2: .*pred and pred_text"):
        read_predictions(path)
    assert read_predictions(path, columns={"hypothesis": "pred_text"})[0].hypothesis == "to"
    path.write_text(f"{','.join(row)}\na,ja,nej,2.5,31\nb\n", encoding="utf-8")
    with pytest.raises(PredictionsError, match=r"p.csv:3: expected 5 fields"):
        read_predictions(path)


NEMO = {"audio_filepath": "a.wav", "text": "det er", "pred_text": "det var", "duration": 2}


def test_a_manifest_of_nemo_and_other_names_of_columns_are_read(tmp_path: Path) -> None:
    (tmp_path / "nemo.json").write_text(json.dumps(NEMO) + "\n")
    (row,) = read_predictions(tmp_path / "nemo.json")
    assert (row.id, row.reference, row.hypothesis) == ("a.wav", "det er", "det var")
    (tmp_path / "other.csv").write_text("key;ord;whisper\n1;ja;nej\n")
    columns = {"id": "key", "reference": "ord", "hypothesis": "whisper"}
    (row,) = read_predictions(tmp_path / "other.csv", columns=columns)
    assert (row.id, row.reference, row.hypothesis, row.extra) == ("1", "ja", "nej", {})
    with pytest.raises(PredictionsError, match=r"csv:2: no column tale; found 'key', 'ord'"):
        read_predictions(tmp_path / "other.csv", columns={"hypothesis": "tale"})
    twice = {"reference": "ord", "hypothesis": "ord"}
    with pytest.raises(ConfigError, match="one column is named for two"):
        read_predictions(tmp_path / "other.csv", columns=twice)


LINE = json.dumps(ROW).encode() + b"\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.csv", "id,reference\n".encode("utf-16"), "UTF-16"),
        ("p.csv", b"PK\x03\x04of a spreadsheet", "CSV"),
        ("p.jsonl", gzip.compress(LINE, mtime=0)[:-12], "Compressed file ended"),
        ("p.txt", b"id,reference,hypothesis\na,b,c\n", r"p.txt:1: not JSON"),
        ("p.jsonl", b"", "the file has no rows"),
        ("p.trn", b"det er koldt\n", "p.trn:1: expected `text .speaker-utterance.`"),
    ],
)
def test_advice_about_a_file_that_cannot_be_read_fits_the_file(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PredictionsError, match=message):
        read_predictions(tmp_path / name)


# As in SCTK's example csrnab1, which was scored as if its markup were words.
TRN = """;; CSR-NAB development data, scored
;; CATEGORY "0" "" ""
THE COMPANY SAID MR. O'NEIL (4oa-4oac0201)

SALES ROSE TEN POINT TWO PERCENT (4oa-4oac0202)
（THE） ｛A / B｝ ＠ HOME； (4ob-4obc0201)
"""


def test_sclites_files_are_read_without_comments_and_with_our_own_forms(tmp_path: Path) -> None:
    (tmp_path / "csrnab.hyp.trn").write_text(TRN, encoding="utf-8")
    rows = load([tmp_path / "csrnab.hyp.trn"], dataset=_nab(tmp_path)).rows
    assert [row.hypothesis for row in rows] == [
        "THE COMPANY SAID MR. O'NEIL",
        "SALES ROSE TEN POINT TWO PERCENT",
        "(THE) {A / B} @ HOME;",
    ]


@pytest.mark.parametrize("markup", ["{ MR. / MISTER } O'NEIL", "(THE) COMPANY", "SALES @ ROSE"])
def test_sclites_markup_is_refused_with_file_and_line(tmp_path: Path, markup: str) -> None:
    (tmp_path / "csrnab.hyp.trn").write_text(f"{TRN}{markup} (4ob-4obc0202)\n", encoding="utf-8")
    with pytest.raises(PredictionsError, match=r"csrnab.hyp.trn:7: '[{(@]' is sclite's markup"):
        read_predictions(tmp_path / "csrnab.hyp.trn")


def _nab(folder: Path) -> Path:
    ids = ("4oa-4oac0201", "4oa-4oac0202", "4ob-4obc0201")
    rows = [utterance(n, split="test", id=name) for n, name in enumerate(ids)]
    write_shard(folder / "nab", rows, split="test", corpus="nab")
    return folder / "nab"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Two corpora that share an id; the first row of one is in NFC, its speaker is known."""
    root = tmp_path / "data"
    for corpus, ids in (("a", ("å", "x")), ("b", ("x", "q-1"))):
        rows = [
            utterance(n, split="test", id=name, text=f"Det er {name}.", speaker_id=f"s-{n}")
            for n, name in enumerate(ids)
        ]
        write_shard(root, rows, split="test", corpus=corpus)
    return root


def test_a_dataset_gives_what_a_row_lacks_and_wins_over_a_guess(
    tmp_path: Path, dataset: Path
) -> None:
    (tmp_path / "hyp.trn").write_text("det var (a\u030a)\n;; comment\n（ja） (q-1)\n")
    loaded = load([tmp_path / "hyp.trn"], dataset=dataset)
    one, other = loaded.rows
    assert (one.corpus, one.reference, one.speaker_id) == ("a", "Det er å.", "s-0")
    assert (other.hypothesis, other.speaker_id, loaded.in_dataset) == ("(ja)", "s-1", 4)
    (tmp_path / "own.csv").write_text("id,hypothesis,speaker_id,dialect\nq-1,ja,own,\n")
    assert read_predictions(tmp_path / "own.csv", dataset=dataset)[0].speaker_id == "own"


def test_an_id_of_two_corpora_needs_a_corpus(tmp_path: Path, dataset: Path) -> None:
    file = _write(tmp_path / "p.csv", [{"id": "x", "pred": "ja"}])
    with pytest.raises(PredictionsError, match=r"p.csv:2: id 'x' is in a, b; add a column corpus"):
        read_predictions(file, dataset=dataset)
    _write(file, [{"id": "x", "pred": "ja", "corpus": "b"}])
    assert read_predictions(file, dataset=dataset)[0].corpus == "b"


def test_ids_and_references_that_a_dataset_lacks_are_all_counted(tmp_path: Path) -> None:
    build_dataset(tmp_path / "data")
    references = read_references(tmp_path / "data")
    rows = [{"id": row["id"], "reference": row["reference"], "pred": ""} for row in references]
    file = _write(tmp_path / "p.jsonl", [*rows, *({"id": f"u{n}", "pred": ""} for n in range(7))])
    with pytest.raises(PredictionsError, match=r"7 ids are not in .*\n.*p.jsonl:13: id 'u0'"):
        read_predictions(file, dataset=tmp_path / "data")
    rows[0]["reference"] = rows[0]["reference"].upper() + "!"
    _write(file, rows)
    normalized = load([file], dataset=tmp_path / "data", normalize=normalizer("coral"))
    assert normalized.rows[0].reference == references[0]["reference"]
    rows[1]["reference"] += " x"
    _write(file, rows)
    with pytest.raises(PredictionsError, match=r"1 references differ .*\n.*:2: id .* expected"):
        load([file], dataset=tmp_path / "data", normalize=normalizer("coral"))
    with pytest.raises(PredictionsError, match="12 ids are not in this split"):
        read_predictions(file, dataset=tmp_path / "data", split="dev")
    with pytest.raises(ConfigError, match="name that too"):
        read_predictions(file, split="test")
