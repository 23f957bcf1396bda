"""What a conversion says of what it read."""

from typing import Any

import pyarrow as pa
import pytest

from danish_asr.base.schema import LEDGER_SCHEMA
from danish_asr.corpus import DANISH
from danish_asr.corpus.rows import Source, table_of, understood
from danish_asr.corpus.summary import left_out, summary_of
from danish_asr.corpus.task import LEFT_OUT
from tests.corpora import options

RATES = {"48000": 1, "8000": 2000}


def summary(
    rows: list[dict[str, Any]], refused: int = -1, language: str = DANISH, **source: Any
) -> list[str]:
    """The summary of rows of ``a.csv``, of which one is in the ledger."""
    records = ({"file": "a.csv", "row": n} | row for n, row in enumerate(rows))
    chosen = options(language=language, split_by_speaker="60/20/20")
    table, _ = understood(table_of(records, chosen), chosen)
    ledger = pa.Table.from_pylist([{"source": "a.csv", "row": refused}], LEDGER_SCHEMA)
    own = Source(name="x", rows=table, fetch=iter, versions=pa.nulls, **source)
    return summary_of(own, table, ledger, RATES, language)


def test_columns_are_counted_over_the_rows_that_are_written() -> None:
    texts = ["ja", "nej", "ja", "tak", "å" * 99, "å" * 99, "refused", *"bbbccdd"]
    rows = [{"text": text, "audio": f"{n % 2}.wav"} for n, text in enumerate(texts)]
    rows[0]["speaker_id"] = "bo"
    read = {"text": "tekst", "age": "alder"}
    lines = summary(rows, refused=6, columns=read, ignored=("note", "x"), counts={"dashes": 1200})
    frequent = f"b (3), ja (2), {'å' * 60} (2), c (2)"
    assert lines[:4] == [
        f"text, read from tekst: 13 rows, 7 distinct; most frequent: {frequent}",
        "audio: 13 rows, 2 distinct; most frequent: 1.wav (7), 0.wav (6)",
        "speaker_id: 1 rows, 1 distinct",
        "age, read from alder: 0 rows, 0 distinct",
    ]
    assert lines[4].startswith("not read: note, x (")
    assert lines[5:] == [
        "dashes: 1,200",
        "sample rate of the source: 8,000 Hz (2,000 rows)",
        "sample rate of the source: 48,000 Hz (1 rows)",
        "train: 13 rows, 1 speakers",
    ]


def test_differences_of_times_are_rounded() -> None:
    rows = [{"start": start, "end": start + 0.9004} for start in (0.0, 0.1, 8.1)]
    assert "seconds: 3 rows, 1 distinct; most frequent: 0.9 (3)" in summary(rows)


def test_ages_of_which_the_group_alone_is_known_are_counted() -> None:
    rows = [{"age": age} for age in ("34", "teens", "34", "twenties", "")]
    assert "age: 3 rows, 2 distinct; most frequent: 34 (2)" in summary(rows)


def test_columns_that_are_in_each_row_or_in_none_are_said_if_they_were_read() -> None:
    read = {"start": "fra", "end": "til", "split": "del"}
    lines = summary([{"start": 1, "end": 2, "split": "dev"}] * 2, columns=read)
    assert [line for line in lines if "read from" in line] == [
        "split, read from del: 2 rows, 1 distinct; most frequent: dev (2)",
        "start, read from fra: 2 rows, 1 distinct; most frequent: 1.0 (2)",
        "end, read from til",
    ]


def test_texts_with_brackets_or_in_quotes_are_counted_where_they_are_written() -> None:
    texts = ["ja [støj]", "(ja)", '"ja"', 'sagde "ja"', "ja", "[refused]"]
    lines = summary([{"text": text} for text in texts], refused=5)
    assert {"texts with brackets: 2", "texts within quotes: 1"} <= {*lines}
    assert not [line for line in summary([{"text": "ja"}]) if line.startswith("texts ")]


def test_embedded_audio_is_counted_by_ids() -> None:
    assert "audio: 2 rows, 2 distinct" in summary([{"id": "a"}, {"id": "b"}])


def test_names_that_nobody_knows_and_dialects_that_became_others_are_said() -> None:
    names = ["månesk", "fynsk", "Fynsk", "vestfynsk", "fynsk", None, "sydfynsk"]
    rows: list[dict[str, Any]] = [{"dialect": name} for name in names]
    rows[3]["country_birth"] = "SE"
    rows[4]["gender"], rows[5]["gender"] = "m", "x"
    lines = [line for line in summary(rows, refused=6) if "is read" in line]
    assert lines == [
        "dialect: månesk is read as no known dialect, kept as it is (1 rows)",
        "gender: x is read as no known gender, kept as it is (1 rows)",
        "dialect: fynsk is read as Fynsk (2 rows)",
        "dialect: vestfynsk is read as Non-native (1 rows)",
    ]
    lines = summary(rows, language="nob_Latn")
    assert not any(line.startswith("dialect: ") and " is read as " in line for line in lines)


