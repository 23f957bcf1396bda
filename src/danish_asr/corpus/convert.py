"""Convert a corpus into a built dataset (the contract: ``data/README.md``).

A conversion can be continued after any stop: a record per finished task is in ``OUT/.convert``. The
inventory is written last, and only then is the dataset finished.
"""

import hashlib
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain, count, pairwise
from math import ceil
from pathlib import Path
from typing import Any, Final

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
from danish_asr.corpus.rows import LISTED, is_listed, place_of, read_without, refuse
from danish_asr.corpus.shard import Record, Task, convert_task, read_record
from danish_asr.corpus.shards import Inventory, ShardEntry, read_inventory
from danish_asr.corpus.sources import open_source
from danish_asr.corpus.summary import summary_of

OURS: Final = (VERSION_DIR, CARDS_DIR, LEDGER_FILE, README_FILE, STATISTICS_FILE, SUSPECTS_FILE)
_LEAST_SHARDS: Final = 16  # of a source, if they have a row group each: work for many processes


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
    corpus, root = open_source(str(source), options), Path(out)
    rows = corpus.rows
    if options.without:
        reason = f"{LISTED} {options.without.name}"
        rows = refuse(rows, is_listed(rows, read_without(options.without)), reason)
    rows = divide(rows, options)
    tasks = plan_tasks(rows, options)
    key = key_of(rows, corpus.version, options)
    with locked(root):
        if inventory := finished(root, key):
            return inventory
        claim(root, key)
        work = partial(convert_task, fetch=corpus.fetch, root=root, options=options)
        try:
            records = _run(work, tasks, root, rows, options)
        finally:
            sweep(root)
        rates: Counter[str] = Counter()
        for record in records:
            rates.update(record.rates)
        dropped = [row for record in records for row in record.dropped]
        suspects = [row for record in records for row in record.suspects]
        ledger = pa.Table.from_pylist(dropped, LEDGER_SCHEMA)
        inventory = complete(
            root,
            name=options.name,
            source=corpus.name,
            key=key,
            source_rows=len(rows),
            ledger=ledger,
            suspects=pa.Table.from_pylist(suspects, SUSPECTS_SCHEMA),
            characters={char for record in records for char in record.characters},
            shards=[ShardEntry(**shard) for record in records for shard in record.shards],
            summary=summary_of(corpus, rows, ledger, rates, options.language),
        )
        shutil.rmtree(root / WORK_DIR)
    return inventory


def plan_tasks(rows: pa.Table, options: ConvertOptions) -> list[Task]:
    """Plan a conversion: tasks of neighbouring rows, each with a shard per split that occurs.

    It is a function of the rows and the options alone. That makes a conversion resumable, and its
    bytes independent of the number of workers.
    """
    files = rows.group_by("file", use_threads=False).aggregate(
        [([], "count_all"), ("corpus", "distinct"), ("split", "distinct")]
    )
    blocks = defaultdict[tuple[Any, ...], list[pa.Table]](list)  # by their corpora and splits
    start = 0
    for file in files.to_pylist():
        splits = sorted(map(SPLITS.index, file["split_distinct"]))
        key = tuple(sorted(file["corpus_distinct"])), tuple(splits)
        blocks[key].append(rows.slice(start, file["count_all"]))
        start += file["count_all"]
    tables = [pa.concat_tables(blocks[key]) for key in sorted(blocks)]
    sizes = [_group_sizes(table) for table in tables]
    share = ceil(len(rows) / _LEAST_SHARDS)
    most = min(options.shard_rows, max(share, ROW_GROUP_SIZE, *chain.from_iterable(sizes)))
    parts = []
    for table, groups in zip(tables, sizes, strict=True):
        start = stop = 0
        for size in _cut(groups, options.shard_rows):
            if stop > start and stop - start + size > most:
                parts.append(table.slice(start, stop - start))
                start = stop
            stop += size
        parts.append(table.slice(start))
    return _tasks(parts, options.language)


def _group_sizes(rows: pa.Table) -> list[int]:
    """The sizes of the groups of files, in their order."""
    files = rows["file"].combine_chunks().dictionary_encode().indices.to_numpy()
    groups = rows["group"].to_numpy()
    is_last = np.diff(files, append=-1) | np.diff(groups, append=-1)
    sizes: list[int] = np.diff(np.flatnonzero(is_last), prepend=-1).tolist()
    return sizes


