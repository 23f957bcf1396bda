"""A trace of GPU and memory while a job runs: one JSON line per moment, to be drawn later.

Each line has ``time`` (s since 1970), ``job``, ``host``, ``memory_mib`` (resident memory of the
job's processes on this host) and ``gpus``: a list of ``index``, ``utilisation_percent``,
``memory_mib``, ``memory_total_mib`` and ``power_w``, null where the driver does not say. Without
nvidia-smi the list is empty.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from danish_asr.cluster.processes import descendants, resident_bytes

QUERY: Final = {
    "index": "index",
    "utilization.gpu": "utilisation_percent",
    "memory.used": "memory_mib",
    "memory.total": "memory_total_mib",
    "power.draw": "power_w",
}
"""nvidia-smi's fields and the names they have in the trace."""

_MIB: Final = 2**20


class Trace:
    """Writes the trace in the background. Use it as a context manager.

    Args:
        file: Takes the lines; a file that is there is continued.
        host: The name of this host.
        seconds: Time between two lines.
    """

    def __init__(self, file: Path, host: str, *, seconds: float) -> None:
        self._file = file
        self._about = {"job": os.environ.get("LSB_JOBID"), "host": host}
        self._seconds = seconds
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        _drop_half_line(self._file)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            line = json.dumps(self._about | moment()) + "\n"
            try:
                with self._file.open("a", encoding="utf-8") as stream:
                    stream.write(line)
            except OSError:
                return  # A full quota must not end the job because of its trace.
            if self._end.wait(self._seconds):
                return


def _drop_half_line(file: Path) -> None:
    """Remove what a process that was killed left of its last line."""
    whole = file.read_bytes().rpartition(b"\n")[:2] if file.is_file() else ()
    if whole:
        os.truncate(file, sum(map(len, whole)))


def moment() -> dict[str, Any]:
    """Return what this host's processes and GPUs do now."""
    me = os.getpid()
    resident = sum(resident_bytes(pid) for pid in [me, *descendants(me)])
    return {"time": round(time.time(), 1), "memory_mib": resident // _MIB, "gpus": gpus()}


def gpus() -> list[dict[str, float | None]]:
    """Ask nvidia-smi about the GPUs that this process may use."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    query = [f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        query.append(f"--id={visible}")
    try:
        answer = subprocess.run(  # noqa: S603 - the system's own nvidia-smi
            [command, *query], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(",") for line in answer.stdout.splitlines()]
    # A GPU that fell off the bus gets a sentence in place of its numbers.
    return [
        dict(zip(QUERY.values(), map(_number, row), strict=True))
        for row in rows
        if len(row) == len(QUERY)
    ]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # such as "[N/A]"
