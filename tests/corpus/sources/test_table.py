"""CSV, TSV and JSON lines: their columns, times, splits and paths, and rows that are refused."""

import json
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pyarrow.parquet as pq
import pytest

from danish_asr.base.audio import decode
from danish_asr.base.errors import DatasetError, SourceError
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source
from tests.builders import encode, tone
from tests.corpora import options, read_rows, rows_of, write_lines

GOOD = '{"audio_filepath": "a.wav", "text": "ja"}'


HEADER = b"audio_filepath,text\n"


def write_csv(path: Path, *lines: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def own_splits(path: Path, **values: Any) -> list[dict[str, Any]]:
    """The rows of a source in the splits that it has itself."""
    return read_rows(open_source(str(path), options(**values)))


def test_nemos_keys_are_read(tmp_path: Path) -> None:
    row = {"audio_filepath": "wav/a.wav", "text": "på Ærø", "duration": 1.5, "offset": 3}
    path = write_lines(tmp_path / "train_manifest.json", [row, row | {"audio_filepath": "/b.wav"}])
    first, absolute = own_splits(path, name="radio")
    assert (first["audio"], absolute["audio"]) == (tmp_path / "wav" / "a.wav", Path("/b.wav"))
    assert (first["text"], first["start"], first["seconds"]) == ("på Ærø", 3.0, 1.5)
    names = first["id"], first["corpus"], first["split"]
    assert names == ("train_manifest.json:0", "radio", "train")


def test_a_csv_file_is_read_with_quotes_and_line_ends_in_texts(tmp_path: Path) -> None:
    lines = (
        "\ufeffpath,text,age",
        'a.wav,"ja, ""to""\nlinjer",34',
        "b.wav,nej,ukendt",
        "",
        "c,for,m,e",
    )
    rows = rows_of(write_csv(tmp_path / "dev.csv", *lines))
    assert [row["text"] for row in rows] == ['ja, "to"\nlinjer', "nej", None]
    assert [row["age"] for row in rows] == [34, None, None]
    assert [row["refused"] for row in rows] == [None, None, "malformed row"]


ROW = ("a b.mp3", "ja", "s1", "fynsk", "f", "29")


NAMES = (
    ("path", "sentence", "client_id", "accents", "sex", "age"),
    ("Audio Path", "Transcription", " Speaker ", "Accent", "gender", "Age"),
    ("lydfil", "tekst", "taler", "dialekt", "Køn", "alder"),
)


@pytest.mark.parametrize("names", NAMES, ids=["lower case", "capitals", "in Danish"])
@pytest.mark.parametrize(
    ("suffix", "between"),
    [("csv", ","), ("csv", ";"), ("csv", "\t"), ("tsv", "\t"), ("CSV", ",")],
)
def test_usual_names_of_columns_and_delimiters_are_found(
    tmp_path: Path, names: tuple[str, ...], suffix: str, between: str
) -> None:
    path = tmp_path / f"test.{suffix}"
    (row,) = rows_of(write_csv(path, between.join(names), between.join(ROW)))
    assert (row["audio"], row["text"]) == (tmp_path / "a b.mp3", "ja")
    assert (row["speaker_id"], row["dialect"], row["gender"]) == ("s1", "Fynsk", "female")
    assert (row["age"], row["age_group"]) == (29, "25-49")


def test_other_columns_are_ignored_and_said_to_be_also_without_a_name(tmp_path: Path) -> None:
    """pandas writes its index so; spreadsheets have empty cells."""
    write_csv(tmp_path / "train.csv", ",path,text,note,id", "7,a.wav,ja,x,", "8,a.wav,ja,x,b")
    source = open_source(str(tmp_path), options())
    assert source.ignored == ("a column without a name", "note")
    assert source.rows["id"].to_pylist() == ["train.csv:0", "b"]
    assert source.columns == {"audio": "path", "text": "text", "id": "id"}


@pytest.mark.parametrize(
    ("times", "start", "seconds"),
    [
        ({"start": 1.5, "end": 4}, 1.5, 2.5),
        ({"start_time": "1", "end_time": "3.5", "duration": 2.45}, 1.0, 2.5),
        ({"offset": 2, "start": 7, "duration": 1}, 2.0, 1.0),
        ({"offset": "", "duration": None}, 0.0, None),
        ({"start": "1:02:03,5", "end": "01:02:04.0"}, 3723.5, 0.5),
        ({"start_ms": 1500, "end_ms": "4000"}, 1.5, 2.5),
        ({"Start": "1,5", "Slut": "4"}, 1.5, 2.5),
        ({"start": 1.5, "duration": float("nan")}, 1.5, None),
        ({"duration": 1.5, "weekend": 7}, 0.0, 1.5),
    ],
)
def test_times_are_read_in_any_of_their_forms(
    tmp_path: Path, times: dict[str, Any], start: float, seconds: float | None
) -> None:
    path = write_lines(tmp_path / "train.jsonl", [{"audio": "a", "text": "ja"} | times])
    (row,) = rows_of(path)
    assert (row["start"], row["seconds"]) == (start, seconds)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("BEGIN,END", "the time END"),
        ("onset,offset", "the time offset"),
        ("start,dur", "the time start"),
        ("startTime,duration", r"line 2 and train\.csv, line 3"),
        ("fra,til", r"line 2 and train\.csv, line 3"),
    ],
)
def test_a_time_of_which_only_one_end_is_known_is_refused(
    tmp_path: Path, names: str, message: str
) -> None:
    path = write_csv(tmp_path / "train.csv", f"path,text,{names}", "a,ja,0.7,1.2", "a,nej,1.3,2.4")
    with pytest.raises(SourceError, match=f"{message}.*--column start=.*--column end="):
        rows_of(path)
    start, end = names.split(",")
    rows = rows_of(path, columns={"start": start, "end": end, "seconds": ""})
    assert [row["start"] for row in rows] == [0.7, 1.3]
    assert [row["seconds"] for row in rows] == pytest.approx([0.5, 1.1])


