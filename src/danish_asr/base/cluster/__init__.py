"""What a run needs from a batch system: its rank, its CPUs, a launcher and a trace of its use."""

import ctypes
import os
import signal
import sys
from datetime import timedelta
from typing import Final, NamedTuple


class RankInfo(NamedTuple):
    """The rank of this process among the processes of its run."""

    rank: int
    world_size: int


def rank_info(cluster: str = "auto") -> RankInfo:
    """Return the rank of this process before fairseq2 sets up ``torch.distributed``.

    ``torchrun`` sets ``RANK`` and ``WORLD_SIZE``. ``srun`` sets Slurm's variables, which fairseq2
    reads if ``common.cluster`` is ``auto`` or ``slurm``. Without either, the process is alone.
    """
    names = ("RANK", "WORLD_SIZE")
    if cluster == "slurm" or (cluster == "auto" and "RANK" not in os.environ):
        names = ("SLURM_PROCID", "SLURM_NTASKS")
    rank, world_size = (os.environ.get(name) for name in names)
    return RankInfo(int(rank or 0), int(world_size or 1))


_PR_SET_PDEATHSIG: Final = 1


def stop_with_parent() -> None:
    """Let this process receive SIGTERM when the one that started it ends (on Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def stop_with_launcher() -> None:
    """Let a process of ``torchrun`` receive SIGTERM when ``torchrun`` is killed (on Linux).

    It starts its processes in sessions of their own; killed, it would leave them running.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    launcher = os.getppid()
    stop_with_parent()
    # One that was killed before this line; before the function, its processes cannot find each
    # other any more.
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
        store.wait(["danish_asr"], timedelta(minutes=10))
