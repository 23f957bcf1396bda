from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.files import publish, publish_text, sweep


def test_a_file_appears_when_the_block_ends_and_partial_files_are_swept(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    with publish(path) as stream:
        stream.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    path.with_name(".file.txt.17.partial").touch()
    sweep(tmp_path)
    assert list(path.parent.iterdir()) == [path]


def test_a_link_and_a_device_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file.txt")
    publish_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file.txt").read_text() == "text"
    (tmp_path / "device").symlink_to(os.devnull)
    publish_text(tmp_path / "device", "text")
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_only_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file.txt"
    publish_text(path, "old")
    with pytest.raises(error), publish(path):
        raise error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_an_error_with_the_place(tmp_path: Path) -> None:
    message = rf"^{tmp_path}: cannot be written \(No space left"
    with pytest.raises(DanishAsrError, match=message), publish(tmp_path / "file.txt"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []
