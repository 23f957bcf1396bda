"""Convert a corpus into a built dataset (the contract: ``data/README.md``).

A conversion can be continued after any stop. Its plan and one record per finished shard are in
``OUT/.convert``; the inventory is written last, and only then is the dataset finished. The tasks of
an array job convert one part each, and a last call completes the dataset::

    danish-asr convert SOURCE --out OUT --name NAME --part 3/16
    danish-asr convert SOURCE --out OUT --name NAME --finish
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.conversion import ConvertOptions
from danish_asr.conversion.cards import statistics, write_cards
from danish_asr.conversion.engines import run_here
from danish_asr.conversion.inventory import (
    FileEntry,
    Inventory,
    ShardEntry,
    count_drops,
    read_inventory,
    seconds,
    write_inventory,
)
from danish_asr.conversion.plan import (
    WORK_DIR,
    ConversionPlan,
    ShardTask,
    claim,
    conversion_key,
    plan_conversion,
)
from danish_asr.conversion.progress import watch
from danish_asr.conversion.shard import ConversionContext, Record, read_record
from danish_asr.errors import DatasetError, SourceError
from danish_asr.files import publish, publish_text, sweep
from danish_asr.schema import INVENTORY_FILE, LEDGER_FILE, LEDGER_SCHEMA, STATISTICS_FILE
from danish_asr.sources.base import Source

Engine = Callable[[ConversionContext, Sequence[ShardTask]], Iterator[Record]]
"""Converts tasks and yields their records, in any order."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part ``index`` of ``count`` of the tasks, from 1."""

    index: int
    count: int


def convert(
    source: Source,
    out: Path,
    *,
    name: str,
    options: ConvertOptions | None = None,
    workers: int = 1,
    engine: Engine | None = None,
) -> Inventory:
    """Convert a source, or continue where an earlier call was stopped.

    Args:
        source: The corpus.
        out: The dataset's root. A finished dataset of the same source and options is left as is.
        name: Name of the dataset's card.
        options: The options.
        workers: Processes on this machine, if no ``engine`` is given.
        engine: Converts the tasks.

    Returns:
        The inventory of the finished dataset.

    Raises:
        SourceError: The source cannot be read, or changed during the conversion.
        DatasetError: ``out`` holds something else, or too many rows were dropped.
        DanishAsrError: ``out`` cannot be written, or a worker was killed.
    """
    context, plan = _prepare(source, out, options)
    if (out / INVENTORY_FILE).is_file():
        return _check_finished(context, plan, name)
    claim(out, plan)
    sweep(out)
    try:
        run = engine or partial(run_here, workers=workers)
        records = _convert_tasks(context, plan, plan.tasks, run)
    finally:
        sweep(out)
    return _complete(context, plan, records, name)


def convert_part(
    source: Source,
    out: Path,
    part: Part,
    *,
    options: ConvertOptions | None = None,
    workers: int = 1,
) -> None:
    """Convert one part of the tasks, as one task of an array job; `finish` completes the dataset.

    Parts may run at the same time, on machines that share ``out``.
    """
    context, plan = _prepare(source, out, options)
    if (out / INVENTORY_FILE).is_file():
        _check_finished(context, plan)
        return
    claim(out, plan)
    tasks = plan.tasks[part.index - 1 :: part.count]
    _convert_tasks(context, plan, tasks, partial(run_here, workers=workers))


def finish(
    source: Source, out: Path, *, name: str, options: ConvertOptions | None = None
) -> Inventory:
    """Complete a dataset whose parts are all converted; arguments and errors as for `convert`."""
    context, plan = _prepare(source, out, options)
    if (out / INVENTORY_FILE).is_file():
        return _check_finished(context, plan, name)
    claim(out, plan)
    records = [record for task in plan.tasks if (record := read_record(out, task))]
    if missing := len(plan.tasks) - len(records):
        raise DatasetError(
            f"{out}: {missing} of {len(plan.tasks)} shards are not converted yet; run the parts "
            "(--part) that did not succeed again, then --finish"
        )
    _check_drops(records, plan, context.options)
    return _complete(context, plan, records, name)


def _prepare(
    source: Source, out: Path, options: ConvertOptions | None
) -> tuple[ConversionContext, ConversionPlan]:
    options = options or ConvertOptions()
    context = ConversionContext(source=source, root=out, options=options)
    return context, plan_conversion(source, options)


