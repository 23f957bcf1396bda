"""Rank, CPUs, launcher and trace of the processes of a job."""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from danish_asr.base.cluster import (
    CpuMeter,
    cpu_quota,
    rank_info,
    usable_cpus,
    wait_for_first_rank,
)

VARIABLES = ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "LOCAL_WORLD_SIZE")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "LSB_MCPU_HOSTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "cluster", "expected"),
    [
        ({}, "auto", (0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4"}, "auto", (3, 4)),
        ({"RANK": "3", "WORLD_SIZE": "4", "SLURM_PROCID": "0"}, "auto", (3, 4)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8"}, "auto", (5, 8)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8"}, "none", (0, 1)),
    ],
)
def test_the_rank_is_that_of_torchrun_or_slurm(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    cluster: str,
    expected: tuple[int, int],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert rank_info(cluster) == expected


@pytest.mark.parametrize(("processes", "share"), [("1", 1), ("2", 2), ("1000", None)])
def test_the_granted_cpus_are_shared_between_the_processes_of_a_node(
    monkeypatch: pytest.MonkeyPatch, processes: str, share: int | None
) -> None:
    """TRAPS, data reading: upstream starts 20 + 30 + 10 threads whatever the job was granted."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    granted = len(os.sched_getaffinity(0))
    assert usable_cpus() == (max(1, granted // share) if share else 1)


@pytest.mark.parametrize(
    ("hosts", "slots"),
    [("{here} 1", 1), ("elsewhere 900 {here}.site.dk 1", 1), ("alias 1", 1), ("{here} 900", 900)],
)
def test_slots_of_lsf_count_without_affinity(
    monkeypatch: pytest.MonkeyPatch, hosts: str, slots: int
) -> None:
    here = socket.gethostname().partition(".")[0]
    monkeypatch.setenv("LSB_MCPU_HOSTS", hosts.format(here=here))
    assert usable_cpus() == min(slots, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("limits", "cpus"),
    [
        ({"a/b": "150000 100000", "a": "max 100000"}, 1.5),
        ({"a/b": "max 100000", "a": "50000 100000"}, 0.5),
        ({"a/b": "max 100000"}, None),
        ({}, None),
    ],
)
def test_the_quota_of_a_container_limits_the_cpus(
    tmp_path: Path, limits: dict[str, str], cpus: float | None
) -> None:
    for group, limit in limits.items():
        (tmp_path / group).mkdir(parents=True, exist_ok=True)
        (tmp_path / group / "cpu.max").write_text(f"{limit}\n")
    assert cpu_quota(tmp_path, "0::/a/b\n") == cpus
    assert cpu_quota(tmp_path, "4:cpu:/a/b\n") is None


def test_cpus_that_others_use_are_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    idle, own, clock = iter([10.0, 10.5]), iter([1.0, 3.0]), iter([0.0, 2.0])
    monkeypatch.setattr(CpuMeter, "_idle_seconds", staticmethod(lambda: next(idle)))
    monkeypatch.setattr(time, "process_time", lambda: next(own))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert CpuMeter().free() == 1.25  # one by this process, and a quarter of one is idle


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "status"), [("sys.exit(0)", 0), ("sys.exit(75)", 75), ("os.kill(os.getpid(), 9)", 1)]
)
def test_the_launcher_ends_as_its_processes_do(tmp_path: Path, end: str, status: int) -> None:
    (tmp_path / "job.py").write_text(f"import os, sys\n{end}\n")
    command = ["danish_asr.base.cluster", "--standalone", "--nproc-per-node", "2", "-m", "job"]
    ended = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, check=False)
    assert ended.returncode == status


SAVES = """
import os, pathlib, signal, sys, time
def save(*_):
    time.sleep(0.5)
    sys.exit(75)
for number in map(int, sys.argv[1:]):
    signal.signal(number, save)
pathlib.Path(os.environ["RANK"]).touch()
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT])
def test_the_launcher_passes_a_stop_on_and_ends_as_its_processes_do(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "job.py").write_text(SAVES)
    command = ["danish_asr.base.cluster", "--standalone", "--nproc-per-node", "2", "-m", "job"]
    command.append(str(int(number)))
    launcher = subprocess.Popen([sys.executable, "-m", *command], cwd=tmp_path)
    while not all((tmp_path / rank).exists() for rank in "01"):
        assert launcher.poll() is None
        time.sleep(0.02)
    launcher.send_signal(number)
    assert launcher.wait(timeout=60) == 75


def test_the_other_ranks_wait_for_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(store.port))
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with ThreadPoolExecutor() as pool:
        other = pool.submit(wait_for_first_rank, 1)
        time.sleep(0.2)
        assert not other.done()
        wait_for_first_rank(0)
        other.result(timeout=10)
