"""A stand-in for LSF: ``bsub``, ``blaunch`` and ``bkill`` whose jobs are processes of this machine.

What it does as LSF: ``#BSUB`` lines count up to the script's first command, and options of the
command line win; a job gets the environment of its submission and LSF's variables; dependencies,
arrays, the warning signal before the wall time and the kill after it. The hosts are loopback. A
minute of wall time lasts ``LSF_MINUTE`` seconds. A job whose name ``LSF_WARN_JOB`` gives is warned
once, when the file ``LSF_WARN_FILE`` has ``LSF_WARN_LINES`` lines, instead of by the clock.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from danish_asr.files import publish_text
from danish_asr.launch.processes import descendants

HOSTS = ("localhost", "127.0.0.1")
GPUS_PER_HOST = 2
COMMANDS = ("bsub", "blaunch", "bkill")
OPTIONS = ("J", "o", "e", "q", "n", "R", "gpu", "W", "wa", "wt", "w", "M")
"""Options with a value. ``-R`` may be given more than once."""


@dataclass
class Lsf:
    """A cluster whose whole state is a directory.

    Attributes:
        root: The directory.
        environment: What jobs are submitted with, beside this process's environment.
    """

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def install(self) -> None:
        """Write the commands."""
        for name in COMMANDS:
            command = self.root / "bin" / name
            command.parent.mkdir(parents=True, exist_ok=True)
            command.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} "$@"\n')
            command.chmod(command.stat().st_mode | stat.S_IXUSR)

    def run(
        self, command: Sequence[str | Path], *, stdin: Path | None = None, **variables: object
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as its user would, where the cluster's commands are found."""
        environment = {
            **os.environ,
            **self.environment,
            **{name: str(value) for name, value in variables.items()},
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "LSF_ROOT": str(self.root),
        }
        with Path(stdin or os.devnull).open(encoding="utf-8") as script:
            return subprocess.run(
                list(map(str, command)),
                env=environment,
                stdin=script,
                capture_output=True,
                text=True,
                check=False,
            )

    def wait(self, seconds: float = 100) -> dict[int, str]:
        """Wait until no job can go on; returns the state of each."""
        deadline = time.monotonic() + seconds
        while True:
            states = {job: state_of(self.root, job) for job in self.jobs()}
            waiting = [job for job, state in states.items() if state in {"PEND", "RUN"}]
            if not [job for job in waiting if not self._hopeless(job, states)]:
                return states
            assert time.monotonic() < deadline, f"{states}\n{self.logs()}"
            time.sleep(0.1)

    def _hopeless(self, job: int, states: Mapping[int, str]) -> bool:
        """Whether a job waits for one that failed."""
        return states[job] == "PEND" and any(
            states.get(other) == "EXIT" for other in _dependencies(_read(self.root, job))
        )

    def jobs(self) -> list[int]:
        return sorted(int(path.name) for path in (self.root / "jobs").glob("[0-9]*"))

    def names(self) -> dict[int, str]:
        return {job: _read(self.root, job)["options"]["J"] for job in self.jobs()}

    def options(self, job: int) -> dict[str, Any]:
        options: dict[str, Any] = _read(self.root, job)["options"]
        return options

    def status(self, job: int) -> int:
        """What a job that failed exited with."""
        return int(_state_file(self.root, job, 0).read_text().split()[1])

    def wait_for(self, file: Path, seconds: float = 60) -> None:
        """Wait until a job has written a file."""
        deadline = time.monotonic() + seconds
        while not file.is_file():
            assert time.monotonic() < deadline, f"{file} does not come\n{self.logs()}"
            time.sleep(0.05)

    def logs(self) -> str:
        """What all jobs have printed."""
        records = {job: _read(self.root, job) for job in self.jobs()}
        files = [_output(r, job, index) for job, r in records.items() for index in _indices(r)]
        return "\n".join(f"== {f.name}\n{f.read_text()}" for f in files if f.is_file())

    def log(self, job: int, index: int = 0) -> str:
        return _output(_read(self.root, job), job, index).read_text(encoding="utf-8")


def state_of(root: Path, job: int) -> str:
    """PEND, RUN, DONE or EXIT; of an array, what its elements are together."""
    record = _read(root, job)
    states = [_state_file(root, job, index) for index in _indices(record)]
    texts = {file.read_text().split()[0] if file.is_file() else "PEND" for file in states}
    for state in ("RUN", "PEND", "EXIT"):
        if state in texts:
            return state
    return "DONE"


