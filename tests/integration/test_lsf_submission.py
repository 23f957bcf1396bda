"""What a user meets before a job begins its work: dry runs, wrong settings, who has the work."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lsf_options import parse_directives, parse_options
from tests.lsf_stand_in import Lsf
from tests.lsf_user import ROOT, launcher, lsf_user

SCRIPTS = ROOT / "lsf"
LAUNCHERS = ("convert.sh", "train.sh", "eval.sh", "pipeline.sh")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lsf(tmp_path_factory: pytest.TempPathFactory) -> Lsf:
    return lsf_user(tmp_path_factory.mktemp("l s f"))


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_dry_run_prints_the_bsub_line_and_the_body_and_submits_nothing(
    lsf: Lsf, name: str
) -> None:
    before = lsf.jobs()
    arguments = ["--dry-run", "--config", "a={b: c}"]
    printed = lsf.run([launcher(lsf, name), *arguments], ASR_DATA="/no", ASR_VENV="/no")
    assert printed.returncode == 0, printed.stderr
    assert "bsub -J " in printed.stdout
    assert "#!/bin/bash\n" in printed.stdout
    assert r"--config a=\{b:\ c\}" in printed.stdout
    assert lsf.jobs() == before


@pytest.mark.parametrize("name", LAUNCHERS[:3])
def test_the_lines_for_bsub_say_what_the_settings_say(lsf: Lsf, name: str) -> None:
    script = (SCRIPTS / name).read_text(encoding="utf-8")
    written, _ = parse_options(parse_directives(script))
    line = lsf.run([launcher(lsf, name), "--dry-run"]).stdout.splitlines()[0]
    submitted, _ = parse_options(shlex.split(line.partition("<<")[0])[1:])
    assert Path(submitted.pop("o")).name == written.pop("o")
    assert written == submitted


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ASR_GPUS", "two", "ASR_GPUS must be a whole number from 1, but is 'two'"),
        ("ASR_HOSTS", "0", "ASR_HOSTS must be a whole number from 1, but is '0'"),
        ("ASR_CPU_CORES", "08", "ASR_CPU_CORES must be a whole number from 1, but is '08'"),
        ("ASR_TRIES", " ", "ASR_TRIES must be a whole number from 1, but is ' '"),
        ("ASR_WALL", "24", "ASR_WALL must be hours:minutes, such as 24:00, but is '24'"),
        ("ASR_EVAL_WALL", "2h", "ASR_EVAL_WALL must be hours:minutes, such as 24:00, but is '2h'"),
        ("ASR_WALL", "0:10", "ASR_WALL=0:10 must be longer than ASR_WARN=10, the minutes to save"),
        ("ASR_MEM", "8", "ASR_MEM must be a size with its unit, such as 8GB, but is '8'"),
        ("ASR_VENV", "/no", "no danish-asr in /no; run `make setup` in "),
        ("ASR_CONFIG", "/no", "ASR_CONFIG is /no, where there is no file"),
        ("ASR_LOGS", "/dev/null/logs", "ASR_LOGS, or ASR_SCRATCH around it, must be where you may"),
        ("ASR_GPU_QUEUE", "a b", "bsub refused the job train"),
    ],
)
def test_a_wrong_setting_is_named_before_it_waits_in_the_queue(
    lsf: Lsf, name: str, value: str, message: str
) -> None:
    before = lsf.jobs()
    setting: dict[str, Any] = {name: value}
    told = lsf.run([launcher(lsf, "train.sh")], **setting)
    assert told.returncode == 2
    assert message in told.stderr
    assert lsf.jobs() == before


def test_without_bsub_and_without_a_dataset_it_is_said(lsf: Lsf) -> None:
    environment = {**os.environ, **lsf.environment, "PATH": "/usr/bin:/bin"}
    told = subprocess.run(
        [launcher(lsf, "train.sh")], env=environment, capture_output=True, text=True, check=False
    )
    assert told.returncode == 2
    data = lsf.root / "scratch" / "data" / "tiny"
    assert f"note: {data} holds no complete dataset; lsf/convert.sh makes it" in told.stderr
    assert "there is no bsub on this host; log in to the cluster, or see --dry-run" in told.stderr


def test_paths_that_are_given_count_from_where_they_are_given(lsf: Lsf) -> None:
    printed = lsf.run(
        [launcher(lsf, "train.sh"), "--dry-run"],
        cwd=lsf.root,
        ASR_RUN="runs/one",
        ASR_LOGS="logs",
        ASR_SOURCE="coral:source",
    ).stdout
    here = str(lsf.root).replace(" ", r"\ ")  # as bash's `printf %q` writes it
    assert f"export ASR_RUN={here}/runs/one\n" in printed
    assert f"export ASR_LOGS={here}/logs\n" in printed
    assert f"export ASR_SOURCE=coral:{here}/source\n" in printed


def test_settings_that_cannot_be_read_are_named(lsf: Lsf, tmp_path: Path) -> None:
    checkout = tmp_path / "check out"
    shutil.copytree(SCRIPTS, checkout / "lsf")
    settings = checkout / "lsf" / "site.env"
    command: list[str | Path] = [checkout / "lsf" / "train.sh", "--dry-run"]
    settings.write_bytes(settings.read_bytes().replace(b"\n", b"\r\n"))
    told = lsf.run(command)
    assert told.returncode == 2
    assert (
        f"{settings} has DOS line ends; mend it with: sed -i 's/\\r$//' '{settings}'" in told.stderr
    )
    settings.unlink()
    told = lsf.run(command)
    assert told.returncode == 2
    assert f"{settings} is missing; git checkout lsf/site.env brings it back" in told.stderr


def test_a_launcher_with_dos_line_ends_is_refused_by_bsub(lsf: Lsf, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_bytes((SCRIPTS / "train.sh").read_bytes().replace(b"\n", b"\r\n"))
    told = lsf.run(["bsub"], stdin=script)
    assert "DOS line ends" in told.stderr


def test_bsub_from_elsewhere_says_what_is_missing(lsf: Lsf, tmp_path: Path) -> None:
    submission = lsf.run(["bsub"], stdin=launcher(lsf, "train.sh"), cwd=tmp_path)
    assert submission.returncode == 0, submission.stderr
    job = max(lsf.jobs())
    assert lsf.wait()[job] == "EXIT"
    assert "submit this from the checkout, or set ASR_HOME to it" in lsf.log(job)
    assert lsf.status(job) == 2


@pytest.mark.parametrize(
    ("asked", "options", "lost", "message"),
    [
        ("ASR_GPUS", ["-n", "1"], "", "asked for 2 GPUs on 1 hosts, but this job has 1 on 1"),
        ("ASR_HOSTS", ["-n", "1"], "", "asked for 1 GPUs on 2 hosts, but this job has 1 on 1"),
        # LSF lists the hosts in three places, and any of them will do.
        ("ASR_HOSTS", ["-n", "2"], "LSB_DJOB_HOSTFILE LSB_HOSTS", "training in "),
        ("ASR_HOSTS", ["-n", "2"], "LSB_DJOB_HOSTFILE LSB_MCPU_HOSTS", "training in "),
    ],
)
def test_a_job_that_got_other_gpus_or_hosts_than_it_asked_for_ends(
    lsf: Lsf, asked: str, options: list[str], lost: str, message: str
) -> None:
    setting: dict[str, Any] = {asked: 2}
    command: list[str | Path] = [launcher(lsf, "train.sh"), "--dry-run", "--no-such-argument"]
    printed = lsf.run(command, **setting).stdout
    body = printed.partition("<<END\n")[2].removesuffix("END\n")
    script = lsf.root / "body.sh"
    script.write_text(f"unset {lost}\n{body}", encoding="utf-8")
    options = [*options, "-R", "span[ptile=1]", "-gpu", "num=1", "-o", "other-%J.log"]
    assert lsf.run(["bsub", *options], stdin=script, cwd=lsf.root).returncode == 0
    job = max(lsf.jobs())
    assert lsf.wait()[job] == "EXIT"
    assert message in lsf.log(job)


@pytest.mark.parametrize(
    ("notes", "condition", "message"),
    [
        # 7001 handed on to 7002, which is over for long: LSF has forgotten it, its note has not.
        ({"7001_0": "7002", "7002_0": "done"}, None, "evaluating "),
        (
            {"7001_0": "7002", "7002_0": "unfinished"},
            None,
            "not begun: what it waited for (job 7001",
        ),
        (
            {"7001_0": "{first}"},
            "done({first})",
            "what this job waited for goes on in job {first};",
        ),
        ({"7001_0": "7002", "7002_0": "{first}"}, "done({first})", "goes on in job {first}; job "),
        ({"7001_1": "done", "7001_2": "{first}"}, "done({first})", "goes on in job {first}; job "),
    ],
)
def test_a_job_that_was_released_asks_who_has_the_work_now(
    lsf: Lsf, notes: dict[str, str], condition: str | None, message: str
) -> None:
    sleeper = lsf.root / "sleeper.sh"
    sleeper.write_text("sleep 60\n", encoding="utf-8")
    lsf.run(["bsub"], stdin=sleeper)
    first = max(lsf.jobs())
    folder = lsf.root / "scratch" / "logs" / "handed-on"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, note in notes.items():
        (folder / name).write_text(note.format(first=first) + "\n", encoding="utf-8")
    lsf.run([launcher(lsf, "eval.sh"), "--no-such-argument"], ASR_AFTER="7001")
    job = first + 1
    lsf.wait_until_over(job)
    assert message.format(first=first) in lsf.log(job)
    if condition is None:
        assert max(lsf.jobs()) == job
    else:
        assert lsf.options(job + 1)["w"] == condition.format(first=first)
        lsf.run(["bkill", str(job + 1)])
    lsf.run(["bkill", str(first)])
    lsf.wait()


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
