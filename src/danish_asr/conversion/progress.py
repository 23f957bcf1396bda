"""Report the progress of a conversion: a live display, or a line per minute without a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from danish_asr.conversion.inventory import seconds
from danish_asr.conversion.shard import Record

_INTERVAL: Final = 60.0
"""Seconds between two plain lines."""


class ConversionProgress:
    """Counts rows, audio and drops while tasks finish.

    Use it as a context manager, and call `advance` for every record. ``finished`` are the records
    of earlier runs: they count as done, and the rates leave them out.
    """

    def __init__(
        self, total: int, finished: Iterable[Record] = (), *, console: Console | None = None
    ) -> None:
        self._total = total
        self._console = console or Console(stderr=True)
        self.dropped = 0
        """Rows in the ledger so far."""
        self._done = self._samples = 0
        for record in finished:
            self._count(record)
        self._resumed, self._samples = self._done, 0
        self._begin = self._printed = time.monotonic()
        self._display = Progress(
            TextColumn("converting"),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,} rows"),
            TextColumn("{task.fields[rates]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self._console,
        )
        self._task = self._display.add_task("", total=total, completed=self._done, rates="")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._display.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._display.stop()
        else:
            self._print_line()

    def advance(self, record: Record) -> None:
        """Count a task that was converted."""
        self._count(record)
        self._display.update(self._task, completed=self._done, rates=self._rates())
        if not self._console.is_terminal and time.monotonic() - self._printed >= _INTERVAL:
            self._print_line()

    def _count(self, record: Record) -> None:
        self._done += record.rows + len(record.dropped)
        self._samples += record.samples
        self.dropped += len(record.dropped)

    def _rates(self) -> str:
        elapsed = max(time.monotonic() - self._begin, 1e-3)
        rows = (self._done - self._resumed) / elapsed
        hours = seconds(self._samples) / 3600 / elapsed
        return f"{rows:,.0f} rows/s  {hours:.2f} audio-hours/s  {self.dropped:,} dropped"

    def _print_line(self) -> None:
        self._printed = time.monotonic()
        rows, elapsed = self._done - self._resumed, self._printed - self._begin
        left = f"{elapsed * (self._total - self._done) / rows:,.0f} s" if rows else "?"
        self._console.print(
            f"converted {self._done:,}/{self._total:,} rows  {self._rates()}  ETA {left}",
            highlight=False,
            soft_wrap=True,
        )
