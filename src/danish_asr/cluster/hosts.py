"""What LSF's variables say about the hosts of a job."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Final

from danish_asr.errors import DanishAsrError

HOST_VARIABLES: Final = ("LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS")
"""Where LSF lists a job's slots; the first that names one counts. A long list stands in the file
only."""

LOCAL_PORTS: Final = range(20_000, 60_000)
"""Ports for the processes of a job to meet at."""


class ClusterError(DanishAsrError):
    """LSF's variables are missing, contradict each other or do not decide what must be known."""


def slots(environment: Mapping[str, str]) -> list[str]:
    """Return the host of each slot of the job, in LSF's order; empty outside a job.

    A host has one name, the first that LSF calls it by: ``n-1`` and ``n-1.cluster.dk`` are one.

    Raises:
        ClusterError: A variable cannot be read, or a job's variables name no host.
    """
    found = (
        _from_file(environment.get("LSB_DJOB_HOSTFILE", ""))
        or _from_counts(environment.get("LSB_MCPU_HOSTS", ""))
        or environment.get("LSB_HOSTS", "").split()
    )
    if not found and "LSB_JOBID" in environment:
        raise ClusterError(
            f"LSB_JOBID is set, but none of {', '.join(HOST_VARIABLES)} names a host. Run this as "
            "a job of LSF, or unset LSB_JOBID."
        )
    names: dict[str, str] = {}
    return [names.setdefault(short(name), name) for name in found]


def _from_file(file: str) -> list[str]:
    try:
        return Path(file).read_text(encoding="utf-8").split() if file else []
    except OSError as error:
        raise ClusterError(
            f"LSB_DJOB_HOSTFILE is {file}, which cannot be read: {error.strerror}"
        ) from None


def _from_counts(text: str) -> list[str]:
    pairs = text.split()
    counts = pairs[1::2]
    if len(pairs) % 2 or not all(count.isdecimal() for count in counts):
        raise ClusterError(f"LSB_MCPU_HOSTS must hold hosts and numbers by turns, but is '{text}'")
    return list(chain.from_iterable(map(repeat, pairs[::2], map(int, counts))))


def hosts(environment: Mapping[str, str]) -> list[str]:
    """Return the hosts of the job, each once, the one that runs the script first."""
    return list(dict.fromkeys(slots(environment)))


def job_id() -> str:
    """Return LSF's number of this process's job, or ``local``."""
    return os.environ.get("LSB_JOBID", "local")


def slots_here(environment: Mapping[str, str], this_host: str) -> int | None:
    """Return how many slots LSF granted on this host; None outside a job.

    A host that LSF calls by another name than its own has the share of one host.
    """
    try:
        granted = slots(environment) if "LSB_JOBID" in environment else []
    except ClusterError:
        return None
    here = sum(short(name) == short(this_host) for name in granted)
    return here or (len(granted) // len(set(granted)) if granted else None)


def short(host: str) -> str:
    """Return a host's name without its domain, as ``hostname`` may say it; an address has none."""
    return host if host.replace(".", "").isdecimal() else host.split(".", maxsplit=1)[0]


def node_of(names: Sequence[str], this_host: str, task: str | None) -> int:
    """Return which of a job's hosts this one is, from 0.

    Args:
        names: The hosts, as `hosts` returns them.
        this_host: The name of this host, long or short.
        task: ``LSF_PM_TASKID`` of a process that ``blaunch -z`` started, one on each host but the
            first; it decides if the host calls itself something else.

    Raises:
        ClusterError: Neither decides.
    """
    known = [short(name) for name in names]
    if short(this_host) in known:
        return known.index(short(this_host))
    if task is not None and task.isdecimal() and 1 <= int(task) < len(names):
        return int(task)
    raise ClusterError(
        f"this is {this_host}, which is none of the job's hosts ({', '.join(names)}), and "
        f"LSF_PM_TASKID, which must be from 1 to {len(names) - 1}, is {task!r}"
    )


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