def bsub(root: Path, arguments: Sequence[str]) -> int:
    options, command = parse_options(arguments)
    script = "" if command else sys.stdin.read()
    if not script and not command:
        raise SystemExit("bsub: no command")
    embedded, rest = parse_options(parse_directives(script))
    if rest:
        raise SystemExit(f"bsub: #BSUB with a command: {rest}")
    options = {"J": "job", "q": "default", "n": "1", "W": "15", **embedded, **options}
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = root / "jobs"
        folder.mkdir(exist_ok=True)
        job = max((int(path.name) for path in folder.glob("[0-9]*")), default=100) + 1
        record = {
            "options": options,
            "cwd": str(Path.cwd()),
            "environment": dict(os.environ),
        }
        (folder / ".new").mkdir()
        (folder / ".new" / "script").write_text(script or " ".join(command) + "\n")
        (folder / ".new" / "job.json").write_text(json.dumps(record))
        (folder / ".new").rename(folder / str(job))
    for other in _dependencies(record):
        if not (root / "jobs" / str(other)).is_dir():
            raise SystemExit(f"bsub: {options['w']}: dependency condition invalid")
    subprocess.Popen(
        [sys.executable, __file__, "sbatchd", str(job)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(root / "jobs" / str(job) / "sbatchd.err").open("w"),
        start_new_session=True,
    )
    sys.stdout.write(f"Job <{job}> is submitted to queue <{options['q']}>.\n")
    return 0


def parse_directives(script: str) -> list[str]:
    """The options in a script: LSF reads them in comments before the first command."""
    found: list[str] = []
    for line in script.splitlines():
        if line.startswith("#BSUB"):
            if line.endswith("\r"):
                raise SystemExit("bsub: bad option: the script has DOS line ends")
            found += shlex.split(line.removeprefix("#BSUB"), comments=True)
        elif line.strip() and not line.startswith("#"):
            break
    return found


def parse_options(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    options: dict[str, Any] = {}
    words = list(arguments)
    while words and words[0].startswith("-"):
        name = words.pop(0)[1:]
        if name not in OPTIONS or not words:
            raise SystemExit(f"bsub: bad option: -{name}")
        value = words.pop(0)
        if name == "R":
            value = " ".join([*([options["R"]] if "R" in options else []), value])
        options[name] = value
    return options, words


def sbatchd(root: Path, job: int) -> int:
    """Wait for what a job depends on, then run its elements, two at a time."""
    record = _read(root, job)
    while any(state_of(root, other) != "DONE" for other in _dependencies(record)):
        time.sleep(0.1)
        if any(state_of(root, other) == "EXIT" for other in _dependencies(record)):
            return 0  # LSF keeps it pending for ever
    waiting = _indices(record)
    running: list[tuple[int, Element]] = []
    while waiting or running:
        while waiting and len(running) < 2:
            index = waiting.pop(0)
            running.append((index, Element(root, job, index)))
        running = [(index, element) for index, element in running if not element.poll()]
        time.sleep(0.05)
    return 0


class Element:
    """A job that runs, or one element of an array."""

    def __init__(self, root: Path, job: int, index: int) -> None:
        self._root = root
        self._record = _read(root, job)
        self._state = _state_file(root, job, index)
        publish_text(self._state, "RUN")
        self._kill_file = root / "jobs" / str(job) / "kill"
        self._options = self._record["options"]
        self._environment = dict(self._record["environment"])
        folder = root / "jobs" / str(job)
        output = _output(self._record, job, index)
        # LSF makes no directory for -o; the job's output is mailed if there is none.
        stream = output.open("ab") if output.parent.is_dir() else subprocess.DEVNULL
        self._begin = time.monotonic()
        self._warned = self._told_to_end = 0.0
        self._process = subprocess.Popen(
            ["/bin/bash", str(folder / "script")],
            env={**self._environment, **self._variables(folder, job, index)},
            cwd=self._record["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _variables(self, folder: Path, job: int, index: int) -> dict[str, str]:
        slots = _slots(self._options)
        hosts = list(dict.fromkeys(slots))
        hostfile = folder / f"hosts.{index}"
        hostfile.write_text("".join(f"{host}\n" for host in slots))
        variables = {
            "LSB_JOBID": str(job),
            "LSB_BATCH_JID": f"{job}[{index}]" if index else str(job),
            "LSB_JOBINDEX": str(index),
            "LSB_JOBNAME": self._options["J"],
            "LSB_JOBFILENAME": str(folder / "script"),
            "LSB_QUEUE": self._options["q"],
            "LSB_DJOB_HOSTFILE": str(hostfile),
            "LSB_DJOB_NUMPROC": str(len(slots)),
            "LSB_HOSTS": " ".join(slots),
            "LSB_MCPU_HOSTS": " ".join(f"{host} {slots.count(host)}" for host in hosts),
            "LS_SUBCWD": self._record["cwd"],
        }
        if gpus := _number(r"num=(\d+)", self._options.get("gpu", "")):
            assert gpus <= GPUS_PER_HOST, f"no host has {gpus} GPUs"
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(gpus)))
        return variables

    def poll(self) -> bool:
        """Send what is due; returns whether the job has ended."""
        status = self._process.poll()
        if status is not None:
            publish_text(self._state, "DONE" if status == 0 else f"EXIT {status}")
            return True
        if self._kill_file.exists():
            self._end()
        elif self._must_warn():
            self._warned = time.monotonic()
            self._signal(signal.Signals[f"SIG{self._options['wa']}"])
        elif time.monotonic() - self._begin > self._seconds(_minutes(self._options["W"])):
            self._end()
        return False

    def _must_warn(self) -> bool:
        if "wa" not in self._options or self._warned:
            return False
        if self._environment.get("LSF_WARN_JOB") == self._options["J"]:
            return self._has_come_far_enough()
        limit = _minutes(self._options["W"]) - _minutes(self._options["wt"])
        return time.monotonic() - self._begin > self._seconds(limit)

    def _has_come_far_enough(self) -> bool:
        file = Path(self._environment["LSF_WARN_FILE"])
        lines = int(self._environment["LSF_WARN_LINES"])
        once = self._root / f"warned.{file.as_posix().replace('/', '_')}"
        if once.exists() or not file.is_file() or len(file.read_text().splitlines()) < lines:
            return False
        once.touch()
        return True

    def _seconds(self, minutes: int) -> float:
        return minutes * float(self._environment.get("LSF_MINUTE", "60"))

    def _end(self) -> None:
        """As bkill: SIGINT, SIGTERM, SIGKILL, each some time after the other."""
        if not self._told_to_end:
            self._told_to_end = time.monotonic()
            self._signal(signal.SIGINT)
            self._signal(signal.SIGTERM)
        elif time.monotonic() > self._told_to_end + 30:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        """LSF signals every process of a job."""
        for pid in [self._process.pid, *descendants(self._process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def blaunch(arguments: Sequence[str]) -> int:
    """Run a command on "another host": without the job's own environment, from another place."""
    host, *command = arguments
    slots = os.environ["LSB_HOSTS"].split()
    assert host in slots
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("LSB_", "LSF_"))}
    kept |= {"PATH": "/usr/bin:/bin", "LSF_PM_TASKID": "1"}
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        kept["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
    return subprocess.run(command, env=kept, cwd="/", check=False).returncode


def _slots(options: Mapping[str, Any]) -> list[str]:
    count = int(options["n"])
    requirement = options.get("R", "")
    if "span[hosts=1]" in requirement or count == 1:
        return [HOSTS[0]] * count
    per_host = _number(r"span\[ptile=(\d+)\]", requirement) or -(-count // len(HOSTS))
    slots = [HOSTS[slot // per_host] for slot in range(count)]
    assert len(slots) == count
    return slots


def _number(pattern: str, text: str) -> int | None:
    match = re.search(pattern, text)
    return int(match[1]) if match else None


def _minutes(text: str) -> int:
    hours, _, minutes = text.rpartition(":")
    return int(hours or 0) * 60 + int(minutes)


def _dependencies(record: Mapping[str, Any]) -> list[int]:
    condition = record["options"].get("w", "")
    rest = re.sub(r"done\(\d+\)|&&|\s", "", condition)
    assert not rest, f"not understood: {condition}"
    return [int(job) for job in re.findall(r"done\((\d+)\)", condition)]


def _indices(record: Mapping[str, Any]) -> list[int]:
    match = re.search(r"\[(\d+)-(\d+)\]$", record["options"]["J"])
    return list(range(int(match[1]), int(match[2]) + 1)) if match else [0]


def _output(record: Mapping[str, Any], job: int, index: int) -> Path:
    name = str(record["options"].get("o", os.devnull))
    return Path(record["cwd"], name.replace("%J", str(job)).replace("%I", str(index)))


def _state_file(root: Path, job: int, index: int) -> Path:
    return root / "jobs" / str(job) / f"state.{index}"


def _read(root: Path, job: int) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((root / "jobs" / str(job) / "job.json").read_text())
    return record


def main() -> int:
    root = Path(os.environ["LSF_ROOT"])
    name, *arguments = sys.argv[1:]
    if name == "bsub":
        return bsub(root, arguments)
    if name == "blaunch":
        return blaunch(arguments)
    if name == "bkill":
        (root / "jobs" / arguments[0] / "kill").touch()
        return 0
    return sbatchd(root, int(arguments[0]))


if __name__ == "__main__":
    sys.exit(main())
