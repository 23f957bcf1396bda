"""Processes that a job starts: how they end, what reaches them, what is traced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from danish_asr.launch.job import main
from danish_asr.launch.processes import catches, descendants, resident_bytes
from danish_asr.launch.trace import gpus
from danish_asr.launch.worker import status_of

LISTENER = "import signal, time; signal.signal(signal.SIGUSR2, print); time.sleep(60)"


@pytest.mark.parametrize(
    ("statuses", "together"),
    [([], None), ([0, 0], 0), ([75, 75], 75), ([0, 75], 75), ([75, 2, 1], 2), ([1, 75], 1)],
)
def test_the_first_failure_counts_then_a_stop(
    tmp_path: Path, statuses: list[int], together: int | None
) -> None:
    for number, status in enumerate(statuses):
        (tmp_path / str(number)).write_text(str(status))
        os.utime(tmp_path / str(number), ns=(number, number))
    assert status_of(tmp_path) == together


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "status"),
    [
        # The first rank to stop must not cut short the other, which is still saving.
        ({"0": "sys.exit(75)", "1": "time.sleep(1); done.touch(); sys.exit(75)"}, 75),
        ({"0": "sys.exit(3)", "1": "time.sleep(60)"}, 3),
        ({"0": "sys.exit(75)", "1": "os.kill(os.getpid(), 9)"}, 1),
        ({"0": "1 / 0", "1": "done.touch()"}, 1),
    ],
)
def test_a_stop_is_told_from_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: dict[str, str], status: int
) -> None:
    body = [f"if os.environ['RANK'] == '{rank}': {what}" for rank, what in ranks.items()]
    done = tmp_path / "done"
    head = f"import os, sys, time, pathlib\ndone = pathlib.Path({str(done)!r})"
    (tmp_path / "a_recipe.py").write_text("\n".join([head, *body]))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("LSB_JOBID", raising=False)
    before = {n: signal.getsignal(n) for n in (signal.SIGUSR1, signal.SIGUSR2)}
    ends = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert main(["--processes", "2", "--trace", str(tmp_path / "trace"), "a_recipe"]) == status
    finally:
        for number, handler in (before | ends).items():
            signal.signal(number, handler)
    assert done.exists() == ("touch" in ranks["1"])
    assert len(list((tmp_path / "trace").glob("local.*.jsonl"))) == 1


def test_a_process_is_seen_to_listen_and_to_hold_memory() -> None:
    process = subprocess.Popen([sys.executable, "-c", LISTENER])
    try:
        deadline = time.monotonic() + 20
        while not catches(process.pid, signal.SIGUSR2):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not catches(process.pid, signal.SIGUSR1)
        assert process.pid in descendants(os.getpid())
        assert resident_bytes(process.pid) > 2**20
    finally:
        process.kill()
        process.wait()
    assert not catches(process.pid, signal.SIGUSR2)
    assert resident_bytes(process.pid) == 0


def test_the_trace_reads_what_nvidia_smi_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "nvidia-smi"
    command.write_text("#!/bin/sh\necho '0, 97, 30123, 40960, 251.30'\necho '1, 3, 5, 9, [N/A]'\n")
    command.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    names = ("index", "utilisation_percent", "memory_mib", "memory_total_mib", "power_w")
    assert [tuple(gpu[name] for name in names) for gpu in gpus()] == [
        (0, 97, 30123, 40960, 251.3),
        (1, 3, 5, 9, None),
    ]


def test_without_nvidia_smi_there_are_no_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus() == []
