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
from tests.recipe.running import metrics, same_weights
from tests.slurm import Slurm, missing

STEPS = 300

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


class Site:
    """A login node of the real Slurm."""

    def __init__(self, root: Path, slurm: Slurm) -> None:
        self.root, self.slurm = root, slurm
        every = " ".join(f"regime.{what}_every_n_steps=100" for what in ("validate", "checkpoint"))
        self.arguments = f"regime.num_steps={STEPS} {every}"
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
    jobs = cluster.submit("pipeline")
    assert len(jobs) == 3
    for job in jobs:
        assert cluster.slurm.states(job) == {"COMPLETED"}, cluster.log(job)
    return cluster.root / "scratch" / "runs" / "ctc-finetune"


def test_a_pipeline_ends_with_a_report(run: Path) -> None:
    assert (run / "eval" / "best" / "test" / "report.html").is_file()


@pytest.fixture(scope="module")
def long(cluster: Site, run: Path) -> dict[str, tuple[Path, int, int]]:
    """Trainings of minutes on any machine, at the same time, by what stops them in their jobs."""
    steps = int(150 * STEPS / metrics(run, "train")[-1]["Wall Time"])
    jobs = {}
    for what, time, limit in (
        ("nothing", "0:30", ""),
        ("run", "0:03", " trainer.max_wall_minutes=0.7"),
        ("Slurm", "0:02", ""),  # its warning comes after a minute or more
    ):
        folder = run.with_name(f"limited by {what}")
        settings = {"ASR_TIME": time, "ASR_RUN": folder, "ASR_SAVE_MINUTES": "0"}
        arguments = f"{cluster.arguments} regime.num_steps={steps}{limit}"
        (job,) = cluster.submit("train", **settings, ASR_ARGS=arguments)
        jobs[what] = folder, job, steps
    return jobs


@pytest.mark.parametrize("what", ["run", "Slurm"])
def test_a_job_at_its_limit_starts_again_until_the_run_is_complete(
    cluster: Site, long: dict[str, tuple[Path, int, int]], what: str
) -> None:
    whole, undisturbed, _ = long["nothing"]
    folder, job, steps = long[what]
    assert cluster.slurm.states(undisturbed, minutes=20) == {"COMPLETED"}, cluster.log(undisturbed)
    assert cluster.slurm.states(job, minutes=20) == {"COMPLETED"}, cluster.log(job)
    assert int(cluster.slurm.field(job, "Restarts")[0]) >= 1
    assert ("SIGUSR2 received" in cluster.log(job)) is (what == "Slurm")
    assert same_weights(whole, folder, steps)


@pytest.mark.parametrize("what", ["requeued", "host lost", "host unreachable"])
def test_a_job_that_slurm_starts_again_continues(cluster: Site, run: Path, what: str) -> None:
    requeued = run.with_name(what)
    (job,) = cluster.submit("train", ASR_RUN=requeued)
    wait_until(lambda: checkpoint_steps(requeued))
    if what == "requeued":
        cluster.slurm.call("scontrol", "requeue", str(job))
    else:
        cluster.slurm.lose_host(with_jobs=what == "host lost")
    assert cluster.slurm.states(job) == {"COMPLETED"}, cluster.log(job)
    assert cluster.log(job).count("danish-asr: done") == 1
    assert "start 2 of" in cluster.log(job)
    assert same_weights(run, requeued, STEPS)


def test_an_array_trains_a_run_of_a_sweep_in_each_element(cluster: Site, run: Path) -> None:
    folder = run.with_name("sweep")
    sweep = "regime.num_steps=2 --over optimizer.config.lr=1e-3,2e-3"
    (job,) = cluster.submit("sweep", "2", ASR_RUN=folder, ASR_SWEEP=sweep)
    assert cluster.slurm.states(job) == {"COMPLETED"}, cluster.log(job)
    assert [checkpoint_steps(run) for run in sorted(folder.glob("lr_*/"))] == [[2], [2]]


def test_what_waits_for_a_job_that_failed_is_ended(cluster: Site, run: Path) -> None:
    refused = {"ASR_RUN": run.with_name("refused"), "ASR_ARGS": "optimizer.config.lr=x"}
    train, evaluate = cluster.submit("pipeline", **refused)
    assert cluster.slurm.states(train) == {"FAILED"}
    assert cluster.slurm.field(train, "ExitCode") == ["2:0"]
    assert cluster.slurm.states(evaluate) == {"CANCELLED"}


def test_a_process_is_started_for_each_gpu_of_the_job(cluster: Site, run: Path) -> None:
    folder = run.with_name("two")
    short = "regime.num_steps=2 trainer.effective_audio_minutes=null"
    (job,) = cluster.submit("train", ASR_RUN=folder, ASR_GPUS="2", ASR_ARGS=short)
    assert cluster.slurm.states(job) == {"COMPLETED"}, cluster.log(job)
    assert len([*folder.glob("checkpoints/step_2/trainer/rank_*.pt")]) == 2
