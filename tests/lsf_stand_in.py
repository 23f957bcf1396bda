"""A cluster with a stand-in for LSF, as a test sees it; see `tests.lsf_commands`."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lsf_commands import (
    command_line,
    job_indices,
    job_output,
    read_job,
    state_file,
    state_of,
)
from tests.lsf_options import dependencies

COMMANDS = ("bsub", "blaunch", "bkill")


@dataclass
class Lsf:
    """A cluster whose whole state is a directory.

    Attributes:
        root: The directory.
        environment: What jobs are submitted with, beside this process's environment.
    """

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def install(self) -> None:
        """Write the commands."""
        for name in COMMANDS:
            command = self.root / "bin" / name
            command.parent.mkdir(parents=True, exist_ok=True)
            command.write_text(f'#!/bin/sh\nexec {shlex.join(command_line(name))} "$@"\n')
            command.chmod(command.stat().st_mode | stat.S_IXUSR)

    def run(
        self,
        command: Sequence[str | Path],
        *,
        stdin: Path | None = None,
        cwd: Path | None = None,
        **variables: object,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as its user would, where the cluster's commands are found."""
        environment = {
            **os.environ,
            **self.environment,
            **{name: str(value) for name, value in variables.items()},
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "LSF_ROOT": str(self.root),
        }
        if cwd is not None:
            environment["PWD"] = str(cwd)
        with Path(stdin or os.devnull).open(encoding="utf-8") as script:
            return subprocess.run(
                list(map(str, command)),
                env=environment,
                cwd=cwd,
                stdin=script,
                capture_output=True,
                text=True,
                check=False,
            )

    def wait(self, seconds: float = 300) -> dict[int, str]:
        """Wait until no job can go on; returns the state of each."""
        deadline = time.monotonic() + seconds
        while True:
            states = {job: state_of(self.root, job) for job in self.jobs()}
            waiting = [job for job, state in states.items() if state in {"PEND", "RUN"}]
            if not [job for job in waiting if not self._hopeless(job, states)]:
                return states
            assert time.monotonic() < deadline, f"{states}\n{self.logs()}"
            time.sleep(0.1)

    def wait_until_over(self, job: int, seconds: float = 120) -> None:
        """Wait until one job has ended, whatever others do."""
        deadline = time.monotonic() + seconds
        while state_of(self.root, job) not in {"DONE", "EXIT"}:
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    def _hopeless(self, job: int, states: Mapping[int, str]) -> bool:
        """Whether a job waits for one that failed, or for such a one."""
        if states[job] != "PEND":
            return False
        others = dependencies(self.options(job))
        return any(states.get(other) == "EXIT" or self._hopeless(other, states) for other in others)

    def jobs(self) -> list[int]:
        return sorted(int(path.name) for path in (self.root / "jobs").glob("[0-9]*"))

    def names(self) -> dict[int, str]:
        return {job: self.options(job)["J"] for job in self.jobs()}

    def options(self, job: int) -> dict[str, Any]:
        options: dict[str, Any] = read_job(self.root, job)["options"]
        return options

    def status(self, job: int, index: int = 0) -> int:
        """What a job that failed exited with."""
        return int(state_file(self.root, job, index).read_text().split()[1])

    def wait_for(self, file: Path, seconds: float = 60) -> None:
        """Wait until a job has written a file."""
        deadline = time.monotonic() + seconds
        while not file.is_file():
            assert time.monotonic() < deadline, f"{file} does not come\n{self.logs()}"
            time.sleep(0.05)

    def logs(self) -> str:
        """What all jobs have printed."""
        records = {job: read_job(self.root, job) for job in self.jobs()}
        files = [
            job_output(r, job, index) for job, r in records.items() for index in job_indices(r)
        ]
        return "\n".join(f"== {f.name}\n{f.read_text()}" for f in files if f.is_file())

    def log(self, job: int, index: int = 0) -> str:
        return job_output(read_job(self.root, job), job, index).read_text(encoding="utf-8")
