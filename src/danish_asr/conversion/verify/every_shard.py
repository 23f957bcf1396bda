"""Check every shard of a dataset, in several processes, and tell how that gets on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import Progress

from danish_asr.conversion.inventory import Inventory, ShardEntry
from danish_asr.conversion.verify.damage import DAMAGE
from danish_asr.conversion.verify.shard import ShardFindings, check_shard
from danish_asr.regular_file import regular_file
from danish_asr.schema import VERSION_DIR
from danish_asr.workers import run_in_processes

_INTERVAL: Final = 60.0
"""Seconds between two plain lines."""


def check_shards(
    root: Path, manifest: Inventory | None, sample: int | None, workers: int
) -> list[ShardFindings]:
    """Check the shards that the manifest names; those that are there, if there is no manifest.

    Args:
        root: The dataset.
        manifest: Its manifest.
        sample: Rows to decode, spread evenly over all; None for all rows.
        workers: Processes to share the work.

    Returns:
        What was found, in the order of the paths.
    """
    if manifest is None:
        places = (root / VERSION_DIR).rglob("*.parquet")
        paths = [place.relative_to(root).as_posix() for place in places]
        shards: list[ShardEntry | str] = [*paths]
        rows = [_rows_on_disk(root / path) for path in paths]
    else:
        entries = {shard.path: shard for shard in manifest.shards}.values()
        shards, rows = [*entries], [entry.rows for entry in entries]
    checks = [
        partial(check_shard, root, shard, decoded)
        for shard, decoded in zip(shards, spread(rows, sample), strict=True)
    ]
    workers = min(workers, len(checks))
    results = run_in_processes(_call, checks, workers) if workers > 1 else map(_call, checks)
    return sorted(watch(results, len(checks)), key=lambda found: found.path)


def spread(rows: Sequence[int], sample: int | None) -> list[int]:
    """How many rows of each shard make up a sample that is spread evenly over all their rows."""
    total = max(1, sum(rows))
    share = total if sample is None else min(sample, total)
    ends = (end * share // total for end in accumulate(rows, initial=0))
    return [end - begin for begin, end in pairwise(ends)]


def watch(
    results: Iterable[ShardFindings],
    total: int,
    *,
    console: Console | None = None,
    interval: float = _INTERVAL,
) -> Iterator[ShardFindings]:
    """Pass on what comes, with a live display, or a line a minute if there is no terminal."""
    console = console or Console(stderr=True)
    begin = told = time.monotonic()
    # A display that is only disabled leaves an empty line in a log.
    with Progress(console=console) if console.is_terminal else nullcontext() as display:
        task = display.add_task("verifying", total=total) if display else None
        for done, found in enumerate(results, start=1):
            now = time.monotonic()
            if display and task is not None:
                display.advance(task)
            elif now - told >= interval:
                told = now
                left = (now - begin) * (total - done) / done
                line = f"verified {done:,}/{total:,} shards  ETA {left:,.0f} s"
                console.print(line, highlight=False, soft_wrap=True)
            yield found


def _call(check: partial[ShardFindings]) -> ShardFindings:
    return check()


def _rows_on_disk(path: Path) -> int:
    try:
        rows: int = pq.read_metadata(regular_file(path)).num_rows
    except DAMAGE:
        return 0
    return rows
