"""Two runs never write in one directory, and none outlives its launcher."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Timer

import pytest
from filelock import SoftFileLease

from danish_asr.base import files
from danish_asr.base.errors import EXIT_FAILED, ConfigError, DanishAsrError, RunError
from danish_asr.base.files import (
    LOCK_FILE,
    check_writable,
    from_yaml,
    publish,
    publish_json,
    publish_text,
    refuse_overwriting,
    sha256_of,
    sweep,
    to_yaml,
)
from danish_asr.recipe.run.locks import locked


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


def test_text_json_and_yaml_are_written_as_people_read_them(tmp_path: Path) -> None:
    publish_json(file := tmp_path / "a.json", {"å": ["1"]})
    assert file.read_text(encoding="utf-8") == '{\n "å": [\n  "1"\n ]\n}\n'
    publish_text(file, "abc")
    assert sha256_of(file).startswith("ba7816bf8f01cfea")
    tree = {"b": "x " * 100 + "å", "a": {"lr": 1e-05}}
    assert to_yaml(tree).count("\n") == 3
    assert from_yaml(to_yaml(tree)) == tree
    read = from_yaml("lr: 1e-05")
    assert (type(read), read) == (dict, {"lr": 1e-05})


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_only_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file.txt"
    publish_text(path, "old")
    with pytest.raises(error), publish(path):
        raise error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_takes_files_is_created_and_empty_and_another_one_refused(
    tmp_path: Path,
) -> None:
    check_writable([tmp_path / "a" / "b"], "")
    assert not [*(tmp_path / "a" / "b").iterdir()]
    (tmp_path / "file").touch()
    with pytest.raises(DanishAsrError, match=r"file/c.*choose another"):
        check_writable([tmp_path / "a", tmp_path / "file" / "c"], "choose another --out")
    with pytest.raises(DanishAsrError, match=r"^/proc/self: cannot be written"):
        check_writable([Path("/proc/self")], "")  # a folder that takes no file


def test_a_file_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut may leave a name without content."""
    path, synced = tmp_path / "file", list[str]()

    def fsync(number: int) -> None:
        assert not path.exists()
        synced.append(Path(f"/proc/self/fd/{number}").resolve().read_text())

    monkeypatch.setattr(os, "fsync", fsync)
    publish_text(path, "text")
    assert synced == ["text"]
    assert path.read_text() == "text"


def test_a_full_disk_is_an_error_with_the_place(tmp_path: Path) -> None:
    message = rf"^{tmp_path}: cannot be written \(No space left"
    with pytest.raises(DanishAsrError, match=message), publish(tmp_path / "file.txt"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "refused"),
    [
        ("in/a.txt", True),
        ("in/../in/a.txt", True),
        ("link", True),
        ("hard", True),
        ("in", True),  # which holds an input
        ("data/new/page.html", True),  # below an input
        ("linked/page.html", True),
        ("missing.txt", True),  # an input that is not there
        ("in/b.txt", False),
        ("data.html", False),
    ],
)
def test_no_output_is_what_is_read_by_whatever_name(
    tmp_path: Path, output: str, *, refused: bool
) -> None:
    for folder in ("in", "data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "in" / "a.txt").write_text("a")
    (tmp_path / "link").symlink_to(tmp_path / "in" / "a.txt")
    (tmp_path / "hard").hardlink_to(tmp_path / "in" / "a.txt")
    (tmp_path / "linked").symlink_to(tmp_path / "data")
    inputs = [tmp_path / name for name in ("in/a.txt", "data", "missing.txt")]
    refuse_overwriting([tmp_path / "other"], inputs)
    if not refused:
        refuse_overwriting([tmp_path / output], inputs)
        return
    with pytest.raises(ConfigError, match=rf"{output}(.|\n)*--csv") as found:
        refuse_overwriting([tmp_path / "other", tmp_path / output], inputs, option="--csv")
    assert len(found.value.faults) == 1


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOCK_SECONDS", 1.5)


def elsewhere(
    directory: Path, monkeypatch: pytest.MonkeyPatch, host: str = "node7"
) -> SoftFileLease:
    """The lock of a process on another host, which refreshes it."""
    with monkeypatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: host)
        lock = directory / LOCK_FILE
        other = SoftFileLease(
            lock,
            lease_duration=files.LOCK_SECONDS,
            heartbeat_interval=0.1,  # so that a busy machine refreshes it in time
            thread_local=False,
        )
        other.acquire()
    return other


def test_a_directory_is_written_until_the_process_that_holds_its_lock_ends(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from danish_asr.base.errors import RunError\n"
        "from danish_asr.base.files import take\n"
        "lease = take(Path(sys.argv[1]), error=RunError, advice='', work='')\n"
        "print('taken', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "taken\n"
        assert files.is_written(tmp_path)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays as a zombie
        assert not files.is_written(tmp_path)
    assert (tmp_path / LOCK_FILE).exists()
    assert not files.is_written(tmp_path)
    (tmp_path / LOCK_FILE).write_text("of nobody knows whom")
    assert files.is_written(tmp_path)


def test_a_file_is_no_directory_that_could_be_locked(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(RunError, match="out is a file"):
        files.take(tmp_path / "out", error=RunError, advice="", work="")
    with pytest.raises(RunError, match="out/run cannot be written"):
        files.take(tmp_path / "out" / "run", error=RunError, advice="", work="")


@pytest.mark.slow
@pytest.mark.usefixtures("_impatient")
def test_a_live_process_on_another_host_keeps_its_lock_and_a_dead_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = elsewhere(tmp_path, monkeypatch)
    with pytest.raises(RunError, match=f"process {os.getpid()} on node7 is writing in {tmp_path}"):
        locked(tmp_path).__enter__()
    assert "may be writing in" in capsys.readouterr().err
    left = (tmp_path / LOCK_FILE).read_text()
    other.release()
    (tmp_path / LOCK_FILE).write_text(left)
    with locked(tmp_path):
        assert "node7" not in (tmp_path / LOCK_FILE).read_text()
    assert not (tmp_path / LOCK_FILE).exists()


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("host", ["node7", socket.gethostname()])
def test_a_job_that_starts_again_waits_for_a_process_that_still_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("DANISH_ASR_LOCK_MINUTES", "0.5")
    other = elsewhere(tmp_path, monkeypatch, host)
    saved = Event()

    def save() -> None:
        saved.set()
        other.release()

    saves = Timer(1.3, save)  # the first look takes 1 s
    saves.start()
    with locked(tmp_path):
        assert saved.is_set()
    saves.join()


@pytest.mark.usefixtures("_impatient")
def test_a_process_that_was_suspended_ends_if_another_one_has_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    statuses: list[int] = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    with locked(run := tmp_path / "new" / "run"):
        (run / "other").write_text((run / LOCK_FILE).read_text())
        (run / "other").rename(run / LOCK_FILE)
        deadline = time.monotonic() + 60
        while not statuses and time.monotonic() < deadline:
            time.sleep(0.02)
    assert statuses == [EXIT_FAILED]
    assert "has taken over" in capfd.readouterr().err
