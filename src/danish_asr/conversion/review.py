"""Tell whether a finished dataset is still what its source gives.

What decides the bytes is in the manifest's key, as far as it can be told without reading all of the
source. The rest is told as ``make`` tells it: a source file that was touched after the conversion
began may have changed. The rows of such files are converted once more, to nowhere, and compared.
So a source that was only copied or touched costs time, and one that was changed is found.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from danish_asr.conversion.engines import run_units
from danish_asr.conversion.manifest import Manifest
from danish_asr.conversion.shard import Job, Record
from danish_asr.conversion.work_units import Unit
from danish_asr.errors import DatasetError
from danish_asr.schema import LEDGER_FILE, LEDGER_SCHEMA, MANIFEST_FILE
from danish_asr.sources.stamps import touched_since


def date_manifest(root: Path, begun: int) -> None:
    """Give the manifest the time (ns) since when a change of the source is not in the dataset."""
    os.utime(root / MANIFEST_FILE, ns=(begun, begun))


def check_source(job: Job, units: Sequence[Unit], manifest: Manifest, workers: int) -> None:
    """Check that a finished dataset is what its source gives now.

    Raises:
        DatasetError: It is not, or the ledger cannot be read.
        SourceError: The source cannot be read.
    """
    now = time.time_ns()
    since = (job.root / MANIFEST_FILE).stat().st_mtime_ns
    doubtful = [unit for unit in units if unit.beside or _touched(job, since, unit)]
    if not doubtful:
        return
    Console(stderr=True).print(
        f"{job.root}: is finished; looking whether the source of {len(doubtful):,} of its "
        f"{len(units):,} shards is still the same",
        highlight=False,
        soft_wrap=True,
    )
    ledger = _read_ledger(job.root)
    shards = {entry.path: (entry.rows, entry.sha256) for entry in manifest.shards}
    for unit, record in run_units(partial(_try_out, job, since), doubtful, workers):
        if record is None:
            continue
        path = unit.shard(Path()).as_posix()
        same = (record.rows, record.sha256) == shards.get(path, (0, ""))
        if not same or not ledger.issuperset(map(astuple, record.dropped)):
            raise DatasetError(
                f"{job.root}: holds the finished dataset '{manifest.name}', and its source has "
                f"changed since: {path} would have other content now ({unit.told}); choose another "
                "--out, or delete it to convert anew"
            )
    with suppress(OSError):  # the dataset of someone else is looked at anew each time
        date_manifest(job.root, now)


def _try_out(job: Job, since: int, unit: Unit) -> tuple[Unit, Record | None]:
    """What a unit gives now; None if its files were not touched."""
    return unit, job.try_out(unit) if _touched(job, since, unit) else None


def _touched(job: Job, since: int, unit: Unit) -> bool:
    return any(touched_since(path, since) for path in job.files(unit))


def _read_ledger(root: Path) -> set[tuple[Any, ...]]:
    try:
        rows = pq.read_table(root / LEDGER_FILE, schema=LEDGER_SCHEMA).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(
            f"{root / LEDGER_FILE}: cannot be read ({error}); `danish-asr verify {root}` tells "
            "what else is wrong"
        ) from error
    return {tuple(row.values()) for row in rows}
