"""Find what would break a run before its job waits in the queue.

::

    danish-asr doctor --config configs/standard.yaml --run /work3/me/runs/one
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from rich.console import Console

from danish_asr.base.errors import DanishAsrError
from danish_asr.planning.doctor import machine
from danish_asr.planning.doctor.machine import Finding, error, warning

COLOURS: Final = {"error": "red", "warning": "yellow", "unknown": "blue", "ok": "green"}
"""Of each level; in this order they are printed."""


def doctor(
    config: Sequence[Path],
    *,
    run: Path | None = None,
    scripts_dir: Path,
    as_json: bool = False,
    console: Console | None = None,
) -> bool:
    """Check, print the findings, errors first, and return whether the run would work.

    Each file of ``config`` is merged over the ones before; without one, only the machine is
    checked. ``run`` is by default ``$ASR_RUN`` or the working directory. ``scripts_dir`` holds the
    scripts that are submitted to LSF.
    """
    console = console or Console()
    run = run or Path(os.environ.get("ASR_RUN") or ".")
    waits = console.is_terminal and not as_json
    with console.status("checking ...") if waits else nullcontext():
        findings = list(_findings(config, run, scripts_dir))
    order = list(COLOURS)
    findings.sort(key=lambda finding: order.index(finding.level))
    for finding in [] if as_json else findings:
        line = f"{finding.level:8}{finding.check}: {finding.found}"
        line += f"\n        fix: {finding.fix}" if finding.fix else ""
        style = COLOURS[finding.level]
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
    counts = Counter(finding.level for finding in findings)
    if as_json:
        rows = [finding._asdict() for finding in findings]
        console.out(json.dumps(rows, indent=1, ensure_ascii=False), highlight=False)
    else:
        summary = ", ".join(f"{counts[level]} {level}" for level in COLOURS if counts[level])
        console.print(f"{len(findings)} findings: {summary}", highlight=False)
    return not counts["error"]


def _findings(config: Sequence[Path], run: Path, scripts: Path) -> Iterator[Finding]:
    packages = list(machine.check_packages())
    yield from packages
    yield from machine.check_cpus()
    yield from machine.check_caches()
    yield from machine.check_scripts(scripts)
    if any(finding.check.startswith("package ") for finding in packages):
        return  # torch and fairseq2 cannot be imported
    yield from machine.check_gpu()
    if config:
        yield from _check_run(config, run, scripts)
    else:
        yield from machine.check_bf16(scripts)
        yield from machine.check_disk(run)


def _check_run(files: Sequence[Path], run: Path, scripts: Path) -> Iterator[Finding]:
    from danish_asr.planning.doctor import run as of_run  # noqa: PLC0415 - imports fairseq2
    from danish_asr.planning.gpus import here  # noqa: PLC0415 - as above

    try:
        config, faults, where = of_run.read_config(files)
        yield from of_run.check_downloads(config)
        yield from of_run.check_config(config, faults, where)
        yield from of_run.check_memory(config, where, here())
        yield from of_run.check_dataset(config)
        if of_run.needs_bf16(config):
            yield from machine.check_bf16(scripts)
        yield from machine.check_disk(run, of_run.checkpoint_bytes(config, run))
    except DanishAsrError as problem:
        yield error("configuration", str(problem), "correct the file")
    except Exception as problem:  # noqa: BLE001 - a check that fails is not a fault of the run
        found = f"this check failed: {type(problem).__name__}: {problem}"
        yield warning("configuration", found, "fix what the message says, or report it")
