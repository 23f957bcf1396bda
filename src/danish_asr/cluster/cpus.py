"""How many processors this process may use."""

from __future__ import annotations

import os
import socket

from danish_asr.cluster.hosts import slots_here


def usable_cpus() -> int:
    """Processors that the job was given, shared fairly between the processes of this node.

    A cluster's scheduler states its grant as the CPU affinity, not as the number of cores that the
    machine has. LSF does so only where it is set up to; its slots count as well.
    ``LOCAL_WORLD_SIZE`` is what ``torchrun`` tells about its processes on the node.
    """
    granted = len(os.sched_getaffinity(0))
    granted = min(granted, slots_here(os.environ, socket.gethostname()) or granted)
    processes = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, granted // (int(processes) if processes.isdecimal() and int(processes) else 1))
