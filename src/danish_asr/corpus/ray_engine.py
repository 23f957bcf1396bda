"""Run the tasks of a conversion on a Ray cluster, whose machines share source and output."""

import socket
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

from danish_asr.base.errors import ConfigError, DanishAsrError, MissingExtraError

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_on_ray(
    task: Callable[[Item], Result], items: Sequence[Item], *, address: str | None, workers: int
) -> Iterator[Result]:
    """Yield ``task(item)`` for every item, in the order in which they finish; ``task`` must pickle.

    Without an address, a cluster with that many workers is started on this machine.

    Raises:
        ConfigError: There is no cluster at the address.
        DanishAsrError: A task raised it, a worker was killed, or Ray is not installed.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise MissingExtraError("--engine ray", "ray") from None
    own = {"num_cpus": workers, "include_dashboard": False} if address is None else {}
    try:
        _probe(address)
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **own)
    except (OSError, ValueError, RuntimeError) as error:
        fault = (
            f"--address: no Ray cluster answers at {address or 'this machine'} "
            f"({' '.join(str(error).split())}); start one with `ray start --head` and give its "
            "address, or leave --address out to use this machine"
        )
        raise ConfigError([fault], where="the command line") from error
    try:
        shared = ray.put(task)
        remote = ray.remote(num_cpus=1)(lambda task, item: task(item))
        waiting = iter(items)
        ahead = 2 * int(ray.cluster_resources().get("CPU", 1))  # so that no CPU waits
        running = [remote.remote(shared, item) for item in islice(waiting, ahead)]
        while running:
            done, running = ray.wait(running)
            running += [remote.remote(shared, item) for item in islice(waiting, len(done))]
            yield from ray.get(done)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, DanishAsrError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DanishAsrError(
            f"the Ray cluster lost a worker or a machine ({reason}); run the same command again to "
            "continue, with fewer workers per machine if memory ran out"
        ) from error
    finally:
        ray.shutdown()


def _probe(address: str | None) -> None:
    """Raise `OSError` if nothing listens at ``HOST:PORT``: Ray itself tries for many minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=20).close()
