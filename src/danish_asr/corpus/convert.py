"""Convert a corpus into a built dataset (the contract: ``data/README.md``).

A conversion can be continued after any stop: its plan and one record per finished shard are in
``OUT/.convert``. The inventory is written last, and only then is the dataset finished.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from itertools import chain, islice
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.base.errors import DatasetError, SourceError, user_code
from danish_asr.base.files import publish, publish_json, publish_text, sha256_of, sweep, take
from danish_asr.base.progress import watch
from danish_asr.base.schema import (
    INVENTORY_FILE,
    LEDGER_FILE,
    LEDGER_SCHEMA,
    README_FILE,
    SAMPLE_RATE,
    STATISTICS_FILE,
    SUSPECTS_FILE,
    SUSPECTS_SCHEMA,
)
from danish_asr.base.workers import run_in_processes
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.cards import readme, statistics, write_cards
from danish_asr.corpus.changes import key_of
from danish_asr.corpus.division import SHARED_SENTENCE, divide
from danish_asr.corpus.lost import added, lost_rows, lost_wholes
from danish_asr.corpus.people import people_notes, people_of
from danish_asr.corpus.shard import Record, convert_task, read_record
from danish_asr.corpus.shards import Inventory, ShardEntry, read_inventory
from danish_asr.corpus.sources.base import Source
from danish_asr.corpus.tasks import WORK_DIR, ShardTask, claim, plan_tasks
from danish_asr.corpus.texts import repeated_text

Engine = Callable[[Callable[[ShardTask], Record], Sequence[ShardTask]], Iterator[Record]]
"""Calls a function with every task and yields the results, in any order."""


def convert(
    source: Source,
    out: Path,
    *,
    name: str,
    options: ConvertOptions | None = None,
    workers: int = 1,
    engine: Engine | None = None,
) -> Inventory:
    """Convert a source, or continue where an earlier call was stopped; returns the inventory.

    A finished dataset of the same source and options is left as it is. Without an ``engine``,
    ``workers`` processes of this machine convert the tasks.

    Raises:
        SourceError: The source cannot be read, or changed during the conversion.
        DatasetError: ``out`` holds something else, or too many rows were dropped.
    """
    conversion = Conversion(source, out, options)
    if not conversion.is_finished(name):
        with locked(out):
            if not conversion.is_finished(name):  # by the process that had the lock before
                sweep(out)
                try:
                    records = conversion.run(engine or partial(run_in_processes, workers=workers))
                finally:
                    sweep(out)
                conversion.complete(records, name)
    return read_inventory(out)


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the lock of a directory that is converted into; `DatasetError` if another one does."""
    advice = "Wait for its end, and run the same command again; or name another --out."
    lease = take(out, error=DatasetError, advice=advice, work="conversion")
    try:
        yield
    finally:
        with suppress(OSError):  # a folder that has become read-only: that error is on its way
            lease.release()


