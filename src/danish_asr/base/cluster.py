"""What a run needs from a batch system: its rank, its CPUs and GPUs, and a launcher.

::

    python -m danish_asr.base.cluster -m danish_asr train OUTDIR ...

starts a process for each GPU that the job was given, with ``torchrun``, whose options it takes. It
ends with the status of the process that failed first; ``torchrun`` itself ends with 1, so that
nobody sees whether a run was refused (2) or has stopped and can be continued (75).
"""

import math
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from danish_asr.base.errors import EXIT_FAILED, EXIT_STOPPED, ConfigError
from danish_asr.base.stops import STOP_SIGNALS, stop_with_parent


class RankInfo(NamedTuple):
    """The rank of this process among the processes of its run."""

    rank: int
    world_size: int


def rank_info() -> RankInfo:
    """Return the rank that ``torchrun`` gave this process; without it, the process is alone."""
    return RankInfo(int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1))


def stop_with_launcher() -> None:
    """Let a process of ``torchrun`` receive SIGTERM when ``torchrun`` is killed (on Linux).

    It starts its processes in sessions of their own; killed, it would leave them running.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    launcher = os.getppid()
    stop_with_parent()
    if os.getppid() != launcher:
        signal.raise_signal(signal.SIGTERM)


def wait_for_first_rank(rank: int) -> None:
    """Hold the other processes of ``torchrun`` back until the first one has called this too."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    from torch.distributed import TCPStore  # type: ignore[attr-defined] # noqa: PLC0415 - slow

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, is_master=False, wait_for_workers=False)
    if rank == 0:
        store.set("danish_asr", "")
    else:
        store.wait(["danish_asr"], timedelta(minutes=45))  # it may wait for a lock


def usable_cpus() -> int:
    """Return the CPUs that affinity, container and batch system grant to each process here."""
    granted = len(os.sched_getaffinity(0))
    processes = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)  # which torchrun sets
    return max(1, min(granted, quota_cpus() or granted, job_cpus() or granted) // processes)


def quota_cpus(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Return the CPUs that a container's quota lets this process use at a time; 0: no quota.

    Of cgroup v2 ``cpu.max`` has microseconds in each period, or ``max``; v1 has a file for each.
    The smallest quota of this group and those above it counts.
    """
    lines = own.read_text(encoding="utf-8").splitlines() if own.is_file() else []
    quotas = list[float]()
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "cpu" not in kinds.split(","):
            continue
        top = root / "cpu" if kinds else root
        folder = top / path.strip("/")
        groups = [group for group in (folder, *folder.parents) if group.is_relative_to(top)]
        quotas += map(_quota_in, groups)
    return min((math.ceil(quota) for quota in quotas if quota), default=0)


def _quota_in(folder: Path) -> float:
    """The CPUs of a group's own quota; 0: it has none."""
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="utf-8")
            period = (folder / "cpu.cfs_period_us").read_text(encoding="utf-8")
        return max(int(quota) / int(period), 0)
    except (OSError, ValueError):  # no such file, or "max"
        return 0


def use_granted_cpus(configured: int | None) -> None:
    """Let PyTorch compute with `usable_cpus` threads, unless somebody has chosen their number."""
    import torch  # noqa: PLC0415 - slow

    if configured is None and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(usable_cpus())


def job_cpus() -> int | None:
    """Return the CPUs that LSF or Slurm granted a job on this host; None outside a job.

    ``LSB_MCPU_HOSTS`` lists hosts and their slots: ``n-62-11-13 8 n-62-11-14 8``. The smallest is
    taken.
    """
    if cpus := os.environ.get("SLURM_CPUS_ON_NODE"):
        return int(cpus)
    slots = os.environ.get("LSB_MCPU_HOSTS", "").split()[1::2]
    return min(map(int, slots), default=None)


def usable_gpus() -> int:
    """Return the GPUs granted to the job on this host; outside a job, those of the machine."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return sum(gpu not in {"", "-1", "NoDevFiles"} for gpu in visible.split(","))
    if job_cpus() or os.environ.get("FAIRSEQ2_DEVICE", "").startswith("cpu"):
        return 0
    import torch  # noqa: PLC0415 - slow

    return torch.cuda.device_count()


def check_gpus() -> None:
    """Raise ConfigError if PyTorch sees none of the GPUs granted: it would compute on CPUs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not visible or not usable_gpus() or "FAIRSEQ2_DEVICE" in os.environ:
        return
    import torch  # noqa: PLC0415 - slow

    if not torch.cuda.is_available():
        fault = f"CUDA_VISIBLE_DEVICES is {visible}, but torch {torch.__version__} finds no GPU"
        remedy = "it needs a driver of CUDA 12.8 or later; FAIRSEQ2_DEVICE=cpu computes on CPUs"
        raise ConfigError([f"{fault}; {remedy}"], where="the environment")


def launch(arguments: Sequence[str]) -> int:
    """Start the processes, pass stop signals on, and return the exit status.

    1 if a signal killed a process, 75 if a stop signal came before they were started.
    """
    # Processes inherit this and wait with such a signal until they have handlers (`base.stops`).
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    Thread(target=_pass_on, daemon=True).start()
    gpus = max(1, usable_gpus())
    if gpus == 1 and arguments[:1] == ["-m"]:
        # Become the command, so that signals and the status need no messenger.
        os.environ.setdefault("OMP_NUM_THREADS", str(usable_cpus()))
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606
    from torch.distributed import run  # noqa: PLC0415 - slow
    from torch.distributed.elastic.multiprocessing import errors  # noqa: PLC0415

    parser = run.get_args_parser()
    parser.set_defaults(nproc_per_node=str(gpus))
    options = parser.parse_args(arguments)
    options.standalone |= options.nnodes == "1:1"
    processes = run.determine_local_world_size(options.nproc_per_node)
    # torchrun would give each process one thread.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, usable_cpus() // processes)))
    try:
        run.run(options)  # type: ignore[no-untyped-call]
    except errors.ChildFailedError as error:
        _, failure = error.get_first_failure()
        return failure.exitcode if failure.exitcode > 0 else EXIT_FAILED
    return 0


def _pass_on() -> None:
    """Pass stop signals on: torchrun's processes have sessions of their own.

    torchrun itself would kill them after 30 seconds, also while they save.
    """
    while True:
        number = signal.sigwait(STOP_SIGNALS)
        processes = [
            int(process)
            for children in Path("/proc/self/task").glob("*/children")
            for process in children.read_text().split()
        ]
        if not processes:
            print(f"{signal.Signals(number).name} received before the work began", file=sys.stderr)  # noqa: T201
            os._exit(EXIT_STOPPED)
        for process in processes:
            with suppress(OSError):
                os.kill(process, number)


if __name__ == "__main__":
    sys.exit(launch(sys.argv[1:]))
