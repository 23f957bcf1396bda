"""The recording that a name means, and the texts beside recordings."""

import os
from collections import Counter
from pathlib import Path
from typing import Any, cast
from unicodedata import normalize

import pyarrow as pa
import pytest

from danish_asr.base.folders import Listing
from danish_asr.corpus.rows import ROWS
from danish_asr.corpus.sources.recordings import (
    ELSEWHERE,
    SEVERAL,
    TextFolder,
    fetch_files,
    find_recording,
    located,
    stems_of,
    versions_of_files,
)
from danish_asr.corpus.sources.timed_files import READERS, TimedFile, read_json
from danish_asr.inference.formats import FORMATS
from tests.transcripts import transcript


@pytest.mark.parametrize(("there", "named"), [("NFD", "NFC"), ("NFC", "NFD")])
@pytest.mark.parametrize("folder", ["in", "in/øre å", "ude"])
def test_unicode_forms_name_one_file(tmp_path: Path, there: Any, named: Any, folder: str) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / normalize(there, f"{folder}/blå bær.wav")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    name = normalize(named, f"{folder}/blå bær.wav")
    for written in (tmp_path / name, Path("..", name)):
        found = find_recording(Listing(tmp_path / "in"), str(written)).path
        assert (tmp_path / "in" / str(found)).samefile(path)


def test_a_name_with_spaces_around_it_may_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "a.wav").touch()
    assert find_recording(Listing(tmp_path / "in"), " ../a.wav ").path == "../a.wav"


FILES = (
    *("audios/0.wav", "a/1.wav", "b/1.wav", "b\\c.wav", "a/2.flac", "a/2.WAV", "a/x.txt"),
    *("b/Eva.wav", "b/eva.wav"),
)

PLACES = {
    "0.wav": "audios/0.wav",
    " 0 ": "audios/0.wav",
    "/0.wav": "audios/0.wav",  # of another machine
    "a/1": "a/1.wav",
    "A/1.wav": "a/1.wav",
    "2": "a/2.WAV",
    "2.flac": "a/2.flac",
    "2.mp3": "2.mp3",
    "eva": "b/eva.wav",
    "Eva": "b/Eva.wav",
    "audios\\0.wav": "audios/0.wav",  # as on Windows
    "b\\c.wav": "b\\c.wav",
    "b/0.wav": "b/0.wav",  # missing: that of another folder is another recording
    "10.wav": "10.wav",
    "x": "x",
    "x" * 300: "x" * 300,
}


def test_a_name_is_that_of_a_recording_in_some_folder_unless_there_are_two(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names = [{"audio": name} for name in (*PLACES, None, "1", "a/2")]
    rows, notes = located(pa.Table.from_pylist(names, ROWS), Listing(tmp_path))
    *found, none, several, _ = fetch_files(tmp_path, rows)
    assert notes == {
        f"{ELSEWHERE}, such as a/2.WAV, not a/2.flac": 5,
        f"{SEVERAL}, such as a/2.WAV, not a/2.flac": 1,
    }
    assert found == [tmp_path / place for place in PLACES.values()]
    assert none is None
    assert str(several) == "several recordings of this name"


def test_a_version_is_of_the_file_as_it_is_now(tmp_path: Path) -> None:
    rows = pa.table(
        {"recording": pa.chunked_array([["a.wav", "b.wav", "b.wav", None]], pa.string())}
    )
    (tmp_path / "a.wav").write_bytes(b"12")
    before = versions_of_files(tmp_path, rows).to_pylist()
    os.utime(tmp_path / "a.wav", ns=(7, 7))
    (tmp_path / "day1").mkdir()  # it arrives
    (tmp_path / "day1" / "b.wav").write_bytes(b"123")
    after = versions_of_files(tmp_path, rows).to_pylist()
    assert (before[1:], after[0], after[3]) == ([None] * 3, "2 7", None)
    assert before[0] != after[0]
    assert after[1] == after[2] == f"3 {(tmp_path / 'day1' / 'b.wav').stat().st_mtime_ns}"


@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        (".srt", ["0.SRT", "bo.srt"]),
        (".txt", ["bo.txt"]),  # beside a recording
        (".json", ["0.json", "bo.json"]),  # there, if it was cut, and what is a transcript
    ],
)
def test_texts_of_recordings_are_found(tmp_path: Path, suffix: str, names: list[str]) -> None:
    whole = FORMATS["json"](transcript())
    contents = {"bo.json": whole[:99], "0.json": whole, "model.json": "{}"}
    for name in ("bo.WAV", "0.SRT", "bo.srt", "README.txt", "bo.txt", *contents):
        (tmp_path / name).write_text(contents.get(name, ""))
    files = TextFolder(tmp_path)
    assert [path.name for path in files.of(suffix) if files.is_text(path)] == names


def test_a_transcript_that_was_recognised_is_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.json").write_text(
            "{}" if name == "a" else FORMATS["json"](transcript())
        )
    files, parsed = TextFolder(tmp_path), Counter[str]()

    def count(path: Path) -> TimedFile:
        parsed[path.name] += 1
        return read_json(path)

    monkeypatch.setitem(cast("dict[str, Any]", READERS), ".json", count)
    found = [path.name for path in files.of(".json") if files.is_text(path) and files.read(path)]
    assert found == ["b.json", "c.json"]
    assert not files.is_transcript(tmp_path / "a.json")
    assert parsed == {"a.json": 1, "b.json": 1, "c.json": 1}


@pytest.mark.parametrize(
    ("name", "stems"),
    [
        ("anna.srt", ["anna"]),
        *((f"anna.{last}.srt", [f"anna.{last}", "anna"]) for last in ("da", "da-DK", "eng", "mp3")),
        ("GMT1_a.transcript.vtt", ["GMT1_a.transcript", "GMT1_a"]),
        *((f"anna.{last}.srt", [f"anna.{last}"]) for last in ("2", "b", "del2", "part")),
        ("møde.1.da.srt", ["møde.1.da", "møde.1"]),
    ],
)
def test_a_text_is_of_the_recording_of_its_name_but_for_a_language(
    name: str, stems: list[str]
) -> None:
    assert stems_of(Path(name)) == stems
