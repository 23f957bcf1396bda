"""Find what would break a run before the job waits in the queue.

::

    danish-asr doctor --config configs/ctc-finetune-danish.yaml --run /work3/me/runs/one
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from danish_asr.doctor import disk, gpu, machine, scripts, stack
from danish_asr.doctor.finding import Finding, Level, error, ok, warning
from danish_asr.errors import ConfigError

COLOURS: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}

UNKNOWN_SIZE: Final = 15 * disk.GIB
"""Room asked for when no configuration says how large the model is: four checkpoints of 300M."""


def examine(config: Sequence[Path], run: Path, scripts_dir: Path) -> Iterator[Finding]:
    """Look at everything; yields what is found as it is found.

    Args:
        config: The files of the training configuration, each over the ones before; none to look at
            the machine only.
        run: Where the run will go.
        scripts_dir: The scripts that go to LSF.
    """
    yield from _told("python", stack.check_python)
    packages = stack.installed()
    yield from _told("packages", lambda: stack.check_versions(packages))
    yield from _told("pairs of packages", lambda: stack.check_pairs(packages))
    loads = list(_told("libraries", stack.check_import))
    yield from loads
    yield from _told("cpus", machine.check_cpus)
    yield from _told("memory", machine.check_memory)
    yield from _told("job", machine.check_request)
    yield from _told("caches", disk.check_caches)
    yield from _told("line ends", lambda: scripts.check_line_ends(scripts_dir))
    yield from _told("wall time", lambda: scripts.check_wall_time(scripts_dir))
    yield from _told("settings", lambda: scripts.check_settings(scripts_dir))
    if any(finding.level is Level.ERROR for finding in loads):
        return  # nothing below can be imported
    yield from _told("gpu", gpu.check_gpu)
    if not config:
        yield from _told("bf16", lambda: gpu.check_bf16(wanted=True))
        yield from _told("room", lambda: disk.check_room(run, UNKNOWN_SIZE))
    else:
        yield from _told("configuration", lambda: _examine_config(config, run))


def _told(check: str, examination: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What a check finds; a check that fails itself is a finding, and the others go on."""
    try:
        yield from examination()
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is told
        found = f"could not be examined: {type(problem).__name__}: {problem}"
        yield warning(check, found, "see whether the message says what to do, or report it")


def _examine_config(files: Sequence[Path], run: Path) -> Iterator[Finding]:
    from danish_asr.doctor import run as of_run  # noqa: PLC0415 - needs the stack to load

    try:
        config, faults, where = of_run.read_config(files)
    except ConfigError as unreadable:
        yield error("configuration", str(unreadable), "correct it there")
        return
    for fault in faults:
        yield error("configuration", f"{where}: {fault}", "correct it there")
    if not faults:
        yield ok("configuration", where)
    yield from gpu.check_bf16(wanted=of_run.wants_bf16(config))
    yield from of_run.check_names(config, where=where)
    yield from of_run.check_dataset(config)
    needed = of_run.bytes_of_checkpoints(config, run)
    yield from disk.check_room(run, UNKNOWN_SIZE if needed is None else needed)


def doctor(
    config: Sequence[Path],
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
