"""Convert a corpus into a built dataset (the contract: ``data/README.md``).

A conversion can be continued after any stop: a record per finished task is in ``OUT/.convert``. The
inventory is written last, and only then is the dataset finished.
"""

import hashlib
import json
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import chain, pairwise
from math import ceil
from pathlib import Path
from shlex import join, quote
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.base.errors import DatasetError, SourceError
from danish_asr.base.files import AnyPath, publish_text, sweep, take
from danish_asr.base.progress import watch
from danish_asr.base.schema import (
    INVENTORY_FILE,
    LEDGER_SCHEMA,
    ROW_GROUP_SIZE,
    SPLITS,
    SUSPECTS_SCHEMA,
    WORK_DIR,
    partition_dir,
)
from danish_asr.base.workers import run_in_processes, run_on_ray
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.cards import complete
from danish_asr.corpus.division import SHARED_SENTENCE, divide
from danish_asr.corpus.inventory import KEY_FILE, Inventory, ListedShard, read_inventory
from danish_asr.corpus.people import CORAL
from danish_asr.corpus.rows import (
    LISTED,
    Source,
    is_listed,
    names_of_no_row,
    place_of,
    read_without,
    refuse,
)
from danish_asr.corpus.sources import NamedSource, open_source
from danish_asr.corpus.sources.timed_files import NO_SPEECH
from danish_asr.corpus.summary import left_out, summary_of
from danish_asr.corpus.task import Record, Task, convert_task, read_record, record_path

_LEAST_SHARDS: Final = 16  # of a source, if they have a row group each: work for many processes


def convert(source: AnyPath | NamedSource, out: AnyPath, options: ConvertOptions) -> Inventory:
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
    corpus, root = open_source(source, options), Path(out)
    rows, without = corpus.rows, list[str]()
    if options.without:
        listed = read_without(options.without)
        without = names_of_no_row(rows, listed, options.without)
        rows = refuse(rows, is_listed(rows, listed), f"{LISTED} {options.without.name}")
    rows = divide(rows, options)
    tasks = plan_tasks(rows, options)
    key = key_of(rows, options)
    begun = key_of(rows.drop_columns(["recording", "version"]), options)
    with claimed(root, key, begun=begun) as inventory:
        if inventory:  # of a list that may have had other names of no row
            return replace(inventory, summary=[*dict.fromkeys([*inventory.summary, *without])])
        work = partial(convert_task, fetch=corpus.fetch, root=root, options=options)
        records = _run(work, tasks, root, rows, options)
        _check_unchanged(corpus, rows)
        rates = sum((Counter(record.rates) for record in records), Counter[str]())
        dropped = [row for record in records for row in record.dropped]
        suspects = [row for record in records for row in record.suspects]
        ledger = pa.Table.from_pylist(dropped, LEDGER_SCHEMA)
        return complete(
            root,
            name=options.name,
            source=corpus.name,
            key=key,
            source_rows=len(rows),
            ledger=ledger,
            suspects=pa.Table.from_pylist(suspects, SUSPECTS_SCHEMA),
            characters={char for record in records for char in record.characters},
            shards=[ListedShard(**shard) for record in records for shard in record.shards],
            summary=[
                *summary_of(corpus, rows, ledger, rates, options.language),
                *left_out(suspects),
                *without,
            ],
            share_people=[_corpora_of(rows)],
        )


def _corpora_of(rows: pa.Table) -> list[str]:
    """The corpora of the rows, of which a speaker's id means the same person in each."""
    corpora = {*rows["corpus"].unique().to_pylist()}
    if not corpora.isdisjoint(CORAL):
        corpora.update(CORAL)
    return sorted(corpora)


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
    groups = rows.group_by(["file", "group"], use_threads=False).aggregate([([], "count_all")])
    return list(groups["count_all"].to_pylist())


