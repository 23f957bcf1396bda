from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from danish_asr.corpora import SourceOptions, open_source
from danish_asr.corpora.base import Source, Utterance
from danish_asr.errors import SourceError

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


@pytest.mark.parametrize("line", ["{broken", "[1, 2]", '"text"', "17"])
def test_a_line_that_is_no_object_is_refused(tmp_path: Path, line: str) -> None:
    path = write_lines(tmp_path / "train.jsonl", [{"audio_filepath": "a.wav", "text": "ja"}] * 2)
    with path.open("a") as stream:
        stream.write(f"{line}\n\n")
    found = read_all(open_source(str(path), RADIO))
    assert [row.refused for row in found] == [None, None, "malformed row"]


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
        ("train.csv", "audio_filepath,sentence\na,b", RADIO, "no column text.* --column text="),
        ("all.jsonl", '{"text": "a", "audio_filepath": "b"}', RADIO, "tells no split.*--split"),
        ("train.jsonl", "{}", SourceOptions(), "--corpus : this kind of source needs a name"),
        ("train.jsonl", "{}", SourceOptions(corpus="a/b"), "--corpus a/b: .* letters, digits"),
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
