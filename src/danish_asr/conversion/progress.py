"""Tell how a conversion gets on: a live display, or a line a minute if there is no terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from danish_asr.conversion.manifest import Manifest, seconds
from danish_asr.conversion.shard import Record

_INTERVAL: Final = 60.0
"""Seconds between two plain lines."""


class ConversionProgress:
    """Counts rows, audio and drops while units finish.

    Use it as a context manager, and call `advance` for every record.
    """

    def __init__(self, total: int, console: Console | None = None) -> None:
        self._total = total
        self._console = console or Console(stderr=True)
        self.dropped = 0
        """Rows in the ledger so far."""
        self._resumed = self._rows = self._samples = 0
        self._begin = self._told = time.monotonic()
        self._display = Progress(
            TextColumn("converting"),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,} rows"),
            TextColumn("{task.fields[rates]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self._console,
        )
        self._task = self._display.add_task("", total=total, rates="")

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

    def resume(self, record: Record) -> None:
        """Count a unit that an earlier run finished; rates are those of this run."""
        self._resumed += record.rows + len(record.dropped)
        self._count(record)

    def advance(self, record: Record) -> None:
        """Count a unit that was converted."""
        self._rows += record.rows + len(record.dropped)
        self._samples += record.samples
        self._count(record)

    def _count(self, record: Record) -> None:
        self.dropped += len(record.dropped)
        self._display.update(self._task, completed=self._done, rates=self._rates())
        if not self._console.is_terminal and time.monotonic() - self._told >= _INTERVAL:
            self._print_line()

    @property
    def _done(self) -> int:
        return self._resumed + self._rows

    def _rates(self) -> str:
        elapsed = max(time.monotonic() - self._begin, 1e-3)
        hours = seconds(self._samples) / 3600
        rates = f"{self._rows / elapsed:,.0f} rows/s  {hours / elapsed:.2f} audio-hours/s"
        return f"{rates}  {self.dropped:,} dropped"

    def _print_line(self) -> None:
        self._told = time.monotonic()
        elapsed = self._told - self._begin
        left = f"{elapsed * (self._total - self._done) / self._rows:,.0f} s" if self._rows else "?"
        self._console.print(
            f"converted {self._done:,}/{self._total:,} rows  {self._rates()}  ETA {left}",
            highlight=False,
            soft_wrap=True,
        )


def print_summary(manifest: Manifest, console: Console) -> None:
    """Tell what a finished dataset holds, and what was left out why."""
    console.print(
        f"{manifest.name}: {manifest.rows:,} rows, {manifest.hours:.2f} hours; "
        f"{manifest.dropped_rows:,} of {manifest.source_rows:,} source rows are in the ledger",
        highlight=False,
        soft_wrap=True,
    )
    if manifest.dropped:
        table = Table("reason", "dialect", "rows", title="Rows in the ledger")
        for entry in manifest.dropped:
            table.add_row(entry.reason, entry.dialect or "not said", f"{entry.rows:,}")
        console.print(table)
    for dialect, rows in manifest.unmapped_dialects.items():
        console.print(
            f"unknown dialect name, kept as it is: {dialect} ({rows:,} rows)",
            highlight=False,
            soft_wrap=True,
        )
