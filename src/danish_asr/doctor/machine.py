"""The CPUs and the memory that the job really has."""

from __future__ import annotations

import os
import re
import resource
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from danish_asr.cluster.cpus import usable_cpus
from danish_asr.cluster.hosts import slots_here
from danish_asr.doctor.finding import Finding, error, ok, warning

GIB: Final = 2**30
ENOUGH_CPUS: Final = 2
LITTLE_MEMORY: Final = 8 * GIB
"""A process that trains 300M parameters takes about half of it beside the GPU's memory."""
TOO_LITTLE_MEMORY: Final = 2 * GIB


def check_cpus() -> Iterator[Finding]:
    """The job may use enough CPUs to read audio."""
    usable, all_ = usable_cpus(), os.cpu_count() or 1
    slots = slots_here(os.environ, socket.gethostname())
    granted = f", LSF granted {slots} here" if slots else ""
    found = f"{usable} of the machine's {all_}{granted}"
    if usable < ENOUGH_CPUS:
        yield warning("cpus", found, "ask for more: -n 4, or ASR_CORES_PER_GPU=4")
    else:
        yield ok("cpus", found)


def check_request(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """What lsf/train.sh will ask for is enough; nothing if its settings are not known.

    Args:
        environment: Has the settings after ``. lsf/site.env``.
    """
    size = re.fullmatch(r"(\d+)([KMGT])B?", environment.get("ASR_MEM", ""))
    cores = environment.get("ASR_CORES_PER_GPU", "")
    if size is None or not cores.isdecimal():
        return
    memory = int(cores) * int(size[1]) * 1024 ** ("KMGT".index(size[2]) + 1)
    found = (
        f"{cores} cores and {memory / GIB:.0f} GiB for each GPU "
        f"(ASR_CORES_PER_GPU={cores}, ASR_MEM={size[0]} for each core)"
    )
    if memory < LITTLE_MEMORY or int(cores) < ENOUGH_CPUS:
        yield warning("job", found, "ask for more: ASR_CORES_PER_GPU=4 ASR_MEM=8GB")
    else:
        yield ok("job", found)


def check_memory(limit: int | None = None) -> Iterator[Finding]:
    """The job may use enough memory.

    Args:
        limit: Bytes; None to read the limits of this process.
    """
    limit = memory_limit() if limit is None else limit
    found = f"{limit / GIB:.1f} GiB may be used"
    mend = 'ask for more: rusage[mem=...] is for each core, so -n 4 -R "rusage[mem=8GB]" is 32 GB'
    if limit < TOO_LITTLE_MEMORY:
        yield error("memory", found, mend)
    elif limit < LITTLE_MEMORY:
        yield warning("memory", found, mend)
    else:
        yield ok("memory", found)


def memory_limit(
    cgroups: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> int:
    """Return the bytes that this process may use.

    That is the least of the machine's memory, its cgroups' limits and its own.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    for line in membership.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            limits += _limits(cgroups / "memory", path, "memory.limit_in_bytes")
        elif not controllers:
            limits += _limits(cgroups, path, "memory.max")
    return min(limits)


def _limits(mount: Path, path: str, name: str) -> Iterator[int]:
    """The limits of a cgroup and of those around it."""
    inner = mount / path.lstrip("/")
    for folder in [inner, *inner.parents]:
        file = folder / name
        if file.is_file() and (text := file.read_text(encoding="utf-8").strip()).isdecimal():
            yield int(text)
        if folder == mount:
            return
