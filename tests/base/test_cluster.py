"""Rank, CPUs, launcher and trace of the processes of a job."""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from danish_asr.base import cluster
from danish_asr.base.cluster import (
    check_gpus,
    quota_cpus,
    usable_cpus,
    usable_gpus,
    use_granted_cpus,
    wait_for_first_rank,
)
from danish_asr.base.errors import ConfigError
from tests.forks import in_processes

VARIABLES = (
    *("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LSB_MCPU_HOSTS", "SLURM_CPUS_ON_NODE"),
    *("CUDA_VISIBLE_DEVICES", "FAIRSEQ2_DEVICE", "OMP_NUM_THREADS"),
)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "value", "gpus"),
    [
        *(("CUDA_VISIBLE_DEVICES", none, 0) for none in ("", "-1", "NoDevFiles")),
        ("CUDA_VISIBLE_DEVICES", "0,3", 2),
        ("CUDA_VISIBLE_DEVICES", "GPU-8f3a,MIG-1", 2),
        ("SLURM_CPUS_ON_NODE", "8", 0),  # a job without GPUs, on a machine that has some
        ("FAIRSEQ2_DEVICE", "cpu", 0),
        ("OTHER", "", 3),
    ],
)
def test_the_gpus_of_a_job_are_those_that_it_sees(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, gpus: int
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    monkeypatch.setenv(name, value)
    assert usable_gpus() == gpus


@pytest.mark.parametrize(
    ("environment", "refused"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0"}, True),
        ({"CUDA_VISIBLE_DEVICES": "0", "FAIRSEQ2_DEVICE": "cpu"}, False),
        ({"CUDA_VISIBLE_DEVICES": ""}, False),
        ({}, False),
    ],
)
def test_gpus_that_were_granted_and_are_not_seen_are_refused(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], refused: bool
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="FAIRSEQ2_DEVICE") if refused else nullcontext():
        check_gpus()


def test_a_process_is_the_first_of_one_unless_torchrun_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert cluster.rank_info() == (0, 1)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert cluster.rank_info() == (3, 4)


PARENT = """
import subprocess, time
from danish_asr.base.stops import stop_with_parent
print(subprocess.Popen(["sleep", "60"], preexec_fn=stop_with_parent).pid, flush=True)
time.sleep(60)
"""


def test_a_process_ends_when_the_one_that_started_it_is_killed() -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = Path("/proc", parent.stdout.readline().strip(), "stat")
        assert child.exists()
        parent.kill()
    deadline = time.monotonic() + 30
    while child.exists() and ") Z " not in child.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not child.exists() or ") Z " in child.read_text()


HERE = socket.gethostname().partition(".")[0]


@pytest.mark.parametrize(
    ("variable", "value", "cpus"),
    [
        ("LOCAL_WORLD_SIZE", "1000", 1),
        ("SLURM_CPUS_ON_NODE", "1", 1),
        ("LSB_MCPU_HOSTS", f"elsewhere 900 {HERE}.site.dk 1", 1),
        ("LSB_MCPU_HOSTS", "alias 1", 1),
        ("LSB_MCPU_HOSTS", f"{HERE} 900", len(os.sched_getaffinity(0))),
    ],
)
def test_a_process_uses_its_part_of_the_cpus_that_the_job_was_granted(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, cpus: int
) -> None:
    """TRAPS, data reading: upstream starts 20 + 30 + 10 threads whatever the job was granted."""
    monkeypatch.setenv(variable, value)
    assert usable_cpus() == cpus


