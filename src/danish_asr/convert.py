"""Convert a corpus into a built dataset (the contract: ``data/README.md``).

A conversion is resumable at any moment. Its plan and one record per finished shard stand in
``OUT/.convert``; the manifest is written last, and only then is the dataset finished.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.corpora.base import Source
from danish_asr.engines import run_units
from danish_asr.errors import DatasetError
from danish_asr.files import publish, publish_text, sweep
from danish_asr.progress import ConversionProgress
from danish_asr.schema import (
    LEDGER_FILE,
    LEDGER_SCHEMA,
    MANIFEST_FILE,
    SAMPLE_RATE,
    VERSION_DIR,
)
from danish_asr.shard import WORK_DIR, Job, Record, finished
from danish_asr.stats import write_cards, write_statistics
from danish_asr.work_units import FORMAT, ConvertOptions, Unit, WorkPlan, plan_work

DEFAULT_MAX_DROP: Final = 0.05

_PLAN_FILE: Final = "plan.json"
_SECONDS_PER_HOUR: Final = 3600


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a conversion gave.

    Attributes:
        rows: Rows written.
        hours: Hours of audio written.
        dropped: Rows in the ledger, by reason and dialect.
        unmapped: Dialect names that no dialect is known for, and their rows.
    """

    rows: int
    hours: float
    dropped: Counter[tuple[str, str | None]]
    unmapped: Counter[str]


def convert(
    source: Source,
    out: Path,
    *,
    name: str,
    options: ConvertOptions | None = None,
    workers: int = 1,
    max_drop: float = DEFAULT_MAX_DROP,
) -> Summary:
    """Convert a source, or continue where an earlier call was stopped.

    Args:
        source: The corpus.
        out: The dataset's root. A finished dataset of the same source and options is left as is.
        name: Name of the dataset's card.
        options: What decides the bytes.
        workers: Processes to share the work.
        max_drop: Largest share of the source rows that may go to the ledger.

    Raises:
        SourceError: The source cannot be read or changed meanwhile.
        DatasetError: ``out`` holds something else, or too many rows were dropped.
    """
    options = options or ConvertOptions()
    plan = plan_work(source, options)
    if (out / MANIFEST_FILE).is_file():
        return _summary_of_finished(out, plan, name)
    _begin(out, plan)
    job = Job(source=source, root=out, options=options)
    records = _convert_units(job, plan.units, workers, plan.rows * max_drop)
    return _finish(out, name, source, plan, records)


def _begin(out: Path, plan: WorkPlan) -> None:
    """Claim ``out`` for a plan, or check that it was begun with this very plan."""
    path = out / WORK_DIR / _PLAN_FILE
    ours = {"key": plan.key, "stamp": plan.stamp, "rows": plan.rows, "units": len(plan.units)}
    if not path.is_file():
        if (out / VERSION_DIR).exists():
            raise DatasetError(
                f"{out}: holds Parquet files of something else; choose another --out"
            )
        publish_text(path, json.dumps(ours))
    begun = json.loads(path.read_text(encoding="utf-8"))
    if begun != ours:
        raise DatasetError(
            f"{out}: a conversion was begun here, and since then the source or the options have "
            "changed; restore them to continue it, or delete the directory to begin anew"
        )
    sweep(out)


def _convert_units(
    job: Job, units: Sequence[Unit], workers: int, most_dropped: float
) -> list[Record]:
    """Convert what is not finished yet; return all records in the order of the units."""
    records = {unit.number: record for unit in units if (record := finished(job.root, unit))}
    left = [unit for unit in units if unit.number not in records]
    total = sum(unit.rows for unit in units)
    with ConversionProgress(total) as progress:
        for record in records.values():
            progress.advance(record)
        for record in run_units(job, left, workers):
            records[record.unit] = record
            progress.advance(record)
            _check_drops(list(records.values()), most_dropped)
    return [records[unit.number] for unit in units]


def _check_drops(records: Sequence[Record], most: float) -> None:
    """Stop as soon as it is certain that too many rows are dropped."""
    dropped = sum(len(record.dropped) for record in records)
    if dropped > most:
        reasons = Counter(row.reason for record in records for row in record.dropped)
        told = ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common())
        raise DatasetError(
            f"{dropped} rows were dropped so far, more than --max-drop allows ({most:.0f} of this "
            f"source): {told}. Mend the source, or allow more with --max-drop to continue"
        )


