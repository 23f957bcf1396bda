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
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
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
    busy: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(workers):
            _hand_out(waiting, busy, *_start(task))
        while busy:
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                process = busy.pop(connection)
                result = _receive(connection, process)
                if fresh:
                    connection.close()
                    process.join()
                    connection, process = _start(task)  # noqa: PLW2901 - the next worker
                _hand_out(waiting, busy, connection, process)
                yield result
    finally:
        # Whatever ended the run, what is unfinished will be done again; waiting would only delay.
        for connection, process in busy.items():
            process.kill()
            process.join()
            connection.close()


def _start(task: Callable[[Any], Any]) -> tuple[Connection, BaseProcess]:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(theirs, task), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _hand_out(
    waiting: Iterator[Any],
    busy: dict[Connection, BaseProcess],
    connection: Connection,
    process: BaseProcess,
) -> None:
    """Give a worker the next item, or send it home."""
    for item in waiting:
        connection.send(item)
        busy[connection] = process
        return
    connection.close()
    process.join()


def _receive(connection: Connection, process: BaseProcess) -> Any:
    try:
        succeeded, value = connection.recv()
    except EOFError:
        process.join()
        raise DanishAsrError(
            f"a worker process was killed (exit code {process.exitcode}), most likely because "
            "memory ran out; run the same command again to continue, with fewer --workers"
        ) from None
    if succeeded:
        return value
    raise value


def _serve(connection: Connection, task: Callable[[Any], Any]) -> None:
    """Work until the parent closes the pipe; leave Ctrl-C to it, and end when it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
