"""The scripts in lsf/ on a real Slurm: `make slurm`, some minutes, not part of `make test`."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from danish_asr.recipe.run.run_directory import checkpoint_steps
from tests.integration.test_lsf import ROOT, site, wait_until
from tests.recipe.running import same_weights
from tests.slurm import Slurm, missing

STEPS = 1200  # more than the minute before Slurm's warning

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


class Site:
    """A login node of the real Slurm."""

    def __init__(self, root: Path, slurm: Slurm) -> None:
        self.root, self.slurm = root, slurm
        every = " ".join(f"regime.{what}_every_n_steps=500" for what in ("validate", "checkpoint"))
        self.arguments = f"--config regime.num_steps={STEPS} {every}"
        self._settings = {
            **site(root),
            **slurm.environment,
            **dict.fromkeys(("ASR_CPUS", "ASR_CONVERT_CPUS"), "1"),
            **dict.fromkeys(("ASR_MEMORY", "ASR_CONVERT_MEMORY"), ""),
            **{f"ASR_{job}TIME": "0:30" for job in ("", "CONVERT_", "EVALUATE_")},
            "ASR_TRIES": "99",
            "ASR_ARGS": self.arguments,
        }

    def submit(self, *arguments: str, **settings: object) -> list[int]:
        """Submit, as the user would; return the numbers of the jobs."""
        given = {name: str(value) for name, value in settings.items()}
        done = subprocess.run(
            ["lsf/submit.sh", *arguments],
            env={**os.environ, **self._settings, **given},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        return [int(number) for number in re.findall(r"job (\d+)", done.stdout)]

    def log(self, job: int) -> str:
        files = sorted((self.root / "scratch" / "logs").glob(f"*-{job}*.log"))
        return "\n".join(file.read_text(encoding="utf-8") for file in files)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    slurm = Slurm(tmp_path_factory.mktemp("slurm"))
    yield Site(tmp_path_factory.mktemp("s i t e"), slurm)
    slurm.stop()


@pytest.fixture(scope="module")
def run(cluster: Site) -> Path:
    """The run of a pipeline that nothing interrupted."""
    jobs = cluster.submit("pipeline", ASR_SHARDS="2")
    assert len(jobs) == 4
    for job in jobs:
        assert cluster.slurm.states(job) == {"COMPLETED"}, cluster.log(job)
    return cluster.root / "scratch" / "runs" / "ctc-finetune"


def test_a_pipeline_with_an_array_ends_with_a_report(run: Path) -> None:
    assert (run / "eval" / "best" / "test" / "report.html").is_file()


@pytest.fixture(scope="module")
def limited(cluster: Site, run: Path) -> dict[str, tuple[Path, int]]:
    """Two trainings in jobs of two minutes at the same time, by what stops them."""
    jobs = {}
    for what, limit in {"run": " trainer.max_wall_minutes=0.3", "Slurm": ""}.items():
        folder = run.with_name(f"limited by {what}")
        settings = {"ASR_TIME": "0:02", "ASR_RUN": folder, "ASR_SAVE_MINUTES": "0"}
        (job,) = cluster.submit("train", **settings, ASR_ARGS=cluster.arguments + limit)
        jobs[what] = folder, job
    return jobs


@pytest.mark.parametrize("what", ["run", "Slurm"])
def test_a_job_at_its_limit_starts_again_until_the_run_is_complete(
    cluster: Site, run: Path, limited: dict[str, tuple[Path, int]], what: str
) -> None:
    folder, job = limited[what]
    assert cluster.slurm.states(job, minutes=20) == {"COMPLETED"}, cluster.log(job)
    assert int(cluster.slurm.field(job, "Restarts")[0]) >= 1
    assert ("SIGUSR2 received" in cluster.log(job)) is (what == "Slurm")
    assert same_weights(run, folder, STEPS)


def test_a_job_that_slurm_requeues_continues(cluster: Site, run: Path) -> None:
    requeued = run.with_name("requeued")
    (job,) = cluster.submit("train", ASR_RUN=requeued)
    wait_until(lambda: checkpoint_steps(requeued))
    cluster.slurm.call("scontrol", "requeue", str(job))
    assert cluster.slurm.states(job) == {"COMPLETED"}, cluster.log(job)
    assert "start 2 of" in cluster.log(job)
    assert same_weights(run, requeued, STEPS)


def test_an_array_trains_a_run_of_a_sweep_in_each_element(cluster: Site, run: Path) -> None:
    folder = run.with_name("sweep")
    sweep = "regime.num_steps=2 --over optimizer.config.lr=1e-3,2e-3"
    (job,) = cluster.submit("sweep", "2", ASR_RUN=folder, ASR_SWEEP=sweep)
    assert cluster.slurm.states(job) == {"COMPLETED"}, cluster.log(job)
    assert [checkpoint_steps(run) for run in sorted(folder.glob("lr_*/"))] == [[2], [2]]


def test_what_waits_for_a_job_that_failed_is_ended(cluster: Site, run: Path) -> None:
    refused = {"ASR_RUN": run.with_name("refused"), "ASR_ARGS": "--config optimizer.config.lr=x"}
    train, evaluate = cluster.submit("pipeline", **refused)
    assert cluster.slurm.states(train) == {"FAILED"}
    assert cluster.slurm.field(train, "ExitCode") == ["2:0"]
    assert cluster.slurm.states(evaluate) == {"CANCELLED"}


def test_a_process_is_started_for_each_gpu_of_the_job(cluster: Site, run: Path) -> None:
    folder = run.with_name("two")
    short = "--config regime.num_steps=2 trainer.effective_audio_minutes=null"
    (job,) = cluster.submit("train", ASR_RUN=folder, ASR_GPUS="2", ASR_ARGS=short)
    assert cluster.slurm.states(job) == {"COMPLETED"}, cluster.log(job)
    assert len([*folder.glob("checkpoints/step_2/trainer/rank_*.pt")]) == 2
