"""Processes that a job starts: how they end, what reaches them, what is traced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from danish_asr.cluster.hosts import HOST_VARIABLES
from danish_asr.cluster.job import ENDS, main
from danish_asr.cluster.processes import WARNINGS, catches, descendants, resident_bytes
from danish_asr.cluster.trace import gpus
from danish_asr.cluster.worker import status_of
from tests.lsf_stand_in import Lsf

LISTENER = "import signal, time; signal.signal(signal.SIGUSR2, print); time.sleep(60)"


@pytest.mark.parametrize(
    ("statuses", "together"),
    [([], None), ([0, 0], 0), ([75, 75], 75), ([0, 75], 75), ([75, 2, 1], 2), ([1, 75], 1)],
)
def test_the_first_failure_counts_then_a_stop(
    tmp_path: Path, statuses: list[int], together: int | None
) -> None:
    for number, status in enumerate(statuses):
        (tmp_path / str(number)).write_text(str(status))
        os.utime(tmp_path / str(number), ns=(number, number))
    assert status_of(tmp_path) == together


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that stands for the recipe, outside a job of LSF; signals are as before after it."""
    before = {number: signal.getsignal(number) for number in (*WARNINGS, *ENDS)}
    paths = [str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    for name in ("LSB_JOBID", "LSF_PM_TASKID", *HOST_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path / "a_recipe.py"
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "status"),
    [
        # The first rank to stop must not cut short the other, which is still saving.
        ({"0": "sys.exit(75)", "1": "time.sleep(1); done.touch(); sys.exit(75)"}, 75),
        ({"0": "sys.exit(3)", "1": "time.sleep(60)"}, 3),
        ({"0": "sys.exit(75)", "1": "os.kill(os.getpid(), 9)"}, 1),
        ({"0": "1 / 0", "1": "done.touch()"}, 1),
    ],
)
def test_a_stop_is_told_from_a_failure(
    tmp_path: Path, recipe: Path, ranks: dict[str, str], status: int
) -> None:
    body = [f"if os.environ['RANK'] == '{rank}': {what}" for rank, what in ranks.items()]
    done = tmp_path / "done"
    head = f"import os, sys, time, pathlib\ndone = pathlib.Path({str(done)!r})"
    recipe.write_text("\n".join([head, *body]))
    assert main(["--processes", "2", "--trace", str(tmp_path / "trace"), "a_recipe"]) == status
    assert done.exists() == ("touch" in ranks["1"])
    assert len(list((tmp_path / "trace").glob("local.*.jsonl"))) == 1


@pytest.mark.slow
def test_a_process_that_said_why_it_failed_has_the_last_word(
    recipe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe.write_text("import sys\nprint('error: no such dataset', file=sys.stderr)\nsys.exit(2)")
    assert main(["a_recipe"]) == 2
    told = capfd.readouterr().err
    assert "error: no such dataset" in told
    assert "Traceback" not in told


@pytest.fixture
def three_hosts(tmp_path: Path, recipe: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recipe of a job that LSF gave three hosts."""
    Lsf(tmp_path).install()
    (tmp_path / "jobs" / "4711").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("LSF_ROOT", str(tmp_path))
    monkeypatch.setenv("LSB_JOBID", "4711")
    monkeypatch.setenv("LSB_HOSTS", "localhost localhost 127.0.0.1 127.0.0.2")
    return recipe


@pytest.mark.slow
@pytest.mark.parametrize(("ends", "status"), [("0 0 0", 0), ("75 75 75", 75), ("0 0 3", 3)])
def test_all_hosts_are_one_job_with_one_status(
    three_hosts: Path, tmp_path: Path, ends: str, status: int
) -> None:
    told = tmp_path / "told"
    told.mkdir()
    code = f"""
        import os, pathlib, sys
        rank, world = os.environ["RANK"], os.environ["WORLD_SIZE"]
        pathlib.Path({str(told)!r}, rank).write_text(f"{{world}} {{sys.argv[1:]}}")
        sys.exit(int("{ends}".split()[int(rank)]))
    """
    three_hosts.write_text(textwrap.dedent(code))
    trace = tmp_path / "my trace"
    assert main(["--trace", str(trace), "a_recipe", "a b", "--c"]) == status
    assert {file.name: file.read_text() for file in told.iterdir()} == dict.fromkeys(
        "012", "3 ['a b', '--c']"
    )
    # Each host has its trace, and nothing else is left: the script holds the whole environment.
    names = {f"4711.{host}.jsonl" for host in ("localhost", "127.0.0.1", "127.0.0.2")}
    assert {file.name for file in trace.iterdir()} == names


def test_other_hosts_without_blaunch_are_an_error_that_says_so(
    three_hosts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    three_hosts.touch()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert main(["a_recipe"]) == 2
    told = capsys.readouterr().err
    assert "error: the job has 3 hosts (localhost, 127.0.0.1, 127.0.0.2), but blaunch" in told
    assert "ASR_HOSTS=1" in told


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"LSB_JOBID": "1"}, "error: LSB_JOBID is set, but none of LSB_DJOB_HOSTFILE"),
        ({"LSB_JOBID": "1", "LSB_MCPU_HOSTS": "a x"}, "error: LSB_MCPU_HOSTS must hold hosts and"),
    ],
)
def test_a_job_whose_hosts_are_unknown_is_refused(
    recipe: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
    message: str,
) -> None:
    recipe.touch()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["a_recipe"]) == 2
    assert message in capsys.readouterr().err


def test_a_directory_that_cannot_be_made_is_named(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe.touch()
    assert main(["--trace", "/dev/null/trace", "a_recipe"]) == 2
    assert "error: /dev/null/trace: Not a directory" in capsys.readouterr().err


def test_a_process_is_seen_to_listen_and_to_hold_memory() -> None:
    process = subprocess.Popen([sys.executable, "-c", LISTENER])
    try:
        deadline = time.monotonic() + 20
        while not catches(process.pid, signal.SIGUSR2):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not catches(process.pid, signal.SIGUSR1)
        assert process.pid in descendants(os.getpid())
        assert resident_bytes(process.pid) > 2**20
    finally:
        process.kill()
        process.wait()
    assert not catches(process.pid, signal.SIGUSR2)
    assert resident_bytes(process.pid) == 0


def test_the_trace_reads_what_nvidia_smi_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "nvidia-smi"
    lost = "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error"
    lines = ["0, 97, 30123, 40960, 251.30", "1, 3, 5, 9, [N/A]", lost]
    command.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    command.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    names = ("index", "utilisation_percent", "memory_mib", "memory_total_mib", "power_w")
    assert [tuple(gpu[name] for name in names) for gpu in gpus()] == [
        (0, 97, 30123, 40960, 251.3),
        (1, 3, 5, 9, None),
    ]


def test_without_nvidia_smi_there_are_no_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus() == []
