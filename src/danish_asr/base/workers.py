"""Share tasks among processes, here or on a Ray cluster; killing any of them is harmless."""

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, TypeVar

from danish_asr.base.errors import ConfigError, DanishAsrError, MissingExtraError
from danish_asr.base.stops import STOP_SIGNALS

SECONDS_ALONE: Final = 5.0
"""Decoding time of a process before it starts others, which takes them some seconds."""

_SECONDS_HELD: Final = 0.2  # that a signal waits at most while processes work

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_in_processes(
    task: Callable[[Item], Result], items: Sequence[Item], workers: int, *, fresh: bool = False
) -> Generator[Result, None, None]:
    """Yield ``task(item)`` for every item, in the order in which they finish; ``task`` must pickle.

    One worker alone is this process. With ``fresh``, every item gets a new process.
    """
    workers = min(workers, len(items))
    if workers == 0 or (workers == 1 and not fresh):
        yield from map(task, items)
        return
    pool = WorkerPool(workers, fresh=fresh)
    with pool.killed_on_error():
        running = {pool.submit(task, item) for item in items}
        while running:
            # An exception of a signal handler within these calls would leave a future locked, and
            # the pool waiting for it.
            with uninterrupted():
                done, running = wait(running, _SECONDS_HELD, FIRST_COMPLETED)
                results = [future.result() for future in done]
            yield from results
    pool.close()


class WorkerPool:
    """Processes that run tasks until the parent ends; with ``fresh``, one for every task."""

    def __init__(self, workers: int, *, fresh: bool = False) -> None:
        # A forked child would inherit the locks of Arrow's threads in whatever state they are in.
        spawn = multiprocessing.get_context("spawn")
        self._others = set(multiprocessing.active_children())
        self._pool = ProcessPoolExecutor(
            workers, spawn, _end_with_parent, max_tasks_per_child=1 if fresh else None
        )

    def submit(self, task: Callable[[Item], Result], item: Item) -> Future[Result]:
        """Start ``task(item)``, or let it wait for a process; both must pickle."""
        # A signal to the whole group would kill a child that is still importing with a traceback.
        # Children inherit the blocked signals: stopping is up to the parent.
        with uninterrupted():
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
            try:
                return self._pool.submit(task, item)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    @contextmanager
    def killed_on_error(self) -> Iterator[None]:
        """End the processes if the block ends early; raises DanishAsrError if one was killed."""
        try:
            yield
        except BaseException as error:
            # Unfinished items will be done again; waiting for them would only delay.
            for process in set(multiprocessing.active_children()) - self._others:
                process.kill()
            self.close()
            if isinstance(error, BrokenProcessPool):
                raise DanishAsrError(
                    "a worker process was killed, most likely because memory ran out; run the same "
                    "command again to continue, with fewer --workers"
                ) from None
            raise

    def close(self) -> None:
        """Wait for the running tasks and end the processes."""
        self._pool.shutdown(cancel_futures=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back until the end of a short block.

    libsndfile calls back into Python: an exception there is printed and lost, and cuts the audio.
    In `concurrent.futures` it can leave a lock taken.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda stop, _: received.append(stop))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def _end_with_parent() -> None:
    parent: Any = multiprocessing.parent_process()

    def wait_and_exit() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_and_exit, daemon=True).start()


def run_on_ray(
    task: Callable[[Item], Result], items: Sequence[Item], *, address: str, workers: int
) -> Generator[Result, None, None]:
    """Yield ``task(item)`` for every item, in the order in which they finish; ``task`` must pickle.

    The address ``local`` starts a cluster with that many workers on this machine.

    Raises:
        ConfigError: There is no cluster at the address.
        DanishAsrError: A task raised it, a worker was killed, or Ray is not installed.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise MissingExtraError("--ray", "ray") from None
    own = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if port.isdecimal():  # Ray itself would try for many minutes
            socket.create_connection((host, int(port)), timeout=20).close()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        fault = f"--ray: no Ray cluster answers at {address} ({reason})"
        raise ConfigError([fault], where="the command line") from error
    try:
        shared = ray.put(task)
        remote = ray.remote(num_cpus=1)(lambda task, item: task(item))
        running = [remote.remote(shared, item) for item in items]
        while running:
            done, running = ray.wait(running)
            yield from ray.get(done)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, DanishAsrError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DanishAsrError(
            f"the Ray cluster lost a worker or a machine ({reason}); run the same command again"
        ) from error
    finally:
        ray.shutdown()