@pytest.mark.parametrize("inside", [{"start": 1.0, "end": 2.0}, {"value": {"start": 1.0}}])
def test_times_inside_a_column_are_refused_unless_the_row_has_its_own(
    tmp_path: Path, inside: dict[str, Any]
) -> None:
    """Label Studio writes regions so: the recording would get the text of one of them."""
    row = {"audio": "a.wav", "text": "ja", "label": [inside]}
    path = write_lines(tmp_path / "train.jsonl", [row])
    with pytest.raises(SourceError, match=r"times inside its column label.*SRT"):
        rows_of(path)
    write_lines(path, [row | {"start": 1.0, "end": 2.0}])
    assert [row["start"] for row in rows_of(path)] == [1.0]


def test_a_column_split_divides_the_rows(tmp_path: Path) -> None:
    splits = ("Train", "valid", "", "test")
    lines = [f"{number}.wav;nr. {number};{split}" for number, split in enumerate(splits)]
    path = write_csv(tmp_path / "dev.csv", "file;text;split", *lines, "for;mange;felter;her")
    assert [row["split"] for row in own_splits(path)] == ["train", "dev", "dev", "test", "test"]
    assert {row["split"] for row in rows_of(path, split="test")} == {"test"}


@pytest.mark.parametrize(
    ("split", "message"),
    [("eval", "line 4 has the split 'eval'"), ("", "line 4 has no split")],
)
def test_a_row_of_no_split_is_refused(tmp_path: Path, split: str, message: str) -> None:
    path = write_csv(tmp_path / "all.csv", "file;text;split", "a;ja;dev", "", f"b;ja;{split}")
    with pytest.raises(SourceError, match=f"all.csv, {message}.*--split"):
        own_splits(path)


