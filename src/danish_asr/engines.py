"""Run the units of a conversion: in this process or in worker processes.

Each engine yields records as units finish, in any order; the bytes do not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from danish_asr.shard import Job, Record
from danish_asr.work_units import Unit
from danish_asr.workers import run_in_processes


def run_units(job: Job, units: Sequence[Unit], workers: int) -> Iterator[Record]:
    """Convert units on this machine; one worker alone needs no process of its own."""
    if min(workers, len(units)) <= 1:
        return map(job.convert, units)
    return run_in_processes(job.convert, units, min(workers, len(units)))
