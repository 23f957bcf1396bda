"""Tell how a conversion gets on: a live display, or a line a minute if not a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from typing_extensions import Self

from danish_asr.schema import SAMPLE_RATE
from danish_asr.shard import Record

_SECONDS_PER_HOUR: Final = 3600
_INTERVAL: Final = 60.0
"""Seconds between two plain lines."""


class ConversionProgress:
    """Counts rows, audio and drops while units finish.

    Use it as a context manager, and call `advance` for every record.
    """

    def __init__(self, total: int, console: Console | None = None) -> None:
        self._total = total
        self._console = console or Console(stderr=True)
        self._rows = self._samples = self._dropped = 0
        self._begin = self._told = time.monotonic()
        self._display = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,} rows"),
            TextColumn("{task.fields[rates]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._display.add_task("converting", total=total, rates="")

    def __enter__(self) -> Self:
        self._display.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._display.stop()
        if not self._console.is_terminal:
            self._print_line()

    def advance(self, record: Record) -> None:
        """Count a finished unit."""
        self._rows += record.rows + len(record.dropped)
        self._samples += record.samples
        self._dropped += len(record.dropped)
        self._display.update(self._task, completed=self._rows, rates=self._rates())
        if not self._console.is_terminal and time.monotonic() - self._told >= _INTERVAL:
            self._print_line()

    def _rates(self) -> str:
        elapsed = max(time.monotonic() - self._begin, 1e-3)
        hours = self._samples / SAMPLE_RATE / _SECONDS_PER_HOUR
        rates = f"{self._rows / elapsed:,.0f} rows/s  {hours / elapsed:.2f} audio-hours/s"
        return f"{rates}  {self._dropped:,} dropped"

    def _print_line(self) -> None:
        self._told = time.monotonic()
        elapsed = self._told - self._begin
        left = elapsed * (self._total - self._rows) / self._rows if self._rows else 0.0
        self._console.print(
            f"converted {self._rows:,}/{self._total:,} rows  {self._rates()}  {left:,.0f} s left",
            highlight=False,
        )
