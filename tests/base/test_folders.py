"""Walking a folder of recordings."""

import os
from pathlib import Path

import pytest

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.folders import (
    Listing,
    check_name,
    is_audio,
    is_ours,
    is_video,
    version_of,
    walk,
)


@pytest.mark.parametrize(
    ("name", "audio"), [("a.WAV", True), ("a.b.flac", True), ("a.txt", False), ("wav", False)]
)
def test_a_recording_is_told_by_its_ending(name: str, *, audio: bool) -> None:
    assert is_audio(name) is audio


def test_a_video_is_told_by_its_ending() -> None:
    names = ("film.MP4", "film.mkv", "voice.m4a", "mp4")
    assert [is_video(Path(name)) for name in names] == [True, True, False, False]


def test_each_folder_is_walked_once_in_order_without_hidden_files_and_our_datasets(
    tmp_path: Path,
) -> None:
    for name in ("b/2.wav", "b/1.wav", "b/.x.wav", "a/3.wav", ".git/4.wav", "ds/5.wav", "c/6.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / ".git" / "more").mkdir()
    (tmp_path / ".git" / "more" / "7.wav").touch()
    (tmp_path / "b" / "other").symlink_to(tmp_path / ".git" / "more")
    (tmp_path / "ds" / ".convert").mkdir()
    (tmp_path / "c" / "manifest.json").touch()
    found = [(path.relative_to(tmp_path).as_posix(), names) for path, names in walk(tmp_path)]
    c = ["6.wav", "manifest.json"]
    assert found == [
        (".", []),
        ("a", ["3.wav"]),
        ("b", ["1.wav", "2.wav"]),
        ("b/other", ["7.wav"]),
        ("c", c),
    ]
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


def test_a_listing_has_files_by_ending_and_recordings_by_stem_and_folder(tmp_path: Path) -> None:
    names = ("b/1.flac", "b/1.WAV", "1.wav", "a/x.TXT", "a/1.txt", "a/.1.wav")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    files = Listing(tmp_path)
    assert files.of(".txt", ".srt") == [tmp_path / "a/1.txt", tmp_path / "a/x.TXT"]
    in_b = [tmp_path / "b/1.WAV", tmp_path / "b/1.flac"]
    assert files.recordings == {"1": {tmp_path: [tmp_path / "1.wav"], tmp_path / "b": in_b}}
    assert Listing(tmp_path / "none").recordings == {}


@pytest.mark.parametrize("name", ["S\udcf8ren.wav", "S\udcf8ren/1.wav"])
def test_a_name_that_is_not_utf8_is_refused_with_how_it_reads(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "\udcf8" / "in"  # above the source it does not matter
    (folder / name).parent.mkdir(parents=True)
    (folder / name).touch()
    (folder / "S\udcf8ren.pdf").touch()
    with pytest.raises(
        DanishAsrError, match=r"S\\udcf8ren.*'in/Søren.*mv \$'.*in/S\\xf8ren"
    ) as refusal:
        Listing(folder).of(".wav")
    assert str(refusal.value).encode()
    assert Listing(folder).of(".srt") == []
    check_name(folder / "1.wav", folder)
