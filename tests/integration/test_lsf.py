"""The launchers in lsf/ on a stand-in for LSF, with real conversion, training and evaluation."""

from __future__ import annotations

import json
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from danish_asr.launch.worker import STOPPED
from danish_asr.predictions import read_predictions
from tests.builders import build_source, tree
from tests.lsf_stand_in import Lsf, parse_directives, parse_options
from tests.recipes.running import metrics, weights
from workflows.recipes.wav2vec2.asr.run_directory import checkpoint_steps

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "lsf"
LAUNCHERS = ("convert.sh", "train.sh", "eval.sh", "pipeline.sh")
STEPS = 40

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lsf(tmp_path_factory: pytest.TempPathFactory) -> Lsf:
    """A cluster whose user has a source and the configuration of a tiny model."""
    root = tmp_path_factory.mktemp("lsf")
    build_source(root / "source", train=24, dev=6, test=8)
    every: Any = {"validate": STEPS // 2, "checkpoint": STEPS // 2, "publish_metrics": 1}
    config = yaml.safe_load((ROOT / "configs" / "demo.yaml").read_text(encoding="utf-8"))
    encoder = {"num_encoder_layers": 1, "model_dim": 32}
    config["model"]["config_overrides"] = {"encoder_config": encoder}
    config["common"] = {"torch": {"num_threads": 1}}
    config["regime"] = {f"{what}_every_n_steps": number for what, number in every.items()}
    config["regime"]["num_steps"] = STEPS
    (root / "tiny.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    cluster = Lsf(
        root,
        {
            "ASR_SCRATCH": str(root / "scratch"),
            "ASR_VENV": str(Path(sys.executable).parents[1]),
            "ASR_SOURCE": f"coral:{root / 'source'}",
            "ASR_DATASET": "tiny",
            "ASR_CONFIG": str(root / "tiny.yaml"),
            "FAIRSEQ2_DEVICE": "cpu",
            "OMP_NUM_THREADS": "1",
        },
    )
    cluster.install()
    return cluster


def run_of(lsf: Lsf, name: str) -> Path:
    return lsf.root / "scratch" / "runs" / name


@pytest.fixture(scope="module")
def pipeline(lsf: Lsf) -> Path:
    """The run of a pipeline whose training was warned at a random step. Not to be changed."""
    run = run_of(lsf, "pipeline")
    submission = lsf.run(
        [SCRIPTS / "pipeline.sh"],
        ASR_RUN=run,
        ASR_SHARDS=4,
        ASR_GPUS=2,
        LSF_WARN_JOB="train",
        LSF_WARN_FILE=run / "metrics" / "train.jsonl",
        LSF_WARN_LINES=random.randint(1, STEPS // 2),
    )
    assert submission.returncode == 0, submission.stderr
    states = lsf.wait()
    assert set(states.values()) == {"DONE"}, lsf.logs()
    return run


def assert_same_weights(one: Path, other: Path) -> None:
    left, right = weights(one, STEPS), weights(other, STEPS)
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


def test_a_pipeline_ends_with_a_report_though_its_wall_time_was_too_short(
    lsf: Lsf, pipeline: Path
) -> None:
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
    log = lsf.log(first + 2)
    assert (
        f"stopped before the wall time; {pipeline} is safe, and job {first + 4} continues it "
        "(try 2 of 5)"
    ) in log
    (stopped,) = re.findall(r"Stopping after step (\d+)", log)
    assert 1 <= int(stopped) < STEPS
    steps = [row["Step"] for row in metrics(pipeline, "train")]
    assert steps == sorted(set(steps))
    assert steps[-1] == STEPS
    results = pipeline / "eval" / "best" / "test"
    assert len({row.id for row in read_predictions(results / "predictions.jsonl")}) == 16
    assert f"done: the report is {results / 'report.html'}" in lsf.log(first + 5)
    assert (results / "report.html").is_file()


def test_each_job_leaves_a_trace_of_gpu_and_memory(lsf: Lsf, pipeline: Path) -> None:
    files = list((pipeline / "trace").iterdir())
    assert {int(file.name.split(".")[0]) for file in files} == {
        job for job, name in list(lsf.names().items())[:6] if name == "train"
    } | {min(lsf.jobs()) + 5}
    for file in files:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        assert {"time", "job", "host", "memory_mib", "gpus"} == lines[0].keys()
        assert lines[0]["host"] == "localhost"
        assert lines[0]["memory_mib"] > 0


def test_two_gpus_by_one_variable_give_the_weights_of_the_resubmitted_run(
    lsf: Lsf, pipeline: Path
) -> None:
    """``bsub <`` knows the one GPU that is written in the script; the job asks for the other."""
    run = run_of(lsf, "undisturbed")
    dataset = lsf.root / "scratch" / "data" / "tiny"
    submission = lsf.run(
        ["bsub"], stdin=SCRIPTS / "train.sh", ASR_GPUS=2, ASR_RUN=run, ASR_DATA=dataset
    )
    assert submission.returncode == 0, submission.stderr
    lsf.wait()
    second = max(lsf.jobs())
    assert lsf.options(second - 1)["gpu"] == "num=1:mode=exclusive_process"
    assert lsf.options(second)["gpu"] == "num=2:mode=exclusive_process"
    assert lsf.options(second)["n"] == "8"
    assert f"done: the model is in {run}" in lsf.log(second)
    assert_same_weights(run, pipeline)


def test_two_hosts_give_the_weights_of_two_processes_on_one(lsf: Lsf, pipeline: Path) -> None:
    run = run_of(lsf, "hosts")
    lsf.run([SCRIPTS / "train.sh"], ASR_HOSTS=2, ASR_RUN=run)
    lsf.wait()
    assert lsf.options(max(lsf.jobs()))["R"] == "span[ptile=4] rusage[mem=8GB]"
    assert f"done: the model is in {run}" in lsf.log(max(lsf.jobs())), lsf.log(max(lsf.jobs()))
    assert_same_weights(run, pipeline)
    job = max(lsf.jobs())
    traces = {f"{job}.localhost.jsonl", f"{job}.127.0.0.1.jsonl"}
    assert {file.name for file in (run / "trace").iterdir()} == traces


@pytest.mark.usefixtures("pipeline")
def test_two_hosts_stop_together_when_the_first_is_warned(lsf: Lsf) -> None:
    run = run_of(lsf, "hosts-warned")
    lsf.run(
        [SCRIPTS / "train.sh", "--config", "regime.num_steps=4000"],
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
        [SCRIPTS / "train.sh"],
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
    lsf.run([SCRIPTS / "train.sh", *arguments], ASR_RUN=run, ASR_TRIES=2)
    states = lsf.wait()
    job = max(lsf.jobs())
    assert len(lsf.jobs()) == before + 2
    assert (states[job - 1], states[job]) == ("DONE", "EXIT")
    assert lsf.status(job) == STOPPED
    assert f"stopped at try 2 of 2 and not submitted again; {run} is safe" in lsf.log(job)
    assert checkpoint_steps(run)


@pytest.mark.usefixtures("pipeline")
def test_a_failure_is_told_and_not_submitted_again(lsf: Lsf) -> None:
    run, before = run_of(lsf, "failure"), len(lsf.jobs())
    lsf.run([SCRIPTS / "train.sh", "--config", "optimizer.config.lr=fast"], ASR_RUN=run)
    states = lsf.wait()
    job = max(lsf.jobs())
    assert len(lsf.jobs()) == before + 1
    assert states[job] == "EXIT"
    assert lsf.status(job) == 2
    assert "optimizer.config.lr must be a number" in lsf.log(job)
    assert "failed with status 2, not submitted again" in lsf.log(job)


@pytest.mark.usefixtures("pipeline")
def test_a_job_that_is_killed_by_its_user_is_not_submitted_again(lsf: Lsf) -> None:
    run, before = run_of(lsf, "killed"), len(lsf.jobs())
    lsf.run([SCRIPTS / "train.sh", "--config", "regime.num_steps=4000"], ASR_RUN=run)
    lsf.wait_for(run / "metrics" / "train.jsonl")
    job = max(lsf.jobs())
    lsf.run(["bkill", str(job)])
    assert lsf.wait()[job] == "EXIT"
    assert len(lsf.jobs()) == before + 1
    assert "ended by a signal, not submitted again" in lsf.log(job)


def test_a_conversion_that_runs_out_of_time_is_continued(lsf: Lsf, pipeline: Path) -> None:
    assert pipeline.is_dir()
    whole, data, job = lsf.root / "scratch" / "data" / "tiny", lsf.root / "again", max(lsf.jobs())
    lsf.run(
        [SCRIPTS / "convert.sh"],
        ASR_DATA=data,
        LSF_WARN_JOB="convert",
        LSF_WARN_FILE=lsf.root / "scratch" / "logs" / f"convert-{job + 1}.log",
        LSF_WARN_LINES=1,
    )
    states = lsf.wait()
    assert [states[job + 1], states[job + 2]] == ["DONE", "DONE"], lsf.logs()
    assert f"{data} is safe, and job {job + 2} continues it" in lsf.log(job + 1)
    assert tree(data) == tree(whole)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_dry_run_prints_the_bsub_line_and_the_body_and_submits_nothing(
    lsf: Lsf, launcher: str
) -> None:
    before = lsf.jobs()
    printed = lsf.run([SCRIPTS / launcher, "--dry-run", "--config", "a={b: c}"], ASR_DATA="/no")
    assert printed.returncode == 0, printed.stderr
    assert "bsub -J " in printed.stdout
    assert "#!/bin/bash\n" in printed.stdout
    assert r"--config a=\{b:\ c\}" in printed.stdout
    assert lsf.jobs() == before


@pytest.mark.parametrize("launcher", LAUNCHERS[:3])
def test_the_lines_for_bsub_say_what_the_settings_say(lsf: Lsf, launcher: str) -> None:
    script = (SCRIPTS / launcher).read_text(encoding="utf-8")
    written, _ = parse_options(parse_directives(script))
    line = lsf.run([SCRIPTS / launcher, "--dry-run"]).stdout.splitlines()[0]
    submitted, _ = parse_options(shlex.split(line.partition("<<")[0])[1:])
    assert Path(submitted.pop("o")).name == written.pop("o")
    assert written == submitted


def test_what_cannot_be_submitted_is_said(lsf: Lsf, tmp_path: Path) -> None:
    environment = {**lsf.environment, "PATH": "/usr/bin:/bin", "ASR_DATA": str(tmp_path)}
    told = subprocess.run(
        [SCRIPTS / "train.sh"], env=environment, capture_output=True, text=True, check=False
    )
    assert told.returncode == 2
    assert "there is no bsub on this host; log in to the cluster, or see --dry-run" in told.stderr


@pytest.mark.parametrize("value", ["two", "-1", ""])
def test_a_number_that_is_none_is_named(lsf: Lsf, value: str) -> None:
    environment = {**lsf.environment, "ASR_HOSTS": value or " "}
    told = subprocess.run(
        [SCRIPTS / "train.sh", "--dry-run"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 2
    assert "ASR_HOSTS must be a whole number, but is" in told.stderr


def test_shellcheck_has_nothing_to_say() -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    files = [*SCRIPTS.glob("*.sh"), SCRIPTS / "site.env"]
    told = subprocess.run(
        [shellcheck, "-x", "-P", ROOT, *files], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout


@pytest.mark.parametrize("file", sorted(SCRIPTS.iterdir()), ids=lambda file: file.name)
def test_a_script_holds_no_name_of_a_user_and_no_dos_line_end(file: Path) -> None:
    text = file.read_bytes()
    assert b"\r" not in text
    assert not re.search(rb"/(home|zhome|Users)/|/work3/(?!\$)|\bs\d{6}\b", text)
