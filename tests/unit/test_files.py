from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path

import pytest

from danish_asr.errors import DanishAsrError
from danish_asr.files import publish, publish_first, publish_text, sweep


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


def race(path: Path, number: int) -> None:
    while not (path.parent / "go").exists():
        pass
    publish_first(path, f"{number}" * 10_000)
    assert path.read_text() == f"{path.read_text()[0]}" * 10_000


def test_of_many_processes_the_first_one_publishes(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    context = multiprocessing.get_context("fork")
    racers = [context.Process(target=race, args=(path, number)) for number in range(8)]
    for racer in racers:
        racer.start()
    (tmp_path / "go").touch()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * 8
    before = path.read_text()
    publish_first(path, "later")
    assert path.read_text() == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"file.txt", "go"}


@pytest.mark.parametrize(
    ("number", "mend"),
    [
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "make room"),
        (errno.EACCES, "get the right to write there"),
        (errno.EROFS, "get the right to write there"),
        (errno.EIO, "mend that"),
    ],
)
def test_a_file_that_cannot_be_written_tells_what_mends_it(
    tmp_path: Path, number: int, mend: str
) -> None:
    told = rf"cannot be written \({os.strerror(number)}\); what is finished is kept, so {mend} and"
    with pytest.raises(DanishAsrError, match=told), publish(tmp_path / "file.txt"):
        raise OSError(number, os.strerror(number))
    assert list(tmp_path.iterdir()) == []
