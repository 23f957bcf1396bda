"""Share tasks among processes of this machine, so that killing any of them is harmless."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Final, TypeVar

from danish_asr.errors import DanishAsrError

Item = TypeVar("Item")
Result = TypeVar("Result")

_SPAWN: Final = multiprocessing.get_context("spawn")
"""A forked child would inherit the locks of Arrow's threads in the state they happen to be in."""


def run_in_processes(
    task: Callable[[Item], Result], items: Iterable[Item], workers: int, *, fresh: bool = False
) -> Iterator[Result]:
    """Yield ``task(item)`` for every item, in the order in which they finish.

    Args:
        task: Called in a worker; it must pickle.
        items: Its arguments; drawn one by one, as workers become free.
        workers: Processes.
        fresh: Whether every item gets a new process.

    Raises:
        DanishAsrError: A task raised it, or a worker was killed.
    """
    waiting = iter(items)
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        max(workers, 1),
        _SPAWN,
        initializer=_end_with_parent,
        max_tasks_per_child=1 if fresh else None,
    )
    running: set[Future[Result]] = set()

    def submit(count: int) -> None:
        # Ctrl-C reaches every process of the terminal; a child that is still importing would die
        # with a traceback. Children inherit the blocked signal: stopping is up to the parent.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            running.update(pool.submit(task, item) for item in islice(waiting, count))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    try:
        submit(workers)
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                running.remove(future)
                submit(1)
                yield future.result()
    except BaseException as error:
        # Unfinished items will be done again; waiting for them would only delay.
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        if isinstance(error, BrokenProcessPool):
            raise DanishAsrError(
                "a worker process was killed, most likely because memory ran out; run the same "
                "command again to continue, with fewer --workers"
            ) from None
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """End this worker when its parent is killed."""
    threading.Thread(
        target=_exit_after, args=(multiprocessing.parent_process(),), daemon=True
    ).start()


def _exit_after(parent: Any) -> None:
    parent.join()
    os._exit(1)