def _cut(sizes: Iterable[int], most: int) -> Iterator[int]:
    """The sizes; one above ``most`` is cut into equal parts."""
    for size in sizes:
        count = ceil(size / most)
        bounds = [size * part // count for part in range(count + 1)]
        yield from (high - low for low, high in pairwise(bounds))


def _tasks(parts: Sequence[pa.Table], language: str) -> list[Task]:
    """The tasks with the paths of their shards, which are numbered through their partition."""
    grouped = [part.group_by(["corpus", "split"]).aggregate([]) for part in parts]
    partitions = [sorted(zip(*group.to_pydict().values(), strict=True)) for group in grouped]
    totals, numbers = Counter(chain.from_iterable(partitions)), Counter[tuple[str, str]]()
    tasks: list[Task] = []
    for part, own in zip(parts, partitions, strict=True):
        paths = {}
        for corpus, split in own:
            number, total = numbers[corpus, split], totals[corpus, split]
            folder = partition_dir(Path(), corpus, split, language)
            paths[corpus, split] = (folder / f"part-{number:05d}-of-{total:05d}.parquet").as_posix()
        numbers.update(own)
        tasks.append(Task(len(tasks), part, paths))
    return tasks


def _check_unchanged(source: Source, rows: pa.Table) -> None:
    """Raise `SourceError` if recordings have changed since the rows were read."""
    now, before = (pc.fill_null(own, "") for own in (source.versions(rows), rows["version"]))
    changed = rows.filter(pc.not_equal(now, before))
    if len(changed):
        (first,) = changed.slice(0, 1).to_pylist()
        raise SourceError(
            f"{first['audio'] or first['file']}: changed while it was converted (such rows: "
            f"{len(changed):,}). Run the same command again: it reads these rows anew"
        )


def key_of(rows: pa.Table, options: ConvertOptions) -> str:
    """A digest of all that decides the bytes of a dataset; of recordings it has the versions."""
    others = ("max_drop", "workers", "ray", "without")
    decisive = {name: value for name, value in asdict(options).items() if name not in others}
    chosen = json.dumps(decisive, ensure_ascii=False, default=str)
    digest = hashlib.sha256(chosen.encode())
    for batch in rows.to_batches():
        digest.update(batch.serialize())
    return digest.hexdigest()


@contextmanager
def claimed(out: Path, key: str, *, begun: str = "") -> Iterator[Inventory | None]:
    """Hold a directory for the work with this key; gives the inventory of one that is finished.

    ``begun`` is its key while it is unfinished, which other recordings of the same names do not
    change: their tasks are done again.

    Raises:
        DatasetError: Another process holds it, or it has something else.
    """
    advice = "Wait for its end, and run the same command again; or name another --out."
    lease = take(out, error=DatasetError, advice=advice, work="conversion")
    try:
        inventory = read_inventory(out) if (out / INVENTORY_FILE).is_file() else None
        begun = begun or key
        if other := _other_content(out, key, begun, inventory):
            raise DatasetError(f"{out}: holds {other}; choose another --out, a new folder")
        program, *arguments = Path(sys.argv[0]).name, *sys.argv[1:]
        command = join([program, *arguments]) if program == "danish-asr" else ""
        publish_text(out / KEY_FILE, f"{begun}\n{command}")
        try:
            yield inventory
        finally:
            sweep(out)
        shutil.rmtree(out / WORK_DIR)
    finally:
        lease.release()


def _other_content(out: Path, key: str, begun: str, inventory: Inventory | None) -> str:
    """What a directory holds that is not of the work with these keys; empty if it is nothing."""
    anew = f" (rm -r {quote(str(out))} removes it)"
    if inventory:
        other = (
            f"the finished dataset '{inventory.name}' of other rows, of recordings that have "
            "changed since, or with other options"
        )
        return "" if inventory.key == key else f"{other} ({inventory.source}){anew}"
    if (out / KEY_FILE).is_file():
        key_file = (out / KEY_FILE).read_text(encoding="utf-8", errors="replace")
        is_ours = key_file.partition("\n")[0] == begun
        other = "an unfinished conversion of other rows or with other options"
        return "" if is_ours else other + anew
    return ", ".join(sorted(path.name for path in out.glob("[!.]*"))[:5])


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
    done = sum(map(Record.rows_read, records))
    finished = {record.task for record in records}
    remaining = [task for task in tasks if task.number not in finished]
    if options.ray:
        running = run_on_ray(work, remaining, address=options.ray, workers=options.workers)
    else:
        running = run_in_processes(work, remaining, options.workers)
    most = int(len(rows) * options.max_drop + 1e-6)  # 0.29 * 100 < 29
    dropped = [row for record in records for row in _unasked(record)]
    with closing(running):
        for record in watch("converted", running, Record.rows_read, len(rows), done=done):
            records.append(record)
            dropped += _unasked(record)
            if len(dropped) > most:
                break  # more rows cannot reduce the drops
    if len(dropped) > most:
        for record in filter(_unasked, records):  # what is fixed then is read again
            record_path(out, record.task).unlink(missing_ok=True)
        raise DatasetError(_too_many(dropped, most, sum(map(Record.rows_read, records)), rows))
    return sorted(records, key=lambda record: record.task)


def _unasked(record: Record) -> list[dict[str, Any]]:
    """The rows that no option asked to drop, and that somebody may have meant as speech."""
    asked = (SHARED_SENTENCE, LISTED, *NO_SPEECH)
    return [row for row in record.dropped if not row["reason"].startswith(asked)]


def _too_many(dropped: Sequence[Mapping[str, Any]], most: int, read: int, rows: pa.Table) -> str:
    """What to say of more than ``most`` dropped rows, with one of each reason."""
    one_of = {row["reason"]: row for row in reversed(dropped)}
    counts = []
    for reason, count in Counter(row["reason"] for row in dropped).most_common():
        row = one_of[reason]
        is_it = (pc.field("file") == row["source"]) & (pc.field("row") == row["row"])
        (own,) = rows.filter(is_it).to_pylist()
        audio = f", {own['audio']}" if own["audio"] else ""
        counts.append(f"{reason}: {count:,}, such as {place_of(own)}{audio}")
    return (
        f"rows dropped: {len(dropped):,} of the first {read:,}; --max-drop allows {most} of this "
        f"source's {len(rows):,}. {'; '.join(counts)}. Fix the source, or go on with a larger "
        "--max-drop"
    )