def test_rows_and_speakers_of_each_split_are_said_and_dialects_that_it_lacks() -> None:
    speakers = [("train", "a", "fynsk"), ("train", "b", "bornholmsk"), ("test", "c", "fynsk")]
    rows = [dict(zip(("split", "speaker_id", "dialect"), own, strict=True)) for own in speakers]
    rows += [rows[0], {"split": "dev", "dialect": "bornholmsk"}, {"split": "test"}, rows[1]]
    expected = (
        "train: 3 rows, 2 speakers; dev: 1 rows, 0 speakers, none of Fynsk; "
        "test: 2 rows, 1 speakers, none of Bornholmsk"
    )
    assert summary(rows, refused=6)[-1] == expected
    rows += [{"split": "train", "dialect": f"dialekt {n}"} for n in range(3)]
    assert ", none of 4 dialects; test" in summary(rows)[-1]


def test_names_of_speakers_that_occur_in_several_dialects_are_said() -> None:
    pairs = [("anna", "fynsk"), ("anna", "bornholmsk"), ("bo", "fynsk"), ("bo", "sydfynsk")]
    rows = [{"speaker_id": name, "dialect": dialect} for name, dialect in pairs]
    rows += [{"dialect": "sallingmål"}, {"speaker_id": "bo"}, {"speaker_id": "refused"}]
    rows += [{"speaker_id": "bo", "dialect": "bornholmsk"}]  # the row that is refused
    (line,) = (own for own in summary(rows, refused=7) if "of several dialects" in own)
    assert "several dialects: 1, such as anna (Bornholmsk, Fynsk); " in line
    others = [
        {"speaker_id": f"x{n}", "dialect": name} for n in range(3) for name in ("fynsk", "månesk")
    ]
    (line,) = (own for own in summary([*rows, *others]) if "of several dialects" in own)
    assert ": 5, such as anna (Bornholmsk, Fynsk), bo (Bornholmsk, Fynsk), x0 (Fynsk, " in line
    assert "x1" not in line
    lines = summary([row for row in rows if row.get("speaker_id") != "anna"][:-1])
    assert not any("of several dialects" in own for own in lines)


def test_names_of_speakers_that_differ_in_capitals_or_spaces_are_said() -> None:
    rows = [{"speaker_id": name} for name in ("Anna", "ANNA", "Ida", "ida", None)]
    (line,) = (own for own in summary(rows, refused=3) if "capitals" in own)
    assert ": 1, such as ANNA and Anna; " in line


FILES = [{"file": name} for name in ("a/anna.srt", "a/bo.srt", "b/bo.srt")]


@pytest.mark.parametrize(
    ("rows", "columns", "is_hinted"),
    [
        (FILES, {"speaker_id": "speaker"}, True),
        (FILES[1:], {"speaker_id": "speaker"}, False),  # one name
        ([*FILES, {"speaker_id": "anna"}], {"speaker_id": "speaker"}, False),
        (FILES, {"speaker_id": "speaker", "text": "text"}, False),  # tables
        (FILES, {"speaker_id": "file"}, False),
    ],
)
def test_files_of_several_names_without_a_speaker_are_hinted_at(
    rows: list[dict[str, Any]], columns: dict[str, str], *, is_hinted: bool
) -> None:
    lines = summary(rows, columns=columns)
    assert any("--column speaker_id=file " in line for line in lines) == is_hinted


def test_no_more_than_thirty_names_are_listed() -> None:
    lines = summary([{"dialect": f"dialekt {n}"} for n in range(40)])
    assert sum("is read as" in line for line in lines) == 30
    assert [line for line in lines if line.startswith("and ")] == ["and 10 more such values"]
    lines = summary([{"dialect": f"dialekt {n}"} for n in range(30)])
    assert not any(line.startswith("and ") for line in lines)


def test_sound_that_ends_leave_out_is_summed() -> None:
    suspects = [{"reason": LEFT_OUT, "value": value} for value in (0.5, 1200.0)]
    (line,) = left_out([*suspects, {"reason": "other", "value": 9.0}])
    assert "1,200.5 s " in line
    assert " 2 rows" in line
    assert [*left_out([{"reason": "other", "value": 9.0}])] == []
