"""The scripts that go to LSF: line ends, wall time and settings."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from danish_asr.doctor.finding import Finding, error, ok, warning

_WALL_TIME: Final = re.compile(rb"^#BSUB\s(.*\s)?-W\s*\d", re.MULTILINE)


def check_line_ends(folder: Path) -> Iterator[Finding]:
    """No script has DOS line ends, which LSF and bash stumble over."""
    scripts = _scripts(folder)
    broken = [path for path in scripts if b"\r" in path.read_bytes()]
    for path in broken:
        mend = f"sed -i 's/\\r$//' {shlex.quote(str(path))}"
        yield error("line ends", f"{path} has DOS line ends", mend)
    if scripts and not broken:
        yield ok("line ends", f"{len(scripts)} scripts in {folder}")
    elif not scripts:
        yield warning(
            "line ends", f"no scripts in {folder}", "run this in the checkout, or give --scripts"
        )


def check_wall_time(folder: Path) -> Iterator[Finding]:
    """Every script that goes to bsub says how long it may run."""
    submitted = [
        path for path in _scripts(folder) if re.search(rb"^#BSUB", path.read_bytes(), re.MULTILINE)
    ]
    silent = [path for path in submitted if not _WALL_TIME.search(path.read_bytes())]
    for path in silent:
        yield error(
            "wall time",
            f"{path} has no #BSUB -W: the site's default ends the job, at DTU after 15 minutes",
            "add #BSUB -W hours:minutes",
        )
    if submitted and not silent:
        yield ok("wall time", f"set in {', '.join(path.name for path in submitted)}")


def check_settings(folder: Path) -> Iterator[Finding]:
    """The launchers take their settings: a dry run of one of them says so."""
    launcher = folder / "train.sh"
    if not (launcher.is_file() and (folder / "job.sh").is_file()):
        return
    # In a job it would do the work.
    outside = {name: value for name, value in os.environ.items() if name != "LSB_JOBID"}
    answer = subprocess.run(  # noqa: S603 - a script of this project
        ["bash", str(launcher), "--dry-run"],  # noqa: S607 - the shell that LSF will use
        env=outside,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if answer.returncode == 0:
        yield ok("settings", f"{folder / 'site.env'}, and what the environment has in its place")
        return
    said = answer.stderr.strip().splitlines()
    found = said[-1].partition(" danish-asr: ")[2] or said[-1] if said else f"{launcher} fails"
    yield error("settings", found, f"correct it in {folder / 'site.env'} or in the environment")


def _scripts(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("*") if p.suffix in {".sh", ".env"} and p.is_file())
