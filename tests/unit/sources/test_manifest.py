from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from danish_asr.conversion import ConvertOptions
from danish_asr.conversion.convert import convert
from danish_asr.errors import SourceError
from danish_asr.sources import SourceOptions, open_source
from danish_asr.sources.base import Source, Utterance
from tests.builders import tone

RADIO = SourceOptions(corpus="radio")


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def read_all(source: Source) -> list[Utterance]:
    return [row for file in source.files for row in source.read(file, 0, file.rows)]


def test_nemos_keys_are_understood(tmp_path: Path) -> None:
    row = {"audio_filepath": "wav/a.wav", "text": "på Ærø", "duration": 1.5, "offset": 3}
    path = write_lines(tmp_path / "train_manifest.json", [row])
    source = open_source(str(path), RADIO)
    (found,) = read_all(source)
    assert found.audio == tmp_path / "wav" / "a.wav"
    assert (found.text, found.start, found.seconds) == ("på Ærø", 3.0, 1.5)
    assert found.id == "train_manifest.json:0"
    assert (source.files[0].corpus, source.files[0].split) == ("radio", "train")


def test_an_absolute_path_stays_itself(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "test.jsonl", [{"audio_filepath": "/a/b.wav", "text": "ja"}])
    assert read_all(open_source(str(path), RADIO))[0].audio == Path("/a/b.wav")


def test_a_csv_file_is_read_with_quotes_and_line_ends_in_texts(tmp_path: Path) -> None:
    (tmp_path / "dev.csv").write_text(
        '\ufeffaudio_filepath,text,speaker_id,age\na.wav,"ja, ""to""\nlinjer",s1,34\n'
        "b.wav,nej,,ukendt\nc.wav,for,mange,felter,her\n"
    )
    found = read_all(open_source(str(tmp_path / "dev.csv"), RADIO))
    assert [row.text for row in found] == ['ja, "to"\nlinjer', "nej", None]
    assert [row.speaker.speaker_id for row in found] == ["s1", None, None]
    assert [row.speaker.age for row in found] == [34, None, None]
    assert [row.refused for row in found] == [None, None, "malformed row"]


GOOD = '{"audio_filepath": "a.wav", "text": "ja"}'
BAD_TIMES = (
    "Infinity",
    "-Infinity",
    "NaN",
    "-1",
    "1e999",
    "9" * 400,
    '"nan"',
    '"1,5"',
    "true",
    "[1]",
)
BAD_LINES = {
    "broken": b"{broken",
    "no object": b"[1, 2]",
    "half a character in the text": rb'{"audio_filepath": "a", "text": "\ud83d"}',
    "half a character in a name": rb'{"audio_filepath": "a", "text": "", "speaker_id": "\uDFFF"}',
    "half a character in a key": rb'{"audio_filepath": "a.wav", "text": "a", "\ud800": 1}',
    "Latin-1": '{"audio_filepath": "a.wav", "text": "æøå"}'.encode("latin-1"),
    "a number of 5000 digits": b'{"audio_filepath": "a.wav", "text": "a", "age": %s}'
    % (b"9" * 5000),
    "very deep nesting": b"[" * 100_000,
    "a byte order mark in the middle": b"\xef\xbb\xbf" + GOOD.encode(),
    "zeros": bytes(100),
    "a list as text": b'{"audio_filepath": "a.wav", "text": ["ja"]}',
    "a truth value as text": b'{"audio_filepath": "a.wav", "text": true}',
    **{
        f"{key} {value[:9]}": f'{{"audio_filepath": "a", "text": "a", "{key}": {value}}}'.encode()
        for key in ("duration", "offset")
        for value in BAD_TIMES
    },
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_a_line_that_cannot_be_understood_is_a_row_of_the_ledger(
    tmp_path: Path, line: bytes
) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"\n".join([GOOD.encode(), line, b"", GOOD.encode()]))
    found = read_all(open_source(str(path), RADIO))
    assert [row.refused for row in found] == [None, "malformed row", None]
    assert (found[1].row, found[1].id) == (1, "train.jsonl:1")
    (tmp_path / "a.wav").write_bytes(tone(0.2))
    convert(
        open_source(str(path), RADIO),
        tmp_path / "ds",
        name="x",
        options=ConvertOptions(max_drop=0.5),
    )
    (entry,) = pq.read_table(tmp_path / "ds" / "ledger.parquet").to_pylist()
    assert (entry["source"], entry["row"], entry["reason"]) == ("train.jsonl", 1, "malformed row")


