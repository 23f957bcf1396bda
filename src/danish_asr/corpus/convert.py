"""Convert a corpus into a built dataset (the contract: ``data/README.md``).

A conversion can be continued after any stop: a record per finished task is in ``OUT/.convert``. The
inventory is written last, and only then is the dataset finished.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, pairwise
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.base.errors import DatasetError
from danish_asr.base.files import AnyPath, publish_text, sweep, take
from danish_asr.base.progress import watch
from danish_asr.base.schema import (
    CARDS_DIR,
    INVENTORY_FILE,
    LEDGER_FILE,
    LEDGER_SCHEMA,
    README_FILE,
    ROW_GROUP_SIZE,
    SPLITS,
    STATISTICS_FILE,
    SUSPECTS_FILE,
    SUSPECTS_SCHEMA,
    VERSION_DIR,
    WORK_DIR,
    partition_dir,
)
from danish_asr.base.workers import run_in_processes, run_on_ray
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.cards import complete
from danish_asr.corpus.division import SHARED_SENTENCE, divide
from danish_asr.corpus.rows import Source, is_listed, place_of, read_without, refuse
from danish_asr.corpus.shard import Record, Task, convert_task, read_record
from danish_asr.corpus.shards import Inventory, ShardEntry, read_inventory
from danish_asr.corpus.sources import open_source
from danish_asr.corpus.summary import summary_of

OURS: Final = (VERSION_DIR, CARDS_DIR, LEDGER_FILE, README_FILE, STATISTICS_FILE, SUSPECTS_FILE)
_LEAST_SHARDS: Final = 16  # of a source, if they have a row group each: work for many processes
_BY_CHANCE: Final = 10
"""A source or a file of fewer rows may lose all of them without a fault of the whole."""


def convert(source: AnyPath, out: AnyPath, options: ConvertOptions) -> Inventory:
    """Convert a corpus into a dataset, or continue where an earlier call was stopped.

    Args:
        source: A folder, a table or ``KIND:WHERE``, as for ``danish-asr convert``.
        out: The root of the dataset. A finished dataset of the same source and options is kept.
        options: All others. With several workers a script needs ``if __name__ == "__main__":``.

    Returns:
        The inventory: rows, hours, shards, a summary, and what was left out, with the reasons.

    Raises:
        SourceError: The source cannot be read.
        DatasetError: ``out`` holds something else, or more rows than ``max_drop`` were left out.
    """
    return convert_source(open_source(str(source), options), Path(out), options)


def convert_source(source: Source, out: Path, options: ConvertOptions) -> Inventory:
    """Convert a source that is open; see `convert`."""
    rows, asked_for = source.rows, {SHARED_SENTENCE}
    if options.without:
        reason = f"listed in {options.without.name}"
        rows = refuse(rows, is_listed(rows, read_without(options.without)), reason)
        asked_for.add(reason)
    plan = plan_tasks(divide(rows, options), options)
    key = key_of(plan.rows, source.version, options)
    if inventory := _finished(out, key):
        return inventory
    with locked(out):
        if inventory := _finished(out, key):  # by the process that had the lock before
            return inventory
        claim(out, key)
        sweep(out)
        limit = _Limit(plan.rows, asked_for, options.max_drop, source.in_tables)
        try:
            records = _run(plan, source, out, options, limit)
        finally:
            sweep(out)
        limit.check_wholes(records)
        content = _content(plan, source, options, records)
        inventory = complete(out, key=key, **content)
        shutil.rmtree(out / WORK_DIR)
    return inventory


class Plan(NamedTuple):
    """All rows in the order of the shards, and the tasks that they are divided into."""

    rows: pa.Table
    tasks: list[Task]


def plan_tasks(rows: pa.Table, options: ConvertOptions) -> Plan:
    """Plan a conversion: tasks of neighbouring rows, each with a shard per split that occurs.

    It is a function of the rows and the options alone. That makes a conversion resumable, and its
    bytes independent of the number of workers.
    """
    numbered = rows.select(["file", "corpus", "split"]).append_column(
        "n", pa.array(np.arange(len(rows)))
    )
    files = numbered.group_by(["file"], use_threads=False).aggregate(
        [("n", "min"), ("n", "count"), ("corpus", "distinct"), ("split", "distinct")]
    )
    blocks: dict[tuple[Any, ...], list[pa.Table]] = {}  # files of the same corpora and splits
    for file in files.sort_by("n_min").to_pylist():
        splits = tuple(sorted(map(SPLITS.index, file["split_distinct"])))
        own = rows.slice(file["n_min"], file["n_count"])
        blocks.setdefault((*sorted(file["corpus_distinct"]), splits), []).append(own)
    largest = max(_groups_of(own).max(initial=0) for own in chain.from_iterable(blocks.values()))
    share = ceil(len(rows) / _LEAST_SHARDS)
    most = min(options.shard_rows, max(share, int(largest), ROW_GROUP_SIZE))
    parts: list[pa.Table] = []
    ordered = [blocks[key] for key in sorted(blocks, key=lambda key: (key[0], key[-1], key))]
    for files_of in ordered:
        block = pa.concat_tables(files_of)
        start = stop = 0
        for size in chain.from_iterable(_pieces(own, options.shard_rows) for own in files_of):
            if stop > start and stop - start + size > most:
                parts.append(block.slice(start, stop - start))
                start = stop
            stop += size
        parts.append(block.slice(start, stop - start))
    return Plan(pa.concat_tables(chain.from_iterable(ordered)), _tasks(parts, options.language))


def _groups_of(rows: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The sizes of the groups of a file, in their order."""
    groups = rows["group"].to_numpy()
    ends = np.append(np.flatnonzero(np.diff(groups)) + 1, len(groups))
    return np.diff(ends, prepend=0)


