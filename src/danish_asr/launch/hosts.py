"""What LSF's variables say about the hosts of a job."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, repeat
from pathlib import Path
from typing import Final

from danish_asr.errors import DanishAsrError

HOST_VARIABLES: Final = ("LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS")
"""Where LSF lists a job's slots; the first that is set counts. A long list stands in the file
only."""

LOCAL_PORTS: Final = range(20_000, 60_000)
"""Ports for the processes of a job to meet at."""


class ClusterError(DanishAsrError):
    """LSF's variables are missing, contradict each other or do not decide what must be known."""


def slots(environment: Mapping[str, str]) -> list[str]:
    """Return the host of each slot of the job, in LSF's order; empty outside a job.

    Raises:
        ClusterError: A variable cannot be read.
    """
    if file := environment.get("LSB_DJOB_HOSTFILE"):
        try:
            return Path(file).read_text(encoding="utf-8").split()
        except OSError as error:
            raise ClusterError(
                f"LSB_DJOB_HOSTFILE is {file}, which cannot be read: {error.strerror}"
            ) from None
    if pairs := environment.get("LSB_MCPU_HOSTS", "").split():
        counts = pairs[1::2]
        if len(pairs) % 2 or not all(count.isdecimal() for count in counts):
            raise ClusterError(
                "LSB_MCPU_HOSTS must hold hosts and numbers by turns, but is "
                f"'{environment['LSB_MCPU_HOSTS']}'"
            )
        return list(chain.from_iterable(map(repeat, pairs[::2], map(int, counts))))
    return environment.get("LSB_HOSTS", "").split()


def hosts(environment: Mapping[str, str]) -> list[str]:
    """Return the hosts of the job, each once, the one that runs the script first."""
    return list(dict.fromkeys(slots(environment)))


def master_port(environment: Mapping[str, str]) -> int:
    """Return a port that all processes of a job agree on and two jobs on a host rarely share.

    Raises:
        ClusterError: ``MASTER_PORT`` is not set, and ``LSB_JOBID`` is missing or no number.
    """
    given = environment.get("MASTER_PORT")
    if given is not None:
        if not given.isdecimal():
            raise ClusterError(f"MASTER_PORT must be a number, but is '{given}'")
        return int(given)
    job, index = environment.get("LSB_JOBID"), environment.get("LSB_JOBINDEX") or "0"
    if job is None or not job.isdecimal() or not index.isdecimal():
        raise ClusterError(
            "LSB_JOBID, and LSB_JOBINDEX if it is set, must be numbers to derive a port from, but "
            f"are {job!r} and {index!r}; set MASTER_PORT to choose one"
        )
    # A prime step spreads the elements of an array over the range.
    return LOCAL_PORTS[(int(job) + 7919 * int(index)) % len(LOCAL_PORTS)]
