"""The commands of a stand-in for LSF, ``bsub``, ``blaunch`` and ``bkill``, and what runs the jobs.

They do what IBM's reference says of LSF, and are nowhere kinder. ``#BSUB`` lines count wherever
they stand, options of the command line win, and what is no option, time or array is refused
(`tests.lsf_options`). A job gets the environment of its submission and LSF's variables. A warning
needs ``-wa`` and ``-wt``. A job on several slots is killed without a word, one on a single slot
gets SIGINT and SIGTERM first. A dependency on a job that is over and forgotten is refused. There is
one ``blaunch`` at a time, and its status says only whether all was well. A report of LSF's own
stands below a job's output.

The hosts are loopback. A minute of wall time lasts ``LSF_MINUTE`` seconds; a job is forgotten
``LSF_CLEAN_SECONDS`` after its end (an hour). A job whose name ``LSF_WARN_JOB`` gives is warned
once, when the file ``LSF_WARN_FILE`` has ``LSF_WARN_LINES`` lines, instead of by the clock. While a
file ``closed`` stands beside the jobs, none is taken.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from danish_asr.cluster.processes import descendants
from danish_asr.files import publish_text
from tests.lsf_options import (
    dependencies,
    indices_of,
    minutes,
    number,
    parse_directives,
    parse_options,
)

HOSTS = ("localhost", "127.0.0.1", "127.0.0.2")
GPUS_PER_HOST = 2


def state_of(root: Path, job: int) -> str:
    """PEND, RUN, DONE or EXIT; of an array, what its elements are together."""
    record = read_job(root, job)
    states = [state_file(root, job, index) for index in job_indices(record)]
    texts = {file.read_text().split()[0] if file.is_file() else "PEND" for file in states}
    for state in ("RUN", "PEND", "EXIT"):
        if state in texts:
            return state
    return "DONE"


def bsub(root: Path, arguments: Sequence[str]) -> int:
    options, command = parse_options(arguments)
    script = "" if command else sys.stdin.buffer.read().decode()
    if not script and not command:
        raise SystemExit("bsub: no command is specified. Job not submitted.")
    embedded, rest = parse_options(parse_directives(script))
    if rest:
        raise SystemExit(f"bsub: #BSUB with a command: {rest}")
    options = {"J": "job", "q": "default", "n": "1", "W": "15", **embedded, **options}
    if (root / "closed").exists():
        raise SystemExit(f"bsub: {options['q']}: queue has been closed. Job not submitted.")
    for other in dependencies(options):
        if not (root / "jobs" / str(other)).is_dir() or _forgotten(root, other):
            raise SystemExit(f"bsub: {options['w']}: no matching job found. Job not submitted.")
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = root / "jobs"
        folder.mkdir(exist_ok=True)
        job = max((int(path.name) for path in folder.glob("[0-9]*")), default=100) + 1
        record = {"options": options, "cwd": str(Path.cwd()), "environment": dict(os.environ)}
        (folder / ".new").mkdir()
        (folder / ".new" / "script").write_text(script or shlex.join(command) + "\n", newline="")
        (folder / ".new" / "job.json").write_text(json.dumps(record))
        (folder / ".new").rename(folder / str(job))
    subprocess.Popen(
        command_line("sbatchd", str(job)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(root / "jobs" / str(job) / "sbatchd.err").open("w"),
        start_new_session=True,
    )
    if "BSUB_QUIET" not in os.environ:
        sys.stdout.write(f"Job <{job}> is submitted to queue <{options['q']}>.\n")
    return 0


def sbatchd(root: Path, job: int) -> int:
    """Wait for what a job depends on, then run its elements, two at a time."""
    record = read_job(root, job)
    others = dependencies(record["options"])
    while any(state_of(root, other) != "DONE" for other in others):
        time.sleep(0.1)
        if (root / "jobs" / str(job) / "kill").exists():
            publish_text(state_file(root, job, 0), "EXIT 130")
            return 0
        if any(state_of(root, other) == "EXIT" for other in others):
            return 0  # LSF keeps it pending for ever
    waiting = job_indices(record)
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
        self._record = read_job(root, job)
        self._job = job
        self._state = state_file(root, job, index)
        publish_text(self._state, "RUN")
        self._kill_file = root / "jobs" / str(job) / "kill"
        self._options = self._record["options"]
        self._environment = dict(self._record["environment"])
        self._slots = _slots(self._options)
        folder = root / "jobs" / str(job)
        # LSF makes no directory for -o; the job's output is mailed if there is none.
        self._output = job_output(self._record, job, index)
        self._begin = time.monotonic()
        self._warned = False
        self._reason = ""
        self._next_signal = 0.0
        self._process = subprocess.Popen(
            ["/bin/bash", str(folder / "script")],
            env={**self._environment, **self._variables(folder, job, index)},
            cwd=self._record["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=self._open_output(),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        # Several slots: LSF kills at once, unless the site has LSB_USE_SEQUENTIAL_SIGNAL.
        gentle = len(self._slots) == 1 or "LSB_USE_SEQUENTIAL_SIGNAL" in self._environment
        self._last_words = [signal.SIGINT, signal.SIGTERM] if gentle else []

    def _open_output(self) -> Any:
        return self._output.open("ab") if self._output.parent.is_dir() else subprocess.DEVNULL

    def _variables(self, folder: Path, job: int, index: int) -> dict[str, str]:
        slots = self._slots
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
        if gpus := number(r"num=(\d+)", self._options.get("gpu", "")):
            assert gpus <= GPUS_PER_HOST, f"no host has {gpus} GPUs"
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(gpus)))
        return variables

    def poll(self) -> bool:
        """Send what is due; returns whether the job has ended."""
        code = self._process.poll()
        if code is not None:
            status = code if code >= 0 else 128 - code
            self._report(status)
            publish_text(self._state, "DONE" if status == 0 else f"EXIT {status}")
            return True
        if self._kill_file.exists():
            self._end("TERM_OWNER: job killed by owner.")
        elif time.monotonic() - self._begin > self._seconds(minutes(self._options["W"])):
            self._end("TERM_RUNLIMIT: job killed after reaching LSF run time limit.")
        elif self._must_warn():
            self._warned = True
            self._signal(signal.Signals[f"SIG{self._options['wa'].removeprefix('SIG')}"])
        return False

    def _must_warn(self) -> bool:
        if self._warned or not {"wa", "wt"} <= self._options.keys():
            return False
        if self._environment.get("LSF_WARN_JOB") == self._options["J"]:
            return self._has_come_far_enough()
        limit = minutes(self._options["W"]) - minutes(self._options["wt"])
        return time.monotonic() - self._begin > self._seconds(limit)

    def _has_come_far_enough(self) -> bool:
        file = Path(self._environment["LSF_WARN_FILE"])
        lines = int(self._environment["LSF_WARN_LINES"])
        once = self._root / f"warned.{file.as_posix().replace('/', '_')}"
        if once.exists() or not file.is_file() or len(file.read_text().splitlines()) < lines:
            return False
        once.touch()
        return True

    def _seconds(self, count: int) -> float:
        return count * float(self._environment.get("LSF_MINUTE", "60"))

    def _end(self, reason: str) -> None:
        """As bkill: what may be sent before SIGKILL, ten seconds between each."""
        if time.monotonic() < self._next_signal:
            return
        self._reason = reason
        self._next_signal = time.monotonic() + 10
        self._signal(self._last_words.pop(0) if self._last_words else signal.SIGKILL)

    def _signal(self, sent: signal.Signals) -> None:
        """LSF signals every process of a job."""
        for pid in [self._process.pid, *descendants(self._process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, sent)

    def _report(self, status: int) -> None:
        """What LSF itself writes below the output of a job."""
        if self._output.parent.is_dir():
            how = "Done" if status == 0 else "Exited"
            lines = [f"Subject: Job {self._job}: <{self._options['J']}> {how}", self._reason]
            with self._output.open("a", encoding="utf-8") as stream:
                stream.write("\n" + "-" * 60 + "\n" + "\n".join(lines) + "\n")


def blaunch(root: Path, arguments: Sequence[str]) -> int:
    """Run a command on hosts of the job, each without the job's own environment, elsewhere."""
    slots = os.environ["LSB_HOSTS"].split()
    words = list(arguments)
    hosts = slots
    if words[0] == "-z":
        hosts, words = words[1].split(), words[2:]
    elif words[0] in slots:
        hosts, words = words[:1], words[1:]
    if not set(hosts) <= set(slots):
        raise SystemExit(f"blaunch: {hosts} are not all hosts of this job, {slots}")
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("LSB_", "LSF_"))}
    kept["PATH"] = "/usr/bin:/bin"
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        kept["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
    with (root / "jobs" / os.environ["LSB_JOBID"] / "blaunch").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit("blaunch: another one of this job is under way") from None
        tasks = [
            subprocess.Popen(words, env={**kept, "LSF_PM_TASKID": str(task)}, cwd="/")
            for task, _ in enumerate(hosts, start=1)
        ]

        # What it gets, its tasks get.
        def pass_on(sent: int, _: object) -> None:
            for task in tasks:
                task.send_signal(sent)

        for sent in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sent, pass_on)
        statuses = [task.wait() for task in tasks]
        return int(any(statuses))


