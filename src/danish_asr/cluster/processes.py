"""Start processes that outlive a warning, and look at those below this one by Linux's ``/proc``."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

WARNINGS: Final = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that ask the run to save and stop. LSF sends one before the wall time is over."""

_PROC: Final = Path("/proc")


def start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process that ignores warnings until it has handlers of its own.

    What is ignored stays ignored in all that it starts. So a warning that comes while the recipe
    loads its libraries does not kill it, and none kills ``torchrun``.
    """
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in WARNINGS}
    try:
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)  # noqa: S603
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def descendants(pid: int) -> list[int]:
    """Return the processes that ``pid`` started, and those that they started, and so on."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal."""
    for line in _read(_PROC / str(pid) / "status").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def resident_bytes(pid: int) -> int:
    """Memory that a process holds in RAM; shared pages count in each process that maps them."""
    fields = _read(_PROC / str(pid) / "statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def _children(pid: int) -> list[int]:
    tasks = (_PROC / str(pid) / "task").glob("*/children")
    return [int(child) for task in tasks for child in _read(task).split()]


def _read(path: Path) -> str:
    """The text of a file of a process, which may be over by now."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
