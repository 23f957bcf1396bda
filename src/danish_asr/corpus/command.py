"""Run ``danish-asr convert`` and ``danish-asr verify`` with the options of their command lines."""

import re
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.schema import INVENTORY_FILE, SPLITS, SUSPECTS_FILE
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus import convert as conversion
from danish_asr.corpus.division import shares_of
from danish_asr.corpus.inventory import Inventory
from danish_asr.corpus.ray_engine import run_on_ray
from danish_asr.corpus.readme import duration, unit_of
from danish_asr.corpus.sources import SOURCES, SourceOptions, open_source, resolve_source
from danish_asr.corpus.verify import verify

_COUNTRIES: Final = 30  # lines about spellings of countries, at most
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@contextmanager
def _terminable() -> Iterator[None]:
    """End at SIGTERM as at Ctrl-C: locks are released, workers ended, temporary files removed."""

    def stop(number: int, _: object) -> None:
        print("danish-asr: stopped; run the same command again to continue", file=sys.stderr)  # noqa: T201
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def check_options(
    options: ConvertOptions, name: str, more: Iterable[tuple[bool, str]] = ()
) -> None:
    """Raise `ConfigError` with all values that are impossible, and those of ``more``."""
    shares = options.split_by_speaker
    _refuse(
        [
            *more,
            (
                not _NAME.fullmatch(name),
                f"--name: up to 100 of A-Z, a-z, 0-9, '_', '-' and '.'; found {name!r}",
            ),
            (
                not 0 <= options.max_drop <= 1,
                f"--max-drop: a share from 0 to 1; found {options.max_drop:g}",
            ),
            (
                not re.fullmatch("[a-z]{3}_[A-Z][a-z]{3}", options.language),
                f"--language: a code such as dan_Latn or nob_Latn; found {options.language!r}",
            ),
            (not options.max_seconds > 0, f"--max-seconds: above 0; found {options.max_seconds:g}"),
            (
                shares is not None and not shares_of(shares)[0],
                (
                    "--split-by-speaker: expected per cent of train, dev and test that add up to "
                    f"100, such as 80/10/10 or 80/10/10:SEED; found {shares}"
                ),
            ),
        ]
    )


@_terminable()
def convert_command(
    source: str | None,
    *,
    name: str | None,
    out: Path,
    source_options: SourceOptions,
    options: ConvertOptions,
    workers: int | None,
    engine: str,
    address: str | None,
    part: str | None,
    finish: bool,
) -> None:
    """Convert, convert a part (``I/N``), or finish, and print the result."""
    on_ray = engine == "ray"
    numbers = re.fullmatch(r"(\d+)/(\d+)", part or "1/1")
    index, count = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    checks = [
        (source is None, "SOURCE: required; `danish-asr convert --list` shows the kinds"),
        (name is None and part is None, "--name: required, it names the dataset's card"),
        (address is not None and not on_ray, "--address: applies to --engine ray only"),
        (
            part is not None and (finish or on_ray),
            "--part: cannot be combined with --finish or --engine ray",
        ),
        (not 1 <= index <= count, f"--part: expected I/N with I from 1 to N; found {part}"),
    ]
    check_options(options, name or "x", checks)
    kind, where = resolve_source(source or "")
    console = Console(highlight=False, soft_wrap=True)
    if where == source:
        console.print(f"{where}: read as {kind}: {SOURCES[kind].about}", markup=False)
    opened = open_source(f"{kind}:{where}", source_options)
    for note in opened.notes:
        console.print(f"{where}: {note}", markup=False)
    workers = workers or usable_cpus()
    if part is not None:
        conversion.convert_part(opened, out, (index, count), options=options, workers=workers)
        console.print(f"part {index} of {count} is converted; run --finish after all parts")
        return
    name = name or ""
    if finish:
        inventory = conversion.finish(opened, out, name=name, options=options)
    else:
        ray = partial(run_on_ray, address=address, workers=workers) if on_ray else None
        inventory = conversion.convert(
            opened, out, name=name, options=options, workers=workers, engine=ray
        )
    _print_summary(inventory, console)
    console.print(f"{out}: {'complete' if inventory.rows else 'no row was written'}")


