"""Convert a corpus into a built dataset (the contract: ``data/README.md``).

A conversion is resumable at any moment. Its plan and one record per finished shard stand in
``OUT/.convert``; the manifest is written last, and only then is the dataset finished. An array job
shares the work out with `Part`, and a last call finishes::

    danish-asr convert SOURCE --out OUT --name NAME --shard 3/16
    danish-asr convert SOURCE --out OUT --name NAME --finish
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.conversion.cards import write_cards, write_statistics
from danish_asr.conversion.claim import claim
from danish_asr.conversion.engines import run_units
from danish_asr.conversion.manifest import (
    FileEntry,
    Manifest,
    ShardEntry,
    count_drops,
    read_manifest,
    seconds,
    write_manifest,
)
from danish_asr.conversion.progress import ConversionProgress
from danish_asr.conversion.review import check_source, date_manifest
from danish_asr.conversion.shard import WORK_DIR, Job, Record, finished
from danish_asr.conversion.work_units import ConvertOptions, Unit, WorkPlan, plan_work
from danish_asr.errors import DatasetError
from danish_asr.files import publish, sweep
from danish_asr.schema import LEDGER_FILE, LEDGER_SCHEMA, MANIFEST_FILE
from danish_asr.sources.base import Source

DEFAULT_MAX_DROP: Final = 0.05
"""Share of the source rows."""

Engine = Callable[[Job, Sequence[Unit]], Iterator[Record]]
"""Converts units and yields their records, in any order."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part ``index`` of ``count`` of the work, from 1."""

    index: int
    count: int

    def of(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """The units of this part."""
        return units[self.index - 1 :: self.count]


def convert(
    source: Source,
    out: Path,
    *,
    name: str,
    options: ConvertOptions | None = None,
    workers: int = 1,
    max_drop: float = DEFAULT_MAX_DROP,
    engine: Engine | None = None,
) -> Manifest:
    """Convert a source, or continue where an earlier call was stopped.

    Args:
        source: The corpus.
        out: The dataset's root. A finished dataset of the same source and options is left as is.
        name: Name of the dataset's card.
        options: What decides the bytes.
        workers: Processes on this machine to share the work, if no ``engine`` is given.
        max_drop: Largest share of the source rows that may go to the ledger.
        engine: What converts the units.

    Returns:
        The manifest of the finished dataset.

    Raises:
        SourceError: The source cannot be read or changed meanwhile.
        DatasetError: ``out`` holds something else, or too many rows were dropped.
        DanishAsrError: ``out`` cannot be written, or a worker was killed.
    """
    job, plan = _prepare(source, out, options)
    if (out / MANIFEST_FILE).is_file():
        return _check_finished(job, plan, workers, name)
    begun = claim(out, plan)
    sweep(out)
    run = engine or partial(_run_here, workers=workers)
    try:
        records = _convert_units(job, plan.units, run, plan.rows * max_drop)
    finally:
        sweep(out)
    return _finish(job, plan, records, name=name, begun=begun)


def convert_part(
    source: Source,
    out: Path,
    part: Part,
    *,
    options: ConvertOptions | None = None,
    workers: int = 1,
    max_drop: float = DEFAULT_MAX_DROP,
) -> None:
    """Convert one part of the work, as a task of an array job; `finish` makes the dataset of it.

    Parts may run at the same time, on machines that share ``out``. Arguments and errors are those
    of `convert`.
    """
    job, plan = _prepare(source, out, options)
    if (out / MANIFEST_FILE).is_file():
        _check_finished(job, plan, workers)
        return
    claim(out, plan)
    units, run = part.of(plan.units), partial(_run_here, workers=workers)
    _convert_units(job, units, run, plan.rows * max_drop)


def finish(
    source: Source,
    out: Path,
    *,
    name: str,
    options: ConvertOptions | None = None,
    workers: int = 1,
    max_drop: float = DEFAULT_MAX_DROP,
) -> Manifest:
    """Make the dataset of parts that are all converted.

    Arguments are those of `convert`.

    Raises:
        DatasetError: Parts are missing, or what `convert` raises.
        SourceError: The source has changed since a part was converted.
    """
    job, plan = _prepare(source, out, options)
    if (out / MANIFEST_FILE).is_file():
        return _check_finished(job, plan, workers, name)
    begun = claim(out, plan)
    missing = [unit.number for unit in plan.units if finished(out, unit) is None]
    if missing:
        raise DatasetError(
            f"{out}: {len(missing)} of {len(plan.units)} shards are not converted yet; run the "
            "parts (--shard) that did not end well again, then --finish"
        )
    # All of them are finished, so that they are only compared with the source as it is now.
    records = _convert_units(
        job, plan.units, partial(_run_here, workers=workers), plan.rows * max_drop
    )
    return _finish(job, plan, records, name=name, begun=begun)


def _prepare(source: Source, out: Path, options: ConvertOptions | None) -> tuple[Job, WorkPlan]:
    options = options or ConvertOptions()
    return Job(source=source, root=out, options=options), plan_work(source, options)


def _run_here(job: Job, units: Sequence[Unit], *, workers: int) -> Iterator[Record]:
    return run_units(job.convert, units, workers)


def _convert_units(
    job: Job, units: Sequence[Unit], engine: Engine, most_dropped: float
) -> list[Record]:
    """Convert what is not finished yet; return all records in the order of the units.

    Finished units go to the engine too, which finds out whether their source is still the same.
    """
    before = {unit.number for unit in units if finished(job.root, unit)}
    records: dict[int, Record] = {}
    with ConversionProgress(sum(unit.rows for unit in units)) as progress:
        for record in engine(job, units):
            records[record.unit] = record
            if record.unit in before:
                progress.resume(record)
            else:
                progress.advance(record)
            if progress.dropped > most_dropped:
                break
    # Every further row can only add to the drops, so there is no use in going on.
    _check_drops(list(records.values()), most_dropped)
    return [records[unit.number] for unit in units]


def _check_drops(records: Sequence[Record], most: float) -> None:
    reasons = Counter(row.reason for record in records for row in record.dropped)
    if reasons.total() > most:
        told = ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common())
        raise DatasetError(
            f"{reasons.total()} rows were dropped, and --max-drop allows {most:.0f} of this "
            f"source: {told}. Mend the source, or continue with a larger --max-drop"
        )


