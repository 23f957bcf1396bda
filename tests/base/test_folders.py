"""Walking a folder of recordings."""

import os
from pathlib import Path

import pytest

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.folders import is_audio, is_ours, version_of, walk


@pytest.mark.parametrize(
    ("name", "audio"), [("a.WAV", True), ("a.b.flac", True), ("a.txt", False), ("wav", False)]
)
def test_a_recording_is_told_by_its_ending(name: str, *, audio: bool) -> None:
    assert is_audio(name) is audio


def test_each_folder_is_walked_once_in_order_without_hidden_files_and_our_datasets(
    tmp_path: Path,
) -> None:
    for name in ("b/2.wav", "b/1.wav", "b/.x.wav", "a/3.wav", ".git/4.wav", "ds/5.wav", "c/6.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "ds" / ".convert").mkdir()
    (tmp_path / "c" / "manifest.json").touch()
    found = [(path.relative_to(tmp_path).as_posix(), names) for path, names in walk(tmp_path)]
    c = ["6.wav", "manifest.json"]
    assert found == [(".", []), ("a", ["3.wav"]), ("b", ["1.wav", "2.wav"]), ("c", c)]
    (tmp_path / "c" / "version=0").mkdir()
    assert [is_ours(tmp_path / name) for name in ("a", "ds", "c")] == [False, True, True]
    with pytest.raises(DanishAsrError, match="none"):
        list(walk(tmp_path / "none"))


def test_a_version_is_of_a_files_size_and_time(tmp_path: Path) -> None:
    file = tmp_path / "a.wav"
    file.write_bytes(b"12")
    os.utime(file, ns=(0, 5))
    assert version_of(file) == "2 5"
    assert version_of(tmp_path) is version_of(tmp_path / "none") is version_of(Path("\0")) is None