def print_sources() -> None:
    """List the kinds of sources."""
    table = Table("kind", title="danish-asr convert KIND:WHERE")
    table.add_column("WHERE", overflow="fold")
    table.add_column("what", overflow="fold")
    for kind, source in SOURCES.items():
        table.add_row(kind, source.location.replace("[", r"\["), source.about)
    table.add_row("package.module.function", "any", "your own reader, see docs/extending.md")
    Console().print(table)


def verify_command(
    root: Path, *, sample: int | None, workers: int | None, allow_shared: Sequence[str]
) -> None:
    """Verify a dataset, print hours and notes, and raise with all faults if there are any."""
    result = verify(
        root, sample=sample, workers=workers or usable_cpus(), allow_shared=allow_shared
    )
    console = Console(highlight=False, soft_wrap=True)
    console.print(_hours_table(result.hours))
    for note in result.notes:
        console.print(note if note.startswith("allowed: ") else f"note: {note}", markup=False)
    if result.faults:
        count = len(result.faults)
        lines = "\n  - ".join([f"{root} has {count:,} fault{'s' * (count > 1)}:", *result.faults])
        raise DatasetError("\n".join([lines, *result.advice]))
    console.print(f"{root}: no faults", markup=False)


def _refuse(checks: Iterable[tuple[bool, str]]) -> None:
    if faults := [fault for is_fault, fault in checks if is_fault]:
        raise ConfigError(faults, where="the command line")


def _print_summary(inventory: Inventory, console: Console) -> None:
    console.print(
        f"{inventory.name}: {inventory.rows:,} rows, {duration(inventory.hours * 3600)}; "
        f"{inventory.dropped_rows:,} of {inventory.source_rows:,} source rows are in the ledger"
    )
    if inventory.dropped:
        table = Table("reason", "dialect", "rows", title="Rows in the ledger")
        for entry in inventory.dropped:
            table.add_row(entry["reason"], entry["dialect"] or "not given", f"{entry['rows']:,}")
        console.print(table)
    for note in inventory.notes:
        console.print(note, markup=False)
    for reason, rows in inventory.suspects.items():
        console.print(f"suspect, see {SUSPECTS_FILE}: {reason} ({rows:,} rows)", markup=False)
    for dialect, rows in inventory.unmapped_dialects.items():
        console.print(f"unknown dialect name, kept as is: {dialect} ({rows:,} rows)", markup=False)
    # What could not be read comes first.
    spellings = sorted(inventory.countries.items(), key=lambda x: not x[0].endswith("> unknown"))
    for read_as, rows in spellings[:_COUNTRIES]:
        console.print(f"country of birth: {read_as} ({rows:,} rows)", markup=False)
    if (more := len(inventory.countries) - _COUNTRIES) > 0:
        console.print(f"country of birth: {more:,} more spellings, see {INVENTORY_FILE}")


def _hours_table(hours: dict[tuple[str, str | None], float]) -> Table:
    splits = [split for split in SPLITS if any(split == key[0] for key in hours)]
    unit, size = unit_of(sum(hours.values()) * 3600)
    table = Table("dialect", *splits, title=unit.capitalize())
    for dialect in sorted({dialect for _, dialect in hours}, key=lambda name: name or "~"):
        cells = [f"{hours.get((split, dialect), 0.0) * 3600 / size:.2f}" for split in splits]
        table.add_row(Text(dialect or "not given"), *cells)
    table.add_section()
    totals = [sum(value for key, value in hours.items() if key[0] == split) for split in splits]
    table.add_row("all", *(f"{total * 3600 / size:.2f}" for total in totals))
    return table
