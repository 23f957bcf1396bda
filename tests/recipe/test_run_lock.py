"""Two runs never write in one directory, and none outlives its launcher."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest
from filelock import SoftFileLease

from danish_asr.base import files
from danish_asr.base.errors import EXIT_FAILED, EXIT_STOPPED, RunError
from danish_asr.base.files import LOCK_FILE
from danish_asr.recipe.run.run_directory import checkpoint_steps, locked
from tests.recipe.running import RECIPE, arguments, start, train, wait_for

LONG = [f"regime.{key}=4000" for key in ("num_steps", "validate_every_n_steps")]
LONG += ["regime.checkpoint_every_n_steps=4000"]


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
    assert (tmp_path / LOCK_FILE).exists()
    assert not files.is_written(tmp_path)


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

    saves = Timer(2, save)
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
    with locked(tmp_path):
        (tmp_path / "other").write_text((tmp_path / LOCK_FILE).read_text())
        (tmp_path / "other").rename(tmp_path / LOCK_FILE)
        deadline = time.monotonic() + 60
        while not statuses and time.monotonic() < deadline:
            time.sleep(0.02)
    assert statuses == [EXIT_FAILED]
    assert "has taken over" in capfd.readouterr().err


def content(run: Path) -> dict[Path, Any]:
    return {
        file: (file.stat().st_mtime_ns, file.read_bytes())
        for file in run.rglob("*")
        if file.is_file() and file.name != LOCK_FILE
    }


def test_a_second_run_is_refused_and_a_killed_launcher_ends_its_processes(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TRAPS, training: torchrun, killed, leaves its processes training."""
    run = tmp_path / "run"
    process = start(RECIPE, arguments(run, dataset, *LONG), processes=2)
    wait_for((run / "metrics" / "train.jsonl").is_file, process)
    workers = [
        int(pid)
        for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ]
    assert len(workers) == 2
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    before = content(run)
    try:
        assert train(run, dataset, *LONG) == 2
        assert content(run) == before
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        process.kill()
    message = f"process {workers[0]} on {socket.gethostname()} is writing in {run}"
    assert message in capsys.readouterr().err
    process.communicate(timeout=120)  # until the last process has closed its output
    (step,) = checkpoint_steps(run)
    assert 0 < step < 4000
    assert train(run, dataset, *LONG, "trainer.max_wall_minutes=1e-6") == EXIT_STOPPED
    assert checkpoint_steps(run)[-1] == step + 1
