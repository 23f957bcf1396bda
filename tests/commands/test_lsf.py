"""The scripts in lsf/ run real conversion, training and evaluation on a small ``bsub``.

``lsf/try_slurm.sh`` runs them on a real Slurm.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import EXIT_REFUSED, EXIT_STOPPED
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.recipe.run.run import Run
from danish_asr.scoring.predictions import read_predictions
from tests import documented
from tests import lsf as stand_in
from tests.builders import build_source
from tests.running import metrics, same_weights

ROOT = Path(__file__).parents[2]

SCRIPTS = sorted(file for file in (ROOT / "lsf").iterdir() if file.name != "site.local.env")

STEPS = 4

TOO_MANY_TRIES = 76

LONG = "regime.num_steps=4000"

SCONTROL = """#!/bin/bash
[ -z "$REQUEUE" ] || kill $PPID
exit 1
"""

pytestmark = pytest.mark.slow


def site(root: Path) -> dict[str, str]:
    """Make a source and the configuration of a tiny model; return the settings that name them."""
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
    return {
        "ASR_SCRATCH": str(root / "scratch"),
        "ASR_VENV": str(Path(sys.executable).parents[1]),
        "ASR_SOURCE": f"parquet:{root / 'source'}",
        "ASR_DATASET": "tiny",
        "ASR_CONFIG": str(root / "tiny.yaml"),
        "FAIRSEQ2_DEVICE": "cpu",
        "OMP_NUM_THREADS": "1",
    }


def write_program(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755)


def check_out(folder: Path) -> Path:
    """Make a checkout with the scripts, without this one's ``site.local.env``."""
    (folder / "lsf").mkdir(parents=True)
    for script in SCRIPTS:
        shutil.copy(script, folder / "lsf")
    (folder / "configs").symlink_to(ROOT / "configs")
    return folder


class Cluster:
    """A login node with ``bsub`` and ``bjobs``, a source and the configuration of a tiny model."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._checkout = check_out(root / "checkout")
        self._bin = root / "bin"
        self._bin.mkdir()
        code = Path(stand_in.__file__).read_text(encoding="utf-8")
        for name, text in {
            "bsub": f"#!{sys.executable}\n{code}",
            "bjobs": "#!/bin/bash\necho 1440.0/node\n",
            "bkill": f"#!/bin/bash\necho \"$*\" >>'{root}/cancelled'\n",
            "scontrol": SCONTROL,
        }.items():
            write_program(self._bin / name, text)
        self._settings = site(root)

    def start(self, *command: str, **settings: Any) -> subprocess.Popen[str]:
        """Start a command as the user would type it in the checkout, or in ``cwd``."""
        cwd = settings.pop("cwd", self._checkout)
        own = ("ASR_", "LSB_", "SLURM_")  # of whoever runs the tests, perhaps in a job
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(own)},
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            **self._settings,
            **settings,
        }
        return subprocess.Popen(
            command,
            env={name: str(value) for name, value in environment.items()},
            cwd=cwd,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **settings: Any) -> str:
        """Run ``lsf/submit.sh``; return what it prints on standard error."""
        status = settings.pop("status", 0)
        process = self.start("lsf/submit.sh", *arguments, **settings)
        _, errors = process.communicate(timeout=600)
        assert process.returncode == status, errors
        return errors

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
    """A cluster whose first jobs were a pipeline that nothing interrupted."""
    cluster = Cluster(tmp_path_factory.mktemp("l s f"))
    # The shell of a job of Slurm has a rank and no number of tasks.
    settings = {"ASR_OPTIONS": "-P abc", "SLURM_PROCID": 0, "SLURM_LOCALID": 0}
    cluster.run("pipeline", "-R", "select[gpu80gb]", **settings)
    assert [job["statuses"] for job in cluster.jobs()] == [{"0": [0]}] * 3, cluster.log()
    return cluster


@pytest.fixture(scope="module")
def run(cluster: Cluster) -> Path:
    """The run of the pipeline. Not to be changed."""
    return cluster.root / "scratch" / "runs" / "ctc-finetune"


def train(cluster: Cluster, folder: Path, *values: str) -> None:
    """Train in this process as the job of ``cluster`` does."""
    data = cluster.root / "scratch" / "data" / "tiny"
    command = ("danish-asr", "train", folder, "-c", cluster.root / "tiny.yaml", "--dataset", data)
    documented.run([*map(str, command), *values])


def test_a_pipeline_ends_with_a_report(cluster: Cluster, run: Path) -> None:
    after = [job["options"]["w"] for job in cluster.jobs()[:3]]
    assert after == [None, "done(1)", "done(2)"]
    options = [job["options"] for job in cluster.jobs()[:3]]
    assert [job["J"] for job in options] == ["convert", "train", "evaluate"]
    assert {job["P"] for job in options} == {"abc"}
    # A -R of the user stands beside ours, which it would replace in a script.
    assert options[2]["R"] == ["span[hosts=1]", "rusage[mem=8GB]"]
    assert options[1]["R"] == [*options[2]["R"], "select[gpu80gb]"]
    results = run / "eval" / "best" / "test"
    assert read_predictions(results / "predictions.jsonl")["id"].nunique() == 16
    assert (results / "report.html").is_file()
    config = from_yaml((run / "config.yaml").read_text(encoding="utf-8"))
    assert config["trainer"]["max_wall_minutes"] == 24 * 60 - 15


def test_a_job_learns_what_its_command_learns(
    cluster: Cluster, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRAPS, training: no cluster handler of fairseq2 is used; torchrun gives the ranks."""
    monkeypatch.setenv("FAIRSEQ2_DEVICE", "cpu")
    train(cluster, tmp_path / "run")
    assert same_weights(run, tmp_path / "run", STEPS)


