"""Find what would break a run before the job waits in the queue.

::

    danish-asr doctor --config configs/ctc-finetune-danish.yaml --run /work3/me/runs/one
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from danish_asr.doctor import disk, gpu, machine, scripts, stack
from danish_asr.doctor.finding import Finding, Level, error, ok
from danish_asr.errors import ConfigError

COLOURS: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}

UNKNOWN_SIZE: Final = 15 * disk.GIB
"""Room asked for when no configuration says how large the model is: four checkpoints of 300M."""


def examine(config: Path | None, run: Path, scripts_dir: Path) -> Iterator[Finding]:
    """Look at everything; yields what is found as it is found.

    Args:
        config: The training configuration; None to look at the machine only.
        run: Where the run will go.
        scripts_dir: The scripts that go to LSF.
    """
    yield from stack.check_python()
    packages = stack.installed()
    yield from stack.check_versions(packages)
    yield from stack.check_pairs(packages)
    loads = list(stack.check_import())
    yield from loads
    yield from machine.check_cpus()
    yield from machine.check_memory()
    yield from disk.check_caches()
    yield from scripts.check_line_ends(scripts_dir)
    yield from scripts.check_wall_time(scripts_dir)
    if any(finding.level is Level.ERROR for finding in loads):
        return  # nothing below can be imported
    yield from gpu.check_gpu()
    if config is None:
        yield from gpu.check_bf16(wanted=True)
        yield from disk.check_room(run, UNKNOWN_SIZE)
    else:
        yield from _examine_config(config, run)


def _examine_config(file: Path, run: Path) -> Iterator[Finding]:
    from danish_asr.doctor import run as of_run  # noqa: PLC0415 - needs the stack to load

    try:
        config = of_run.read_config(file)
    except ConfigError as faults:
        for fault in faults.faults:
            yield error("configuration", f"{file}: {fault}", "correct it there")
        return
    yield ok("configuration", str(file))
    yield from gpu.check_bf16(wanted=of_run.wants_bf16(config))
    yield from of_run.check_names(config, where=str(file))
    yield from of_run.check_dataset(config)
    needed = of_run.bytes_of_checkpoints(config)
    yield from disk.check_room(run, UNKNOWN_SIZE if needed is None else needed)


def doctor(
    config: Path | None,
    *,
    run: Path | None = None,
    scripts_dir: Path = Path("lsf"),
    as_json: bool = False,
    console: Console | None = None,
) -> bool:
    """Examine and print; returns whether nothing would break the run.

    Args:
        config: See `examine`.
        run: Where the run will go; None: ``$ASR_RUN``, or the working directory.
        scripts_dir: See `examine`.
        as_json: Print a JSON list of findings in place of lines.
        console: Where it is printed.
    """
    console = console or Console()
    place = run or Path(os.environ.get("ASR_RUN") or ".")
    findings = []
    for finding in examine(config, place, scripts_dir):
        findings.append(finding)
        if not as_json:
            _print(finding, console)
    if as_json:
        text = json.dumps([finding.to_dict() for finding in findings], indent=1, ensure_ascii=False)
        console.out(text, highlight=False)
    else:
        _print_sum(findings, console)
    return not any(finding.level is Level.ERROR for finding in findings)


def _print(finding: Finding, console: Console) -> None:
    colour = COLOURS[finding.level]
    line = f"{finding.level.value:8}{finding.check}: {finding.found}"
    console.print(line, style=colour, markup=False, highlight=False, soft_wrap=True)
    if finding.mend:
        mend = f"        mend: {finding.mend}"
        console.print(mend, markup=False, highlight=False, soft_wrap=True)


def _print_sum(findings: Sequence[Finding], console: Console) -> None:
    errors = sum(finding.level is Level.ERROR for finding in findings)
    warnings = sum(finding.level is Level.WARNING for finding in findings)
    text = f"{len(findings)} findings: {errors} would break the run, {warnings} may harm it"
    console.print(text, highlight=False)