BAD_LINES = [
    (b'{"audio_filepath": "a.w', "malformed row"),
    ('{"audio_filepath": "a.wav", "text": "æøå"}'.encode("latin-1"), "malformed row"),
    (b'{"audio_filepath": "a.wav", "text": ["ja"]}', "malformed text"),
    (b'{"audio_filepath": 7, "text": "ja"}', "malformed audio"),
    (b'{"audio_filepath": "a", "text": "a", "start": "x", "end": 1}', "malformed start"),
    (b'{"audio_filepath": "a", "text": "a", "start": 1, "end": 0.5}', "end before its start"),
    *(
        (
            f'{{"audio_filepath": "a", "text": "a", "duration": {value}}}'.encode(),
            "malformed seconds",
        )
        for value in ("Infinity", "-1", '"1,5,5"', "[1]")
    ),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
def test_a_line_that_cannot_be_read_goes_to_the_ledger(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"\n".join([GOOD.encode(), b"", line, GOOD.encode()]))
    assert [row["refused"] for row in rows_of(path)] == [None, reason, None]
    (tmp_path / "a.wav").write_bytes(tone(0.2))
    with pytest.raises(DatasetError, match=rf"{reason}: 1, such as train\.jsonl, line 3"):
        convert(path, tmp_path / "ds", options(split="train"))
    convert(path, tmp_path / "ds", options(split="train", max_drop=0.5))
    (entry,) = pq.read_table(tmp_path / "ds" / "ledger.parquet").to_pylist()
    assert list(entry.values()) == ["train.jsonl", 1, "own", "train.jsonl:1", None, reason]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER + b'a,et\nb,"nej\n', r"train\.csv:[23]: .*quotes"),
        (HEADER + b'a.wav,ja\nb.wav,"kan du\nc.wav,nej\nd.wav,her"\n', r"train\.csv:3: .*quotes"),
        (HEADER + b"a,\xe6t\n", r"train\.csv:2: .*iconv -f CP1252 "),
        (b"text,audio_filepath,text", "csv:1: .* text"),
        ((HEADER + b"a,ja\n").replace(b"\n", b"\r"), r"train\.csv:1: .*new-line"),
        (b"a.wav,ja\nb.wav,nej\n", r"first line is a row, .* path,text"),
    ],
)
def test_an_unusable_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "train.csv").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        rows_of(tmp_path)


def test_columns_are_chosen_where_some_file_has_them(tmp_path: Path) -> None:
    row = '{"audio_filepath": "a", "text": "a", "sætning": "b", "køn": "f"}'
    (tmp_path / "train.jsonl").write_text(row, encoding="utf-8-sig")
    (tmp_path / "dev.jsonl").write_text(GOOD)
    columns = {"gender": "køn"}
    assert [row["gender"] for row in own_splits(tmp_path, columns=columns)] == [None, "female"]
    train = tmp_path / "train.jsonl"
    assert [row["text"] for row in rows_of(train, columns={"text": "sætning"})] == ["b"]
    with pytest.raises(SourceError, match="there is no sex; found"):
        rows_of(tmp_path, columns={"gender": "sex"})
    with pytest.raises(SourceError, match="no column sentence; found audio_filepath, text"):
        rows_of(tmp_path, columns={"text": "sentence"})


def test_a_list_in_json_has_a_row_for_each_object(tmp_path: Path) -> None:
    last = {"audio": "b.wav", "text": "nej"}
    path = tmp_path / "train.json"
    path.write_text(json.dumps([json.loads(GOOD), 7, last], indent=1))
    for location in (path, tmp_path):
        assert [row["text"] for row in rows_of(location)] == ["ja", None, "nej"]
    assert rows_of(path)[2]["audio"] == tmp_path / "b.wav"


