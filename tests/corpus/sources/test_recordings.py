"""The recording that a name means."""

import os
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pyarrow as pa
import pytest

from danish_asr.base.folders import Listing
from danish_asr.corpus.rows import ROWS
from danish_asr.corpus.sources.recordings import (
    ELSEWHERE,
    SEVERAL,
    fetch_files,
    find_recording,
    located,
    versions_of_files,
)


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
