"""What a run needs from a batch system: its rank, its CPUs, a launcher and a trace of its use."""

import os
from typing import NamedTuple


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
