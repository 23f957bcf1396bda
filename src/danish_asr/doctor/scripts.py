"""The scripts that go to LSF: line ends and wall time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from danish_asr.doctor.finding import Finding, error, ok, warning


def check_line_ends(folder: Path) -> Iterator[Finding]:
    """No script has DOS line ends, which LSF and bash stumble over."""
    scripts = _scripts(folder)
    broken = [path for path in scripts if b"\r" in path.read_bytes()]
    for path in broken:
        yield error("line ends", f"{path} has DOS line ends", f"sed -i 's/\\r$//' {path}")
    if scripts and not broken:
        yield ok("line ends", f"{len(scripts)} scripts in {folder}")
    elif not scripts:
        yield warning(
            "line ends", f"no scripts in {folder}", "run this in the checkout, or give --scripts"
        )


def check_wall_time(folder: Path, environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Every script that goes to bsub says how long it may run, and the settings say it rightly."""
    submitted = [
        path for path in _scripts(folder) if re.search(rb"^#BSUB", path.read_bytes(), re.MULTILINE)
    ]
    silent = [
        path
        for path in submitted
        if not re.search(rb"^#BSUB\s+-W\s*\d", path.read_bytes(), re.MULTILINE)
    ]
    for path in silent:
        yield error(
            "wall time",
            f"{path} has no #BSUB -W: the site's default ends the job, at DTU after 15 minutes",
            "add #BSUB -W hours:minutes",
        )
    wrong = [
        (name, value)
        for name in ("ASR_WALL", "ASR_EVAL_WALL", "ASR_CPU_WALL")
        if (value := environment.get(name)) and not re.fullmatch(r"(\d+:[0-5])?\d+", value)
    ]
    for name, value in wrong:
        yield error("wall time", f"{name} is {value}", f"write it as hours:minutes: {name}=24:00")
    if submitted and not silent and not wrong:
        yield ok("wall time", f"set in {', '.join(path.name for path in submitted)}")


def _scripts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix in {".sh", ".env"})
