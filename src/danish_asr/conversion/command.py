"""Run ``danish-asr convert`` and ``danish-asr verify`` with the options of their command lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from danish_asr.cluster.cpus import usable_cpus
from danish_asr.conversion import ConvertOptions
from danish_asr.conversion.convert import Part, convert, convert_part, finish
from danish_asr.conversion.engines import run_on_ray
from danish_asr.conversion.inventory import Inventory
from danish_asr.conversion.verify import LEAKS, verify
from danish_asr.errors import ConfigError, DatasetError
from danish_asr.schema import SPLITS
from danish_asr.sources import SOURCES, SourceOptions, open_source

ENGINES: Final = ("processes", "ray")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertCommand:
    """The options of the command, as they were typed; ``part`` is ``I/N``."""

    source: str | None
    name: str | None
    out: Path
    source_options: SourceOptions
    options: ConvertOptions
    workers: int | None
    engine: str
    address: str | None
    part: str | None
    finish: bool


def run_command(command: ConvertCommand) -> None:
    """Convert, convert a part, or finish, and print the result.

    Raises:
        ConfigError: The options do not fit together; it lists all faults.
        DanishAsrError: What `convert` raises.
    """
    part = _check(command)
    assert command.source is not None
    source = open_source(command.source, command.source_options)
    out, name, options = command.out, command.name or "", command.options
    workers = command.workers or usable_cpus()
    console = Console(highlight=False, soft_wrap=True)
    if part is not None:
        convert_part(source, out, part, options=options, workers=workers)
        console.print(
            f"part {part.index} of {part.count} is converted; run --finish after all parts"
        )
        return
    if command.finish:
        inventory = finish(source, out, name=name, options=options)
    else:
        on_ray = partial(run_on_ray, address=command.address, workers=workers)
        engine = on_ray if command.engine == "ray" else None
        inventory = convert(source, out, name=name, options=options, workers=workers, engine=engine)
    _print_summary(inventory, console)
    console.print(f"{out}: complete")


def print_readers() -> None:
    """List the kinds of sources."""
    table = Table("kind", title="danish-asr convert KIND:WHERE")
    table.add_column("WHERE", overflow="fold")
    table.add_column("what", overflow="fold")
    for kind, source in SOURCES.items():
        table.add_row(kind, source.where.replace("[", r"\["), source.what)
    table.add_row("package.module.function", "any", "your own reader, see docs/extending.md")
    Console().print(table)


def _print_summary(inventory: Inventory, console: Console) -> None:
    console.print(
        f"{inventory.name}: {inventory.rows:,} rows, {inventory.hours:.2f} hours; "
        f"{inventory.dropped_rows:,} of {inventory.source_rows:,} source rows are in the ledger"
    )
    if inventory.dropped:
        table = Table("reason", "dialect", "rows", title="Rows in the ledger")
        for entry in inventory.dropped:
            table.add_row(entry.reason, entry.dialect or "not given", f"{entry.rows:,}")
        console.print(table)
    for dialect, rows in inventory.unmapped_dialects.items():
        console.print(f"unknown dialect name, kept as is: {dialect} ({rows:,} rows)", markup=False)


def verify_command(
    root: Path, *, sample: int | None, workers: int, allow_shared: Sequence[str]
) -> None:
    """Verify a dataset, print hours and notes, and raise with all faults if there are any.

    Raises:
        ConfigError: The options have faults; it lists all of them.
        DatasetError: The dataset has faults, or is not a finished one.
    """
    wrong = [
        f"--allow-shared: expected one of {', '.join(LEAKS)}; found {kind}"
        for kind in allow_shared
        if kind not in LEAKS
    ]
    if sample is not None and sample < 0:
        wrong.append(f"--sample: a number of rows, at least 0; found {sample}")
    if workers < 1:
        wrong.append(f"--workers: at least 1; found {workers}")
    if wrong:
        raise ConfigError(wrong, where="the command line")
    result = verify(root, sample=sample, workers=workers, allow_shared=allow_shared)
    console = Console(highlight=False, soft_wrap=True)
    console.print(_hours_table(result.hours))
    for note in result.notes:
        console.print(f"allowed: {note}", markup=False)
    if result.faults:
        count = "one fault" if len(result.faults) == 1 else f"{len(result.faults):,} faults"
        lines = [f"{root} has {count}:", *(f"  - {fault}" for fault in result.faults)]
        fix = "restore damaged files from a copy, or delete the dataset and convert it again"
        raise DatasetError("\n".join([*lines, fix]))
    console.print(f"{root}: no faults", markup=False)


def _hours_table(hours: dict[tuple[str, str | None], float]) -> Table:
    splits = [split for split in SPLITS if any(split == key[0] for key in hours)]
    table = Table("dialect", *splits, title="Hours")
    for dialect in sorted({dialect for _, dialect in hours}, key=lambda name: name or "~"):
        cells = [f"{hours.get((split, dialect), 0.0):.2f}" for split in splits]
        table.add_row(Text(dialect or "not given"), *cells)
    table.add_section()
    totals = [sum(value for key, value in hours.items() if key[0] == split) for split in splits]
    table.add_row("all", *(f"{total:.2f}" for total in totals))
    return table


def _check(command: ConvertCommand) -> Part | None:
    """Check the options together; return the requested part."""
    part = _parse_part(command.part)
    faults = [*_faults_of_names(command), *_faults_of_numbers(command)]
    if command.part is not None and part is None:
        faults.append(f"--part: expected I/N with I from 1 to N; found {command.part}")
    if faults:
        raise ConfigError(faults, where="the command line")
    return part


def _parse_part(part: str | None) -> Part | None:
    match = re.fullmatch(r"(\d+)/(\d+)", part or "")
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        return None
    return Part(int(match[1]), int(match[2]))


def _faults_of_names(command: ConvertCommand) -> Iterator[str]:
    name, out, on_ray = command.name, command.out, command.engine == "ray"
    if command.source is None:
        yield "SOURCE: required; `danish-asr convert --list` shows the kinds"
    if name is None and command.part is None:
        yield "--name: required, it names the dataset's card"
    if name is not None and not _NAME.fullmatch(name):
        yield (
            "--name: up to 100 of the letters a to z, digits, '_', '-' and '.', beginning with a "
            f"letter or digit, because it becomes a file name; found {name!r}"
        )
    if out.exists() and not out.is_dir():
        yield f"--out: a folder, or a path that does not exist yet; found the file {out}"
    if command.engine not in ENGINES:
        yield f"--engine: expected one of {', '.join(ENGINES)}; found {command.engine}"
    if command.address is not None and not on_ray:
        yield "--address: applies to --engine ray only"
    if command.part is not None and (command.finish or on_ray):
        yield "--part: cannot be combined with --finish or --engine ray"
    if command.finish and on_ray:
        yield "--finish: converts nothing, so --engine ray does not apply"


def _faults_of_numbers(command: ConvertCommand) -> Iterator[str]:
    options, workers = command.options, command.workers
    if not 0 <= options.max_drop <= 1:
        yield f"--max-drop: a share from 0 to 1; found {options.max_drop:g}"
    if workers is not None and workers < 1:
        yield f"--workers: at least 1; found {workers}"
    if not 0 < options.max_seconds < math.inf:
        yield f"--max-seconds: above 0; found {options.max_seconds:g}"
    if options.shard_rows < 1:
        yield f"--shard-rows: at least 1; found {options.shard_rows}"
