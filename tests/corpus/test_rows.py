"""What a record becomes as a row, and which rows are refused."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from danish_asr.base.errors import SourceError
from danish_asr.corpus.rows import (
    DUPLICATE,
    NO_TIME,
    ROWS,
    UTTERANCE_SCHEMA,
    Source,
    check_splits,
    is_alone,
    is_listed,
    most_frequent,
    names_of_no_row,
    of_each,
    read_without,
    refuse,
    table_of,
    understood,
    without_duplicates,
    without_gaps,
)
from tests.corpora import options


def table(*records: dict[str, Any], **values: Any) -> pa.Table:
    """The table of records, which are rows of ``a.csv`` if they say no other."""
    rows = [{"file": "a.csv", "row": number} | record for number, record in enumerate(records)]
    found, _ = understood(table_of(rows, options(**values)), options(**values))
    return without_gaps(found)


def row(*, options: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    """The row of a record."""
    (row,) = table(values, **options or {}).to_pylist()
    return dict(row)


def test_a_row_of_a_shard_has_an_id_a_text_and_audio() -> None:
    required = {field.name for field in UTTERANCE_SCHEMA if not field.nullable}
    assert required == {"id", "text", "audio_bytes", "audio_size", "encoded_size"}


def test_a_record_without_values_is_a_whole_recording_of_the_named_corpus() -> None:
    unknown = dict.fromkeys(ROWS.names)
    known = {"corpus": "own", "file": "a.csv", "row": 200, "group": 2, "id": "a.csv:200"}
    assert row(row=200) == unknown | known | {"start": 0.0, "uncut": True}
    own: dict[str, Any] = {"corpus": "x", "group": 7, "line": 3, "id": "u1"}
    assert row(**own).items() >= own.items()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"start": 2, "end": 1.5}, "end before its start"),
        ({"start": -1}, "malformed start"),
        ({"end_ms": "x"}, "malformed end"),
        ({"seconds": math.inf}, "malformed seconds"),
        ({"channel": [1]}, "malformed channel"),
        ({"text": ["ja"]}, "malformed text"),
        ({"audio": 7}, "malformed audio"),
        ({"age": [30], "text": ["ja"]}, "malformed text"),
        ({"text": ["ja"], "age": [30]}, "malformed text"),
        ({"validated": " Rejected", "start": -1, "text": ["ja"]}, "rejected"),
        ({"refused": "overlap", "text": ["ja"]}, "overlap"),
    ],
)
def test_a_row_is_refused_for_its_first_fault(values: dict[str, Any], reason: str) -> None:
    assert row(**values)["refused"] == reason


def cut(start: float, seconds: float | None) -> dict[str, Any]:
    return {"start": start, "seconds": seconds, "uncut": False}


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ({"start": 1.5, "end": 4}, cut(1.5, 2.5)),
        ({"end": 4}, cut(0.0, 4.0)),
        ({"start": 0}, cut(0.0, None)),
        ({"seconds": 2}, cut(0.0, 2.0) | {"uncut": True}),  # how long it is, and not where
        ({"start": 1, "end": 3, "seconds": 9}, cut(1.0, 2.0)),
        ({"start": 1, "end": 1}, cut(1.0, 0.0)),
        ({"start_ms": 1500, "end_ms": "4000"}, cut(1.5, 2.5)),
        ({"start": "1:02:03,5", "end": "01:02:04.25"}, cut(3723.5, 0.75)),
        ({"start": " 2:03 ", "end": "2:04,5"}, cut(123.0, 1.5)),
        ({"start": "1,5", "end": " "}, cut(1.5, None) | {"refused": NO_TIME}),
        ({"start": math.nan}, cut(0.0, None) | {"uncut": True}),
        ({"id": 7}, {"id": "7"}),
        ({"id": " "}, {"id": "a.csv:0"}),
        ({"id": ("c1", 2)}, {"id": "c1_2"}),
        ({"id": ("c1", None)}, {"id": "a.csv:0"}),
        ({"text": 112}, {"text": "112"}),
        ({"text": "A\u030arhus"}, {"text": "Århus"}),
        ({"audio": Path("a.wav")}, {"audio": "a.wav"}),
        ({"audio": ""}, {"audio": None}),
        ({"channel": "2.0"}, {"channel": 2}),
        ({"channel": 1}, {"channel": 1}),
        ({"channel": " "}, {"channel": None}),
        ({"age": "25-34 år"}, {"age": None, "age_group": "25-49"}),
        ({"age": "fifties"}, {"age": None, "age_group": "50+"}),
        ({"age": 30, "gender": "K"}, {"age": 30, "age_group": "25-49", "gender": "female"}),
        ({"speaker_id": 3.0}, {"speaker_id": "3"}),
        ({"dialect": "fynsk"}, {"dialect": "Fynsk", "sub_dialect": "fynsk"}),
        ({"dialect": "fynsk", "country_birth": "SE"}, {"dialect": "Non-native"}),
        ({"validated": "maybe"}, {"refused": None}),
    ],
)
def test_times_and_values_have_one_form(values: dict[str, Any], read: dict[str, Any]) -> None:
    assert row(**values).items() >= ({"refused": None} | read).items()


@pytest.mark.parametrize(
    ("channels", "chosen", "numbers", "refused", "said"),
    [
        (["1", 2, None, 1.0], {}, [1, 2, None, 1], [], None),
        (["0", "1.0", None], {}, [1, 2, None], [], "0 (1), 1.0 (1)=2"),
        (["P1", "P3", "P1"], {}, [None] * 3, [], "P1 (2), P3 (1)=3"),
        (["P1", "1.5", "-1"], {"channel": "kanal"}, [None] * 3, [0, 1, 2], None),
        (["P1", "1", "-"], {}, [None, 1, None], [0], None),
        (["1000", "1e9", "999"], {}, [None, None, 999], [0, 1], None),
    ],
)
def test_a_column_of_channels_means_the_same_in_all_rows(
    channels: list[Any],
    chosen: dict[str, str],
    numbers: list[int | None],
    refused: list[int],
    said: str | None,
) -> None:
    records = [{"file": "a", "row": n, "channel": own} for n, own in enumerate(channels)]
    records += [{"file": "a", "row": 8, "channel": 0, "refused": "rejected"}]
    records += [{"file": "a", "row": 9, "channel": "x", "refused": "rejected"}]
    own = options(columns=chosen)
    rows, counts = understood(table_of(records, own), own)
    assert rows["channel"].to_pylist()[:-2] == numbers
    reasons = rows["refused"].to_pylist()
    assert [n for n, reason in enumerate(reasons) if reason == "malformed channel"] == refused
    assert reasons[-2:] == ["rejected"] * 2
    found = [f"{what}={count}" for what, count in counts.items()]
    assert len(found) == bool(said)
    assert all(line.endswith(f" {said}") for line in found)


def test_ages_that_nobody_understands_are_counted() -> None:
    ages = ["tyve", "34,0", "ukendt", "20-29", "tyve", 7]
    records = [{"file": "a", "row": n, "age": own} for n, own in enumerate(ages)]
    rows, counts = understood(table_of(records, options()), options())
    assert rows["age"].to_pylist() == [None, 34, None, None, None, 7]
    ((what, count),) = counts.items()
    assert what.endswith("tyve (2), 20-29 (1)")
    assert count == 3


def test_the_four_values_that_occur_most_are_named() -> None:
    values = pa.chunked_array([["a"] * 5 + ["b"] * 4, ["c"] * 3 + ["d"] * 2 + ["e"], ["å" * 61]])
    assert most_frequent(values) == "a (5), b (4), c (3), d (2)"
    assert most_frequent(values, least=4) == "a (5), b (4)"
    assert most_frequent(values.slice(15)) == f"{'å' * 60} (1)"


def test_in_another_language_a_dialect_is_as_it_is() -> None:
    found = row(dialect="fynsk", country_birth="NO", options={"language": "nob_Latn"})
    assert (found["dialect"], found["sub_dialect"]) == ("fynsk", "fynsk")


DIVIDED = {"split_by_speaker": "80/10/10"}


@pytest.mark.parametrize(
    ("values", "chosen", "split"),
    [
        ({"split": " Valid "}, {}, "dev"),
        ({"split": "test"}, {"split": "train"}, "train"),
        ({"split": "test", "file": "train.csv"}, {}, "test"),
        ({"split": "", "file": "train/dev-0.csv"}, {}, "dev"),
        ({"file": "test/part.csv"}, {}, "test"),
        ({"file": "split=validation/part.csv"}, {}, "dev"),
        ({"file": "testing/a.csv"}, {}, None),
        ({"file": "a-test.csv"}, {}, None),
        ({}, DIVIDED, "train"),
        ({"split": "dev"}, DIVIDED, "dev"),
        ({"split": "eval"}, {}, "eval"),
    ],
)
def test_a_split_is_that_of_the_options_else_of_the_row_else_of_the_file(
    values: dict[str, Any], chosen: dict[str, Any], split: str | None
) -> None:
    assert row(**values, options=chosen)["split"] == split


@pytest.mark.parametrize(
    ("splits", "chosen", "message"),
    [
        (["train", "test"], {}, None),
        (["train"], DIVIDED, None),
        (["train", "eval", "eval"], {}, r"a\.csv, row 1 has .*'eval' \(such rows: 2\)"),
        ([None, "dev"], {}, r"a\.csv, row 0 has no split \(such rows: 1\)"),
        (["train", "test", "dev"], DIVIDED, "its own dev and test"),
    ],
)
def test_all_rows_have_a_split_and_are_divided_anew_only_if_none_is_held_out(
    splits: list[str | None], chosen: dict[str, Any], message: str | None
) -> None:
    refused = ({"split": split, "refused": "x"} for split in ("test", None, "eval"))
    rows = table(*({"split": split} for split in splits), *refused)  # which decide nothing
    if message is None:
        found = check_splits(rows, options(**chosen))["split"].to_pylist()
        assert found == [*splits, "test", "train", "train"]
    else:
        with pytest.raises(SourceError, match=message):
            check_splits(rows, options(**chosen))


def test_all_but_the_first_row_of_a_corpus_and_id_are_duplicates() -> None:
    names = [("x", "a"), ("y", "a"), ("x", "a"), ("x", "b"), ("y", "a")]
    rows = table(*({"corpus": corpus, "id": own, "text": "ja"} for corpus, own in names))
    found = without_duplicates(rows)["refused"].to_pylist()
    assert found == [None, None, DUPLICATE, None, DUPLICATE]
    assert without_duplicates(rows.slice(3)) == rows.slice(3)


def test_a_row_that_cannot_be_used_makes_no_other_a_duplicate() -> None:
    of_one = [{"text": "ja", "refused": "x"}, {"text": " "}, {}, {"text": "–"}]
    rows = table(*(row | {"id": "a"} for row in [*of_one, {"text": "ja"}, {"text": "nej"}]))
    found = without_duplicates(rows)["refused"].to_pylist()
    assert found == ["x", None, None, None, None, DUPLICATE]


def test_a_refused_row_keeps_its_reason() -> None:
    rows = table({"refused": "rejected"}, {}, {})
    found = refuse(rows, pa.array([True, True, False]), "listed")["refused"].to_pylist()
    assert found == ["rejected", "listed", None]


def test_a_list_names_rows_of_a_corpus_or_of_any(tmp_path: Path) -> None:
    listed = tmp_path / "wrong.jsonl"
    listed.write_text('{"corpus": "x", "id": "a"}\n{"corpus": "", "id": 7}\n{"id": "b"}\n')
    names = [("x", "a"), ("y", "a"), ("y", "7"), ("x", "b"), ("x", "c")]
    rows = table(*({"corpus": corpus, "id": own} for corpus, own in names))
    found = is_listed(rows, read_without(listed)).to_pylist()
    assert found == [True, False, True, True, False]
    for content in ('{"corpus": "x"}', '{"id": ""}'):
        listed.write_text(content)
        with pytest.raises(SourceError, match=r"wrong\.jsonl:1: "):
            read_without(listed)
    listed.write_text("")
    with pytest.raises(SourceError, match=r"wrong\.jsonl names no row"):
        read_without(listed)


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ({("x", "01"), (None, "02")}, []),
        ({("x", "01"), ("x", "1"), (None, "02"), (None, "2")}, ["2 of 4 names ", ": 2, x 1"]),
        ({("x", f"{n}") for n in range(20)} | {("x", "01")}, ["20 of 21 ", ", x 9"]),
        ({("x", f"{n}") for n in range(30)} | {("x", "01")}, ["30 of 31 ", "x 26, ..."]),
        ({(None, "01"), ("y", "01")}, None),
        ({("x", "01"), (None, "1")}, None),
    ],
)
def test_names_of_no_row_are_said_and_a_corpus_of_only_such_is_refused(
    listed: set[tuple[str | None, str]], said: list[str] | None
) -> None:
    rows = table(*({"corpus": "x", "id": own} for own in ("01", "02")))
    if said is None:
        with pytest.raises(SourceError, match=r"--without: a\.csv: .* x, .*'01'"):
            names_of_no_row(rows, listed, Path("a.csv"))
        return
    lines = names_of_no_row(rows, listed, Path("a.csv"))
    assert len(lines) == bool(said)
    assert all(said[0] in line and line.endswith(said[1]) for line in lines)


def test_a_row_is_alone_if_no_other_is_of_its_recording() -> None:
    names = ["a.wav", "b.wav", "a.wav", None, None]
    found = is_alone(table(*({"audio": name} for name in names))).to_pylist()
    assert found == [False, True, False, True, True]


@pytest.mark.parametrize(
    ("second", "third", "other"),
    [
        ({"text": "nej"}, {}, "row 1"),
        ({"text": "nej"}, {"audio": "b.wav"}, "row 1"),
        ({"text": "ja"}, {"text": "nej", "line": 9}, "line 9"),
        ({"text": "ja"}, {}, None),
        ({"text": "–"}, {}, None),
        ({"text": "nej", "channel": 2}, {}, None),
        ({"text": "nej", "channel": "right"}, {}, "row 1"),  # a name, which is not read
        ({"text": "nej", "refused": "x"}, {}, None),
        ({"text": "nej", "audio": "b.wav"}, {}, None),
        ({"text": "nej", "audio": None}, {"audio": None, "text": "tak"}, None),
    ],
)
def test_a_recording_of_several_texts_and_no_times_is_refused(
    second: dict[str, Any], third: dict[str, Any], other: str | None
) -> None:
    whole = {"audio": "a.wav", "text": "ja"}
    records = whole, whole | second, whole | third
    if other is None:
        refused = [record.get("refused") for record in records]
        assert table(*records)["refused"].to_pylist() == refused
    else:
        with pytest.raises(SourceError, match=rf"^1 recordings .* a\.wav .*row 0 and .*{other}\."):
            table(*records)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"start": None, "end": 5}, NO_TIME),
        ({"start_ms": "", "seconds": 5}, NO_TIME),
        ({"start": 2, "end": math.nan}, NO_TIME),
        ({}, NO_TIME),
        ({"start": None, "end": None, "channel": 2}, NO_TIME),
        ({"seconds": 5}, None),  # NeMo leaves an offset of 0 out
        ({"end": 5}, None),
        ({"start": 0, "end": 5}, None),
        ({"start": None, "end": 5, "audio": "b.wav"}, NO_TIME),
        ({"start_ms": 2, "end": None, "audio": "b.wav"}, NO_TIME),
        ({"start": 2, "seconds_ms": None, "audio": "b.wav"}, NO_TIME),
        ({"start": 0, "end": None, "audio": "b.wav"}, NO_TIME),
        ({"start": 0, "seconds": None, "audio": "b.wav"}, None),  # passed on
        ({"start": 2, "end": None, "seconds": 3, "audio": "b.wav"}, None),
        ({"start": None, "end": None, "seconds": 3, "audio": "b.wav"}, None),
        ({"start": 2, "audio": "b.wav"}, None),  # there is no column of ends
        ({"start": None, "end": 5, "refused": "x"}, "x"),
    ],
)
def test_a_row_of_one_time_or_without_those_that_others_of_its_recording_have_is_refused(
    values: dict[str, Any], reason: str | None
) -> None:
    cut = {"audio": "a.wav", "text": "ja", "start": 6, "end": 7}
    rows = table(cut, cut | {"start": 8, "end": 9}, {"audio": "a.wav", "text": "nej"} | values)
    assert rows["refused"].to_pylist() == [None, None, reason]
    assert rows["start"].null_count == 0


def test_a_source_may_have_read_no_column_and_counted_nothing() -> None:
    rows = ROWS.empty_table()
    source = Source(name="x", rows=rows, fetch=lambda _: iter(()), versions=lambda own: own["id"])
    assert (source.columns, source.ignored, source.counts) == ({}, (), {})


def test_a_function_is_called_once_for_all_values_that_are_the_same() -> None:
    called: list[str] = []

    def twice(value: str) -> str | None:
        called.append(value)
        return value and value * 2

    found = of_each(pa.chunked_array([["a", "b"], ["a", None]], pa.string()), twice)
    assert (found.to_pylist(), called) == (["aa", "bb", "aa", None], ["a", "b"])