SPLIT = """model.name='a b' optimizer.config.betas=(0.9,0.98) "c d" x=a&b $HOME * #e"""

WORDS = ["model.name=a b", "optimizer.config.betas=(0.9,0.98)", "c d"]

WORDS += ["x=a&b", "$HOME", "*", "#e"]


def programs(folder: Path, text: str) -> Path:
    """An environment whose programs are all the same shell script."""
    (folder / "venv" / "bin").mkdir(parents=True)
    for name in ("danish-asr", "python"):
        write_program(folder / "venv" / "bin" / name, f"#!/bin/bash\n{text}\n")
    return folder / "venv"


@pytest.mark.parametrize(
    ("what", "setting"),
    [("train", "ASR_ARGS"), ("convert", "ASR_CONVERT_ARGS"), ("sweep 2", "ASR_SWEEP")],
)
def test_arguments_pass_as_written(
    cluster: Cluster, tmp_path: Path, what: str, setting: str
) -> None:
    environment = programs(tmp_path, f"printf '%s\\0' \"$@\" >'{tmp_path}/asked'")
    settings = {"ASR_VENV": environment, "ASR_RUN": tmp_path / "run"}
    for text, words in ((SPLIT, WORDS), ("", [])):
        cluster.run(*what.split(), **settings, **{setting: text})
        asked = (tmp_path / "asked").read_text().split("\0")[:-1]
        if what == "sweep 2":  # of whose elements this is the last one
            assert cluster.jobs()[-1]["statuses"] == {"1": [0], "2": [0]}
            assert asked[-2:] == ["--only", "2/2"]
            asked = asked[:-2]
        assert asked[len(asked) - len(words) :] == words
        assert "" not in asked


@pytest.mark.parametrize(
    ("end", "statuses"),
    [
        ("kill -9 0", [-signal.SIGKILL, 0]),
        ("exit 140", [EXIT_STOPPED, 0]),
        ("exit 75", [EXIT_STOPPED, 0]),
        ("exit 1", [1]),
        ("exit 2", [EXIT_REFUSED]),
    ],
)
def test_a_training_whose_host_is_lost_or_whose_process_the_warning_killed_starts_again(
    cluster: Cluster, tmp_path: Path, end: str, statuses: list[int]
) -> None:
    begun = tmp_path / "begun"
    environment = programs(tmp_path, f"[ -e '{begun}' ] || {{ >'{begun}'; {end}; }}")
    cluster.run("train", ASR_VENV=environment, ASR_RUN=tmp_path / "run")
    assert cluster.statuses() == statuses, cluster.log()


@pytest.mark.parametrize(
    ("what", "status", "named"),
    [
        ("evaluate", EXIT_STOPPED, "ASR_EVALUATE_TIME"),  # it would stop there again
        ("train", 128 + signal.SIGKILL, "ASR_MEMORY"),
    ],
)
def test_a_job_that_needs_more_is_not_started_again_and_its_log_names_the_setting(
    cluster: Cluster, tmp_path: Path, what: str, status: int, named: str
) -> None:
    environment = programs(tmp_path, f"exit {status}")
    cluster.run(what, ASR_VENV=environment, ASR_RUN=tmp_path / "run")
    assert cluster.statuses() == [1 if status == EXIT_STOPPED else status]
    assert named in cluster.log()


def test_what_waits_for_a_job_that_failed_is_ended(cluster: Cluster, tmp_path: Path) -> None:
    before = len(cluster.jobs())
    folders = {"ASR_VENV": programs(tmp_path, "exit 1"), "ASR_DATA": tmp_path}
    cluster.run("pipeline", **folders)
    statuses = [job["statuses"] for job in cluster.jobs()[before:]]
    assert statuses == [{"0": [1]}, {"0": ["ended"]}, {"0": ["ended"]}]