def _pieces(rows: pa.Table, shard_rows: int) -> Iterator[int]:
    """The sizes of a file's groups; one of more than ``shard_rows`` is cut into equal parts."""
    for size in _groups_of(rows).tolist():
        parts = max(1, ceil(size / shard_rows))
        bounds = [size * part // parts for part in range(parts + 1)]
        yield from (high - low for low, high in pairwise(bounds) if high > low)


def _tasks(parts: Sequence[pa.Table], language: str) -> list[Task]:
    """The tasks with the paths of their shards, which are numbered through their partition."""
    keys_of: list[list[tuple[str, str]]] = []
    for part in parts:
        pairs = part.group_by(["corpus", "split"]).aggregate([]).to_pylist()
        keys_of.append(sorted((pair["corpus"], pair["split"]) for pair in pairs))
    totals = Counter(chain.from_iterable(keys_of))
    counts: Counter[tuple[str, str]] = Counter()
    tasks = []
    for number, (part, keys) in enumerate(zip(parts, keys_of, strict=True)):
        paths = {}
        for corpus, split in keys:
            name = f"part-{counts[corpus, split]:05d}-of-{totals[corpus, split]:05d}.parquet"
            folder = partition_dir(Path(), corpus, split, language)
            paths[corpus, split] = (folder / name).as_posix()
        counts.update(keys)
        tasks.append(Task(number, part, paths))
    return tasks


def key_of(rows: pa.Table, version: str, options: ConvertOptions) -> str:
    """A digest of all that decides the bytes of a dataset; recordings are not read."""
    chosen = json.dumps([options.decisive(), version], ensure_ascii=False, default=str)
    digest = hashlib.sha256(chosen.encode())
    for batch in rows.to_batches():
        digest.update(batch.serialize())
    return digest.hexdigest()


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


def _finished(out: Path, key: str) -> Inventory | None:
    """The inventory, if the dataset is finished; `DatasetError` if it is another one."""
    if not (out / INVENTORY_FILE).is_file():
        return None
    inventory = read_inventory(out)
    if inventory.key != key:
        raise DatasetError(
            f"{out}: holds the finished dataset '{inventory.name}', made from {inventory.source}; "
            "its source or its options differ. Choose another --out, or convert anew after rm -r "
            f"'{out}'"
        )
    shutil.rmtree(out / WORK_DIR, ignore_errors=True)
    return inventory


def claim(out: Path, key: str) -> None:
    """Claim ``out`` for a conversion, or check that the one that was begun there has this key."""
    path, ours = out / WORK_DIR / "plan.json", json.dumps({"key": key})
    if not path.is_file():
        if present := sorted(path.name for path in out.glob("[!.]*")):
            raise DatasetError(
                f"{out}: holds {', '.join(present[:5])}, which `danish-asr convert` did not write "
                "and would be mixed with; choose another --out, a new folder"
            )
        publish_text(path, ours)
    elif path.read_text(encoding="utf-8", errors="replace") != ours:
        raise DatasetError(
            f"{out}: holds an unfinished conversion of another source or with other options "
            f"({path} differs); restore them to continue, or convert anew after rm -r '{out}'"
        )


def _run(
    plan: Plan, source: Source, out: Path, options: ConvertOptions, limit: "_Limit"
) -> list[Record]:
    """Convert the tasks that are not finished; return all records."""
    records = [record for task in plan.tasks if (record := read_record(out, task))]
    finished = {record.task for record in records}
    todo = [task for task in plan.tasks if task.number not in finished]
    work = partial(convert_task, fetch=source.fetch, root=out, options=options)
    if options.ray:
        results = run_on_ray(work, todo, address=options.ray, workers=options.workers)
    else:
        results = run_in_processes(work, todo, options.workers)
    done = sum(record.read for record in records)
    for record in watch(
        "converted",
        results,
        lambda record: (record.read, record.samples),
        len(plan.rows),
        done=done,
    ):
        records.append(record)
        if len(limit.dropped(records)) > limit.most:
            break  # more rows cannot reduce the drops
    limit.check(records)
    return sorted(records, key=lambda record: record.task)


class _Limit(NamedTuple):
    """How many rows may be dropped, and what to say if more are."""

    rows: pa.Table
    asked_for: set[str]  # reasons that an option gives
    max_drop: float
    in_tables: bool  # see `Source`

    @property
    def most(self) -> int:
        """Rows that may be dropped."""
        return int(len(self.rows) * self.max_drop + 1e-6)  # 0.29 * 100 < 29

    def dropped(self, records: Sequence[Record]) -> list[dict[str, Any]]:
        """The rows that no option asked to drop."""
        rows = chain.from_iterable(record.dropped for record in records)
        return [row for row in rows if row["reason"] not in self.asked_for]

    def check(self, records: Sequence[Record]) -> None:
        """Raise `DatasetError` if too many rows are dropped."""
        dropped, rows = self.dropped(records), len(self.rows)
        if len(dropped) <= self.most:
            return
        reasons = Counter(row["reason"] for row in dropped)
        counts = ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common())
        if self.in_tables and reasons["past the end of its audio"]:
            counts += " (are its times in milliseconds? Name the columns start_ms and end_ms)"
        read = sum(record.read for record in records)
        done, share = "", f"--max-drop {ceil(100 * len(dropped) / rows) / 100:g}"
        if read < rows:  # as many as are needed for this error
            done, share = f" of the first {read:,}", "a larger --max-drop"
        raise DatasetError(
            f"rows dropped: {len(dropped):,}{done}; --max-drop allows {self.most} of this source's "
            f"{rows:,}: {counts}. {self._examples(dropped)}. Fix the source, or go on with {share}"
        )

    def check_wholes(self, records: Sequence[Record]) -> None:
        """Raise `DatasetError` if a table or a split lost all rows: the source has a fault."""
        dropped = self.dropped(records)
        if not dropped or len(self.rows) < _BY_CHANCE:
            return
        rows = Counter(self.rows["file"].to_pylist()) if self.in_tables else Counter()
        lost = Counter(row["source"] for row in dropped)
        wholes = [
            f"{file} ({count:,} rows)"
            for file, count in rows.items()
            if lost[file] == count >= _BY_CHANCE
        ]
        paths = [shard["path"] for record in records for shard in record.shards]
        written = {path.split("split=")[1].split("/")[0] for path in paths}
        planned = {*self.rows["split"].unique().to_pylist()} - written
        wholes += [f"the split {split}" for split in SPLITS if split in planned]
        if wholes:
            raise DatasetError(
                f"nothing is left of {', '.join(wholes[:3])}. {self._examples(dropped)}. Fix the "
                "source or name its columns (--column OURS=THEIRS); --max-drop does not allow this"
            )

    def _examples(self, dropped: Sequence[Mapping[str, Any]]) -> str:
        """Where the first of these rows are, with their audio and their reasons."""
        examples = []
        for row in dropped[:3]:
            is_file = pc.equal(self.rows["file"], row["source"])
            is_row = pc.and_(is_file, pc.equal(self.rows["row"], row["row"]))
            (own,) = self.rows.filter(is_row).to_pylist()
            audio = f", {own['audio']}" if own["audio"] else ""
            examples.append(f"{place_of(own)}{audio} ({row['reason']})")
        return f"The first: {'; '.join(examples)}"


def _content(
    plan: Plan, source: Source, options: ConvertOptions, records: Sequence[Record]
) -> dict[str, Any]:
    """What `cards.complete` needs of a conversion."""
    dropped = [row for record in records for row in record.dropped]
    suspects = [row for record in records for row in record.suspects]
    ledger = pa.Table.from_pylist(dropped, LEDGER_SCHEMA)
    rates: Counter[str] = Counter()
    for record in records:
        rates.update(record.rates)
    return {
        "name": options.name,
        "source": source.name,
        "source_rows": len(plan.rows),
        "ledger": ledger,
        "suspects": pa.Table.from_pylist(suspects, SUSPECTS_SCHEMA),
        "shards": [ShardEntry(**shard) for record in records for shard in record.shards],
        "characters": set(chain.from_iterable(record.characters for record in records)),
        "summary": summary_of(source, plan.rows, ledger, rates, options.language),
    }