def test_torch_computes_with_the_cpus_of_the_process_unless_their_number_was_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", chosen.append)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    use_granted_cpus(None)
    use_granted_cpus(4)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    use_granted_cpus(None)
    assert chosen == [1]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the launcher would become, or let torchrun do; its stop signals stay as they are."""
    calls: list[Any] = []
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: None)
    monkeypatch.setattr(cluster, "Thread", lambda **_: Mock())
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    monkeypatch.setattr("torch.distributed.run.run", calls.append)

    def become(*command: Any) -> None:
        calls.append(command)
        raise SystemExit

    monkeypatch.setattr(os, "execv", become)
    monkeypatch.setenv("OMP_NUM_THREADS", "")  # so that the value before comes back
    monkeypatch.delenv("OMP_NUM_THREADS")
    return calls


@pytest.mark.parametrize(
    ("gpus", "options", "shared"),
    [
        ("0,1", "", ["2", "4"]),
        ("", "--nproc-per-node 3", ["3", "2"]),
        ("0,1", "--nnodes 2", ["2", "4"]),
    ],
)
def test_torchrun_starts_a_process_per_gpu_which_share_the_cpus(
    started: list[Any], monkeypatch: pytest.MonkeyPatch, gpus: str, options: str, shared: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    assert cluster.launch([*options.split(), "-m", "job", "1"]) == 0
    (asked,) = started
    assert [asked.nproc_per_node, os.environ["OMP_NUM_THREADS"]] == shared
    assert asked.standalone is ("nnodes" not in options)
    assert (asked.training_script, asked.training_script_args) == ("job", ["1"])


def test_on_one_gpu_the_launcher_becomes_the_command(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    with pytest.raises(SystemExit):
        cluster.launch(["-m", "job", "1"])
    assert started == [(sys.executable, [sys.executable, "-m", "job", "1"])]
    assert os.environ["OMP_NUM_THREADS"] == "8"


def launched(arguments: list[str]) -> None:
    sys.exit(cluster.launch(["--nproc-per-node", "2", "-m", *arguments]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "status"), [("sys.exit(0)", 0), ("sys.exit(75)", 75), ("os.kill(os.getpid(), 9)", 1)]
)
def test_the_launcher_ends_as_its_processes_do(tmp_path: Path, end: str, status: int) -> None:
    record = "(Path(__file__).parent / os.environ['RANK']).touch()"
    (tmp_path / "job.py").write_text(f"import os, sys\nfrom pathlib import Path\n{record}\n{end}\n")
    in_processes(1, launched, ["job"], status=status, PYTHONPATH=str(tmp_path))
    if status == 0:  # else the first that fails ends the others
        assert {file.name for file in tmp_path.glob("[0-9]")} == {"0", "1"}


SAVES = """
import os, signal, sys, time
from pathlib import Path
from danish_asr.base.stops import exit_at_stops
exit_at_stops()
def save(*_):
    time.sleep(0.5)
    sys.exit(75)
signal.signal(signal.SIGUSR1, save)
here = Path(__file__).parent
(here / os.environ["RANK"]).touch()
while not all((here / rank).exists() for rank in "01"):
    time.sleep(0.02)
if os.environ["RANK"] == "0":
    os.kill(os.getppid(), signal.SIGUSR1)
time.sleep(60)
"""


@pytest.mark.slow
def test_the_launcher_passes_a_stop_on_and_ends_as_its_processes_do(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SAVES)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    in_processes(1, launched, ["job"], status=75, PYTHONPATH=path)


def test_the_other_ranks_wait_for_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(store.port))
    wait_for_first_rank(1)  # of a process that torchrun did not start
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with ThreadPoolExecutor() as pool:
        other = pool.submit(wait_for_first_rank, 1)
        time.sleep(0.2)
        assert not other.done()
        wait_for_first_rank(0)
        other.result(timeout=60)


@pytest.mark.parametrize(
    ("group", "files", "cpus"),
    [
        ("0::/", {}, 0),
        ("0::/", {"cpu.max": "max 100000"}, 0),
        ("0::/", {"cpu.max": "400000 100000"}, 4),
        ("0::/", {"cpu.max": "150000 100000"}, 2),
        ("0::/a/b", {"cpu.max": "800000 100000", "a/cpu.max": "300000 100000"}, 3),
        ("4:cpu,cpuacct:/docker/1", {"cpu/cpu.cfs_quota_us": "200000"}, 2),
        ("4:cpu,cpuacct:/docker/1", {"cpu/cpu.cfs_quota_us": "-1"}, 0),
        ("3:cpuset:/a", {"cpu/cpu.cfs_quota_us": "200000"}, 0),
    ],
)
def test_the_quota_of_a_container_is_the_smallest_of_its_groups(
    tmp_path: Path, group: str, files: dict[str, str], cpus: int
) -> None:
    (tmp_path / "own").write_text(f"{group}\n")
    for name, content in files.items():
        file = tmp_path / "root" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
        if name.endswith("quota_us"):
            file.with_name("cpu.cfs_period_us").write_text("100000\n")
    assert quota_cpus(tmp_path / "root", tmp_path / "own") == cpus


def test_the_quota_limits_the_cpus_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    monkeypatch.setattr("danish_asr.base.cluster.quota_cpus", lambda: 4)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert usable_cpus() == 2