@pytest.mark.parametrize(
    "content",
    ["[1, 2]", "", '{"text": "ja"}', '{"file": "a", "text": "", "segments": []}'],
)
def test_other_json_in_a_folder_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "train.jsonl").write_text(GOOD)
    (tmp_path / "notes.json").write_text(content)
    assert {row["file"] for row in rows_of(tmp_path)} == {"train.jsonl"}


def test_ids_in_a_column_of_capitals_are_unique_and_may_be_of_several_columns(
    tmp_path: Path,
) -> None:
    lines = [f"{n}.wav,nr {n},u{n // 2},{n}" for n in range(4)]
    path = write_csv(tmp_path / "train.csv", "path,text,ID,part", *lines, "a,ja,u9,")
    rows = rows_of(path)
    assert [row["id"] for row in rows] == ["u0", "u0", "u1", "u1", "u9"]
    assert [row["refused"] for row in rows] == [*[None, "duplicate id"] * 2, None]
    ids = [row["id"] for row in rows_of(path, columns={"id": "ID,part"})]
    assert ids == ["u0_0", "u0_1", "u1_2", "u1_3", "train.csv:4"]


@pytest.mark.parametrize("there", ["NFD", "NFC"])
@pytest.mark.parametrize("folder", ["in", "in/øre å", "ude"])
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_name_in_another_unicode_form_is_that_file(
    tmp_path: Path, there: Any, folder: str, *, is_absolute: bool
) -> None:
    audio = tmp_path / normalize(there, f"{folder}/blå bær.wav")
    audio.parent.mkdir(parents=True, exist_ok=True)
    audio.write_bytes(tone(0.2))
    named = normalize("NFC" if there == "NFD" else "NFD", f"{folder}/blå bær.wav")
    name = tmp_path / named if is_absolute else Path("..", named)
    (row,) = rows_of(write_csv(tmp_path / "in" / "train.csv", "path,text", f"{name},ja"))
    assert row["audio"].samefile(audio)


