"""The number of CPUs that this process may use."""

import os
import socket


def usable_cpus() -> int:
    """Return the CPUs granted to the job on this host, shared between its processes on the host.

    A batch system grants CPUs through the affinity or, for LSF without affinity, as job slots.
    ``torchrun`` sets ``LOCAL_WORLD_SIZE``, the number of processes on this host.
    """
    granted = len(os.sched_getaffinity(0))
    processes = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    return max(1, min(granted, lsf_slots() or granted) // processes)


def lsf_slots() -> int | None:
    """Return the slots of an LSF job on this host; None outside a job.

    ``LSB_MCPU_HOSTS`` lists hosts and their slots: ``n-62-11-13 8 n-62-11-14 8``. If this host has
    another name there, its share is the smallest one.
    """
    words = os.environ.get("LSB_MCPU_HOSTS", "").split()
    slots = {
        host.partition(".")[0]: int(n) for host, n in zip(words[::2], words[1::2], strict=True)
    }
    here = socket.gethostname().partition(".")[0]
    return slots.get(here, min(slots.values(), default=None))