def _cut(sizes: Iterable[int], most: int) -> Iterator[int]:
    """The sizes; one above ``most`` is cut into equal parts."""
    for size in sizes:
        count = ceil(size / most)
        bounds = [size * part // count for part in range(count + 1)]
        yield from (high - low for low, high in pairwise(bounds))


def _tasks(parts: Sequence[pa.Table], language: str) -> list[Task]:
    """The tasks with the paths of their shards, which are numbered through their partition."""
    partitions = []
    for part in parts:
        pairs = part.group_by(["corpus", "split"]).aggregate([]).to_pylist()
        partitions.append(sorted((pair["corpus"], pair["split"]) for pair in pairs))
    totals = Counter(chain.from_iterable(partitions))
    numbers = {partition: count() for partition in totals}
    tasks = []
    for number, (part, own) in enumerate(zip(parts, partitions, strict=True)):
        paths = {}
        for corpus, split in own:
            of_all = f"{next(numbers[corpus, split]):05d}-of-{totals[corpus, split]:05d}"
            folder = partition_dir(Path(), corpus, split, language)
            paths[corpus, split] = (folder / f"part-{of_all}.parquet").as_posix()
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
        lease.release()


def finished(out: Path, key: str) -> Inventory | None:
    """The inventory, if the dataset is finished; `DatasetError` if it is another one."""
    if not (out / INVENTORY_FILE).is_file():
        return None
    inventory = read_inventory(out)
    if inventory.key != key:
        raise DatasetError(
            f"{out}: holds the finished dataset '{inventory.name}', made from {inventory.source}; "
            "its source, its options or this program differ. Choose another --out, or remove "
            f"'{out}'"
        )
    shutil.rmtree(out / WORK_DIR, ignore_errors=True)
    return inventory


def claim(out: Path, key: str, *, anew: bool = False) -> None:
    """Claim ``out`` for this work, or check that the one that was begun there has this key.

    Raises:
        DatasetError: It has another key, or ``out`` holds files, and is not made anew.
    """
    path, ours = out / WORK_DIR / "plan.json", json.dumps({"key": key})
    if not path.is_file():
        present = sorted(path.name for path in out.glob("[!.]*"))
        if present and not anew:
            raise DatasetError(
                f"{out}: holds {', '.join(present[:5])}, which would be mixed with the dataset; "
                "choose another --out, a new folder"
            )
        publish_text(path, ours)
    elif path.read_text(encoding="utf-8", errors="replace") != ours:
        raise DatasetError(
            f"{out}: holds an unfinished conversion of another source or with other options "
            f"({path} differs); restore them to continue, or convert anew after rm -r '{out}'"
        )


def _run(
    work: Callable[[Task], Record],
    tasks: Sequence[Task],
    out: Path,
    rows: pa.Table,
    options: ConvertOptions,
) -> list[Record]:
    """Convert the tasks that are not finished; return all records.

    It ends early, with `DatasetError`, when more rows are dropped than ``max_drop`` allows.
    """
    records = [record for task in tasks if (record := read_record(out, task))]
    done = sum(map(Record.read, records))
    finished = {record.task for record in records}
    remaining = [task for task in tasks if task.number not in finished]
    if options.ray:
        running = run_on_ray(work, remaining, address=options.ray, workers=options.workers)
    else:
        running = run_in_processes(work, remaining, options.workers)
    most = int(len(rows) * options.max_drop + 1e-6)  # 0.29 * 100 < 29
    with closing(running):
        for record in watch("converted", running, Record.read, len(rows), done=done):
            records.append(record)
            if len(_dropped(records)) > most:
                break  # more rows cannot reduce the drops
    dropped = _dropped(records)
    if len(dropped) > most:
        raise DatasetError(_too_many(dropped, most, sum(map(Record.read, records)), rows))
    return sorted(records, key=lambda record: record.task)


def _dropped(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The rows that no option asked to drop."""
    return [
        row
        for record in records
        for row in record.dropped
        if row["reason"] != SHARED_SENTENCE and not row["reason"].startswith(LISTED)
    ]


def _too_many(dropped: Sequence[Mapping[str, Any]], most: int, read: int, rows: pa.Table) -> str:
    """What to say of more than ``most`` dropped rows, with the places of the first three."""
    reasons = Counter(row["reason"] for row in dropped)
    counts = ", ".join(f"{reason}: {number}" for reason, number in reasons.most_common())
    examples = []
    for row in dropped[:3]:
        is_file = pc.equal(rows["file"], row["source"])
        (own,) = rows.filter(pc.and_(is_file, pc.equal(rows["row"], row["row"]))).to_pylist()
        audio = f", {own['audio']}" if own["audio"] else ""
        examples.append(f"{place_of(own)}{audio} ({row['reason']})")
    return (
        f"rows dropped: {len(dropped):,} of the first {read:,}; --max-drop allows {most} of this "
        f"source's {len(rows):,}: {counts}. The first: {'; '.join(examples)}. Fix the "
        "source, or go on with a larger --max-drop"
    )