def test_an_age_that_is_too_large_is_no_age(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "train.jsonl", [{"audio_filepath": "a", "text": "a", "age": 10**400}]
    )
    assert read_all(open_source(str(path), RADIO))[0].speaker.age is None


@pytest.mark.parametrize("value", [None, "", " "])
def test_a_time_that_is_not_told_means_all_of_the_audio(tmp_path: Path, value: str | None) -> None:
    row = {"audio_filepath": "a", "text": 17, "duration": value, "offset": value}
    (found,) = read_all(open_source(str(write_lines(tmp_path / "train.jsonl", [row])), RADIO))
    assert (found.text, found.start, found.seconds) == ("17", 0.0, None)


BAD_CSV = {
    "too many fields": b"b.wav,nej,ja",
    "too few fields": b"b.wav",
    "an open quote": b'b.wav,"nej',
    "a quote inside a quoted field": b'b.wav,"Nej" sagde han',
    "a field of more than 131072 characters": b"b.wav," + b"x" * 131_073,
    "Latin-1": "b.wav,nær".encode("latin-1"),
    "a line end of old": b"b.wav,nej\rc.wav,ja",
}


@pytest.mark.parametrize("line", BAD_CSV.values(), ids=BAD_CSV)
@pytest.mark.parametrize("after", [b"", b'd.wav,"ja, tak"\n'], ids=["", "quotes follow"])
def test_a_csv_row_that_cannot_be_understood_takes_no_other_with_it(
    tmp_path: Path, line: bytes, after: bytes
) -> None:
    path = tmp_path / "train.csv"
    path.write_bytes(
        b"audio_filepath,text\na.wav,et\n" + line + b"\na.wav,to\n" + after + b"a.wav,tre\n"
    )
    found = read_all(open_source(str(path), RADIO))
    texts = ["et", None, "to", *(["ja, tak"] if after else []), "tre"]
    assert [row.text for row in found] == texts
    assert [row.refused for row in found] == ["malformed row" if t is None else None for t in texts]


def test_an_open_quote_is_found_wherever_reading_begins(tmp_path: Path) -> None:
    quotes = dict.fromkeys((998, 999, 1500), '"')
    lines = [f"{n}.wav,{quotes.get(n, '')}{n}" for n in range(2100)]
    path = tmp_path / "train.csv"
    path.write_text("\n".join(["audio_filepath,text", *lines]))
    source = open_source(str(path), RADIO)
    (file,) = source.files
    assert file.rows == 2100
    whole = list(source.read(file, 0, file.rows))
    assert [row.row for row in whole if row.refused] == [*quotes]
    assert [row.text for row in whole if not row.refused] == [
        str(n) for n in range(2100) if n not in quotes
    ]
    for start, stop in ((900, 1000), (999, 1001), (1000, 2000), (1499, 2100)):
        assert list(source.read(file, start, stop)) == whole[start:stop]


@pytest.mark.parametrize("name", ["train.jsonl", "train.csv"])
def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path, name: str) -> None:
    content = GOOD if name.endswith("jsonl") else "audio_filepath,text\na.wav,ja"
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    source = open_source(str(tmp_path / name), RADIO)
    assert [row.text for row in read_all(source)] == ["ja"]
    assert source.ids(source.files[0]).to_pylist() == [f"{name}:0"]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize(
    ("start", "stop"), [(0, 2500), (0, 1), (999, 1001), (1000, 1001), (1500, 2500), (2499, 2500)]
)
def test_reading_begins_anywhere(tmp_path: Path, suffix: str, start: int, stop: int) -> None:
    rows = [
        {"audio_filepath": f"{n}.wav", "text": f"sætning {n}", "id": f"u{n}"} for n in range(2500)
    ]
    path = tmp_path / f"train.{suffix}"
    if suffix == "jsonl":
        write_lines(path, rows)
    else:
        lines = [",".join(row.values()) for row in rows]
        path.write_text("\n".join(["audio_filepath,text,id", *lines]))
    source = open_source(str(path), RADIO)
    (file,) = source.files
    assert file.chunks == (1000, 1000, 500)
    found = list(source.read(file, start, stop))
    assert [row.row for row in found] == list(range(start, stop))
    assert [row.id for row in found] == [f"u{number}" for number in range(start, stop)]
    assert source.ids(file).to_pylist() == [f"u{number}" for number in range(2500)]


