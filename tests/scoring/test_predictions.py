"""Predictions files, and what a dataset adds to them."""

from datetime import date
from math import inf, nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from danish_asr.base.errors import ConfigError, DatasetError, PredictionsError
from danish_asr.scoring.predictions import (
    LABELS,
    TEXTS,
    load,
    read_predictions,
    read_references,
    refuse,
    refuse_absent,
    write_predictions,
)
from danish_asr.scoring.rows import UNLIKE_DATASET
from tests.shards import utterance, write_shard

ROW: dict[str, Any] = {
    "id": "a",
    "corpus": "coral",
    "split": "test",
    "duration": 1.5,
    "reference": 'Så\'n, "dér"!',
    "hypothesis": "",
}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    rows = [
        {**ROW, "dialect": "Fynsk", "sub_dialect": "sydfynsk", "age": None},
        {**ROW, "id": "b", "hypothesis": "så\u2028n", "loss": 0.25},
        {**ROW, "id": "c", "loss": None, "duration": ""},
    ]
    table = read_predictions(rows)
    file = tmp_path / "p.jsonl"
    assert write_predictions(file, table) == 3
    text = file.read_text(encoding="utf-8")
    assert "så\u2028n" in text
    assert ("loss" in text, "confidence" in text, "NaN" in text) == (True, False, False)
    for again in (file, table, pd.DataFrame(rows)):
        pd.testing.assert_frame_equal(read_predictions(again), table)
    assert table["duration"].tolist()[:2] == [1.5, 1.5]


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("Århus", "Århus"),
        ("\tA\u030arhus ", "Århus"),
        ("", None),
        (" ", None),
        (None, None),
        (nan, None),
        (b"audio", None),
        (31, "31"),
        (1.5, "1.5"),
        (True, "true"),
        ([1, {"å": b""}], '[1,{"å":null}]'),
        (date(2020, 1, 2), "2020-01-02"),
    ],
)
def test_a_label_is_a_text_and_the_same_however_it_is_typed(value: Any, label: str | None) -> None:
    rows = read_predictions([{**ROW, "id": 7, "dialect": value, "city": value}])
    assert rows[["id", "dialect", "city"]].to_numpy().tolist() == [["7", label, label]]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (0.25, "[0.25, 2.0]"),
        ("0.25", "[0.25, 2.0]"),
        (0, "[0.0, 2.0]"),
        ("", "[nan, 2.0]"),
        (None, "[nan, 2.0]"),
        (nan, "[nan, 2.0]"),
        (inf, "[nan, 2.0]"),
        ("high", "['high', '2']"),  # other tools have such a column of their own
        ([1], "['[1]', '2']"),
    ],
)
def test_a_measure_is_a_column_of_numbers_and_anything_else_of_labels(
    value: Any, read: str
) -> None:
    rows = read_predictions([{**ROW, "loss": value}, {**ROW, "id": "b", "loss": 2}])
    assert str(rows["loss"].tolist()) == read


def test_columns_of_a_scored_table_are_not_read_as_those_of_a_file() -> None:
    """A file's ``_trained_row`` was taken for a statement about the training."""
    own = {"_person": "x", "_trained_row": True, "left_out": "y", "_utterance": "z"}
    assert [*read_predictions([{**ROW, **own}])] == [*read_predictions([ROW])]


