"""A real Slurm on this machine for tests: Debian's ``slurm-wlm`` and ``munge``, with root.

Its daemons listen on ports of their own, with files in one directory. There are two GPUs, which are
device files without hardware. What is requeued starts again after seconds, not minutes.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from shutil import which

_ELSEWHERE = {"munged", "slurmctld", "slurmscriptd"}  # what a host's failure does not end
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={root}/munge.sock,cred_expire=5
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=5,bf_interval=5
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
MinJobAge=7200
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Gres=gpu:2 State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=60 State=UP
"""


class Slurm:
    """The daemons; ``SLURM_CONF`` of :attr:`environment` leads the commands to them."""

    def __init__(self, root: Path) -> None:
        for name in ("state", "spool"):
            (root / name).mkdir()
        (root / "munge.key").write_bytes(os.urandom(128))
        (root / "munge.key").chmod(0o600)
        for number in range(2):
            device = Path("/dev/null").stat().st_rdev
            os.mknod(root / f"nvidia{number}", stat.S_IFCHR | 0o666, device)
        host, cpus = socket.gethostname().partition(".")[0], os.cpu_count()
        text = CONFIGURATION.format(root=root, host=host, cpus=cpus, ports=_free_ports())
        (root / "slurm.conf").write_text(text)
        (root / "gres.conf").write_text(f"Name=gpu File={root}/nvidia[0-1]\n")
        self.environment = {"SLURM_CONF": str(root / "slurm.conf"), "ASR_SCHEDULER": "slurm"}
        munge = [f"--{name}-file={root}/munge.{name}" for name in ("key", "log", "pid", "seed")]
        self._daemons = [
            self._start("munged", "--foreground", "--force", f"--socket={root}/munge.sock", *munge)
        ]
        _wait((root / "munge.sock").exists)
        self._daemons += [self._start(name, "-D") for name in ("slurmctld", "slurmd")]
        _wait(lambda: "idle" in self.call("sinfo", "--noheader", "--format=%t"))

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        environment = {**os.environ, **self.environment}
        return subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)

    def stop(self) -> None:
        self.call("scancel", "--user=root")
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait(timeout=30)

    def lose_host(self, *, with_jobs: bool) -> None:
        """Let the host fail, with its jobs or as if it only could not be reached, and come back."""
        ours = f"SLURM_CONF={self.environment['SLURM_CONF']}\0".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                name = (folder / "comm").read_text().strip()
                lost = name == "slurmd" or (with_jobs and name not in _ELSEWHERE)
                if lost and ours in (folder / "environ").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
        self._daemons.pop().wait(timeout=30)
        host = self.call("sinfo", "--noheader", "--format=%n").strip()
        self.call("scontrol", "update", f"nodename={host}", "state=down", "reason=lost")
        self._daemons.append(self._start("slurmd", "-D"))

    def call(self, *command: str) -> str:
        """Run a command of Slurm; return what it prints."""
        environment = {**os.environ, **self.environment}
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        return ended.stdout

    def field(self, job: int, name: str) -> list[str]:
        """A field of ``scontrol show job`` for each element of a job."""
        return re.findall(rf"\b{name}=(\S+)", self.call("scontrol", "-o", "show", "job", str(job)))

    def states(self, job: int, minutes: float = 10) -> set[str]:
        """Wait for the end of a job; return the states of its elements."""
        going_on = {"PENDING", "RUNNING", "COMPLETING", "REQUEUED"}
        _wait(lambda: not {*self.field(job, "JobState")} & going_on, minutes=minutes)
        return {*self.field(job, "JobState")}


def missing() -> str | None:
    """What is missing for a Slurm of one's own."""
    programs = [name for name in PROGRAMS if which(name) is None]
    if programs:
        return f"no {', '.join(programs)}: apt install slurm-wlm munge"
    return None if os.geteuid() == 0 else "root is needed, as in a container"


def _free_ports() -> list[int]:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        return [one.getsockname()[1], two.getsockname()[1]]


def _wait(happened: object, *, minutes: float = 1) -> None:
    assert callable(happened)
    deadline = time.monotonic() + 60 * minutes
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.5)
