"""The recording that a name means."""

import os
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pyarrow as pa
import pytest

from danish_asr.base.errors import AudioError
from danish_asr.corpus.sources.recordings import (
    fetch_files,
    find_recording,
    recordings,
    versions_of_files,
)
from tests.builders import tone


@pytest.mark.parametrize("form", ["NFD", "NFC"])
@pytest.mark.parametrize("folder", ["in", "in/øre å", "ude"])
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_name_in_another_unicode_form_is_that_file(
    tmp_path: Path, form: Any, folder: str, *, is_absolute: bool
) -> None:
    (tmp_path / "in").mkdir()
    other: Any = "NFC" if form == "NFD" else "NFD"
    there, named = (normalize(own, f"{folder}/blå bær.wav") for own in (form, other))
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_bytes(tone(0.1))
    name = str(tmp_path / named if is_absolute else Path("..", named))
    found = find_recording(tmp_path / "in", name)
    assert isinstance(found, Path)
    assert found.samefile(tmp_path / there)


FILES = ("audios/0.wav", "a/1.wav", "b/1.wav", "b\\c.wav", "a/2.flac", "a/2.WAV", "a/x.txt")

PLACES = {
    "0.wav": "audios/0.wav",
    " 0 ": "audios/0.wav",
    "/0.wav": "audios/0.wav",  # of another machine
    "a/1": "a/1.wav",
    "A/1.wav": "a/1.wav",
    "2": "a/2.WAV",
    "2.flac": "a/2.flac",
    "2.mp3": "2.mp3",
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
    recordings.cache_clear()
    names = pa.table({"audio": [*PLACES, None]})
    found = dict(zip(PLACES, fetch_files(tmp_path, names), strict=False))
    assert found == {name: tmp_path / place for name, place in PLACES.items()}
    assert [*fetch_files(tmp_path, names)][-1] is None
    several = find_recording(tmp_path, "1")
    assert isinstance(several, AudioError)
    assert [str(path.relative_to(tmp_path)) for path in recordings(tmp_path)["2"]] == [
        *("a/2.WAV", "a/2.flac"),
    ]
    assert recordings(tmp_path / "nothing") == {}


def test_a_version_is_of_the_file_as_it_is_now(tmp_path: Path) -> None:
    rows = pa.table({"audio": pa.chunked_array([["a.wav", "b", "b", None]], pa.string())})
    (tmp_path / "a.wav").write_bytes(b"12")
    before = versions_of_files(tmp_path, rows).to_pylist()
    os.utime(tmp_path / "a.wav", ns=(7, 7))
    (tmp_path / "b.wav").write_bytes(b"123")
    after = versions_of_files(tmp_path, rows).to_pylist()
    assert (before[1:], after[0], after[3]) == ([None] * 3, "2 7", None)
    assert before[0] != after[0]
    assert after[1] == after[2] == f"3 {(tmp_path / 'b.wav').stat().st_mtime_ns}"
