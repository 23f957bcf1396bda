"""The scripts in lsf/ run real conversion, training and evaluation on a small ``bsub``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.base.errors import EXIT_REFUSED, EXIT_STOPPED, EXIT_TOO_MANY_TRIES
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.recipe.run.run_directory import checkpoint_steps
from danish_asr.scoring.predictions import read_predictions
from tests import lsf as stand_in
from tests.builders import build_source, tree
from tests.recipe.running import weights

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "lsf").iterdir())
STEPS = 4
TWO_GPUS = "-n 8 -gpu num=2:mode=exclusive_process"
LONG = "--config regime.num_steps=4000"

pytestmark = pytest.mark.slow


class Cluster:
    """A login node with ``bsub`` and ``bjobs``, a source and the configuration of a tiny model."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._bin = root / "bin"
        self._bin.mkdir()
        code = Path(stand_in.__file__).read_text(encoding="utf-8")
        for name, text in {
            "bsub": f"#!{sys.executable}\n{code}",
            "bjobs": "#!/bin/bash\necho 1440.0/node\n",
            "scontrol": '#!/bin/bash\necho "   StartTime=Unknown EndTime=$END Deadline=N/A"\n',
            "srun": '#!/bin/bash\n"$@"\n',
        }.items():
            (self._bin / name).write_text(text, encoding="utf-8")
            (self._bin / name).chmod(0o755)
        build_source(root / "source", train=12, dev=6, test=8)
        config = from_yaml((ROOT / "configs" / "demo.yaml").read_text(encoding="utf-8"))
        config["model"]["config_overrides"] = {
            "encoder_config": {"num_encoder_layers": 1, "model_dim": 32}
        }
        config["dataset"]["asr_task_config"]["max_num_elements"] = 160_000
        config["common"] = {"torch": {"num_threads": 1}}
        config["regime"] = dict.fromkeys(("validate_every_n_steps", "checkpoint_every_n_steps"), 2)
        config["regime"] |= {"num_steps": STEPS, "publish_metrics_every_n_steps": 1}
        (root / "tiny.yaml").write_text(to_yaml(config), encoding="utf-8")

    def start(
        self, *command: str, script: str | None = None, **settings: Any
    ) -> subprocess.Popen[str]:
        """Start a command as the user would type it in the checkout."""
        environment = {
            **os.environ,
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "ASR_SCRATCH": self.root / "scratch",
            "ASR_VENV": Path(sys.executable).parents[1],
            "ASR_SOURCE": f"coral:{self.root / 'source'}",
            "ASR_DATASET": "tiny",
            "ASR_CONFIG": self.root / "tiny.yaml",
            "FAIRSEQ2_DEVICE": "cpu",
            "OMP_NUM_THREADS": "1",
            **settings,
        }
        with (ROOT / "lsf" / (script or "train.sh")).open() as stdin:
            return subprocess.Popen(
                command,
                env={name: str(value) for name, value in environment.items()},
                cwd=ROOT,
                stdin=stdin,
                stderr=subprocess.PIPE,
                text=True,
            )

    def run(self, *command: str, script: str | None = None, **settings: Any) -> None:
        process = self.start(*command, script=script, **settings)
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors

    def jobs(self) -> list[dict[str, Any]]:
        files = sorted(self._bin.glob("*.json"), key=lambda file: int(file.stem))
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def statuses(self) -> list[int]:
        """The status of each start of the newest job."""
        starts: list[int] = self.jobs()[-1]["statuses"]["0"]
        return starts

    def log(self) -> str:
        files = (self.root / "scratch" / "logs").glob("*.log")
        return max(files, key=lambda file: file.stat().st_mtime_ns).read_text(encoding="utf-8")

    def script_pid(self) -> int:
        return int((self._bin / "pid").read_text(encoding="utf-8"))


def wait_until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return Cluster(tmp_path_factory.mktemp("l s f"))


@pytest.fixture(scope="module")
def run(cluster: Cluster) -> Path:
    """The run of a pipeline that nothing interrupted. Not to be changed."""
    run = cluster.root / "scratch" / "runs" / "ctc-finetune"
    cluster.run("lsf/pipeline.sh", ASR_SHARDS=2, ASR_TRAIN_BSUB="-n 8")
    assert [job["statuses"] for job in cluster.jobs()] == [
        {"1": [0], "2": [0]},
        {"0": [0]},
        {"0": [0]},
        {"0": [0]},
    ], cluster.log()
    return run


