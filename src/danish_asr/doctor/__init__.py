"""Find what would break a run before its job waits in the queue.

::

    danish-asr doctor --config configs/ctc-finetune-danish.yaml --run /work3/me/runs/one
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console

from danish_asr.doctor import machine
from danish_asr.doctor.machine import Finding, Level, error, ok, warning
from danish_asr.errors import ConfigError

COLOURS: Final = dict(zip(Level, ("green", "blue", "yellow", "red"), strict=True))

USUAL_BYTES: Final = 15 * machine.GIB
"""Disk space of a run whose model is not known: four checkpoints of 300M parameters."""


def doctor(
    config: Sequence[Path],
    *,
    run: Path | None = None,
    scripts_dir: Path,
    as_json: bool = False,
    console: Console | None = None,
) -> bool:
    """Check, print the findings, and return whether the run would work.

    Each file of ``config`` is merged over the ones before; without one, only the machine is
    checked. ``run`` is by default ``$ASR_RUN`` or the working directory. ``scripts_dir`` holds the
    scripts that are submitted to LSF.
    """
    console = console or Console()
    findings = []
    for finding in _findings(config, run or Path(os.environ.get("ASR_RUN") or "."), scripts_dir):
        findings.append(finding)
        if not as_json:
            line = f"{finding.level.value:8}{finding.check}: {finding.found}"
            _print(console, line, style=COLOURS[finding.level])
            if finding.fix:
                _print(console, f"        fix: {finding.fix}")
    counts = Counter(finding.level for finding in findings)
    if as_json:
        rows = [asdict(finding) | {"level": finding.level.value} for finding in findings]
        console.out(json.dumps(rows, indent=1, ensure_ascii=False), highlight=False)
    else:
        summary = ", ".join(f"{counts[level]} {level.value}" for level in Level)
        _print(console, f"{len(findings)} findings: {summary}")
    return not counts[Level.ERROR]


def _findings(config: Sequence[Path], run: Path, scripts: Path) -> Iterator[Finding]:
    packages = list(_guarded("packages", machine.check_packages))
    yield from packages
    yield from _guarded("cpus", machine.check_cpus)
    yield from _guarded("caches", machine.check_caches)
    yield from _guarded("wall time", lambda: machine.check_scripts(scripts))
    if any(f.check.startswith("package ") for f in packages):
        return  # torch and fairseq2 cannot be imported
    yield from _guarded("gpu", machine.check_gpu)
    if config:
        yield from _guarded("configuration", lambda: _check_run(config, run, scripts))
    else:
        yield from _guarded("bf16", lambda: machine.check_bf16(scripts))
        yield from _guarded("disk", lambda: machine.check_disk(run, USUAL_BYTES))


def _guarded(check: str, examine: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield what a check finds; if the check itself fails, the others continue."""
    try:
        yield from examine()
    except Exception as problem:  # noqa: BLE001 - any failure becomes a finding
        found = f"this check failed: {type(problem).__name__}: {problem}"
        yield warning(check, found, "fix what the message says, or report it")


def _check_run(files: Sequence[Path], run: Path, scripts: Path) -> Iterator[Finding]:
    from danish_asr import native  # noqa: F401, PLC0415 - before fairseq2
    from danish_asr.doctor import run as of_run  # noqa: PLC0415 - imports fairseq2

    try:
        config, faults, where = of_run.read_config(files)
    except ConfigError as problem:
        yield error("configuration", str(problem), "correct the file")
        return
    yield from of_run.check_config(config, faults, where)
    yield from of_run.check_dataset(config)
    if of_run.needs_bf16(config):
        yield from machine.check_bf16(scripts)
    else:
        yield ok("bf16", "not needed")
    needed = of_run.checkpoint_bytes(config, run)
    yield from machine.check_disk(run, USUAL_BYTES if needed is None else needed)


def _print(console: Console, line: str, style: str | None = None) -> None:
    console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