@pytest.mark.parametrize(
    ("value", "seconds"), [("2.5", 2.5), (0, 0), ("", nan), (None, nan), (nan, nan)]
)
def test_a_duration_is_a_number_or_unknown(value: Any, seconds: float) -> None:
    rows = read_predictions([{**ROW, "duration": value}])
    assert rows["duration"].tolist() == pytest.approx([seconds], nan_ok=True)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW, {"id": "b"}], "row 2: missing reference, hypothesis; .* --columns reference=NAME$"),
        ([{"id": "a", "hypothesis": ""}], "row 1: missing reference; .*`score` .* --dataset"),
        ([{"id;reference;hypothesis": "a;b;c"}], "row 1: missing .* separator"),
        ([ROW, ROW], "row 2: duplicate id 'a', first seen in row 1"),
        ([{**ROW, "id": "a\u030a"}, {**ROW, "id": "å"}], "row 2: duplicate id 'å'"),
        ([{**ROW, "hypothesis": None}], 'row 1: hypothesis .* null; write ""'),
        ([{**ROW, "hypothesis": nan}, ROW], 'row 1: hypothesis .* null; write ""'),
        *(([{**ROW, name: "x\0y"}], f"row 1: {name} has a NUL") for name in TEXTS),
        ([{**ROW, "reference": 5}], "row 1: reference .* 5; write a text"),
        ([{**ROW, "id": True}], "row 1: id .* True"),
        ([{**ROW, "id": " "}], "row 1: the id is empty"),
        *(
            ([{**ROW, "duration": value}], "row 1: expected a duration")
            for value in (-0.1, inf, 10**400, "x", b"x")
        ),
        ([ROW, 5], "row 2: expected a dict, found int"),
        (pd.DataFrame([["a", "b", "c"]], columns=["id", "text", "text"]), "'text'"),
        ({"id": ["a"]}, "found dict"),
        (None, "found NoneType"),
    ],
)
def test_rows_that_cannot_be_predictions_are_refused_with_their_place(
    rows: Any, message: str
) -> None:
    with pytest.raises(PredictionsError, match=message):
        read_predictions(rows)


def test_a_file_names_its_lines_and_one_without_rows_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "p.csv").write_text("id,corpus,reference,pred\na,x,ja,ja\na,y,ja,ja\n")
    assert read_predictions(str(file))["corpus"].tolist() == ["x", "y"]
    with file.open("a") as stream:
        stream.write("a,y,ja,nej\n")
    with pytest.raises(PredictionsError, match=r"p\.csv:4: duplicate .*p\.csv:3"):
        read_predictions(file)
    file.write_text("id,reference,pred\n")
    with pytest.raises(PredictionsError, match=r"p\.csv: the file has no rows"):
        read_predictions(file)
    assert read_predictions([]).empty
    with pytest.raises(PredictionsError, match=r"none\.csv: no such file"):
        read_predictions(tmp_path / "none.csv")


OTHER = {"key": 1, "ord": "ja", "whisper": "nej"}


@pytest.mark.parametrize(
    ("row", "columns", "read"),
    [
        ({"audio_filepath": "a.wav", "text": "ja", "pred_text": "nej"}, {}, "a.wav"),  # NeMo's
        ({"id": "a", "reference": "ja", "pred": "nej"}, {}, "a"),
        (OTHER, {"id": "key", "reference": "ord", "hypothesis": "whisper"}, "1"),
        (
            {"id": "a", "reference": "ja", "pred": "x", "pred_text": "nej"},
            {"hypothesis": "pred_text"},
            "a",
        ),
    ],
)
def test_columns_have_the_names_of_other_tools_or_those_that_are_given(
    row: dict[str, Any], columns: dict[str, str], read: str
) -> None:
    (found,) = read_predictions([row], columns=columns)[[*TEXTS]].to_numpy().tolist()
    assert found == [read, "ja", "nej"]


