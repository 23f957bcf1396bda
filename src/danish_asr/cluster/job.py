"""The process that starts a job's processes, watches them and tells how they ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Final

from danish_asr.cluster.cpus import usable_cpus
from danish_asr.cluster.hosts import hosts, job_id, master_port, node_of
from danish_asr.cluster.other_hosts import OtherHosts, tell_first_host
from danish_asr.cluster.processes import WARNINGS, catches, descendants, start
from danish_asr.cluster.trace import Trace
from danish_asr.cluster.worker import STATUS_DIR, STOPPED, status_of
from danish_asr.errors import DanishAsrError

ENDS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals that end the job, from ``bkill``. The run gets the time that ``torchrun`` allows."""

GRACE_SECONDS: Final = 45.0
"""How long processes that are told to end may take; ``torchrun`` itself allows them 30 s."""

_POLL_SECONDS: Final = 0.1
_TICKS_TO_LOOK_ELSEWHERE: Final = 20
"""Polls of this host's processes for one look at the shared disk."""


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
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)  # noqa: T201
    return 2


def _parse(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m danish_asr.cluster", description=__doc__)
    parser.add_argument("--processes", type=int, default=1, help="on each host: one per GPU")
    parser.add_argument("--trace", type=Path, help="directory for the trace of GPU and memory")
    parser.add_argument("--trace-seconds", type=float, default=10.0)
    parser.add_argument("--join", type=Path, help="where the first host reads how this one ended")
    parser.add_argument("module", help="the recipe")
    parser.add_argument("arguments", nargs=REMAINDER, help="what the recipe is given")
    args = parser.parse_args(arguments)
    if args.processes < 1:
        parser.error(f"--processes must be from 1, but is {args.processes}")
    return args


class Job:
    """One host's share of a job. The first host starts the others through LSF's ``blaunch``."""

    def __init__(self, args: Namespace) -> None:
        self._args = args
        this_host = socket.gethostname()
        self._hosts = hosts(os.environ) or [this_host]
        task = os.environ.get("LSF_PM_TASKID")
        self._node = node_of(self._hosts, this_host, task) if args.join else 0
        self._name = self._hosts[self._node]
        self._warned: signal.Signals | None = None
        self._told: set[int] = set()
        self._ended: signal.Signals | None = None
        self._failed_elsewhere = False

    def run(self) -> int:
        """Start everything, wait for its end, and return the status of all together."""
        for number in (*WARNINGS, *ENDS):
            signal.signal(number, self._note)
        with ExitStack() as stack:
            statuses = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if self._args.trace is not None:
                file = self._args.trace / f"{job_id()}.{self._name}.jsonl"
                seconds = self._args.trace_seconds
                stack.enter_context(Trace(file, self._name, seconds=seconds))
            others = None
            if self._node == 0 and len(self._hosts) > 1:
                others = stack.enter_context(OtherHosts(self._hosts, self._args))
            local = self._start_torchrun(statuses)
            self._wait(local, others)
            status = self._verdict(local, status_of(statuses), others)
        if self._args.join is None:
            return status
        return tell_first_host(self._args.join, self._node, status)

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
            *(sys.executable, "-m", "danish_asr.cluster.torchrun", *self._meeting_point()),
            *("--nproc-per-node", str(processes), "--max-restarts", "0"),
            *("-m", "danish_asr.cluster.worker", self._args.module, *self._args.arguments),
        ]
        return start(command, environment)

    def _meeting_point(self) -> list[str]:
        if len(self._hosts) == 1:
            return ["--standalone"]
        return [
            *("--nnodes", str(len(self._hosts)), "--node-rank", str(self._node)),
            *("--master-addr", self._hosts[0], "--master-port", str(master_port(os.environ))),
        ]

    def _wait(self, local: subprocess.Popen[bytes], others: OtherHosts | None) -> None:
        """Wait until all have ended, passing on signals; after a failure the rest is ended."""
        everyone = [local, *([others.process] if others else [])]
        deadline: float | None = None
        for tick in count():
            if all(process.poll() is not None for process in everyone):
                return
            if self._warned is not None:
                self._pass_on(local, self._warned)
            failed = any(process.poll() not in {None, 0} for process in everyone)
            if others and tick % _TICKS_TO_LOOK_ELSEWHERE == 0 and others.failed():
                self._failed_elsewhere = failed = True
            if deadline is None and (failed or self._ended is not None):
                deadline = time.monotonic() + GRACE_SECONDS
                _end(everyone, signal.SIGTERM)
            elif deadline is not None and time.monotonic() > deadline:
                _end(everyone, signal.SIGKILL)
            elif deadline is not None and not descendants(local.pid):
                # It waits for other hosts, in a call that no signal interrupts.
                _end([local], signal.SIGKILL)
            time.sleep(_POLL_SECONDS)

    def _pass_on(self, local: subprocess.Popen[bytes], number: signal.Signals) -> None:
        """Tell the recipe's processes, each once, as soon as it listens."""
        for pid in descendants(local.pid):
            if pid not in self._told and catches(pid, number):
                self._told.add(pid)
                os.kill(pid, number)

    def _verdict(
        self, local: subprocess.Popen[bytes], status: int | None, others: OtherHosts | None
    ) -> int:
        if self._ended is not None:
            return 128 + self._ended
        mine = status if status is not None else 1
        if mine in {0, STOPPED} and local.returncode and not self._failed_elsewhere:
            mine = 1  # one of the processes was killed before it could note its status
        codes = [mine, *(others.statuses() if others else [])]
        if self._failed_elsewhere:
            codes = [*codes[1:], mine]
        # What was ended because of another's failure counts less than that one, a stop least.
        failures = sorted(filter(None, codes), key=lambda code: (code == STOPPED, code > 128))
        return failures[0] if failures else 0


def _end(processes: Sequence[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(number)