def test_a_first_job_makes_its_corpus_in_two_starts(cluster: Cluster, tmp_path: Path) -> None:
    before = len(cluster.jobs())
    environment = programs(tmp_path, f"echo \"$*\" >>'{tmp_path}/asked'")
    real = {"ASR_RUN": "/mine", "ASR_DATA": "/mine", "ASR_CONVERT_ARGS": "--mine"}
    (tmp_path / "demo" / "run" / "eval").mkdir(parents=True)
    cluster.run("demo", ASR_VENV=environment, ASR_SCRATCH=tmp_path, **real)
    statuses = [job["statuses"] for job in cluster.jobs()[before:]]
    assert statuses == [{"0": [EXIT_STOPPED, 0]}, *[{"0": [0]}] * 2]
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith(f"convert synthetic:{tmp_path}/demo/source ")
    assert "mine" not in asked


LIMITS = {"lsf": ("-W 120", "-wt 10"), "slurm": ("--time=120", "--signal=B:USR2@600")}

REQUESTS = {
    "lsf": ("-q mine", "-P mine", "-J sweep[1-4]%2", "-gpu num=1:mode=exclusive_process", "-n 4"),
    "slurm": (
        *("--partition=mine", "--account=mine", "--array=1-4%2", "--gpus-per-node=1"),
        *("--cpus-per-task=4", "--mem-per-cpu=8G", "--requeue"),
    ),
}


@pytest.mark.parametrize("scheduler", ["lsf", "slurm"])
def test_settings_mean_the_same_to_both_schedulers(
    cluster: Cluster, tmp_path: Path, scheduler: str
) -> None:
    """The environment wins over site.local.env, which wins over site.env."""
    check_out(tmp_path)
    local = "ASR_ACCOUNT=mine\nASR_QUEUE=mine\nASR_TIME=7:00\nASR_GPUS=2\n"
    (tmp_path / "lsf" / "site.local.env").write_text(local)
    program = tmp_path / ("bsub" if scheduler == "lsf" else "sbatch")
    answer = "Job <7>" if scheduler == "lsf" else "7;dtu"
    write_program(program, f"#!/bin/bash\necho \"$*\" >'{tmp_path}/asked'; echo '{answer}'\n")
    settings = {"ASR_SCHEDULER": scheduler, "ASR_TIME": "2:00"}
    path = f"{tmp_path}:{os.environ['PATH']}"
    cluster.run("sweep", "4%2", cwd=tmp_path, PATH=path, **settings)
    asked = (tmp_path / "asked").read_text()
    assert asked.endswith(" lsf/job.sh sweep 4\n")
    assert [part for part in (*REQUESTS[scheduler], *LIMITS[scheduler]) if part not in asked] == []
    (tmp_path / "asked").unlink()
    for words in ("--dry-run sweep 4%2", "sweep 4%2 --dry-run"):
        dry = ("bash", "-c", f"lsf/submit.sh {words} >printed")
        process = cluster.start(*dry, cwd=tmp_path, PATH=path, **settings)
        assert process.communicate(timeout=60)[1] == ""
        first, _ = (tmp_path / "printed").read_text().splitlines()
        assert " ".join(shlex.split(first)) == f"{program.name} {asked.strip()}"
        assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("arguments", "settings", "named"),
    [
        ("trian", {}, "trian"),
        ("sweep --array=1-4", {}, "sweep 4"),
        ("train", {"ASR_TIME": "24h"}, "24h"),
        ("train", {"ASR_TIME": "24"}, "24"),  # which both schedulers take as minutes
        ("train", {"ASR_TRIES": "many"}, "ASR_TRIES"),
        ("train", {"ASR_SAVE_MINUTES": "1h"}, "ASR_SAVE_MINUTES"),
        ("train", {"ASR_CONFIG": "missing.yaml"}, "missing.yaml"),
        ("train", {"ASR_VENV": "missing"}, "missing"),
        ("train --unknown", {}, "refused"),
        ("train", {"ASR_GPUS": "9"}, "ASR_GPUS"),
        ("train", {"ASR_ARGS": "model.name='x"}, "ASR_ARGS"),
        ("sweep 2", {"ASR_SWEEP": '--over "lr=1,2'}, "ASR_SWEEP"),
    ],
)
def test_what_cannot_be_submitted_is_refused(
    cluster: Cluster, arguments: str, settings: dict[str, str], named: str
) -> None:
    before = len(cluster.jobs())
    assert named in cluster.run(*arguments.split(), status=EXIT_REFUSED, **settings)
    assert len(cluster.jobs()) == before