@pytest.mark.parametrize(
    ("row", "columns", "fault"),
    [
        (OTHER, {"hypothesis": "tale"}, "row 1: no column tale; found 'key', 'ord'"),
        (OTHER, {"reference": "ord", "hypothesis": "ord"}, "one column is named for two"),
        ({"id": "a", "text": "ja", "pred": "x", "pred_text": "y"}, {}, "row 1: .*pred and pred_t"),
        ({"id": "a", "text": "ja"}, {}, "row 1: missing reference, hypothesis"),
    ],
)
def test_columns_that_are_not_there_or_not_clear_are_refused(
    row: dict[str, Any], columns: dict[str, str], fault: str
) -> None:
    with pytest.raises((PredictionsError, ConfigError), match=fault):
        read_predictions([row], columns=columns)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two corpora that share an id; the first row of one is in NFC; and a row of dev."""
    root = tmp_path_factory.mktemp("predictions") / "data"
    for corpus, ids in (("a", ("å", "x")), ("b", ("x", "q-1"))):
        rows = [
            utterance(n, split="test", id=name, text=f"Det er {name}.", speaker_id=f"s-{n}", age=41)
            for n, name in enumerate(ids)
        ]
        write_shard(root, rows, split="test", corpus=corpus)
    write_shard(root, [utterance(0, split="dev", id="d", text="Dev.")], split="dev")
    return root


def test_a_dataset_gives_what_a_row_lacks_and_wins_over_a_guess(
    tmp_path: Path, dataset: Path
) -> None:
    (tmp_path / "hyp.trn").write_text("det var (a\u030a)\n;; comment\n（ja） (q-1)\n")
    loaded = load([tmp_path / "hyp.trn"], dataset=dataset)
    one, other = loaded.rows.itertuples()
    assert (one.corpus, one.reference, one.speaker_id) == ("a", "Det er å.", "s-0")
    assert (other.hypothesis, other.speaker_id, loaded.in_dataset) == ("(ja)", "s-1", 4)
    assert (one.split, one.age) == ("test", "41")
    assert one.duration == read_references(dataset)["duration"].iloc[0] == 0.5
    row = {"id": "q-1", "hypothesis": "", "speaker_id": "own", "dialect": "", "corpus": ""}
    (own,) = read_predictions([row], dataset=dataset).itertuples()
    assert (own.corpus, own.hypothesis, own.speaker_id) == ("b", "", "own")
    assert own.dialect == other.dialect
    assert load([[row]], dataset=dataset, split="test").in_dataset == 4
    (tmp_path / "of_espnet.trn").write_text("det var (s-0_a\u030a)\nja (s-1-q-1)\n")
    espnets = read_predictions(tmp_path / "of_espnet.trn", dataset=dataset)
    assert espnets[["id", "speaker_id"]].to_numpy().tolist() == [["å", "s-0"], ["q-1", "s-1"]]
    dev = [{"id": "d", "hypothesis": "ja", "split": "dev"}]
    assert load([dev, [row | {"split": "test"}]], dataset=dataset).in_dataset == 5


def test_a_named_column_that_no_file_has_is_refused_also_if_a_dataset_has_it(dataset: Path) -> None:
    """A typo in ``dialect=dialekt`` scored the dialects of the dataset instead."""
    one, other = {"id": "å", "pred": "", "sted": "Fyn"}, {"id": "q-1", "pred": ""}
    columns = {"dialect": "sted"}
    loaded = load([[other], [one]], columns=columns, dataset=dataset)
    lacks, has = (load([[row]], columns=columns, dataset=dataset) for row in (other, one))
    assert loaded.rows["dialect"].tolist()[1] == has.rows["dialect"][0] == "Fyn"
    for complete in ([loaded], [lacks, has], [has, lacks]):
        refuse_absent(complete)
    for fault in ([lacks], [lacks, lacks]):
        with pytest.raises(PredictionsError, match="no column sted; found 'id', 'pred'"):
            refuse_absent(fault)
    with pytest.raises(PredictionsError, match="row 1: no column sted"):
        read_predictions([other], columns=columns, dataset=dataset)


@pytest.mark.parametrize(
    ("labels", "unlike"),
    [
        ({"dialect": "Sted"}, ("dialect", "Sted")),
        ({"age": 40}, ("age", "40")),
        ({"age": "41.0"}, ()),  # as pandas writes a column with gaps
        ({"age": "41"}, ()),
        ({"dialect": None, "gender": "", "age_group": "  ", "age": nan}, ()),
        ({"duration": 9.5, "accent": "x", "split": "dev"}, ()),
    ],
)
def test_a_label_of_the_file_is_used_and_another_one_of_the_dataset_is_said(
    dataset: Path, labels: dict[str, Any], unlike: tuple[str, ...]
) -> None:
    rows: list[dict[str, Any]] = [{"id": own, "hypothesis": ""} for own in ("å", "q-1")]
    known = read_predictions(rows, dataset=dataset).iloc[1]
    table = read_predictions([rows[0], rows[1] | labels], dataset=dataset, split="test")
    said = [*table.get(UNLIKE_DATASET, [None, None])]
    assert said[0] is None
    assert (said[1] is not None) == bool(unlike)
    if not unlike:  # also how the dataset writes it: "41.0" would be a group of its own
        assert all(table[name][1] == known[name] for name in (*LABELS, "age"))
    for name, own in [unlike] if unlike else []:
        assert table[name][1] == own
        assert all(repr(text) in said[1] for text in (own, known[name]))


@pytest.mark.parametrize("split", ["test", "test_b"])
def test_rows_are_of_the_split_in_which_they_were_looked_up(dataset: Path, split: str) -> None:
    row = {"id": "q-1", "hypothesis": "", "split": "dev", "corpus": "b"}
    loaded = load([[row]], dataset=dataset, split=split)
    (own,) = loaded.rows.itertuples()
    assert (own.split, own.corpus) == (split, "b")
    assert loaded.in_dataset == {"test": 4, "test_b": 2}[split]


@pytest.mark.parametrize(
    ("row", "options", "fault"),
    [
        ({"id": "x", "pred": ""}, {}, "row 1: id 'x' is in a, b; add a column corpus"),
        ({"id": "z", "pred": ""}, {}, "1 ids are not in .*\n  row 1: id 'z'"),
        ({"id": "wav/q-1.wav", "pred": ""}, {}, "1 ids are not in .* without .*'q-1':\n"),
        ({"id": "z.wav", "pred": ""}, {}, "1 ids are not in this split of the dataset:\n"),
        ({"id": "å", "pred": "", "corpus": "b"}, {}, "1 ids are not in"),
        ({"id": "å", "pred": ""}, {"split": "dev"}, "1 ids are not in"),
        ({"id": "å", "pred": ""}, {"split": "train"}, "train"),
        ({"id": "å", "pred": ""}, {"columns": {"hypothesis": "heard"}}, "no column heard"),
        ({"id": "å"}, {}, "row 1: missing hypothesis"),
        ({"id": "å", "pred": "", "reference": "Er det?"}, {}, "1 references differ .*\n  row 1: "),
    ],
)
def test_what_a_dataset_does_not_have_is_refused(
    dataset: Path, row: dict[str, Any], options: dict[str, Any], fault: str
) -> None:
    with pytest.raises((PredictionsError, DatasetError), match=fault):
        read_predictions([row], dataset=dataset, **options)


def test_a_reference_may_be_that_of_the_dataset_in_other_letters(dataset: Path) -> None:
    row = {"id": "x", "pred": "", "corpus": "b", "reference": "det ER x."}
    (read,) = load([[row]], dataset=dataset, normalize=str.lower).rows.itertuples()
    assert (read.corpus, read.reference) == ("b", "Det er x.")
    with pytest.raises(ConfigError, match="--dataset"):
        read_predictions([{**row, "pred": ""}], split="test")


def test_the_first_five_of_many_faults_are_named(dataset: Path, tmp_path: Path) -> None:
    for count, lines in ((5, 6), (6, 7)):
        with pytest.raises(PredictionsError, match=f"^{count} are wrong:\n") as refused:
            refuse("are wrong:", [*"abcdef"][:count])
        assert len(str(refused.value).splitlines()) == lines
    refuse("are wrong:", [])
    shard = next((dataset / "version=0" / "corpus=b").rglob("*.parquet"))
    damaged = tmp_path / "data" / shard.relative_to(dataset)
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"PAR1")
    with pytest.raises(DatasetError, match=str(damaged)):
        read_references(tmp_path / "data")