class Conversion:
    """The conversion of a source to one dataset, in steps."""

    def __init__(self, source: Source, out: Path, options: ConvertOptions | None) -> None:
        self._source, self.out, self._options = source, out, options or ConvertOptions()
        self._key = key_of(source, self._options)
        with user_code(source, "reading its rows before the conversion"):
            self._division = divide(source, self._options)
            self.tasks = plan_tasks(source, self._options, self._division)
        self._rows = sum(task.rows for task in self.tasks)
        self._most_drops = int(self._rows * self._options.max_drop + 1e-6)  # 0.29 * 100 < 29

    def is_finished(self, name: str) -> bool:
        """Whether the dataset is complete; if not, this conversion claims the directory."""
        out = self.out
        if not (out / INVENTORY_FILE).is_file():
            claim(out, self._key)
            return False
        inventory = read_inventory(out)
        if (inventory.key, inventory.name) != (self._key, name):
            raise DatasetError(
                f"{out}: holds the finished dataset '{inventory.name}', made from "
                f"{inventory.source}; its name, its source (a file's content or time) or its "
                f"options differ. Choose another --out, or convert anew after rm -r '{out}'"
            )
        shutil.rmtree(out / WORK_DIR, ignore_errors=True)
        return True

    def run(self, engine: Engine) -> list[Record]:
        """Convert the tasks that are not finished; return all records."""
        tasks = self.tasks
        records = [record for task in tasks if (record := read_record(self.out, task))]
        finished = {record.task for record in records}
        remaining = [task for task in tasks if task.number not in finished]
        rows = sum(task.rows for task in tasks)
        dropped = sum(lost_rows(record).total() for record in records)
        convert = partial(convert_task, source=self._source, root=self.out, options=self._options)
        # The engine is not kept in a variable: it must end with the loop.
        for record in watch(
            "converted",
            engine(convert, remaining),
            lambda record: (record.rows + len(record.dropped), record.samples),
            rows,
            done=rows - sum(task.rows for task in remaining),
        ):
            records.append(record)
            dropped += lost_rows(record).total()
            if dropped > self._most_drops:
                break  # more rows cannot reduce the drops
        self._check_drops(records)
        return sorted(records, key=lambda record: record.task)

    def _check_drops(self, records: Sequence[Record]) -> None:
        reasons = added(lost_rows(record) for record in records)
        if reasons.total() <= self._most_drops:
            return
        counts = ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common())
        dropped = (row for record in records for row in record.dropped)
        unwanted = (row for row in dropped if row["reason"] != SHARED_SENTENCE)
        examples = "; ".join(self._describe(row) for row in islice(unwanted, 3))
        done, share = "", f"--max-drop {ceil(100 * reasons.total() / self._rows) / 100:g}"
        if len(records) < len(self.tasks):  # as many as are needed for this error
            read = sum(record.rows + len(record.dropped) for record in records)
            done, share = f" of the first {read:,}", "a larger --max-drop"
        raise DatasetError(
            f"rows dropped: {reasons.total():,}{done}; --max-drop allows {self._most_drops} of "
            f"this source's {self._rows:,}: {counts}. The first: {examples}. Fix the source, "
            f"or go on with {share}"
        )

    def _check_wholes(self, records: Sequence[Record]) -> None:
        wholes = lost_wholes(self._source, self.tasks, records)
        if wholes:
            faults = islice((row for record in records for row in record.dropped), 3)
            raise DatasetError(
                f"nothing is left of {', '.join(wholes[:3])}{', ...' * (len(wholes) > 3)}. The "
                f"first: {'; '.join(map(self._describe, faults))}. Fix the source or name its "
                "columns (--column OURS=THEIRS); --max-drop does not allow this"
            )

    def _describe(self, dropped: Mapping[str, Any]) -> str:
        """A row of the ledger, with its reason and the path of its audio if it has one."""
        file = next(file for file in self._source.files if file.name == dropped["source"])
        (row,) = self._source.read(file, dropped["row"], dropped["row"] + 1)
        audio = f", {row.audio}" if isinstance(row.audio, Path) else ""
        return f"{self._source.place(file, row.row)}{audio} ({dropped['reason']})"

    def complete(self, records: Sequence[Record], name: str) -> None:
        """Write ledger, statistics, cards and README, and last the inventory."""
        self._check_drops(records)
        self._check_wholes(records)
        out = self.out
        self._check_unchanged(records)
        _write_rows(out / LEDGER_FILE, LEDGER_SCHEMA, [record.dropped for record in records])
        _write_rows(out / SUSPECTS_FILE, SUSPECTS_SCHEMA, [record.suspects for record in records])
        inventory = self._inventory(records, name)
        publish_text(out / STATISTICS_FILE, statistics(inventory.shards))
        characters: set[str] = set()
        for task, record in zip(self.tasks, records, strict=True):
            if task.split == "train":
                characters.update(record.characters)
        write_cards(out, name, characters)
        publish_text(out / README_FILE, readme(out, inventory))
        sweep(out)
        publish_json(out / INVENTORY_FILE, asdict(inventory))
        shutil.rmtree(out / WORK_DIR)

    def _check_unchanged(self, records: Sequence[Record]) -> None:
        count = sum(record.rows + len(record.dropped) for record in records)
        if count != self._rows or key_of(self._source, self._options) != self._key:
            raise SourceError(
                f"{self.out}: the source has changed during the conversion ({count} rows "
                f"converted, {self._rows} in the source at the start); delete it to start anew: "
                f"rm -r '{self.out}'"
            )

    def _inventory(self, records: Sequence[Record], name: str) -> Inventory:
        dropped = [row for record in records for row in record.dropped]
        drops = Counter((row["reason"], row["dialect"]) for row in dropped)
        ordered = sorted(drops.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or ""))
        countries = added(record.countries for record in records)
        shards = [
            ShardEntry(
                path=task.path,
                rows=record.rows,
                seconds=record.samples / SAMPLE_RATE,
                sha256=record.sha256,
                fingerprint=task.fingerprint,
                files=[part.file.name for part in task.slices],
            )
            for task, record in zip(self.tasks, records, strict=True)
            if record.rows
        ]
        suspects = Counter(row["reason"] for record in records for row in record.suspects)
        notes = [
            *self._division.notes,
            *people_notes(people_of(self.out, shards)),
            *repeated_text(self.out, shards),
        ]
        if ages := added(record.ages for record in records):
            values = ", ".join(age for age, _ in ages.most_common(5)) + ", ..." * (len(ages) > 5)
            notes.append(f"age left empty, not a number of years: {values} ({ages.total():,} rows)")
        return Inventory(
            name=name,
            source=self._source.name,
            key=self._key,
            source_rows=self._rows,
            dropped=[
                {"reason": reason, "dialect": dialect, "rows": rows}
                for (reason, dialect), rows in ordered
            ],
            unmapped_dialects=dict(sorted(added(record.unmapped for record in records).items())),
            files=[
                {"file": file.name, "rows": file.rows, "fingerprint": file.fingerprint}
                for file in self._source.files
            ],
            shards=shards,
            ledger_sha256=sha256_of(self.out / LEDGER_FILE),
            countries=dict(sorted(countries.items(), key=lambda item: (-item[1], item[0]))),
            suspects=dict(sorted(suspects.items())),
            suspects_sha256=sha256_of(self.out / SUSPECTS_FILE),
            notes=notes,
        )


def _write_rows(path: Path, schema: pa.Schema, parts: Sequence[list[dict[str, Any]]]) -> None:
    rows = list(chain.from_iterable(parts))
    with publish(path) as stream:
        pq.write_table(pa.Table.from_pylist(rows, schema), stream)
