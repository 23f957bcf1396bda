"""Convert and verify: from Python, and with the options of their command lines."""

import re
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.files import AnyPath
from danish_asr.base.schema import INVENTORY_FILE, SPLITS, SUSPECTS_FILE
from danish_asr.base.stops import handled
from danish_asr.base.workers import run_on_ray
from danish_asr.corpus import LANGUAGE_CODE, ConvertOptions
from danish_asr.corpus import convert as conversion
from danish_asr.corpus.cards import duration, unit_of
from danish_asr.corpus.combine import CombineOptions, combine
from danish_asr.corpus.division import shares_of
from danish_asr.corpus.shard_check import CONVENTIONS
from danish_asr.corpus.shards import Inventory, used
from danish_asr.corpus.sources import SOURCES, SourceOptions, open_source, resolve_source
from danish_asr.corpus.verify import verify

_COUNTRIES: Final = 30  # lines about spellings of countries, at most
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_SHARES: Final = (
    "--split-by-speaker: expected per cent of train, dev and test that add up to 100, such as "
    "80/10/10 or 80/10/10:SEED"
)


def convert(
    source: AnyPath,
    out: AnyPath,
    *,
    name: str,
    corpus: str | None = None,
    columns: Mapping[str, str] | None = None,
    split: str | None = None,
    tiers: Sequence[str] = (),
    workers: int = 1,
    **options: Any,
) -> Inventory:
    """Convert a corpus into a dataset, or continue where an earlier call was stopped.

    Args:
        source: A folder, a manifest or ``KIND:WHERE``, as for ``danish-asr convert``.
        out: The root of the dataset. A finished dataset of the same source and options is kept.
        name: The name of the dataset's card, by which a training finds it.
        corpus: The name of the corpus; None is ``name``, or that of a corpus such as CoRal.
        columns: The names of the source's columns by ours, such as ``{"text": "sentence"}``.
        split: The split of all rows; None infers it from the names of files, or from a column;
            with ``split_by_speaker``, the split of the rows of which they say none is train.
        tiers: Names or patterns of the tiers with the text, of TextGrid or ELAN.
        workers: Processes. With more than one, a script needs ``if __name__ == "__main__":``.
        options: The fields of `ConvertOptions`, such as ``split_by_speaker="80/10/10"``.

    Returns:
        The inventory of the dataset: rows, hours, shards, and what was left out, with the reasons.

    Raises:
        ConfigError: An option has an impossible value.
        SourceError: The source cannot be read, or changed during the conversion.
        DatasetError: ``out`` holds something else, or more rows than ``max_drop`` were left out.
    """
    checked = ConvertOptions(**options)
    _refuse(_option_faults(checked, name))
    described = SourceOptions(
        corpus=corpus,
        columns=tuple(f"{ours}={theirs}" for ours, theirs in (columns or {}).items()),
        split=split,
        tiers=tuple(tiers),
        name=name,
        by_speaker=checked.split_by_speaker is not None,
    )
    opened = open_source(str(source), described)
    return conversion.convert(opened, Path(out), name=name, options=checked, workers=workers)


@contextmanager
def _terminable() -> Iterator[None]:
    """End at SIGTERM as at Ctrl-C: locks are released, workers ended, temporary files removed."""

    def stop(number: int, _: object) -> None:
        print("danish-asr: stopped; run the same command again to continue", file=sys.stderr)  # noqa: T201
        raise SystemExit(128 + number)

    with handled({signal.SIGTERM: stop}):
        yield


def _option_faults(options: ConvertOptions, name: str) -> Iterator[str]:
    shares, language = options.split_by_speaker, options.language
    if not _NAME.fullmatch(name):
        yield f"--name: up to 100 of A-Z, a-z, 0-9, '_', '-' and '.'; found {name!r}"
    if not 0 <= options.max_drop <= 1:
        yield f"--max-drop: a share from 0 to 1; found {options.max_drop:g}"
    if not re.fullmatch(LANGUAGE_CODE, language):
        yield f"--language: a code such as dan_Latn or nob_Latn; found {language!r}"
    if options.channel is not None and options.channel < 1:
        yield f"--channel: from 1; found {options.channel}"
    if not options.max_seconds > 0:
        yield f"--max-seconds: above 0; found {options.max_seconds:g}"
    if shares is not None and not shares_of(shares)[0]:
        yield f"{_SHARES}; found {shares}"