def _convert_tasks(
    context: ConversionContext, plan: ConversionPlan, tasks: Sequence[ShardTask], engine: Engine
) -> list[Record]:
    """Convert the tasks that are not finished; return all records in the order of the tasks."""
    records = {task.number: record for task in tasks if (record := read_record(context.root, task))}
    remaining = [task for task in tasks if task.number not in records]
    rows = sum(task.rows for task in tasks)
    done = rows - sum(task.rows for task in remaining)
    dropped = sum(len(record.dropped) for record in records.values())
    # The engine is not kept in a variable: it must end with the loop.
    for record in watch("converted", engine(context, remaining), Record.measure, rows, done=done):
        records[record.task] = record
        dropped += len(record.dropped)
        if dropped > plan.rows * context.options.max_drop:
            break  # more rows cannot reduce the drops
    _check_drops(records.values(), plan, context.options)
    return [records[task.number] for task in tasks]


def _check_drops(records: Iterable[Record], plan: ConversionPlan, options: ConvertOptions) -> None:
    reasons = Counter(row["reason"] for record in records for row in record.dropped)
    most = plan.rows * options.max_drop
    if reasons.total() > most:
        counts = ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common())
        raise DatasetError(
            f"{reasons.total()} rows were dropped, and --max-drop allows {most:.0f} of this "
            f"source: {counts}. Fix the source, or continue with a larger --max-drop"
        )


def _complete(
    context: ConversionContext, plan: ConversionPlan, records: Sequence[Record], name: str
) -> Inventory:
    """Write ledger, statistics and cards, and last the inventory."""
    out = context.root
    inventory = _inventory(name, context.source, plan, records)
    rows = inventory.rows + inventory.dropped_rows
    if rows != plan.rows or conversion_key(context.source, context.options) != plan.key:
        raise SourceError(
            f"{out}: the source has changed during the conversion ({rows} rows written or in the "
            f"ledger, {plan.rows} in the source at the start); delete it to start anew: "
            f"rm -r '{out}'"
        )
    inventory = replace(inventory, ledger_sha256=_write_ledger(out / LEDGER_FILE, records))
    publish_text(out / STATISTICS_FILE, statistics(inventory.train_hours()))
    characters: set[str] = set()
    for task, record in zip(plan.tasks, records, strict=True):
        if task.split == "train":
            characters.update(record.characters)
    write_cards(out, name, characters)
    sweep(out)
    write_inventory(out, inventory)
    shutil.rmtree(out / WORK_DIR)
    return inventory


def _write_ledger(path: Path, records: Sequence[Record]) -> str:
    """Write the ledger; returns its sha256."""
    rows = [row for record in records for row in record.dropped]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, LEDGER_SCHEMA), sink)
    content = sink.getvalue()
    with publish(path) as stream:
        stream.write(content)
    return hashlib.sha256(content).hexdigest()


def _inventory(
    name: str, source: Source, plan: ConversionPlan, records: Sequence[Record]
) -> Inventory:
    unmapped: Counter[str] = Counter()
    for record in records:
        unmapped.update(record.unmapped)
    return Inventory(
        name=name,
        source=source.name,
        key=plan.key,
        source_rows=plan.rows,
        dropped=count_drops(row for record in records for row in record.dropped),
        unmapped_dialects=dict(sorted(unmapped.items())),
        files=tuple(
            FileEntry(file=file.name, rows=file.rows, fingerprint=file.fingerprint)
            for file in source.files
        ),
        shards=tuple(
            ShardEntry(
                path=task.path,
                rows=record.rows,
                seconds=seconds(record.samples),
                sha256=record.sha256,
                fingerprint=task.fingerprint,
                files=tuple(rows.file.name for rows in task.slices),
            )
            for task, record in zip(plan.tasks, records, strict=True)
            if record.rows
        ),
    )


def _check_finished(
    context: ConversionContext, plan: ConversionPlan, name: str | None = None
) -> Inventory:
    """Check that a finished dataset is the requested one; a part has no name to compare."""
    out = context.root
    inventory = read_inventory(out)
    if (inventory.key, inventory.name) != (plan.key, name or inventory.name):
        raise DatasetError(
            f"{out}: holds the finished dataset '{inventory.name}', made from {inventory.source}; "
            "since then its name, its source (content, size or time of change of a file), its "
            "options or this program have changed; choose another --out, or delete it to convert "
            f"anew: rm -r '{out}'"
        )
    shutil.rmtree(out / WORK_DIR, ignore_errors=True)
    return inventory
