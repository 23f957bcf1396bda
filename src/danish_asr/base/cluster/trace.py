"""Record the GPUs and memory of a job while it runs, and pass LSF's warning on to its processes.

::

    python -m danish_asr.base.cluster.trace OUTDIR/trace/JOB.HOST.jsonl &

Every 10 s it appends one JSON line: ``time`` (s since 1970), ``job``, ``host``, ``memory_mib`` (RAM
of all processes that its parent, the job's script, has started) and ``gpus``, a list of ``index``,
``utilisation_percent``, ``memory_mib``, ``memory_total_mib`` and ``power_w``, null where the driver
does not report a value. Without nvidia-smi the list is empty. It ends with its parent.

LSF sends its warning (``bsub -wa USR2``) to the process group of the script, but ``torchrun``
starts its processes in sessions of their own. So this process sends it to every process of the job
that handles it, as soon as it does: the recipe installs its handler after its libraries are loaded.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

QUERY: Final = {
    "index": "index",
    "utilization.gpu": "utilisation_percent",
    "memory.used": "memory_mib",
    "memory.total": "memory_total_mib",
    "power.draw": "power_w",
}
"""Fields of nvidia-smi and their names in the trace."""

_PROC: Final = Path("/proc")


def main(file: Path) -> None:
    """Write the trace and forward the warning until the parent ends."""
    job = os.getppid()
    warnings: list[int] = []
    signal.signal(signal.SIGUSR2, lambda number, _frame: warnings.append(number))
    file.parent.mkdir(parents=True, exist_ok=True)
    warned: set[int] = set()
    for second in count():
        if os.getppid() != job:
            return
        if second % 10 == 0:
            with suppress(OSError):  # a full disk must not end the trace, nor the job
                append(file, moment(job))
        if warnings:
            forward(job, signal.SIGUSR2, warned)
        time.sleep(1)


def append(file: Path, line: dict[str, Any]) -> None:
    """Append a line, after removing an incomplete one that a killed job has left."""
    whole, newline, rest = file.read_bytes().rpartition(b"\n") if file.is_file() else (b"",) * 3
    if rest:
        os.truncate(file, len(whole + newline))
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def moment(job: int) -> dict[str, Any]:
    """Return what the processes below ``job`` and the GPUs of this host use now."""
    statistics = [_read(pid, "statm").split() for pid in [job, *descendants(job)]]
    pages = sum(int(fields[1]) for fields in statistics if fields)
    return {
        "job": os.environ.get("LSB_JOBID") or os.environ.get("SLURM_JOB_ID"),
        "host": socket.gethostname(),
        "time": round(time.time(), 1),
        "memory_mib": pages * os.sysconf("SC_PAGE_SIZE") // 2**20,
        "gpus": gpus(),
    }


def gpus() -> list[dict[str, float | None]]:
    """Ask nvidia-smi about the GPUs that the job may use."""
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
    # A GPU that the driver has lost has a sentence in place of its numbers.
    return [
        dict(zip(QUERY.values(), map(_number, row), strict=True))
        for row in rows
        if len(row) == len(QUERY)
    ]


def descendants(pid: int) -> list[int]:
    """Return the processes that ``pid`` started, those that they started, and so on."""
    threads = (_PROC / str(pid) / "task").glob("*")
    children = " ".join(_read(pid, f"task/{thread.name}/children") for thread in threads)
    found = [int(child) for child in children.split()]
    return [process for child in found for process in [child, *descendants(child)]]


def forward(job: int, number: signal.Signals, warned: set[int]) -> None:
    """Send a signal, once, to each process below ``job`` that has a handler for it."""
    for pid in descendants(job):
        caught = _read(pid, "status").partition("SigCgt:")[2].split(maxsplit=1)
        if pid in warned or pid == os.getpid() or not caught:
            continue
        if int(caught[0], 16) >> (number - 1) & 1:
            warned.add(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _read(pid: int, name: str) -> str:
    """Read a file of a process in ``/proc``; empty if the process has ended."""
    try:
        return (_PROC / str(pid) / name).read_text(encoding="utf-8")
    except OSError:
        return ""


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # such as "[N/A]"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