def _finish(
    job: Job, plan: WorkPlan, records: Sequence[Record], *, name: str, begun: int
) -> Manifest:
    """Write ledger, statistics and cards, and last the manifest."""
    out = job.root
    manifest = _manifest(name, job.source, plan, records)
    if manifest.rows + manifest.dropped_rows != plan.rows:
        raise DatasetError(
            f"{out}: {manifest.rows} rows written and {manifest.dropped_rows} in the ledger do not "
            f"make up the {plan.rows} rows of the source; the source must have changed meanwhile"
        )
    manifest = replace(manifest, ledger_sha256=_write_ledger(out / LEDGER_FILE, records))
    train = [
        (unit.corpus, record)
        for unit, record in zip(plan.units, records, strict=True)
        if unit.split == "train"
    ]
    samples = Counter(dict.fromkeys((unit.corpus for unit in plan.units), 0))
    characters: set[str] = set()
    for corpus, record in train:
        samples[corpus] += record.samples
        characters.update(record.characters)
    write_statistics(out, _hours(samples))
    write_cards(out, name, characters)
    sweep(out)
    write_manifest(out, manifest)
    date_manifest(out, begun)
    shutil.rmtree(out / WORK_DIR)
    return manifest


def _hours(samples: Mapping[str, int]) -> dict[str, float]:
    return {corpus: seconds(count) / 3600 for corpus, count in samples.items()}


def _write_ledger(path: Path, records: Sequence[Record]) -> str:
    """Write the ledger; returns its sha256."""
    rows = [asdict(row) for record in records for row in record.dropped]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, LEDGER_SCHEMA), sink)
    content = sink.getvalue()
    with publish(path) as stream:
        stream.write(content)
    return hashlib.sha256(content).hexdigest()


def _manifest(name: str, source: Source, plan: WorkPlan, records: Sequence[Record]) -> Manifest:
    unmapped: Counter[str] = Counter()
    for record in records:
        unmapped.update(record.unmapped)
    return Manifest(
        name=name,
        source=source.name,
        key=plan.key,
        source_rows=plan.rows,
        dropped=count_drops([(row.reason, row.dialect) for rec in records for row in rec.dropped]),
        unmapped_dialects=dict(sorted(unmapped.items())),
        files=tuple(
            FileEntry(file=file.name, rows=file.rows, fingerprint=file.fingerprint)
            for file in source.files
        ),
        shards=tuple(
            ShardEntry(
                path=unit.shard(Path()).as_posix(),
                rows=record.rows,
                seconds=seconds(record.samples),
                sha256=record.sha256,
                fingerprint=unit.fingerprint,
                files=tuple(piece.file.name for piece in unit.pieces),
            )
            for unit, record in zip(plan.units, records, strict=True)
            if record.rows
        ),
    )


def _check_finished(job: Job, plan: WorkPlan, workers: int, name: str | None = None) -> Manifest:
    """Check that a finished dataset is the one that is asked for; a part does not ask its name."""
    manifest = read_manifest(job.root)
    if (manifest.key, manifest.name) != (plan.key, name or manifest.name):
        raise DatasetError(
            f"{job.root}: holds the finished dataset '{manifest.name}', made from "
            f"{manifest.source} as it was then, with its options and this program as it was; "
            "choose another --out, or delete it to convert anew"
        )
    check_source(job, plan.units, manifest, workers)
    shutil.rmtree(job.root / WORK_DIR, ignore_errors=True)
    return manifest