def _finish(
    out: Path, name: str, source: Source, plan: WorkPlan, records: Sequence[Record]
) -> Summary:
    """Write ledger, statistics and cards, and last the manifest."""
    written = sum(record.rows for record in records)
    dropped = sum(len(record.dropped) for record in records)
    if written + dropped != plan.rows:
        raise DatasetError(
            f"{out}: {written} rows written and {dropped} in the ledger do not make up the "
            f"{plan.rows} rows of the source; the source must have changed meanwhile"
        )
    _write_ledger(out / LEDGER_FILE, records)
    hours = dict.fromkeys(sorted({unit.corpus for unit in plan.units}), 0.0)
    characters: Counter[str] = Counter()
    for unit, record in zip(plan.units, records, strict=True):
        if unit.split == "train":
            hours[unit.corpus] += _hours(record.samples)
            characters.update(record.characters)
    write_statistics(out, hours)
    write_cards(out, name, characters)
    manifest = _manifest(out, name, source, plan, records)
    publish_text(out / MANIFEST_FILE, json.dumps(manifest, ensure_ascii=False, indent=1) + "\n")
    shutil.rmtree(out / WORK_DIR)
    return _summary(manifest)


def _write_ledger(path: Path, records: Sequence[Record]) -> None:
    rows = [asdict(row) for record in records for row in record.dropped]
    with publish(path) as stream:
        pq.write_table(pa.Table.from_pylist(rows, LEDGER_SCHEMA), stream)


def _manifest(
    out: Path, name: str, source: Source, plan: WorkPlan, records: Sequence[Record]
) -> dict[str, Any]:
    dropped = Counter((row.reason, row.dialect) for record in records for row in record.dropped)
    unmapped: Counter[str] = Counter()
    for record in records:
        unmapped.update(record.unmapped)
    return {
        "format": FORMAT,
        "name": name,
        "source": source.name,
        "key": plan.key,
        "rows": {
            "source": plan.rows,
            "written": sum(record.rows for record in records),
            "dropped": sum(len(record.dropped) for record in records),
        },
        "seconds": sum(record.samples for record in records) / SAMPLE_RATE,
        "dropped": [
            {"reason": reason, "dialect": dialect, "rows": rows}
            for (reason, dialect), rows in sorted(dropped.items(), key=str)
        ],
        "unmapped_dialects": dict(sorted(unmapped.items())),
        "files": [
            {"file": file.name, "rows": file.rows, "fingerprint": file.fingerprint}
            for file in source.files
        ],
        "shards": [
            {
                "path": unit.shard(out).relative_to(out).as_posix(),
                "rows": record.rows,
                "seconds": record.samples / SAMPLE_RATE,
                "sha256": record.sha256,
                "files": [piece.file.name for piece in unit.pieces],
            }
            for unit, record in zip(plan.units, records, strict=True)
            if record.rows
        ],
    }


def _summary_of_finished(out: Path, plan: WorkPlan, name: str) -> Summary:
    manifest = json.loads((out / MANIFEST_FILE).read_text(encoding="utf-8"))
    if (manifest["key"], manifest["name"]) != (plan.key, name):
        raise DatasetError(
            f"{out}: holds the finished dataset '{manifest['name']}', made from "
            f"{manifest['source']} as it was then, with its options; choose another --out, or "
            "delete the directory to convert anew"
        )
    shutil.rmtree(out / WORK_DIR, ignore_errors=True)
    return _summary(manifest)


def _summary(manifest: dict[str, Any]) -> Summary:
    return Summary(
        rows=manifest["rows"]["written"],
        hours=manifest["seconds"] / _SECONDS_PER_HOUR,
        dropped=Counter(
            {(row["reason"], row["dialect"]): row["rows"] for row in manifest["dropped"]}
        ),
        unmapped=Counter(manifest["unmapped_dialects"]),
    )


def _hours(samples: int) -> float:
    return samples / SAMPLE_RATE / _SECONDS_PER_HOUR