def test_a_pipeline_ends_with_a_report(cluster: Cluster, run: Path) -> None:
    after = [job["options"].get("-w") for job in cluster.jobs()[:4]]
    assert after == [None, "done(1)", "done(2)", "done(3)"]
    assert cluster.jobs()[2]["options"]["-n"] == "8"
    results = run / "eval" / "best" / "test"
    assert len({row.id for row in read_predictions(results / "predictions.jsonl")}) == 16
    assert (results / "report.html").is_file()
    config = from_yaml((run / "config.yaml").read_text(encoding="utf-8"))
    assert config["trainer"]["max_wall_minutes"] == 24 * 60 - 15


def test_an_array_of_jobs_builds_what_one_conversion_builds(
    cluster: Cluster, run: Path, tmp_path: Path
) -> None:
    assert run.is_dir()
    cluster.run("bsub", script="convert.sh", ASR_DATA=tmp_path)
    assert cluster.statuses() == [0], cluster.log()
    built = tree(cluster.root / "scratch" / "data" / "tiny")
    # Training has added its index.
    assert {name: digest for name, digest in built.items() if ".index" not in name} == tree(
        tmp_path
    )


def test_a_run_that_is_stopped_and_started_again_learns_the_same_weights(
    cluster: Cluster, run: Path
) -> None:
    stopped = run.with_name("stopped")
    budget = "--config trainer.max_wall_minutes=1e-6"
    settings = {"ASR_RUN": stopped, "ASR_TRIES": 2}
    cluster.run("bsub", script="train.sh", ASR_ARGS=budget, **settings)
    assert cluster.statuses() == [EXIT_STOPPED, EXIT_TOO_MANY_TRIES], cluster.log()
    assert checkpoint_steps(stopped)[-1] == 2
    cluster.run("bsub", script="train.sh", **settings)
    assert cluster.statuses() == [0], cluster.log()
    expected, found = weights(run, STEPS), weights(stopped, STEPS)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.usefixtures("run")
def test_a_refused_configuration_is_not_started_again(cluster: Cluster) -> None:
    refused = "--config optimizer.config.lr=fast"
    folder = cluster.root / "refused"
    cluster.run("bsub", script="train.sh", ASR_RUN=folder, ASR_ARGS=refused)
    assert cluster.statuses() == [EXIT_REFUSED], cluster.log()
    assert "optimizer.config.lr" in cluster.log()


SPLIT = """--config model.name='a b' optimizer.config.betas=(0.9,0.98) "c d" x=a&b $HOME * #e"""
WORDS = ["--config", "model.name=a b", "optimizer.config.betas=(0.9,0.98)", "c d"]
WORDS += ["x=a&b", "$HOME", "*", "#e"]


def programs(folder: Path, text: str) -> Path:
    """An environment whose programs are all the same shell script."""
    (folder / "venv" / "bin").mkdir(parents=True)
    for name in ("danish-asr", "python"):
        program = folder / "venv" / "bin" / name
        program.write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        program.chmod(0o755)
    return folder / "venv"


@pytest.mark.parametrize(
    ("script", "setting"),
    [
        ("train.sh", "ASR_ARGS"),
        ("eval.sh", "ASR_ARGS"),
        ("convert.sh", "ASR_CONVERT_ARGS"),
        ("sweep.sh", "ASR_SWEEP"),
    ],
)
@pytest.mark.parametrize("text", [SPLIT, "--config model.name='x", ""])
def test_arguments_pass_as_written_and_an_unclosed_quote_starts_nothing(
    cluster: Cluster, tmp_path: Path, script: str, setting: str, text: str
) -> None:
    environment = programs(tmp_path, f"printf '%s\\0' \"$@\" >'{tmp_path}/given'")
    folders = {"ASR_VENV": environment, "ASR_RUN": tmp_path / "run"}
    (tmp_path / "run" / "eval").mkdir(parents=True)
    cluster.run("bsub", script=script, **folders, **{setting: text})
    if text.count("'") == 1:
        assert list(cluster.jobs()[-1]["statuses"].values()) == [[EXIT_REFUSED]], cluster.log()
        assert text in cluster.log()
        assert not (tmp_path / "given").exists()
        return
    assert list(cluster.jobs()[-1]["statuses"].values()) == [[0]], cluster.log()
    words = WORDS if text else []
    given = (tmp_path / "given").read_text().split("\0")[:-1]
    if script == "sweep.sh":
        given = given[:-2]
    assert given[len(given) - len(words) :] == words
    assert "" not in given


def test_a_training_whose_host_is_lost_starts_again(cluster: Cluster, tmp_path: Path) -> None:
    environment = programs(
        tmp_path, f"[ -e '{tmp_path}/lost' ] || {{ >'{tmp_path}/lost'; kill -9 0; }}"
    )
    settings = {"ASR_VENV": environment, "ASR_RUN": tmp_path / "run"}
    cluster.run("bsub", script="train.sh", **settings)
    assert cluster.statuses() == [-signal.SIGKILL, 0], cluster.log()