def test_keys_and_split_are_named_by_options(tmp_path: Path) -> None:
    rows = [{"wav": "a.wav", "sætning": "ja", "del": "x", "nummer": 7}]
    path = write_lines(tmp_path / "everything.jsonl", rows)
    options = SourceOptions(
        corpus="radio", split="val", columns=("audio=wav", "text=sætning", "id=del,nummer")
    )
    source = open_source(str(path), options)
    assert source.files[0].split == "dev"
    assert read_all(source)[0].id == "x_7"


def test_all_manifests_of_a_folder_are_read(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write_lines(tmp_path / f"{split}.jsonl", [{"audio_filepath": "a.wav", "text": "ja"}])
    source = open_source(f"manifest:{tmp_path}", RADIO)
    assert [file.split for file in source.files] == ["dev", "test", "train"]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("train.jsonl", "", RADIO, "is empty, it has no rows"),
        ("train.txt", "ja", RADIO, r"is empty, it has no manifest \(.jsonl, .json, .csv\)"),
        ("train.jsonl", '{"text": "ja"}', RADIO, "no column audio_filepath; the columns are text"),
        (
            "train.json",
            '[{"text":\n"a"}\n]',
            RADIO,
            "none of its 3 rows can be read; expected one J",
        ),
        (
            "train.csv",
            'a,"b',
            RADIO,
            "train.csv: line 1 should name the columns, and cannot be read",
        ),
        ("train.csv", "text,audio_filepath,text", RADIO, "line 1 names text twice"),
        ("train.csv", "audio_filepath;text\na;b", RADIO, "the columns are audio_filepath;text"),
        ("train.csv", "audio_filepath,sentence\na,b", RADIO, "no column text.* --column text="),
        ("all.jsonl", '{"text": "a", "audio_filepath": "b"}', RADIO, "tells no split.*--split"),
        ("train.jsonl", "{}", SourceOptions(), "--corpus : this kind of source needs a name"),
        ("train.jsonl", "{}", SourceOptions(corpus="a/b"), "--corpus a/b: .* 100 letters, digits"),
        ("train.jsonl", "{}", SourceOptions(corpus="a", split="x"), "--split x: expected one of"),
        (
            "train.jsonl",
            "{}",
            SourceOptions(corpus="a", columns=("sentence",)),
            "--column sentence: expected OURS=THEIRS, with OURS one of text, audio, id",
        ),
    ],
)
def test_a_manifest_that_cannot_be_used_is_told(
    tmp_path: Path, name: str, content: str, options: SourceOptions, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(SourceError, match=message):
        open_source(f"manifest:{tmp_path / name}", options)


def test_no_such_manifest_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file or folder"):
        open_source(str(tmp_path / "train.jsonl"), RADIO)


def test_a_manifest_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    """A process's memory is a file that cannot be read from its beginning."""
    (tmp_path / "train.jsonl").symlink_to("/proc/self/mem")
    with pytest.raises(SourceError, match=r"train\.jsonl: cannot be read \(Input/output error\)"):
        open_source(str(tmp_path / "train.jsonl"), RADIO)


def test_a_named_column_must_be_in_some_file(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", [{"audio_filepath": "a", "text": "a", "køn": "f"}])
    write_lines(tmp_path / "dev.jsonl", [{"audio_filepath": "a", "text": "a"}])
    write_lines(tmp_path / "test.jsonl", [])
    options = SourceOptions(corpus="radio", columns=("gender=køn", "dialect=egn", "age=alder"))
    told = "no file has a column egn or a column alder; the columns are audio_filepath, text, køn"
    with pytest.raises(SourceError, match=told):
        open_source(f"manifest:{tmp_path}", options)
    options = SourceOptions(corpus="radio", columns=("gender=køn",))
    assert open_source(f"manifest:{tmp_path}", options).notes == (
        "column køn: 1 of 2 files lack it, such as dev.jsonl; it is null there",
    )
    assert open_source(f"manifest:{tmp_path}", RADIO).notes == ()
