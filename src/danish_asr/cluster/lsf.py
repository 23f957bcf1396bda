"""fairseq2's cluster handler for LSF: which of a job's processes this one is.

``lsf/train.sh`` starts processes through ``torchrun``, which tells them who they are. This handler
serves those that LSF starts itself, one per GPU (or one per slot in a job without GPUs)::

    blaunch python -m workflows.recipes.wav2vec2.asr OUTDIR --config-file FILE

and lone processes in a job. fairseq2 0.6 knows Slurm only.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from fairseq2.cluster import ClusterHandler
from fairseq2.runtime.dependency import DependencyContainer
from fairseq2.utils.env import Environment
from typing_extensions import override

from danish_asr.cluster.hosts import HOST_VARIABLES, ClusterError, master_port, short, slots

JOB: Final = "LSB_JOBID"
TASK: Final = "LSF_PM_TASKID"
"""The number of a process that ``blaunch`` started, from 1, host after host."""

GPUS: Final = "CUDA_VISIBLE_DEVICES"

READ: Final = (JOB, "LSB_JOBINDEX", TASK, GPUS, "MASTER_PORT", *HOST_VARIABLES)

MEND: Final = (
    "Start the processes with lsf/train.sh or torchrun, or set common.cluster=none to run one "
    "process alone."
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process stands among those of its job."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    master_addr: str
    master_port: int

    def variables(self) -> dict[str, str]:
        """Return what ``torch.distributed`` reads."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_world_size),
            "MASTER_ADDR": self.master_addr,
            "MASTER_PORT": str(self.master_port),
        }


def place(environment: Mapping[str, str], this_host: str) -> Place:
    """Tell where this process stands.

    A host runs one process per GPU of ``CUDA_VISIBLE_DEVICES``; if that is not set, one per slot
    that LSF granted. A process that ``blaunch`` did not start is alone, if the job has room for one
    process only.

    Args:
        environment: LSF's variables.
        this_host: The name of this host, long or short.

    Raises:
        ClusterError: The variables are missing, contradict each other or leave it open.
    """
    granted = slots(environment)
    names = list(dict.fromkeys(granted))
    task = environment.get(TASK)
    if task is None:
        return _alone(environment, names)
    sizes = _processes_per_host(environment, granted, names)
    world_size = sum(sizes)
    if not task.isdecimal() or not 1 <= int(task) <= world_size:
        raise ClusterError(
            f"{TASK} must be from 1 to {world_size}, one for each GPU or slot of the job, but is "
            f"'{task}'. {MEND}"
        )
    rank = int(task) - 1
    node = next(i for i in range(len(sizes)) if rank < sum(sizes[: i + 1]))
    expected, known = names[node], {short(name) for name in names}
    if short(this_host) in known and short(this_host) != short(expected):
        raise ClusterError(
            f"{TASK}={task} belongs on {expected} when each host runs {sizes[0]} processes, but "
            f"this is {this_host}: `blaunch` started another number of processes. {MEND}"
        )
    return Place(
        rank=rank,
        world_size=world_size,
        local_rank=rank - sum(sizes[:node]),
        local_world_size=sizes[node],
        master_addr=names[0] if len(names) > 1 else "localhost",
        master_port=master_port(environment),
    )


class Standing(NamedTuple):
    """Which of how many processes this one is."""

    rank: int
    world_size: int


def standing(cluster: str, environment: Mapping[str, str] = os.environ) -> Standing:
    """Tell which process this is before fairseq2 does, which asks its cluster handler later.

    Args:
        cluster: ``common.cluster`` of the configuration.
        environment: What ``torchrun``, Slurm or LSF have set.

    Raises:
        ClusterError: This is an LSF job whose variables do not say it.
    """
    if "RANK" in environment or cluster == "none":
        return _standing(environment, "RANK", "WORLD_SIZE")
    if "SLURM_PROCID" in environment and cluster in {"auto", "slurm"}:
        return _standing(environment, "SLURM_PROCID", "SLURM_NTASKS")
    if JOB in environment and cluster in {"auto", "lsf"}:
        own = place(environment, socket.gethostname())
        return Standing(own.rank, own.world_size)
    return Standing(0, 1)


def _standing(environment: Mapping[str, str], rank: str, world_size: str) -> Standing:
    return Standing(int(environment.get(rank, "0")), int(environment.get(world_size, "1")))


def _alone(environment: Mapping[str, str], names: list[str]) -> Place:
    gpus = _gpus(environment)
    if len(names) > 1:
        raise ClusterError(
            f"{TASK} is missing, so nothing says which process of this job on {len(names)} hosts "
            f"({', '.join(names)}) this one is. {MEND}"
        )
    if gpus > 1:
        raise ClusterError(
            f"{GPUS} lists {gpus} GPUs, but {TASK} is missing, so this process may be alone or one "
            f"of {gpus}. {MEND}"
        )
    return Place(0, 1, 0, 1, "localhost", master_port(environment))


def _processes_per_host(
    environment: Mapping[str, str], granted: list[str], names: list[str]
) -> list[int]:
    if gpus := _gpus(environment):
        return [gpus] * len(names)
    return [granted.count(name) for name in names]


def _gpus(environment: Mapping[str, str]) -> int:
    return len([gpu for gpu in environment.get(GPUS, "").split(",") if gpu.strip()])


@final
class LsfHandler(ClusterHandler):
    """Sets ``torch.distributed``'s variables from LSF's."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    @override
    def set_torch_distributed_env_variables(self) -> None:
        if not self.supports_current_cluster():
            raise ClusterError(
                f"common.cluster is lsf, but {JOB} is not set: this is no LSF job. {MEND}"
            )
        values = {name: self._env.maybe_get(name) for name in READ}
        environment = {name: value for name, value in values.items() if value is not None}
        for name, value in place(environment, socket.gethostname()).variables().items():
            self._env.set(name, value)

    @override
    def supports_current_cluster(self) -> bool:
        return self._env.has(JOB)

    @property
    @override
    def cluster(self) -> str:
        return "lsf"


def register_lsf(container: DependencyContainer) -> None:
    """Make ``common.cluster: lsf`` known, and ``auto`` find it."""
    container.collection.register_type(ClusterHandler, LsfHandler)