def test_a_name_is_that_of_a_recording_in_some_folder_unless_there_are_two(tmp_path: Path) -> None:
    for name in ("audios/0.wav", "a/1.wav", "b/1.wav", "b\\c.wav", "a/2.flac", "a/2.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(tone(0.2))
    expected = {
        "0.wav": "audios/0.wav",
        "0": "audios/0.wav",
        "a/1": "a/1.wav",
        "2": "a/2.wav",
        "audios\\0.wav": "audios/0.wav",  # as on Windows
        "b\\c.wav": "b\\c.wav",
        "b/0.wav": "b/0.wav",  # missing: that of another folder is another recording
        "x" * 300: "x" * 300,
    }
    path = write_csv(tmp_path / "train.csv", "path,text", *(f"{name},ja" for name in expected))
    assert [row["audio"] for row in rows_of(path)] == [
        tmp_path / name for name in expected.values()
    ]
    write_csv(path, "path,text", "1,ja")
    assert str(rows_of(path)[0]["audio"]) == "several recordings of this name"


@pytest.mark.parametrize("as_column", [True, False])
def test_a_channel_is_chosen_for_all_rows_or_by_a_column(
    tmp_path: Path, *, as_column: bool
) -> None:
    wave = np.sin(np.arange(8_000) / 5)
    (tmp_path / "a.wav").write_bytes(encode(np.stack([wave / 4, wave / 2], axis=1), 16_000))
    rows = [{"audio": "a.wav", "text": "ja", "side": 1.0 + number % 2} for number in range(4)]
    write_lines(tmp_path / "train.jsonl", [*rows, rows[0] | {"side": 3}])
    columns = {"channel": "side"} if as_column else {}
    convert(tmp_path, tmp_path / "out", options(channel=2, max_drop=0.5, columns=columns))
    written = pq.read_table(tmp_path / "out" / "version=0").to_pylist()
    peaks = [decode(row["audio_bytes"])[0].max() for row in written]
    assert peaks == pytest.approx([0.25, 0.5] * 2 if as_column else [0.5] * 5, abs=1e-2)
    ledger = pq.read_table(tmp_path / "out" / "ledger.parquet").to_pylist()
    assert [row["reason"] for row in ledger] == (["no channel 3"] if as_column else [])


def sounds(*parts: tuple[float, float]) -> bytes:
    """A recording of tones, of these seconds and amplitudes, with a DC offset."""
    waves = [level * np.sin(np.arange(round(seconds * 16_000)) / 5) for seconds, level in parts]
    return encode((np.concatenate(waves) + 0.02)[:, None], 16_000)


REST: list[tuple[dict[str, Any], list[tuple[float, float]], float | None]] = [
    ({"duration": 1}, [(0.6, 0.3)], 0.6),
    ({"duration": 1, "offset": 0}, [(0.6, 0.3)], 0.6),
    ({"start": 0.25, "end": 1}, [(0.4, 0.3)], 0.4),
    ({"duration": 1}, [(0.5, 0.0), (0.3, 0.3), (2.0, 0.0)], 0.3),
    ({"duration": 1}, [(0.3, 0.0033)], 0.3),
    ({"duration": 1}, [(0.3, 0.0027)], None),  # 40 dB below the loudest
    ({"duration": 1}, [(0.11, 0.3)], 0.11),
    ({"duration": 1}, [(0.1, 0.3)], None),
    ({"duration": 1.5}, [(0.5, 0.3)], None),
    ({"start": 0.25}, [(0.5, 0.3)], None),
    ({"duration": 1, "channel": 1}, [(12.0, 0.3)], 12.0),
    ({}, [(0.5, 0.3)], None),
]


"""Times of a recording's only row, what follows its first second, and what the times leave out."""


def test_sound_after_the_given_end_of_a_recordings_only_row_is_a_suspect(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    rows = [{"audio": f"{number}.wav", "text": "ja tak du"} for number in range(len(REST))]
    of_one = {"audio": "several.wav", "text": "ja tak du", "start": 0}
    several = [of_one | {"end": 1, "split": "train"}, of_one | {"end": 0.5, "split": "dev"}]
    rows = [row | times for row, (times, _, _) in zip(rows, REST, strict=True)]
    write_lines(folder / "train.jsonl", [*rows, *several])
    for number, (_, rest, _) in enumerate(REST):
        (folder / f"{number}.wav").write_bytes(sounds((1.0, 0.3), *rest))
    (folder / "several.wav").write_bytes(sounds((3.0, 0.3)))
    inventory = convert(folder, tmp_path / "out", options(shard_rows=1))
    found = pq.read_table(tmp_path / "out" / "suspects.parquet").to_pylist()
    own = {row["id"]: row["value"] for row in found if "end" in row["reason"]}
    left_out = {f"train.jsonl:{number}": row[2] for number, row in enumerate(REST) if row[2]}
    assert own == pytest.approx(left_out, abs=0.011)
    (line,) = (line for line in inventory.summary if "--column seconds=" in line)
    assert f" {sum(own.values()):.1f} s of " in line
    assert f" {len(left_out)} rows" in line


def test_listed_rows_are_left_out(tmp_path: Path) -> None:
    rows = [{"path": "a.wav", "text": f"nr {n}", "id": n} for n in range(4)]
    rows = [row | {"start": n / 10, "end": n / 10 + 0.1} for n, row in enumerate(rows)]
    path = write_lines(tmp_path / "in" / "train.jsonl", rows)
    (path.parent / "a.wav").write_bytes(tone(2))
    wrong = write_csv(tmp_path / "wrong.csv", "corpus,id", "own,1", "other,2")
    inventory = convert(path, tmp_path / "out", options(without=wrong, max_drop=0))
    assert inventory.dropped == {"listed in wrong.csv": 1}
    write_csv(wrong, "name", "1")
    with pytest.raises(SourceError, match=r"wrong\.csv:2: expected the columns corpus and id"):
        convert(path, tmp_path / "out", options(without=wrong))
