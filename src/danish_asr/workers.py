"""Share tasks among processes of this machine, so that killing any of them is harmless.

The standard pools either wait for ever when a worker is killed, or hang when they are stopped early
while their workers are being replaced. This one has neither state nor threads to be left behind: a
worker is a process at the other end of a pipe.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any, Final, TypeVar

from danish_asr.errors import DanishAsrError

Item = TypeVar("Item")
Result = TypeVar("Result")

_SPAWN: Final = multiprocessing.get_context("spawn")
"""A forked child would inherit the locks of Arrow's threads in the state they happen to be in."""


def run_in_processes(
    task: Callable[[Item], Result], items: Iterable[Item], workers: int, *, fresh: bool = False
) -> Iterator[Result]:
    """Yield ``task(item)`` for every item, in the order in which they are finished.

    Args:
        task: Called in a worker; it must pickle. It is sent once per worker.
        items: What to call it with; drawn one by one, as workers become free.
        workers: Processes.
        fresh: Whether every item gets a new process.

    Raises:
        DanishAsrError: A task raised it, or a worker was killed.
    """
    waiting = iter(items)
    busy: dict[Any, _Worker] = {}
    try:
        for item in islice(waiting, workers):
            worker = _Worker(task)
            busy[worker.connection] = worker
            worker.connection.send(item)
        while busy:
            for connection in wait(list(busy)):
                worker = busy[connection]
                result = worker.receive()
                del busy[connection]
                for item in islice(waiting, 1):
                    if fresh:
                        worker.dismiss()
                        worker = _Worker(task)
                    busy[worker.connection] = worker
                    worker.connection.send(item)
                if worker.connection not in busy:
                    worker.dismiss()
                yield result
    finally:
        # Whatever ended the run, what is unfinished will be done again; waiting would only delay.
        for worker in busy.values():
            worker.process.kill()
            worker.dismiss()


class _Worker:
    """A process that works on what it is sent, one item after the other."""

    def __init__(self, task: Callable[[Any], Any]) -> None:
        self.connection, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(theirs, task), daemon=True)
        # Ctrl-C reaches every process of the terminal; a child that is still importing would die of
        # it with a traceback. It inherits the blocked signal and leaves it to its parent for good.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()

    def receive(self) -> Any:
        """The result of the item that was sent; what the task raised is raised here."""
        try:
            succeeded, value = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            raise DanishAsrError(
                f"a worker process was killed (exit code {self.process.exitcode}), most likely "
                "because memory ran out; run the same command again to continue, with fewer "
                "--workers"
            ) from None
        if succeeded:
            return value
        raise value

    def dismiss(self) -> None:
        """Let the process end, and wait for it."""
        self.connection.close()
        self.process.join()


def _serve(connection: Connection, task: Callable[[Any], Any]) -> None:
    """Work until the parent closes the pipe, and end when it is killed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            item = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, task(item)))
        except DanishAsrError as error:
            connection.send((False, error))
        except Exception:  # noqa: BLE001 - a bug of ours, told with the worker's traceback
            connection.send((False, RuntimeError(traceback.format_exc())))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
