"""Run the units of a conversion: in this process, in worker processes or on a Ray cluster.

Each engine yields records as units finish, in any order; the bytes do not depend on it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from typing import Any, Final, TypeVar

from danish_asr.conversion.shard import Job, Record
from danish_asr.conversion.work_units import Unit
from danish_asr.errors import ConfigError, DanishAsrError, MissingExtraError
from danish_asr.workers import run_in_processes

Result = TypeVar("Result")

_AHEAD: Final = 2
"""Units handed out per CPU of a Ray cluster, so that none waits for the next."""

_PATIENCE: Final = 20.0
"""Seconds in which a cluster should answer."""


def run_units(
    task: Callable[[Unit], Result], units: Sequence[Unit], workers: int
) -> Iterator[Result]:
    """Work on units on this machine; one worker alone needs no process of its own."""
    if min(workers, len(units)) <= 1:
        return map(task, units)
    return run_in_processes(task, units, min(workers, len(units)))


def run_on_ray(
    job: Job, units: Sequence[Unit], *, address: str | None, workers: int
) -> Iterator[Record]:
    """Convert units on a Ray cluster whose machines share source and output.

    Args:
        job: What to do.
        units: On what.
        address: The cluster; None for one of our own on this machine.
        workers: CPUs of our own cluster.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: There is no cluster at the address.
        DanishAsrError: A unit raised it, or a worker was killed.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise MissingExtraError("--engine ray", "ray") from None
    own = {"num_cpus": workers, "include_dashboard": False} if address is None else {}
    try:
        _knock(address)
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **own)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError([_told(address, error)], where="the command line") from error
    try:
        shared = ray.put(job)
        convert = ray.remote(num_cpus=1)(_convert)
        waiting = iter(units)
        ahead = _AHEAD * int(ray.cluster_resources().get("CPU", 1))
        under_way = [convert.remote(shared, unit) for unit in islice(waiting, ahead)]
        while under_way:
            done, under_way = ray.wait(under_way)
            under_way += [convert.remote(shared, unit) for unit in islice(waiting, len(done))]
            yield from _results(ray, done)
    finally:
        ray.shutdown()


def _knock(address: str | None) -> None:
    """Raise `OSError` if nobody listens at ``HOST:PORT``: Ray itself tries for many minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()


def _told(address: str | None, error: Exception) -> str:
    reason = " ".join(str(error).split())
    return (
        f"--address: no Ray cluster answers at {address or 'this machine'} ({reason}); start one "
        "with `ray start --head` and give its address, or leave --address out to use this machine"
    )


def _convert(job: Job, unit: Unit) -> Record:
    return job.convert(unit)


def _results(ray: Any, done: list[Any]) -> Iterator[Record]:
    try:
        yield from ray.get(done)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, DanishAsrError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        lost = str(error).partition("\n")[0].rstrip(".")
        raise DanishAsrError(
            f"the Ray cluster has lost what it was working on ({lost}); run the same command again "
            "to continue, with fewer workers a machine if memory ran out"
        ) from error
