"""The process that starts a job's processes, watches them and tells how they ended."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Final

from danish_asr.cpus import usable_cpus
from danish_asr.errors import DanishAsrError
from danish_asr.launch.hosts import hosts, master_port
from danish_asr.launch.processes import catches, descendants
from danish_asr.launch.trace import Trace
from danish_asr.launch.worker import STATUS_DIR, STOPPED, status_of

WARNINGS: Final = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that ask the run to save and stop. LSF sends one before the wall time is over."""

ENDS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals that end the job, from ``bkill``. The run gets the time that ``torchrun`` allows."""

GRACE_SECONDS: Final = 45.0
"""How long processes that are told to end may take; ``torchrun`` itself allows them 30 s."""

_POLL_SECONDS: Final = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a recipe on all hosts of the job; returns the status to exit with.

    0: done. 75: saved, and the same command continues it. Otherwise: the status of the process that
    failed first, or 1 if a signal killed it.
    """
    args = _parse(arguments)
    try:
        return Job(args).run()
    except DanishAsrError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2


def _parse(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m danish_asr.launch", description=__doc__)
    parser.add_argument("--processes", type=int, default=1, help="on each host: one per GPU")
    parser.add_argument("--trace", type=Path, help="directory for the trace of GPU and memory")
    parser.add_argument("--trace-seconds", type=float, default=10.0)
    parser.add_argument("--node", type=int, default=0, help="number of this host; set by node 0")
    parser.add_argument("module", help="the recipe")
    parser.add_argument("arguments", nargs=REMAINDER, help="what the recipe is given")
    return parser.parse_args(arguments)


class Job:
    """One host's share of a job. The first host starts the others through LSF's ``blaunch``."""

    def __init__(self, args: Namespace) -> None:
        self._args = args
        self._hosts = hosts(os.environ) or [socket.gethostname()]
        self._name = self._hosts[args.node]
        self._warned: signal.Signals | None = None
        self._told: set[int] = set()
        self._ended: signal.Signals | None = None

    def run(self) -> int:
        """Start everything, wait for its end, and return the status of all together."""
        for number in (*WARNINGS, *ENDS):
            signal.signal(number, self._note)
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if self._args.trace is not None:
                file = self._args.trace / f"{_job_id()}.{self._name}.jsonl"
                seconds = self._args.trace_seconds
                stack.enter_context(Trace(file, self._name, seconds=seconds))
            others = self._start_others(stack) if self._args.node == 0 else []
            statuses = directory / "statuses"
            statuses.mkdir()
            local = self._start_torchrun(statuses)
            self._wait(local, others)
            return self._verdict(local, status_of(statuses), others)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number in WARNINGS:
            self._warned = signal.Signals(number)
        else:
            self._ended = signal.Signals(number)

    def _start_torchrun(self, statuses: Path) -> subprocess.Popen[bytes]:
        processes = self._args.processes
        threads = str(max(1, usable_cpus() // processes))
        environment = {"OMP_NUM_THREADS": threads, **os.environ, STATUS_DIR: str(statuses)}
        command = [
            *(sys.executable, "-m", "torch.distributed.run", *self._meeting_point()),
            *("--nproc-per-node", str(processes), "--max-restarts", "0"),
            *("-m", "danish_asr.launch.worker", self._args.module, *self._args.arguments),
        ]
        return _start(command, environment)

    def _meeting_point(self) -> list[str]:
        if len(self._hosts) == 1:
            return ["--standalone"]
        return [
            *("--nnodes", str(len(self._hosts)), "--node-rank", str(self._args.node)),
            *("--master-addr", self._hosts[0], "--master-port", str(master_port(os.environ))),
        ]

    def _start_others(self, stack: ExitStack) -> list[subprocess.Popen[bytes]]:
        return [self._start_other(node, stack) for node in range(1, len(self._hosts))]

    def _start_other(self, node: int, stack: ExitStack) -> subprocess.Popen[bytes]:
        """Start this program on another host.

        All that it needs stands in a script on the shared disk, so that neither quoting nor the
        environment depends on the way LSF is set up. The script is removed when the job ends.
        """
        args = self._args
        options = ["--processes", str(args.processes), "--node", str(node)]
        if args.trace is not None:
            options += ["--trace", str(args.trace), "--trace-seconds", str(args.trace_seconds)]
        command = [sys.executable, "-m", "danish_asr.launch", *options, args.module]
        lines = [
            "trap '' " + " ".join(number.name for number in WARNINGS),
            *(f"export {name}={shlex.quote(value)}" for name, value in _shared_environment()),
            # The file may be on the first host's own disk.
            "unset LSB_DJOB_HOSTFILE LSB_MCPU_HOSTS",
            f"export LSB_HOSTS={shlex.quote(' '.join(self._hosts))}",
            f"cd {shlex.quote(str(Path.cwd()))}",
            f"exec {shlex.join([*command, *args.arguments])}",
        ]
        folder = (args.trace or Path.cwd()).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        script = folder / f"{_job_id()}.node-{node}.sh"
        script.touch(mode=0o700)  # first, because an environment may hold a token
        stack.callback(script.unlink, missing_ok=True)
        script.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return _start(["blaunch", self._hosts[node], "bash", str(script)], dict(os.environ))

    def _wait(
        self, local: subprocess.Popen[bytes], others: Sequence[subprocess.Popen[bytes]]
    ) -> None:
        """Wait until all have ended, passing on signals; after a failure the rest is ended."""
        everyone = [local, *others]
        deadline: float | None = None
        while any(process.poll() is None for process in everyone):
            if self._warned is not None:
                self._pass_on(local, self._warned)
            failed = any(process.poll() not in {None, 0, STOPPED} for process in everyone)
            if deadline is None and (failed or self._ended is not None):
                deadline = time.monotonic() + GRACE_SECONDS
                _end(everyone, signal.SIGTERM)
            elif deadline is not None and time.monotonic() > deadline:
                _end(everyone, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)

    def _pass_on(self, local: subprocess.Popen[bytes], number: signal.Signals) -> None:
        """Tell the recipe's processes, each once, as soon as it listens."""
        for pid in descendants(local.pid):
            if pid not in self._told and catches(pid, number):
                self._told.add(pid)
                os.kill(pid, number)

    def _verdict(
        self,
        local: subprocess.Popen[bytes],
        status: int | None,
        others: Sequence[subprocess.Popen[bytes]],
    ) -> int:
        if self._ended is not None:
            return 128 + self._ended
        mine = status if status is not None else 1
        if mine in {0, STOPPED} and local.returncode:
            mine = 1  # one of the processes was killed before it could note its status
        failures = [code for code in (mine, *(p.returncode for p in others)) if code]
        failures.sort(key=lambda code: code == STOPPED)
        return failures[0] if failures else 0


def _start(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a process that ignores warnings until it has handlers of its own.

    What is ignored stays ignored in all that it starts. So a warning that comes while the recipe
    loads its libraries does not kill it, and none kills ``torchrun``.
    """
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in WARNINGS}
    try:
        return subprocess.Popen(command, env=environment)  # noqa: S603 - torchrun or blaunch
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _job_id() -> str:
    return os.environ.get("LSB_JOBID", "local")


def _shared_environment() -> list[tuple[str, str]]:
    """What another host needs of this one's environment; the rest it knows better itself."""
    own = ("HOSTNAME", "LSF_PM_TASKID", "CUDA_VISIBLE_DEVICES", "PWD", "OLDPWD", "SHLVL", "_")
    return [
        (name, value)
        for name, value in sorted(os.environ.items())
        if name.isidentifier() and name not in own
    ]


def _end(processes: Sequence[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(number)