def _slots(options: Mapping[str, Any]) -> list[str]:
    count = int(options["n"].partition(",")[0])
    requirement = options.get("R", "")
    if "span[hosts=1]" in requirement or count == 1:
        return [HOSTS[0]] * count
    per_host = number(r"span\[ptile=(\d+)\]", requirement) or -(-count // len(HOSTS))
    return [HOSTS[slot // per_host] for slot in range(count)]


def _forgotten(root: Path, job: int) -> bool:
    """Whether a job is over for so long that LSF knows it no more."""
    if state_of(root, job) not in {"DONE", "EXIT"}:
        return False
    ends = [
        state_file(root, job, index).stat().st_mtime for index in job_indices(read_job(root, job))
    ]
    return time.time() - max(ends) > float(os.environ.get("LSF_CLEAN_SECONDS", "3600"))


def job_indices(record: Mapping[str, Any]) -> list[int]:
    return indices_of(record["options"]["J"])


def job_output(record: Mapping[str, Any], job: int, index: int) -> Path:
    name = str(record["options"].get("o", os.devnull))
    return Path(record["cwd"], name.replace("%J", str(job)).replace("%I", str(index)))


def state_file(root: Path, job: int, index: int) -> Path:
    return root / "jobs" / str(job) / f"state.{index}"


def read_job(root: Path, job: int) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((root / "jobs" / str(job) / "job.json").read_text())
    return record


def command_line(*arguments: str) -> list[str]:
    """What runs `main`, from anywhere and without a variable that jobs would inherit."""
    start = f"import sys; sys.path[0] = {str(Path(__file__).parents[1])!r}"
    main = "from tests.lsf_commands import main; sys.exit(main())"
    return [sys.executable, "-c", f"{start}; {main}", *arguments]


def main() -> int:
    root = Path(os.environ["LSF_ROOT"])
    name, *arguments = sys.argv[1:]
    if name == "bsub":
        return bsub(root, arguments)
    if name == "blaunch":
        return blaunch(root, arguments)
    if name == "bkill":
        (root / "jobs" / arguments[0] / "kill").touch()
        return 0
    return sbatchd(root, int(arguments[0]))
