"""Convert a corpus into a built dataset (the contract: ``data/README.md``).

A conversion is resumable at any moment. Its plan and one record per finished shard stand in
``OUT/.convert``; the manifest is written last, and only then is the dataset finished. An array job
shares the work out with `Part`, and a last call finishes::

    danish-asr convert SOURCE --out OUT --name NAME --shard 3/16
    danish-asr convert SOURCE --out OUT --name NAME --finish
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

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
from danish_asr.conversion.shard import WORK_DIR, Job, Record, finished
from danish_asr.conversion.work_units import ConvertOptions, Unit, WorkPlan, plan_work
from danish_asr.corpora.base import Source
from danish_asr.errors import DatasetError
from danish_asr.files import publish, publish_text, sweep
from danish_asr.schema import LEDGER_FILE, LEDGER_SCHEMA, MANIFEST_FILE, VERSION_DIR
from danish_asr.stats import write_cards, write_statistics

DEFAULT_MAX_DROP: Final = 0.05
"""Share of the source rows."""

_PLAN_FILE: Final = "plan.json"

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
    options = options or ConvertOptions()
    plan = plan_work(source, options)
    if (out / MANIFEST_FILE).is_file():
        return _check_finished(out, plan, name)
    _begin(out, plan)
    sweep(out)
    job = Job(source=source, root=out, options=options)
    run = engine or (lambda job, units: run_units(job, units, workers))
    try:
        records = _convert_units(job, plan.units, run, plan.rows * max_drop)
    finally:
        sweep(out)
    return _finish(out, name, source, plan, records)


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
    options = options or ConvertOptions()
    plan = plan_work(source, options)
    if (out / MANIFEST_FILE).is_file():
        _check_finished(out, plan)
        return
    _begin(out, plan)
    job = Job(source=source, root=out, options=options)
    _convert_units(
        job,
        part.of(plan.units),
        lambda job, units: run_units(job, units, workers),
        plan.rows * max_drop,
    )


def finish(
    source: Source,
    out: Path,
    *,
    name: str,
    options: ConvertOptions | None = None,
    max_drop: float = DEFAULT_MAX_DROP,
) -> Manifest:
    """Make the dataset of parts that are all converted.

    Raises:
        DatasetError: Parts are missing, or what `convert` raises.
    """
    plan = plan_work(source, options or ConvertOptions())
    if (out / MANIFEST_FILE).is_file():
        return _check_finished(out, plan, name)
    _begin(out, plan)
    records = [record for unit in plan.units if (record := finished(out, unit))]
    if missing := len(plan.units) - len(records):
        raise DatasetError(
            f"{out}: {missing} of {len(plan.units)} shards are not converted yet; run the parts "
            "(--shard) that did not end well again, then --finish"
        )
    _check_drops(records, plan.rows * max_drop)
    return _finish(out, name, source, plan, records)


def _begin(out: Path, plan: WorkPlan) -> None:
    """Claim ``out`` for a plan, or check that it was begun with this very plan."""
    path = out / WORK_DIR / _PLAN_FILE
    ours = {"key": plan.key, "stamp": plan.stamp, "rows": plan.rows, "shards": len(plan.units)}
    if not path.is_file():
        if (out / VERSION_DIR).exists():
            raise DatasetError(
                f"{out}: holds a dataset that this program did not begin; choose another --out"
            )
        publish_text(path, json.dumps(ours))
    begun = json.loads(path.read_text(encoding="utf-8"))
    if begun != ours:
        raise DatasetError(
            f"{out}: a conversion of {begun.get('rows')} rows was begun here, and since then the "
            f"source or the options have changed (it has {plan.rows} rows now); restore them to "
            "continue it, or delete the directory to begin anew"
        )


def _convert_units(
    job: Job, units: Sequence[Unit], engine: Engine, most_dropped: float
) -> list[Record]:
    """Convert what is not finished yet; return all records in the order of the units."""
    records = {unit.number: record for unit in units if (record := finished(job.root, unit))}
    left = [unit for unit in units if unit.number not in records]
    with ConversionProgress(sum(unit.rows for unit in units)) as progress:
        progress.resume(records.values())
        for record in engine(job, left):
            records[record.unit] = record
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
    out: Path, name: str, source: Source, plan: WorkPlan, records: Sequence[Record]
) -> Manifest:
    """Write ledger, statistics and cards, and last the manifest."""
    manifest = _manifest(name, source, plan, records)
    if manifest.rows + manifest.dropped_rows != plan.rows:
        raise DatasetError(
            f"{out}: {manifest.rows} rows written and {manifest.dropped_rows} in the ledger do not "
            f"make up the {plan.rows} rows of the source; the source must have changed meanwhile"
        )
    _write_ledger(out / LEDGER_FILE, records)
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
    shutil.rmtree(out / WORK_DIR)
    return manifest


def _hours(samples: Mapping[str, int]) -> dict[str, float]:
    return {corpus: seconds(count) / 3600 for corpus, count in samples.items()}


def _write_ledger(path: Path, records: Sequence[Record]) -> None:
    rows = [asdict(row) for record in records for row in record.dropped]
    with publish(path) as stream:
        pq.write_table(pa.Table.from_pylist(rows, LEDGER_SCHEMA), stream)


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


def _check_finished(out: Path, plan: WorkPlan, name: str | None = None) -> Manifest:
    """Check that a finished dataset is the one that is asked for; a part does not ask its name."""
    manifest = read_manifest(out)
    if (manifest.key, manifest.name) != (plan.key, name or manifest.name):
        raise DatasetError(
            f"{out}: holds the finished dataset '{manifest.name}', made from {manifest.source} as "
            "it was then, with its options; choose another --out, or delete it to convert anew"
        )
    shutil.rmtree(out / WORK_DIR, ignore_errors=True)
    return manifest
