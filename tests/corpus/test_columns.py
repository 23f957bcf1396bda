"""Which columns of a source are read, and by which names."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLITS
from danish_asr.corpus.columns import (
    READERS,
    RECORD_KEYS,
    THEIR_NAMES,
    SourceColumns,
    check_chosen,
    values_of,
)
from danish_asr.corpus.rows import ROWS, UTTERANCE_SCHEMA

SIX = {"audio": 0, "text": 1, "speaker_id": 2, "dialect": 3, "gender": 4, "age": 5}


@pytest.mark.parametrize(
    ("names", "chosen", "keys"),
    [
        (["path", "sentence", "client_id", "accents", "sex", "age", "up_votes"], {}, SIX),
        (["Audio Path", "Text", "Taler", "DIALEKT", "Køn", "Alder"], {}, SIX),
        (["TEXT", "Text", "text", "File"], {}, {"text": 2, "audio": 3}),
        (["TEXT", "Text", "wav"], {}, {"text": 0, "audio": 2}),
        (["sentence", "text", "file", "audio"], {}, {"text": 1, "audio": 3}),
        (["start", "offset", "Slut", "duration"], {}, {"start": 1, "end": 2, "seconds": 3}),
        (["start_ms", "End_Ms", "duration_ms"], {}, {"start_ms": 0, "end_ms": 1, "seconds_ms": 2}),
        (["startMs", "ms"], {"start": "startMs", "end": "ms"}, {"start_ms": 0, "end": 1}),
        (["from_millis", "id_ms"], {"end": "from_millis", "id": "id_ms"}, {"end_ms": 0, "id": 1}),
        (["weekend", "restart", "Split", "channel"], {}, {"split": 2, "channel": 3}),
        (["validated", "country_birth"], {}, {"validated": 0, "country_birth": 1}),
        (["text", "ord", "duration"], {"text": "ord", "seconds": ""}, {"text": 1}),
        (["text"], {"text": "ord"}, {}),
        (["id_recording", "id"], {}, {"id": 1}),
        (["id_segment"], {}, {}),
    ],
)
def test_usual_names_are_found_and_chosen_ones_come_first(
    names: list[str], chosen: dict[str, str], keys: dict[str, int]
) -> None:
    found = SourceColumns(chosen).of(names)
    assert found == {key: names[place] for key, place in keys.items()}


def test_a_column_that_is_never_guessed_is_read_if_it_is_chosen() -> None:
    names = ["text", "path", "speaker"]
    assert "speaker_id" in SourceColumns({}).of(names)
    assert "speaker_id" not in SourceColumns({}, ("speaker_id",)).of(names)
    assert "speaker_id" in SourceColumns({"speaker_id": "speaker"}, ("speaker_id",)).of(names)


@pytest.mark.parametrize("chosen", [{}, {"id": "id_conversation,id_segment"}])
def test_an_id_may_be_of_several_columns(chosen: dict[str, str]) -> None:
    columns = SourceColumns(chosen)
    names = ["id_segment", "id_conversation", "text", "path", "note"]
    keys = columns.add("a.csv", names)
    assert keys["id"] == "id_conversation,id_segment"
    row = {"id_segment": 1, "id_conversation": "b", "text": "ja"}
    assert values_of(row, keys) == {"text": "ja", "audio": None, "id": ("b", 1)}
    assert columns.ignored() == ("note",)


def test_columns_that_some_file_has_are_chosen_and_those_that_none_reads_are_ignored() -> None:
    columns = SourceColumns({"gender": "køn"})
    columns.add("a.csv", ["path", "text", "note", "køn", ""])
    columns.add("b.csv", ["path", "sentence", "text", "id", "note", "start_ms"])
    assert columns.ignored() == ("note", "a column without a name", "sentence")
    read = {"audio": "path", "text": "text", "gender": "køn", "id": "id", "start": "start_ms"}
    assert columns.read == read
    columns = SourceColumns({"gender": "sex"})
    columns.add("a.csv", ["path", "text"])
    with pytest.raises(SourceError, match="there is no sex; found path, text"):
        columns.ignored()


@pytest.mark.parametrize(
    ("names", "chosen", "message"),
    [
        (["å" * 61, *"abcdefghijklmnopqrstuvwxyz"], {}, f"no .*found {'å' * 60}, a, .*, s. Name"),
        (["path", "ord"], {}, "no column of text; found path, ord.*--column text="),
        (["text"], {}, "no column of audio; .*--column audio="),
        (["path", "text"], {"text": "ord"}, "no column ord; "),
        (["path", "ord", "note"], {"text": "ord,note"}, "no column ord,note; "),
    ],
)
def test_text_and_audio_are_needed(names: list[str], chosen: dict[str, str], message: str) -> None:
    with pytest.raises(SourceError, match=rf"a\.csv: {message}"):
        SourceColumns(chosen).add("a.csv", names)


def test_each_name_of_a_table_in_the_guide_is_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "start" / "own-data.md").read_text("utf-8")
    header = page.partition("recordings.csv\n")[2].split("\n")[0].strip().split(",")
    assert len(header) == 6
    described = page.partition("Path and text are enough")[2].partition("|")[0]
    names = [*header, *re.findall(r"`([a-z]+)`", described)]
    columns = SourceColumns({})
    columns.add("recordings.csv", names)
    assert {*columns.ignored()} <= {*SPLITS}


def test_a_column_is_read_written_and_chosen_as_its_line_says() -> None:
    of_sources = {"start", "end", "seconds", "validated", "split", "audio", "channel", "id", "text"}
    given = {"corpus", "file", "row", "line", "group", "refused"}
    written = {"speaker_id", "dialect", "age", "gender", "country_birth"}
    assert {*THEIR_NAMES} == of_sources | written
    assert {*THEIR_NAMES, "start_ms", "end_ms", "seconds_ms"} | given == RECORD_KEYS
    found = {"uncut", "alone", "recording", "version", "sub_dialect", "age_group"}
    assert {*ROWS.names} == ({*THEIR_NAMES} | given | found) - {"end", "validated"}
    assert {*UTTERANCE_SCHEMA.names} == written | {
        *("id", "text", "audio_bytes", "audio_size", "encoded_size", "source_id"),
        *("sub_dialect", "age_group"),
    }


def test_each_part_of_a_chosen_column_must_be_there() -> None:
    check_chosen(["a", "b"], {"id": "a,b", "end": ""})
    with pytest.raises(SourceError, match="no c, d; found a, b"):
        check_chosen(["a", "b"], {"id": "a,c", "text": "d"})
    with pytest.raises(SourceError, match="no a,b; found a, b"):
        check_chosen(["a", "b"], {"dialect": "a,b"})


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("start", "1:02:03,5", 3723.5),
        ("start", " 02:03.25 ", 123.25),
        ("seconds", "34,0", 34),
        ("end", 0, 0),
        ("end", " ", None),
        ("end", math.nan, None),
        ("start_ms", "1500", 1.5),
        ("seconds_ms", "", None),
        ("id", 0, "0"),
        ("id", ("a", 1), "a_1"),
        ("id", ("a", " "), None),
        ("id", None, None),
        ("text", 12, "12"),
        ("text", "A\u030a", "Å"),
        ("audio", Path("a/1.wav"), "a/1.wav"),
        ("audio", "", None),
    ],
)
def test_a_value_of_a_source_is_read_as_its_column(key: str, value: Any, read: Any) -> None:
    assert READERS[key][1](value) == read


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("start", wrong) for wrong in (-0.1, math.inf, "x", "1:2:3:4")),
        *(("text", wrong) for wrong in (None, 1.5, b"ja")),
        *(("audio", wrong) for wrong in (None, b"RIFF")),
    ],
)
def test_a_value_that_is_none_of_its_column_makes_the_row_malformed(key: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        READERS[key][1](value)