@pytest.mark.parametrize(
    ("options", "settings"), [(["--unknown"], {}), ([], {"ASR_EVALUATE_TIME": "2h"})]
)
def test_a_pipeline_of_which_a_job_is_refused_leaves_none_in_the_queue(
    cluster: Cluster, tmp_path: Path, options: list[str], settings: dict[str, str]
) -> None:
    before = len(cluster.jobs())
    folders = {"ASR_VENV": programs(tmp_path, ""), "ASR_DATA": tmp_path, "ASR_RUN": tmp_path}
    cluster.run("pipeline", *options, status=EXIT_REFUSED, **folders, **settings)
    submitted = range(before + 1, len(cluster.jobs()) + 1)
    assert submitted
    assert (cluster.root / "cancelled").read_text().splitlines()[-1] == " ".join(
        map(str, submitted)
    )


def start_in_slurm(
    cluster: Cluster, folder: Path, text: str, **settings: Any
) -> subprocess.Popen[str]:
    """Start a training in a job of Slurm, of which there is only ``scontrol``."""
    return cluster.start(
        *("bash", "-c", "set -a; . lsf/site.env; exec lsf/job.sh train"),
        ASR_VENV=programs(folder, text),
        ASR_RUN=folder / "run",
        ASR_LOGS=folder,
        SLURM_JOB_ID=7,
        **settings,
    )


def run_in_slurm(cluster: Cluster, folder: Path, text: str, **settings: Any) -> int:
    """The status of a training in a job of Slurm."""
    process = start_in_slurm(cluster, folder, text, **settings)
    process.communicate(timeout=60)
    return process.returncode


def test_slurm_gives_the_time_limit_and_its_early_warning_kills_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    text = f"kill -USR2 $PPID $$; printf '%s\\n' \"$@\" >'{tmp_path}/asked'"
    end = int(time.time()) + 60 * 60 + 30
    assert run_in_slurm(cluster, tmp_path, text, SLURM_JOB_END_TIME=end) == 0
    assert "trainer.max_wall_minutes=45." in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("ends", [EXIT_STOPPED, 0])
def test_a_signal_to_the_shell_of_a_job_reaches_what_it_runs_which_may_finish(
    cluster: Cluster, tmp_path: Path, number: signal.Signals, ends: int
) -> None:
    """``scancel --batch`` signals only this shell."""
    text = (
        f"trap 'exit {ends}' TERM; touch '{tmp_path}/begun'; for _ in {{1..99}}; do sleep 0.1; done"
    )
    process = start_in_slurm(cluster, tmp_path, text)
    wait_until((tmp_path / "begun").is_file)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (128 + number if ends else 0)


@pytest.mark.parametrize(("requeue", "status"), [("yes", -signal.SIGTERM), ("", 76)])
def test_slurm_starts_a_job_again_or_its_refusal_is_the_end(
    cluster: Cluster, tmp_path: Path, requeue: str, status: int
) -> None:
    assert run_in_slurm(cluster, tmp_path, "exit 75", REQUEUE=requeue) == status
    log = (tmp_path / "train-7.log").read_text()
    assert ("Slurm refused" in log) is not bool(requeue)


def test_a_warning_saves_the_run_of_two_processes_and_it_continues(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cluster.root / "warned"
    settings = {"ASR_RUN": folder, "ASR_ARGS": LONG, "ASR_TRIES": 1, "ASR_GPUS": 2}
    process = cluster.start("lsf/submit.sh", "train", **settings)
    wait_until((folder / "metrics" / "train.jsonl").is_file)
    os.killpg(cluster.script_pid(), signal.SIGUSR2)
    process.communicate(timeout=300)
    assert cluster.statuses() == [TOO_MANY_TRIES], cluster.log()
    step = Run(folder).steps[-1]
    assert step < 4000
    monkeypatch.setenv("FAIRSEQ2_DEVICE", "cpu")
    train(cluster, folder, f"regime.num_steps={step + 1}")
    assert [row["Step"] for row in metrics(folder, "train")] == list(range(1, step + 2))


@pytest.mark.parametrize(
    ("what", "number", "statuses"),
    [
        ("train", signal.SIGTERM, [128 + signal.SIGTERM]),
        ("convert", signal.SIGUSR2, [EXIT_STOPPED, 0]),
    ],
)
def test_bkill_ends_a_job_for_good_and_the_warning_a_conversion_until_its_next_start(
    cluster: Cluster, tmp_path: Path, what: str, number: signal.Signals, statuses: list[int]
) -> None:
    begun = tmp_path / "begun"
    environment = programs(tmp_path, f"[ -e '{begun}' ] || {{ touch '{begun}'; sleep 60; }}")
    settings = {"ASR_VENV": environment, "ASR_RUN": tmp_path / "run"}
    process = cluster.start("lsf/submit.sh", what, **settings)
    wait_until(begun.is_file)
    os.killpg(cluster.script_pid(), number)
    process.communicate(timeout=60)
    assert cluster.statuses() == statuses, cluster.log()


def test_shellcheck_finds_nothing() -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    checked = subprocess.run(
        [shellcheck, "-x", *SCRIPTS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
