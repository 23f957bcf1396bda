"""One run writes in a directory at a time."""

import os
import signal
import socket
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from danish_asr.base.errors import EXIT_STOPPED
from danish_asr.base.files import LOCK_FILE
from danish_asr.cli.upstream import run_as_upstream
from danish_asr.recipe.run.locks import locked
from danish_asr.recipe.run.run import Run
from tests.forks import start
from tests.running import arguments, train

LONG = [
    f"regime.{key}=4000"
    for key in ("num_steps", "validate_every_n_steps", "checkpoint_every_n_steps")
]


def content(run: Path) -> dict[Path, Any]:
    return {
        file: (file.stat().st_mtime_ns, file.read_bytes())
        for file in run.rglob("*")
        if file.is_file() and file.name != LOCK_FILE
    }


def test_the_first_rank_holds_the_lock_until_the_end(tmp_path: Path) -> None:
    for rank in (0, 1):
        with locked(tmp_path, rank):
            assert (tmp_path / LOCK_FILE).exists() is (rank == 0)
        assert not (tmp_path / LOCK_FILE).exists()


def launch(args: list[str]) -> None:
    """Train in two processes of ``torchrun``, which are forked."""
    config = LaunchConfig(1, 1, 2, rdzv_backend="c10d", rdzv_endpoint="localhost:0")
    config.run_id, config.start_method, config.max_restarts = "run", "fork", 0
    elastic_launch(config, run_as_upstream)("train", args)


@pytest.mark.slow
def test_a_second_run_is_refused_and_a_killed_launcher_ends_its_processes(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TRAPS, training: torchrun, killed, leaves its processes training."""
    run = tmp_path / "run"
    env = {**os.environ, "FAIRSEQ2_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    process = start(launch, arguments(run, dataset, *LONG), str(tmp_path / "printed"), env)
    while not (run / "metrics" / "train.jsonl").is_file():
        assert process.is_alive(), (tmp_path / "printed").read_text()
        time.sleep(0.02)
    workers = [
        int(pid)
        for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ]
    assert len(workers) == 2
    ends = [os.pidfd_open(pid) for pid in workers]
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
    for end in ends:
        assert wait([end], 120)
    (step,) = Run(run).steps
    assert 0 < step < 4000
    assert train(run, dataset, *LONG, "trainer.max_wall_minutes=1e-6") == EXIT_STOPPED
    assert Run(run).steps[-1] == step + 1


def test_the_first_process_alone_has_the_lock_of_a_run_until_its_end(
    tmp_path: Path,
) -> None:
    for rank, there in ((0, True), (1, False)):
        with locked(tmp_path, rank):
            assert (tmp_path / LOCK_FILE).exists() == there
        assert not (tmp_path / LOCK_FILE).exists()
