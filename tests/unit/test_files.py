from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from danish_asr.errors import DanishAsrError
from danish_asr.files import publish, publish_text, sweep


def test_a_file_is_there_when_the_block_ends_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    with publish(path) as stream:
        stream.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "file.txt"
    publish_text(path, "old")
    with pytest.raises(error), publish(path):
        raise error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_sweeping_removes_what_killed_processes_left(tmp_path: Path) -> None:
    publish_text(tmp_path / "a" / "file.txt", "whole")
    (tmp_path / "a" / ".file.txt.17.partial").touch()
    sweep(tmp_path)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file.txt"]


@pytest.mark.parametrize(
    ("number", "fix"),
    [(errno.ENOSPC, "disk space"), (errno.EROFS, "permission"), (errno.EIO, "fix that")],
)
def test_a_file_that_cannot_be_written_is_an_error_with_a_hint(
    tmp_path: Path, number: int, fix: str
) -> None:
    message = rf"cannot be written \({os.strerror(number)}\).*{fix}"
    with pytest.raises(DanishAsrError, match=message), publish(tmp_path / "file.txt"):
        raise OSError(number, os.strerror(number))
    assert list(tmp_path.iterdir()) == []
