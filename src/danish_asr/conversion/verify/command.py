"""Read a built dataset back and tell all that breaks its contract at once.

::

    danish-asr verify data/parquet --sample 1000
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from danish_asr.conversion.inventory import Inventory, read_inventory, seconds
from danish_asr.conversion.shard import WORK_DIR
from danish_asr.conversion.verify.across import LEAKAGE, repeated_ids, shared, uncovered
from danish_asr.conversion.verify.cards import card_faults, card_names
from danish_asr.conversion.verify.damage import guarded
from danish_asr.conversion.verify.every_shard import check_shards
from danish_asr.conversion.verify.files import (
    ledger_faults,
    manifest_faults,
    statistics_faults,
    stray_files,
)
from danish_asr.conversion.verify.shard import ShardFindings
from danish_asr.errors import ConfigError, DatasetError
from danish_asr.schema import INVENTORY_FILE, LEDGER_FILE, SPLITS, STATISTICS_FILE, VERSION_DIR

_SECONDS_PER_HOUR: Final = 3600


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What reading a dataset back gave.

    Attributes:
        faults: What breaks the contract, a line each; none in a good dataset.
        notes: What was allowed.
        hours: Hours per split and dialect.
    """

    faults: tuple[str, ...]
    notes: tuple[str, ...]
    hours: dict[tuple[str, str | None], float]


def verify(
    root: Path,
    *,
    sample: int | None = None,
    workers: int = 1,
    allow_shared: Collection[str] = (),
) -> Verification:
    """Check a built dataset.

    No broken file hides what is wrong with the others: without a manifest, say, the shards that are
    there are checked against the contract and against each other.

    Args:
        root: The dataset.
        sample: Rows whose audio is decoded to its end, spread over all shards; None for all rows.
            Of every row the header is read.
        workers: Processes to share the work.
        allow_shared: Which `LEAKAGE` is known and no fault.

    Raises:
        DatasetError: There is no dataset, or one that is not finished.
    """
    manifest, faults = _read_manifest(root)
    findings = check_shards(root, manifest, sample, workers)
    faults += [fault for found in findings for fault in found.faults]
    faults += _faults_beside(root, manifest, findings)
    leaks = {kind: list(guarded(VERSION_DIR, shared(root, findings, kind))) for kind in LEAKAGE}
    faults += [leak for kind in LEAKAGE if kind not in allow_shared for leak in leaks[kind]]
    notes = [leak for kind in LEAKAGE if kind in allow_shared for leak in leaks[kind]]
    samples: Counter[tuple[str, str | None]] = Counter()
    for found in findings:
        for dialect, count in found.samples.items():
            samples[found.split, dialect] += count
    return Verification(
        faults=tuple(map(_one_line, faults)),
        notes=tuple(map(_one_line, notes)),
        hours={key: seconds(count) / _SECONDS_PER_HOUR for key, count in samples.items()},
    )


def verify_command(
    root: Path, *, sample: int | None, workers: int, allow_shared: Sequence[str]
) -> None:
    """Verify a dataset, print hours and notes, and raise with all faults if there are any.

    Raises:
        ConfigError: The options do not fit; all their faults are told.
        DatasetError: There are faults, or there is no finished dataset.
    """
    _check_options(sample, workers, allow_shared)
    result = verify(root, sample=sample, workers=workers, allow_shared=allow_shared)
    console = Console()
    console.print(_hours_table(result.hours))
    for note in result.notes:
        console.print(f"allowed: {note}", highlight=False, soft_wrap=True, markup=False)
    if result.faults:
        count = "one fault" if len(result.faults) == 1 else f"{len(result.faults):,} faults"
        lines = [f"{root} has {count}:", *(f"  - {fault}" for fault in result.faults)]
        mend = "what is damaged: restore it from a copy, or delete the dataset and convert it again"
        raise DatasetError("\n".join([*lines, mend]))
    console.print(f"{root}: in order", highlight=False, soft_wrap=True, markup=False)


def _check_options(sample: int | None, workers: int, allow_shared: Sequence[str]) -> None:
    kinds = ", ".join(LEAKAGE)
    faults = [
        f"--allow-shared: expected one of {kinds}; found {kind}"
        for kind in allow_shared
        if kind not in LEAKAGE
    ]
    if sample is not None and sample < 0:
        faults.append(f"--sample: a number of rows, at least 0; found {sample}")
    if workers < 1:
        faults.append(f"--workers: at least 1; found {workers}")
    if faults:
        raise ConfigError(faults, where="the command line")


def _read_manifest(root: Path) -> tuple[Inventory | None, list[str]]:
    """The manifest, and what is wrong with it.

    Raises:
        DatasetError: There is none because there is no dataset, or an unfinished one.
    """
    try:
        manifest = read_inventory(root)
    except DatasetError as error:
        there = _entries(root)
        if INVENTORY_FILE in there:
            return None, [str(error).removeprefix(f"{root}/")]
        if WORK_DIR in there or VERSION_DIR not in there:
            raise
        return None, [f"{INVENTORY_FILE}: is missing, so what should be there is not known"]
    return manifest, list(manifest_faults(manifest))


def _entries(root: Path) -> set[str]:
    try:
        return {path.name for path in root.iterdir()}
    except OSError:
        return set()


def _faults_beside(
    root: Path, manifest: Inventory | None, findings: Sequence[ShardFindings]
) -> Iterator[str]:
    """Check what stands beside the shards, and the shards against each other."""
    known = {found.path for found in findings}
    yield from guarded(VERSION_DIR, stray_files(root, known))
    yield from guarded(VERSION_DIR, repeated_ids(root, findings))
    positions: dict[str, NDArray[np.int64]] = {}
    yield from guarded(LEDGER_FILE, ledger_faults(root, manifest, positions))
    if manifest is not None:
        yield from guarded(LEDGER_FILE, uncovered(manifest, findings, positions))
    yield from guarded(STATISTICS_FILE, statistics_faults(root, _train_hours(manifest, findings)))
    trained = [found.characters for found in findings if found.split == "train"]
    characters = set().union(*trained) if trained else None
    for name in card_names(root) if manifest is None else [manifest.name]:
        yield from card_faults(root, name, characters)


def _train_hours(manifest: Inventory | None, findings: Sequence[ShardFindings]) -> dict[str, float]:
    """Hours of training audio by corpus, as the manifest has them: it is checked by the shards."""
    told = {shard.path: shard.seconds for shard in manifest.shards} if manifest else {}
    hours: defaultdict[str, float] = defaultdict(float)
    for found in findings:
        if found.split == "train":
            length = told.get(found.path, seconds(found.samples.total()))
            hours[found.corpus] += length / _SECONDS_PER_HOUR
    return hours


def _one_line(fault: str) -> str:
    """The fault on one line, whatever stands in the names that it tells."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in fault
    )


def _hours_table(hours: dict[tuple[str, str | None], float]) -> Table:
    splits = [split for split in SPLITS if any(split == key[0] for key in hours)]
    table = Table("dialect", *splits, title="Hours")
    dialects = sorted({dialect for _, dialect in hours}, key=lambda name: name or "~")
    for dialect in dialects:
        cells = [f"{hours.get((split, dialect), 0.0):.2f}" for split in splits]
        table.add_row(Text(dialect or "not said"), *cells)
    table.add_section()
    totals = [sum(value for key, value in hours.items() if key[0] == split) for split in splits]
    table.add_row("all", *(f"{total:.2f}" for total in totals))
    return table
