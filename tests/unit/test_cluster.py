"""Rank, CPUs, launcher and trace of the processes of a job."""

import json
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

from danish_asr.base.cluster import rank_info, wait_for_first_rank
from danish_asr.base.cluster.cpus import usable_cpus
from danish_asr.base.cluster.trace import append, gpus, moment

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "status"), [("sys.exit(0)", 0), ("sys.exit(75)", 75), ("os.kill(os.getpid(), 9)", 1)]
)
def test_the_launcher_ends_as_its_processes_do(tmp_path: Path, end: str, status: int) -> None:
    (tmp_path / "job.py").write_text(f"import os, sys\n{end}\n")
    command = ["danish_asr.base.cluster", "--standalone", "--nproc-per-node", "2", "-m", "job"]
    ended = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, check=False)
    assert ended.returncode == status


HANDLES_LATE = """
import signal, time
time.sleep(1)
signal.signal(signal.SIGUSR2, lambda *_: exit(75))
time.sleep(60)
"""


def test_the_trace_passes_a_warning_on_when_it_can_be_handled(tmp_path: Path) -> None:
    script = f"""
        trap '' USR2
        {sys.executable} -m danish_asr.base.cluster.trace "$1/trace.jsonl" &
        setsid {sys.executable} -c "$2"
    """
    command = ["bash", "-c", script, "bash", str(tmp_path), HANDLES_LATE]
    job = subprocess.Popen(command, start_new_session=True)
    while not (tmp_path / "trace.jsonl").is_file():
        time.sleep(0.02)
    os.killpg(job.pid, signal.SIGUSR2)
    assert job.wait(timeout=30) == 75


def test_a_line_of_the_trace_has_the_memory_of_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LSB_JOBID", "7")
    file = tmp_path / "trace.jsonl"
    file.write_text('{"time": 1}\n{"half')
    child = subprocess.Popen(["sleep", "60"])
    append(file, moment(os.getpid()))
    child.kill()
    child.wait()
    _, line = [json.loads(line) for line in file.read_text().splitlines()]
    assert line.keys() == {"job", "host", "time", "memory_mib", "gpus"}
    assert (line["job"], line["host"]) == ("7", socket.gethostname())
    assert line["memory_mib"] > 10


def test_gpus_are_those_of_the_job_and_a_lost_one_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = '#!/bin/sh\necho "$@" >asked\necho "1, 90, 1000, 40000, [N/A]"\necho "GPU is lost"\n'
    (tmp_path / "nvidia-smi").write_text(answer)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    assert gpus() == [
        {
            "index": 1,
            "utilisation_percent": 90,
            "memory_mib": 1000,
            "memory_total_mib": 40000,
            "power_w": None,
        }
    ]
    assert "--id=1,3" in (tmp_path / "asked").read_text()


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
