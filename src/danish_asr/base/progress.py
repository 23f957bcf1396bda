"""Progress on standard error: a bar in a terminal, a line per minute elsewhere."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Self, TypeVar

from rich import progress as rich_progress
from rich.console import Console

Item = TypeVar("Item")

_INTERVAL: Final = 60.0  # seconds between two plain lines


def plain_console(*, stderr: bool = False) -> Console:
    """A console that prints names and texts as they are: no markup, emoji, colours or breaks."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


class Progress:
    """The progress of one long task, in any unit; ``with`` shows it, ``total`` may be unknown."""

    def __init__(
        self, text: str, total: float | None = None, *, console: Console | None = None
    ) -> None:
        self.console = console or plain_console(stderr=True)
        self._bar = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.BarColumn(),
            rich_progress.TaskProgressColumn(),
            rich_progress.TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self._task = self._bar.add_task(text, total=total)
        self._printed = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:  # elsewhere rich prints an empty line
            self._bar.stop()

    def update(
        self, done: float | None = None, *, text: str | None = None, total: float | None = None
    ) -> None:
        """Change what is shown; None leaves it as it is."""
        self._bar.update(self._task, completed=done, description=text, total=total)
        if not self.console.is_terminal and time.monotonic() - self._printed >= _INTERVAL:
            self._printed = time.monotonic()
            task = self._bar.tasks[0]
            share = f"  {task.percentage:.0f} %" if task.total else ""
            self.console.print(f"{task.description}{share}")

    def advance(self, text: str | None = None) -> None:
        """One more is done."""
        self.update(self._bar.tasks[0].completed + 1, text=text)


def track(items: Iterable[Item], text: str, total: int) -> Iterator[Item]:
    """Pass ``total`` items on and count them."""
    with Progress(text, total) as progress:
        for item in items:
            yield item
            progress.advance()


def watch(
    verb: str, results: Iterable[Item], rows_of: Callable[[Item], int], total: int, *, done: int = 0
) -> Iterator[Item]:
    """Pass results on, and show their rows as they arrive, with a last line at the end.

    ``done`` are rows of an earlier run.
    """
    begin, rows = time.monotonic(), 0
    status = f"{verb} {done:,}/{total:,} rows"
    with Progress(status, total) as progress:
        for result in results:
            rows += rows_of(result)
            rate = rows / max(time.monotonic() - begin, 1e-3)
            status = f"{verb} {done + rows:,}/{total:,} rows  {rate:,.0f} rows/s"
            progress.update(done + rows, text=status)
            yield result
    progress.console.print(status)
