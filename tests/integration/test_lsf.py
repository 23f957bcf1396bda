"""The launchers in lsf/ on a stand-in for LSF, with real conversion, training and evaluation."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from danish_asr.cluster.worker import STOPPED
from danish_asr.recipe.run_directory import checkpoint_steps
from danish_asr.scoring.predictions import read_predictions
from tests.builders import tree
from tests.lsf_stand_in import Lsf
from tests.lsf_user import STEPS, launcher, lsf_user
from tests.recipe.running import RECIPE, metrics, weights

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lsf(tmp_path_factory: pytest.TempPathFactory) -> Lsf:
    """Every path has a space in it."""
    return lsf_user(tmp_path_factory.mktemp("l s f"))


def run_of(lsf: Lsf, name: str) -> Path:
    return lsf.root / "scratch" / "runs" / name


class Pipeline(NamedTuple):
    run: Path
    warned_after: int
    """Steps of training that had been published when the warning was sent."""


@pytest.fixture(scope="module")
def pipeline(lsf: Lsf) -> Pipeline:
    """A pipeline whose training was warned at a random step. Not to be changed."""
    run, lines = run_of(lsf, "pipeline"), random.randint(1, STEPS // 2)
    submission = lsf.run(
        [launcher(lsf, "pipeline.sh")],
        ASR_RUN=run,
        ASR_SHARDS=4,
        ASR_GPUS=2,
        LSF_WARN_JOB="train",
        LSF_WARN_FILE=run / "metrics" / "train.jsonl",
        LSF_WARN_LINES=lines,
    )
    assert submission.returncode == 0, submission.stderr
    states = lsf.wait()
    assert set(states.values()) == {"DONE"}, lsf.logs()
    return Pipeline(run, lines)


def assert_same_weights(one: Path, other: Path) -> None:
    left, right = weights(one, STEPS), weights(other, STEPS)
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


def test_a_pipeline_ends_with_a_report_though_its_wall_time_was_too_short(
    lsf: Lsf, pipeline: Pipeline
) -> None:
    run = pipeline.run
    names = ["convert[1-4]", "convert-finish", "train", "eval", "train", "eval"]
    assert list(lsf.names().values())[:6] == names
    first = min(lsf.jobs())
    assert [lsf.options(first + i).get("w") for i in range(6)] == [
        None,
        f"done({first})",
        f"done({first + 1})",
        f"done({first + 2})",
        None,
        f"done({first + 4})",
    ]
    for part in range(1, 5):
        assert f"done: part {part} of" in lsf.log(first, part)
    assert (
        f"stopped before the wall time; {run} is safe, and job {first + 4} continues it "
        "(try 2 of 5)"
    ) in lsf.log(first + 2)
    results = run / "eval" / "best" / "test"
    assert len({row.id for row in read_predictions(results / "predictions.jsonl")}) == 16
    assert f"done: the report is {results / 'report.html'}" in lsf.log(first + 5)
    page = (results / "report.html").read_text(encoding="utf-8")
    # Two jobs trained and one evaluated, one line of time.
    assert "Memory of the jobs" in page
    assert len(re.findall(r"another job at hour [\d.]+, [\d.]+<", page)) == 1


def test_the_warning_fell_in_the_middle_and_the_next_job_began_where_it_stopped(
    lsf: Lsf, pipeline: Pipeline
) -> None:
    first = min(lsf.jobs())
    (told,) = re.findall(r"Stopping after step (\d+)", lsf.log(first + 2))
    stopped = int(told)
    assert pipeline.warned_after <= stopped < STEPS
    second = " ".join(lsf.log(first + 4).split())  # fairseq2 folds its lines
    assert f"Restoring training from the last checkpoint at step {stopped}." in second
    steps = [row["Step"] for row in metrics(pipeline.run, "train")]
    assert steps == list(range(1, STEPS + 1))


def test_an_array_of_jobs_builds_what_one_conversion_builds(
    lsf: Lsf, pipeline: Pipeline, tmp_path: Path
) -> None:
    assert pipeline.run.is_dir()
    command: list[str | Path] = [Path(sys.executable).with_name("danish-asr"), "convert"]
    command += [f"coral:{lsf.root}/source", "--name", "tiny", "--out", tmp_path / "whole"]
    told = lsf.run(command)
    assert told.returncode == 0, told.stderr
    assert tree(lsf.root / "scratch" / "data" / "tiny") == tree(tmp_path / "whole")


def test_each_job_leaves_a_trace_of_gpu_and_memory(lsf: Lsf, pipeline: Pipeline) -> None:
    files = list((pipeline.run / "trace").iterdir())
    assert {int(file.name.split(".")[0]) for file in files} == {
        job for job, name in list(lsf.names().items())[:6] if name == "train"
    } | {min(lsf.jobs()) + 5}
    for file in files:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        assert {"time", "job", "host", "memory_mib", "gpus"} == lines[0].keys()
        assert lines[0]["host"] == "localhost"
        assert lines[0]["memory_mib"] > 0


def test_two_gpus_by_one_variable_give_the_weights_of_the_resubmitted_run(
    lsf: Lsf, pipeline: Pipeline
) -> None:
    """``bsub <`` knows the one GPU that is written in the script; the job asks for the other."""
    run = run_of(lsf, "undisturbed")
    dataset = lsf.root / "scratch" / "data" / "tiny"
    submission = lsf.run(
        ["bsub"],
        stdin=launcher(lsf, "train.sh"),
        cwd=lsf.root / "checkout" / "lsf",
        ASR_GPUS=2,
        ASR_RUN=run,
        ASR_DATA=dataset,
    )
    assert submission.returncode == 0, submission.stderr
    lsf.wait()
    second = max(lsf.jobs())
    assert lsf.options(second - 1)["gpu"] == "num=1:mode=exclusive_process"
    assert lsf.options(second)["gpu"] == "num=2:mode=exclusive_process"
    assert lsf.options(second)["n"] == "8"
    assert f"done: the model is in {run}" in lsf.log(second)
    assert_same_weights(run, pipeline.run)


def test_two_hosts_give_the_weights_of_two_processes_on_one(lsf: Lsf, pipeline: Pipeline) -> None:
    run = run_of(lsf, "hosts")
    lsf.run([launcher(lsf, "train.sh")], ASR_HOSTS=2, ASR_RUN=run)
    lsf.wait()
    assert lsf.options(max(lsf.jobs()))["R"] == "span[ptile=4] rusage[mem=8GB]"
    assert f"done: the model is in {run}" in lsf.log(max(lsf.jobs())), lsf.log(max(lsf.jobs()))
    assert_same_weights(run, pipeline.run)
    job = max(lsf.jobs())
    traces = {f"{job}.localhost.jsonl", f"{job}.127.0.0.1.jsonl"}
    assert {file.name for file in (run / "trace").iterdir()} == traces


@pytest.mark.usefixtures("pipeline")
def test_two_hosts_stop_together_when_the_first_is_warned(lsf: Lsf) -> None:
    run = run_of(lsf, "hosts-warned")
    lsf.run(
        [launcher(lsf, "train.sh"), "--config", "regime.num_steps=4000"],
        ASR_HOSTS=2,
        ASR_RUN=run,
        ASR_TRIES=1,
        LSF_WARN_JOB="train",
        LSF_WARN_FILE=run / "metrics" / "train.jsonl",
        LSF_WARN_LINES=3,
    )
    states = lsf.wait()
    job = max(lsf.jobs())
    assert f"stopped at try 1 of 1 and not submitted again; {run} is safe" in lsf.log(job)
    assert states[job] == "EXIT"
    assert lsf.status(job) == STOPPED
    assert checkpoint_steps(run)


@pytest.mark.usefixtures("pipeline")
def test_a_warning_while_the_libraries_load_is_kept_until_it_can_be_obeyed(lsf: Lsf) -> None:
    run = run_of(lsf, "early")
    lsf.run(
        [launcher(lsf, "train.sh")],
        ASR_RUN=run,
        ASR_TRIES=1,
        LSF_WARN_JOB="train",
        LSF_WARN_FILE=run / "trace" / f"{max(lsf.jobs()) + 1}.localhost.jsonl",
        LSF_WARN_LINES=1,
    )
    lsf.wait()
    job = max(lsf.jobs())
    assert lsf.status(job) == STOPPED, lsf.log(job)
    assert checkpoint_steps(run)[-1] < STEPS


@pytest.mark.usefixtures("pipeline")
def test_a_time_budget_resubmits_as_often_as_it_may(lsf: Lsf) -> None:
    run, before = run_of(lsf, "budget"), len(lsf.jobs())
    arguments = ["--config", "trainer.max_wall_minutes=1e-6"]
    lsf.run([launcher(lsf, "train.sh"), *arguments], ASR_RUN=run, ASR_TRIES=2)
    states = lsf.wait()
    job = max(lsf.jobs())
    assert len(lsf.jobs()) == before + 2
    assert (states[job - 1], states[job]) == ("DONE", "EXIT")
    assert lsf.status(job) == STOPPED
    assert f"stopped at try 2 of 2 and not submitted again; {run} is safe" in lsf.log(job)
    assert checkpoint_steps(run)


@pytest.mark.usefixtures("pipeline")
def test_a_stop_that_lsf_lets_nobody_continue_says_so(lsf: Lsf) -> None:
    run, before = run_of(lsf, "closed"), len(lsf.jobs())
    lsf.run([launcher(lsf, "train.sh"), "--config", "trainer.max_wall_minutes=1e-6"], ASR_RUN=run)
    (lsf.root / "closed").touch()
    lsf.wait()
    (lsf.root / "closed").unlink()
    job = max(lsf.jobs())
    assert len(lsf.jobs()) == before + 1
    assert lsf.status(job) == STOPPED
    told = f"stopped before the wall time, and LSF takes no other job now; {run} is safe"
    assert told in lsf.log(job)


def test_an_evaluation_that_runs_out_of_time_says_what_to_change(
    lsf: Lsf, pipeline: Pipeline
) -> None:
    before, job = len(lsf.jobs()), max(lsf.jobs()) + 1
    lsf.run(
        [launcher(lsf, "eval.sh")],
        ASR_RUN=pipeline.run,
        LSF_WARN_JOB="eval",
        LSF_WARN_FILE=lsf.root / "scratch" / "logs" / f"eval-{job}.log",
        LSF_WARN_LINES=1,
    )
    assert lsf.wait()[job] == "EXIT"
    assert len(lsf.jobs()) == before + 1
    assert "out of time and not submitted again; give it more: ASR_EVAL_WALL=4:00" in lsf.log(job)


def test_an_element_that_fails_keeps_the_dataset_incomplete_and_is_named(lsf: Lsf) -> None:
    data, before = lsf.root / "scratch" / "broken", len(lsf.jobs())
    command: list[str | Path] = [Path(sys.executable).with_name("danish-asr"), "convert"]
    command += [f"coral:{lsf.root}/source", "--out", data, "--name", "tiny", "--shard", "1/4"]
    assert lsf.run(command).returncode == 0
    # Something else stands where a shard of another part belongs.
    corpus = "corpus=coral_conversation/split=dev/language=dan_Latn/part-00000-of-00001.parquet"
    (data / "version=0" / corpus).mkdir(parents=True)
    lsf.run([launcher(lsf, "convert.sh")], ASR_DATA=data, ASR_SHARDS=4)
    states = lsf.wait()
    array = max(lsf.jobs()) - 1
    assert len(lsf.jobs()) == before + 2
    assert [states[array], states[array + 1]] == ["EXIT", "PEND"]
    logs = [lsf.log(array, part) for part in range(1, 5)]
    assert sorted("done: part" in log for log in logs) == [False, True, True, True]
    (failed,) = (log for log in logs if "done: part" not in log)
    assert "failed with status 1, not submitted again" in failed
    assert not (data / "manifest.json").exists()


@pytest.mark.usefixtures("pipeline")
def test_a_failure_is_told_and_not_submitted_again(lsf: Lsf) -> None:
    run, before = run_of(lsf, "failure"), len(lsf.jobs())
    lsf.run([launcher(lsf, "train.sh"), "--config", "optimizer.config.lr=fast"], ASR_RUN=run)
    states = lsf.wait()
    job = max(lsf.jobs())
    assert len(lsf.jobs()) == before + 1
    assert states[job] == "EXIT"
    assert lsf.status(job) == 2
    assert "optimizer.config.lr must be a number" in lsf.log(job)
    assert "failed with status 2, not submitted again" in lsf.log(job)


@pytest.mark.usefixtures("pipeline")
@pytest.mark.parametrize("sequential", [False, True])
def test_a_job_that_is_killed_by_its_user_is_not_submitted_again(
    lsf: Lsf, *, sequential: bool
) -> None:
    """LSF kills a job on several slots at once, unless the site has it otherwise."""
    run, before = run_of(lsf, f"killed-{sequential}"), len(lsf.jobs())
    site: dict[str, Any] = {"LSB_USE_SEQUENTIAL_SIGNAL": "Y"} if sequential else {}
    lsf.run([launcher(lsf, "train.sh"), "--config", "regime.num_steps=4000"], ASR_RUN=run, **site)
    lsf.wait_for(run / "metrics" / "train.jsonl")
    job = max(lsf.jobs())
    lsf.run(["bkill", str(job)])
    assert lsf.wait()[job] == "EXIT"
    assert len(lsf.jobs()) == before + 1
    assert lsf.status(job) == (143 if sequential else 137)
    assert ("ended by a signal, not submitted again" in lsf.log(job)) == sequential


def test_processes_that_blaunch_starts_without_torchrun_are_one_run(
    lsf: Lsf, pipeline: Pipeline
) -> None:
    """They know how many they are before they look at a run that one process had begun."""
    run, data = run_of(lsf, "blaunch"), pipeline.run.parents[1] / "data" / "tiny"
    recipe = [sys.executable, "-m", RECIPE, run, "--config-file", lsf.root / "tiny.yaml"]
    summary = f"dataset_summary_path={data}/language_distribution_0.tsv"
    recipe += ["--config", "dataset.name=tiny", f"dataset.mixture_parquet_storage_config.{summary}"]
    kept = {"FAIRSEQ2_DEVICE": "cpu", "OMP_NUM_THREADS": "1", "DANISH_ASR_ASSETS": data / "cards"}
    kept["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    task = ["env", *(f"{name}={value}" for name, value in kept.items()), *recipe]
    states = []
    for slots, start, stop in ((1, [], ["trainer.max_wall_minutes=1e-6"]), (2, ["blaunch"], [])):
        command = shlex.join(map(str, [*start, *task, *stop]))
        head = f"#BSUB -J alone -n {slots} -o alone-%J.log\n#BSUB -R 'span[ptile=1]'\n"
        (lsf.root / "job.sh").write_text(f"{head}{command}\n", encoding="utf-8")
        assert lsf.run(["bsub"], stdin=lsf.root / "job.sh", cwd=lsf.root).returncode == 0
        states.append(lsf.wait()[max(lsf.jobs())])
    log = lsf.log(max(lsf.jobs()))
    assert states == ["EXIT", "DONE"], log
    assert "Restoring training from the last checkpoint at step 1." in " ".join(log.split())
    assert [row["Step"] for row in metrics(run, "train")] == list(range(1, STEPS + 1))


def test_a_conversion_that_runs_out_of_time_is_continued(lsf: Lsf, pipeline: Pipeline) -> None:
    assert pipeline.run.is_dir()
    whole, data, job = lsf.root / "scratch" / "data" / "tiny", lsf.root / "again", max(lsf.jobs())
    lsf.run(
        [launcher(lsf, "convert.sh")],
        ASR_DATA=data,
        LSF_WARN_JOB="convert",
        LSF_WARN_FILE=lsf.root / "scratch" / "logs" / f"convert-{job + 1}.log",
        LSF_WARN_LINES=1,
    )
    states = lsf.wait()
    assert [states[job + 1], states[job + 2]] == ["DONE", "DONE"], lsf.logs()
    assert f"{data} is safe, and job {job + 2} continues it" in lsf.log(job + 1)
    assert tree(data) == tree(whole)
