"""Convert, verify and combine from the command line: they print what the functions return."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.table import Table
from rich.text import Text

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import DatasetError
from danish_asr.base.progress import plain_console
from danish_asr.base.schema import INVENTORY_FILE, SPLITS, SUSPECTS_FILE
from danish_asr.base.stops import exception_at_stops
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.combine import combine
from danish_asr.corpus.convert import convert
from danish_asr.corpus.inventory import Inventory
from danish_asr.corpus.sources import SOURCES, resolve_source
from danish_asr.corpus.verify import LEAKS, Verification, verify


@exception_at_stops()
def convert_command(source: str, out: Path, options: ConvertOptions) -> None:
    """Convert, and print the summary."""
    console = plain_console()
    named = resolve_source(source)
    if named.kind in SOURCES:
        about = SOURCES[named.kind].about
        console.print(f"{named.location}: read as {named.kind}: {about}")
    was_complete = (out / INVENTORY_FILE).is_file()
    inventory = convert(named, out, options)
    for line in inventory.summary:
        console.print(line)
    for reason, rows in inventory.dropped.items():
        console.print(f"in the ledger: {reason} ({rows:,} rows)")
    for reason, rows in inventory.suspects.items():
        console.print(f"suspect, see {SUSPECTS_FILE}: {reason} ({rows:,} rows)")
    _print_total(inventory, console)
    before = ", as before" if was_complete else ""
    _check_rows(inventory, out)
    console.print(f"{out}: complete{before}")


def _check_rows(inventory: Inventory, out: Path) -> None:
    if not inventory.rows:
        raise DatasetError(
            f"{out}: no row was written. Mend what the ledger names, and delete the directory "
            f"(rm -r {quote(str(out))}) before you run the command again"
        )


def _print_total(inventory: Inventory, console: Console) -> None:
    console.print(
        f"{inventory.name}: {inventory.rows:,} rows, {inventory.hours:,.2f} hours; "
        f"{inventory.dropped_rows:,} of {inventory.source_rows:,} source rows are in the ledger"
    )


def print_sources() -> None:
    """List the kinds of sources."""
    table = Table("kind", title="danish-asr convert KIND:WHERE")
    table.add_column("WHERE", overflow="fold")
    table.add_column("what", overflow="fold")
    for kind, source in SOURCES.items():
        table.add_row(kind, Text(source.location), source.about)
    table.add_row("package.module.function", "any", "your own, see docs/howto/extend.md")
    Console(emoji=False).print(table)


def verify_command(root: Path, *, workers: int | None, allow_shared: Sequence[str]) -> Verification:
    """Verify a dataset, and print its hours and notes."""
    result = verify(root, workers=workers or usable_cpus(), allow_shared=allow_shared)
    console = plain_console()
    console.print(_hours_table(result.hours))
    for note in result.notes:
        console.print(note if note.startswith("allowed: ") else f"note: {note}")
    return result


def check_faults(root: Path, result: Verification, *, page: Path | None = None) -> None:
    """Raise `DatasetError` with all faults if there are any; ``page`` is what was asked for."""
    if result.suspects and page is None:
        seen = f"{SUSPECTS_FILE} has {result.suspects:,} rows to listen to"
        plain_console().print(f"note: {seen}; --page FILE shows them")
    if not result.faults:
        plain_console().print(f"{root}: no faults")
        return
    lines = [f"{root}: faults: {len(result.faults):,}", *(f"  - {own}" for own in result.lines)]
    if page and result.damage:
        lines.append(f"{page}: not written; mend the dataset first")
    again = "combine the parts again" if result.is_combined else "convert the dataset again"
    otherwise = (
        "with --without FILE, or convert the parts as one source (docs/howto/combine.md)"
        if result.is_combined
        else "with --split train --split-by-speaker 80/10/10, --drop-shared-sentences or --without"
    )
    advice = f"where a fault does not say what to do, {again}"
    if result.leaks or result.contradictions:
        accept = f"accept what rows share with --allow-shared {' or '.join(LEAKS)}"
        advice += f" {otherwise}; or {accept}"
    raise DatasetError("\n".join([*lines, advice]))


@exception_at_stops()
def combine_command(parts: Sequence[Path], out: Path, *, name: str, without: Path | None) -> None:
    """Combine datasets, and print how much they have together."""
    inventory = combine(parts, out, name=name, without=without)
    console = plain_console()
    for line in inventory.summary:
        console.print(line)
    _print_total(inventory, console)
    _check_rows(inventory, out)
    console.print(f"{out}: complete")


def _hours_table(hours: Mapping[tuple[str, str | None], float]) -> Table:
    splits = [split for split in SPLITS if any(split == own for own, _ in hours)]
    table = Table("dialect", *splits, title="Hours")
    for dialect in sorted({dialect for _, dialect in hours}, key=lambda name: name or "~"):
        cells = [f"{hours.get((split, dialect), 0.0):.3f}" for split in splits]
        table.add_row(Text(dialect or "not given"), *cells)
    table.add_section()
    totals = [sum(length for (own, _), length in hours.items() if own == name) for name in splits]
    table.add_row("all", *(f"{total:.3f}" for total in totals))
    return table
