"""Run the units of a conversion: in this process, in worker processes or on a Ray cluster.

Each engine yields records as units finish, in any order; the bytes do not depend on it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Final

from danish_asr.errors import DatasetError
from danish_asr.shard import Job, Record
from danish_asr.work_units import Unit

_AHEAD: Final = 2
"""Units handed out per worker, so that none waits for the next."""


def run_here(job: Job, units: Sequence[Unit]) -> Iterator[Record]:
    """Convert one unit after the other in this process."""
    yield from map(job.convert, units)


def run_processes(job: Job, units: Sequence[Unit], workers: int) -> Iterator[Record]:
    """Convert units in worker processes on this machine.

    Raises:
        DatasetError: A worker was killed, most likely for want of memory.
    """
    pool = ProcessPoolExecutor(
        max_workers=workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin_worker,
        initargs=(job,),
    )
    try:
        yield from _as_finished(units, lambda unit: pool.submit(_convert, unit), workers * _AHEAD)
    except BrokenProcessPool:
        raise DatasetError(
            "a worker process was killed, most likely because memory ran out; run the same command "
            "again to continue, with fewer --workers"
        ) from None
    finally:
        # Whatever ended the run, an unfinished unit is redone; waiting for it would only delay.
        for worker in multiprocessing.active_children():
            worker.kill()
        pool.shutdown(cancel_futures=True)


def _as_finished(
    units: Iterable[Unit], submit: Callable[[Unit], Future[Record]], ahead: int
) -> Iterator[Record]:
    """Keep a bounded number of units under way; yield each record when its unit is finished."""
    waiting = iter(units)
    under_way = {submit(unit) for unit in islice(waiting, ahead)}
    while under_way:
        done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()
        under_way |= {submit(unit) for unit in islice(waiting, len(done))}


_job: Job | None = None


def _begin_worker(job: Job) -> None:
    """Keep the job, leave Ctrl-C to the parent, and end with it, however it ends."""
    global _job  # noqa: PLW0603 - a process pool hands state to its workers in no other way
    _job = job
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _convert(unit: Unit) -> Record:
    assert _job is not None
    return _job.convert(unit)