@pytest.mark.parametrize(
    ("known", "minutes"), [(True, "45"), (False, "85"), (None, "null")], ids=str
)
def test_slurm_gives_the_time_limit_and_its_early_warning_kills_nothing(
    cluster: Cluster, tmp_path: Path, known: bool | None, minutes: str
) -> None:
    given = tmp_path / "given"
    environment = programs(tmp_path, f"kill -USR2 $$; printf '%s\\n' \"$@\" >'{given}'")
    settings: dict[str, Any] = {"ASR_VENV": environment, "ASR_RUN": tmp_path / "run"}
    if known:
        settings["SLURM_JOB_END_TIME"] = int(time.time()) + 60 * 60 + 30
    end = time.localtime(time.time() + 100 * 60 + 30)
    settings["END"] = "Unknown" if known is None else time.strftime("%Y-%m-%dT%H:%M:%S", end)
    cluster.run("bash", script="train.slurm", SLURM_JOB_ID=7, SLURM_SUBMIT_DIR=ROOT, **settings)
    assert f"trainer.max_wall_minutes={minutes}" in given.read_text().splitlines()


def descendants(pid: int) -> list[int]:
    """The processes that ``pid`` started, those that they started, and so on."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for file in files for child in file.read_text().split()]
    return [process for child in children for process in (child, *descendants(child))]


def workers(cluster: Cluster) -> list[int]:
    """The processes of a training, without the launcher."""
    found = [(pid, Path("/proc", str(pid), "cmdline")) for pid in descendants(cluster.script_pid())]
    return [p for p, file in found if b"danish_asr.recipe" in file.read_bytes().split(b"\0")[2:4]]


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGKILL, 1), (signal.SIGTERM, 143), (signal.SIGUSR2, EXIT_TOO_MANY_TRIES)],
)
def test_a_killed_worker_and_bkill_end_a_run_and_a_warning_saves_it(
    cluster: Cluster, number: signal.Signals, status: int
) -> None:
    folder = cluster.root / number.name
    settings = {"ASR_RUN": folder, "ASR_ARGS": LONG, "ASR_TRIES": 1}
    process = cluster.start("bsub", *TWO_GPUS.split(), script="train.sh", **settings)
    wait_until((folder / "metrics" / "train.jsonl").is_file)
    if number is signal.SIGKILL:
        os.kill(workers(cluster)[1], number)
    else:
        os.killpg(cluster.script_pid(), number)
    process.communicate(timeout=300)
    assert cluster.statuses() == [status], cluster.log()
    if number is signal.SIGUSR2:
        assert checkpoint_steps(folder)[-1] < 4000


def test_a_conversion_that_runs_out_of_time_is_started_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    command = tmp_path / "venv" / "bin" / "danish-asr"
    command.parent.mkdir(parents=True)
    begun = tmp_path / "begun"
    command.write_text(f'#!/bin/bash\n[ -e "{begun}" ] || {{ touch "{begun}"; sleep 60; }}\n')
    command.chmod(0o755)
    process = cluster.start("bsub", script="convert.sh", ASR_VENV=tmp_path / "venv")
    wait_until(begun.is_file)
    os.killpg(cluster.script_pid(), signal.SIGUSR2)
    process.communicate(timeout=60)
    assert cluster.statuses() == [EXIT_STOPPED, 0], cluster.log()


def test_an_array_of_jobs_trains_a_run_of_a_sweep_in_each_element(
    cluster: Cluster, tmp_path: Path
) -> None:
    command = tmp_path / "venv" / "bin" / "danish-asr"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/bash\necho "$@" >>"{tmp_path}/asked"\n')
    command.chmod(0o755)
    over = "--over optimizer.config.lr=1e-3,'2e-3'"
    settings = {"ASR_VENV": tmp_path / "venv", "ASR_SWEEP": over}
    cluster.run("bsub", "-J", "sweep[1-2]", script="sweep.sh", **settings)
    assert cluster.jobs()[-1]["statuses"] == {"1": [0], "2": [0]}, cluster.log()
    asked = (tmp_path / "asked").read_text().splitlines()
    for number, line in enumerate(asked, 1):
        assert line.startswith(f"sweep {cluster.root}/scratch/runs/ctc-finetune --config ")
        ends = f"max_wall_minutes=1425 --over optimizer.config.lr=1e-3,2e-3 --only {number}"
        assert line.endswith(ends)


def test_shellcheck_finds_nothing() -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    found = subprocess.run(
        [shellcheck, "-x", *SCRIPTS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout
