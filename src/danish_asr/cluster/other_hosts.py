"""The other hosts of a job: started through LSF's ``blaunch``, and how each of them ended."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from danish_asr.cluster.hosts import ClusterError, job_id, slots
from danish_asr.cluster.processes import WARNINGS, start
from danish_asr.cluster.worker import STOPPED
from danish_asr.files import publish_text

OWN: Final = ("HOSTNAME", "LSF_PM_TASKID", "CUDA_VISIBLE_DEVICES", "PWD", "OLDPWD", "SHLVL", "_")
"""Variables that each host knows better itself."""


class OtherHosts:
    """Runs this program on every host but the first. Use it as a context manager.

    There is one ``blaunch`` for all, because LSF documents that several must not run at once in the
    background. What they need stands in a script on the shared disk, so that neither quoting nor
    the environment depends on the way LSF is set up. How each ended stands there too, because LSF
    does not document what ``blaunch`` makes of their statuses.

    Args:
        hosts: All hosts of the job, this one first.
        args: The command line of this program.
    """

    process: subprocess.Popen[bytes]
    """``blaunch``. It ends with 0 if no host failed."""

    def __init__(self, hosts: Sequence[str], args: Namespace) -> None:
        self._hosts = hosts
        self._args = args

    def __enter__(self) -> Self:
        if shutil.which("blaunch") is None:
            raise ClusterError(
                f"the job has {len(self._hosts)} hosts ({', '.join(self._hosts)}), but blaunch, by "
                "which LSF starts processes on another one, is not in PATH. Ask the site for it, "
                "or use one host: ASR_HOSTS=1"
            )
        place = (self._args.trace or Path.cwd()).resolve()
        place.mkdir(parents=True, exist_ok=True)
        # For nobody else's eyes, because an environment may hold a token.
        self._folder = Path(tempfile.mkdtemp(prefix=f"{job_id()}.", dir=place))
        script = self._folder / "start.sh"
        script.write_text(self._script(), encoding="utf-8")
        command = ["blaunch", "-z", " ".join(self._hosts[1:]), "bash", str(script)]
        self.process = start(command, dict(os.environ))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def failed(self) -> bool:
        """Whether one of them failed; ``blaunch`` tells it only when all have ended."""
        # A network file system may remember that a file was not there, so it is not asked for one.
        told = [file.name for file in self._folder.iterdir() if file.name.isdecimal()]
        return any(self._status(node) not in {0, STOPPED} for node in told)

    def statuses(self) -> list[int]:
        """Return what each of them ended with; 1 for one that ended without a word."""
        return [self._status(str(node)) for node in range(1, len(self._hosts))]

    def _status(self, node: str) -> int:
        try:
            return int((self._folder / node).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return 1

    def _script(self) -> str:
        args = self._args
        options = ["--processes", str(args.processes), "--join", str(self._folder)]
        if args.trace is not None:
            options += ["--trace", str(args.trace), "--trace-seconds", str(args.trace_seconds)]
        command = [sys.executable, "-m", "danish_asr.cluster", *options, args.module]
        lines = [
            "trap '' " + " ".join(number.name for number in WARNINGS),
            *(
                f"export {name}={shlex.quote(value)}"
                for name, value in sorted(os.environ.items())
                if name.isidentifier() and name not in OWN
            ),
            # The file may be on the first host's own disk.
            "unset LSB_DJOB_HOSTFILE LSB_MCPU_HOSTS",
            f"export LSB_HOSTS={shlex.quote(' '.join(slots(os.environ)))}",
            f"cd {shlex.quote(str(Path.cwd()))}",
            f"exec {shlex.join([*command, *args.arguments])}",
        ]
        return "\n".join(lines) + "\n"


def tell_first_host(folder: Path, node: int, status: int) -> int:
    """Note how a host ended; returns what ``blaunch`` is to take for its status."""
    publish_text(folder / str(node), str(status))
    return 0 if status == STOPPED else status