def _refuse(faults: Iterable[str]) -> None:
    if listed := list(faults):
        raise ConfigError(listed, where="the command line")


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
) -> None:
    """Convert, and print the result."""
    on_ray = engine == "ray"
    wrong = {
        "SOURCE: required; `danish-asr convert --list` shows the kinds": source is None,
        "--name: required, it names the dataset's card": name is None,
        "--address: applies to --engine ray only": bool(address) and not on_ray,
    }
    faults = [text for text, is_wrong in wrong.items() if is_wrong]
    _refuse([*_option_faults(options, name or "x"), *faults])
    kind, location, why = resolve_source(source or "")
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if why:
        console.print(f"{location}: read as {kind}, because {why}: {SOURCES[kind].about}")
    opened = open_source(f"{kind}:{location}", source_options)
    for note in opened.notes:
        console.print(f"{location}: {note}")
    requested, workers = workers or 1, workers or usable_cpus()
    name = name or ""
    ray = partial(run_on_ray, address=address, workers=workers) if on_ray else None
    inventory = conversion.convert(
        opened, out, name=name, options=options, workers=workers, engine=ray
    )
    _print_summary(inventory, console)
    if 0 < len(inventory.shards) < requested:
        work = f"{len(inventory.shards)} shards are work for as many processes"
        console.print(f"{work}, not for --workers {requested}; a smaller --shard-rows makes more")
    console.print(f"{out}: {'complete' if inventory.rows else 'no row was written'}")


def print_sources() -> None:
    """List the kinds of sources."""
    table = Table("kind", title="danish-asr convert KIND:WHERE")
    table.add_column("WHERE", overflow="fold")
    table.add_column("what", overflow="fold")
    for kind, source in SOURCES.items():
        table.add_row(kind, source.location.replace("[", r"\["), source.about)
    table.add_row("package.module.function", "any", "your own, see docs/howto/add-a-corpus.md")
    Console().print(table)


def verify_command(
    root: Path, *, sample: int | None, workers: int | None, allow_shared: Sequence[str]
) -> None:
    """Verify a dataset, print hours and notes, and raise with all faults if there are any."""
    result = verify(
        root, sample=sample, workers=workers or usable_cpus(), allow_shared=allow_shared
    )
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(_hours_table(result.hours))
    for note in result.notes:
        console.print(note if note.startswith("allowed: ") else f"note: {note}")
    if result.faults:
        count = f"{root}: faults: {len(result.faults):,}"
        lines = "\n  - ".join([count, *result.faults])
        raise DatasetError("\n".join([lines, *result.advice]))
    console.print(f"{root}: no faults")


@_terminable()
def combine_command(
    parts: Sequence[Path],
    *,
    out: Path,
    name: str | None,
    options: CombineOptions,
    workers: int | None,
) -> None:
    """Combine datasets, and print what they are and what does not fit."""
    faults = list(_option_faults(ConvertOptions(), name or "x"))
    if name is None:
        faults.append("--name: required, it names the dataset's card")
    _refuse(faults)
    name = name or ""
    result = combine(parts, out, name=name, options=options, workers=workers or usable_cpus())
    console = Console(highlight=False, soft_wrap=True, markup=False)
    inventory, conventions = result.inventory, result.conventions
    rows, seconds = used(inventory.shards)
    left_out = f"; {inventory.rows - rows:,} more are left out" if inventory.rows > rows else ""
    console.print(f"{name}: {rows:,} rows, {duration(seconds)}{left_out}")
    table = Table("part", "rows", "length", *CONVENTIONS, title="Rows with ...")
    for part in (part["name"] for part in inventory.parts):
        shares = conventions.shares.get(part, {})
        own = [entry for entry in inventory.shards if f"/{part}~" in entry.path]
        rows, seconds = used(own)
        cells = [f"{rows:,}", duration(seconds)]
        cells += [f"{100 * shares[name]:.1f} %" if shares else "" for name in CONVENTIONS]
        table.add_row(part, *cells)
    console.print(table)
    console.print(conventions.advice())
    for note in [*inventory.notes, *result.changes]:
        console.print(note)
    for leak in result.leaks:
        console.print(f"{leak.text}; --drop-shared {leak.kind} leaves those of {leak.split} out")
    console.print(f"{out}: complete")


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
        console.print(note)
    for reason, rows in inventory.suspects.items():
        console.print(f"suspect, see {SUSPECTS_FILE}: {reason} ({rows:,} rows)")
    for dialect, rows in inventory.unmapped_dialects.items():
        console.print(f"unknown dialect name, kept as is: {dialect} ({rows:,} rows)")
    # What could not be read comes first.
    spellings = sorted(inventory.countries.items(), key=lambda x: not x[0].endswith("> unknown"))
    for read_as, rows in spellings[:_COUNTRIES]:
        console.print(f"country of birth: {read_as} ({rows:,} rows)")
    if len(spellings) > _COUNTRIES:
        console.print(f"country of birth: more spellings are in {INVENTORY_FILE}")


def _hours_table(hours: Mapping[tuple[str, str | None], float]) -> Table:
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
