"""What ``danish-asr convert`` does with its options."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from danish_asr.cluster.cpus import usable_cpus
from danish_asr.conversion.convert import Engine, Part, convert, convert_part, finish
from danish_asr.conversion.engines import run_on_ray
from danish_asr.conversion.progress import print_summary
from danish_asr.conversion.work_units import ConvertOptions
from danish_asr.errors import ConfigError
from danish_asr.sources import READERS, SourceOptions, open_source

ENGINES: Final = ("processes", "ray")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertCommand:
    """The options of the command, as they were typed."""

    source: str | None
    name: str | None
    out: Path
    source_options: SourceOptions
    options: ConvertOptions
    workers: int | None
    engine: str
    address: str | None
    max_drop: float
    shard: str | None
    finish: bool


def run_command(command: ConvertCommand) -> None:
    """Convert, convert a part, or finish, and tell what came of it.

    Raises:
        ConfigError: The options do not fit together; all faults are told.
        DanishAsrError: What `convert` raises.
    """
    part = _check(command)
    assert command.source is not None
    source = open_source(command.source, command.source_options)
    workers = command.workers or usable_cpus()
    console = Console()
    for note in source.notes:
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    if part is not None:
        convert_part(
            source,
            command.out,
            part,
            options=command.options,
            workers=workers,
            max_drop=command.max_drop,
        )
        console.print(f"part {part.index} of {part.count} is converted; --finish follows the last")
        return
    assert command.name is not None
    if command.finish:
        manifest = finish(
            source,
            command.out,
            name=command.name,
            options=command.options,
            workers=workers,
            max_drop=command.max_drop,
        )
    else:
        manifest = convert(
            source,
            command.out,
            name=command.name,
            options=command.options,
            workers=workers,
            max_drop=command.max_drop,
            engine=_engine(command, workers),
        )
    print_summary(manifest, console)
    console.print(f"{command.out}: complete", highlight=False, soft_wrap=True)


def print_readers() -> None:
    """List the kinds of sources."""
    table = Table("kind", title="danish-asr convert KIND:WHERE")
    table.add_column("WHERE", overflow="fold")
    table.add_column("what", overflow="fold")
    for kind, reader in READERS.items():
        table.add_row(kind, reader.where.replace("[", r"\["), reader.what)
    Console().print(table)


def _engine(command: ConvertCommand, workers: int) -> Engine | None:
    if command.engine == "processes":
        return None
    return partial(run_on_ray, address=command.address, workers=workers)


def _check(command: ConvertCommand) -> Part | None:
    """Check the options together; return the part of the work that is asked for."""
    faults = []
    if command.source is None:
        faults.append("SOURCE: none given; `danish-asr convert --list` shows the kinds")
    if command.name is None and command.shard is None:
        faults.append("--name: needed, it names the dataset's card")
    if command.name is not None and not _NAME.fullmatch(command.name):
        faults.append(
            "--name: up to 100 of the letters a to z, digits, '_', '-' and '.', a letter or digit "
            f"first, for files are called after it; found {command.name!r}"
        )
    if command.out.exists() and not command.out.is_dir():
        faults.append(f"--out: a folder, or none yet; found the file {command.out}")
    if command.engine not in ENGINES:
        faults.append(f"--engine: expected one of {', '.join(ENGINES)}; found {command.engine}")
    if command.address is not None and command.engine != "ray":
        faults.append("--address: only --engine ray has an address")
    if command.shard is not None and (command.finish or command.engine == "ray"):
        faults.append("--shard: goes neither with --finish nor with --engine ray")
    if command.finish and command.engine == "ray":
        faults.append("--finish: converts nothing, so it needs no --engine ray")
    faults += _check_numbers(command)
    part = _parse_part(command.shard, faults)
    if faults:
        raise ConfigError(faults, where="the command line")
    return part


def _check_numbers(command: ConvertCommand) -> list[str]:
    faults = []
    if not 0 <= command.max_drop <= 1:
        faults.append(f"--max-drop: a share from 0 to 1; found {command.max_drop:g}")
    if command.workers is not None and command.workers < 1:
        faults.append(f"--workers: at least 1; found {command.workers}")
    if not 0 < command.options.max_seconds < math.inf:
        faults.append(f"--max-seconds: above 0; found {command.options.max_seconds:g}")
    if command.options.shard_rows < 1:
        faults.append(f"--shard-rows: at least 1; found {command.options.shard_rows}")
    return faults


def _parse_part(shard: str | None, faults: list[str]) -> Part | None:
    if shard is None:
        return None
    match = re.fullmatch(r"(\d+)/(\d+)", shard)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        faults.append(f"--shard: expected I/N with I from 1 to N; found {shard}")
        return None
    return Part(int(match[1]), int(match[2]))
