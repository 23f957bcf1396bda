"""Report the progress of long work: a live display, or a line per minute without a terminal."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import Progress

from danish_asr.base.schema import SAMPLE_RATE

Result = TypeVar("Result")

_INTERVAL: Final = 60.0  # seconds between two plain lines


def watch(
    verb: str,
    results: Iterable[Result],
    measure: Callable[[Result], tuple[int, int]],
    total: int,
    *,
    done: int = 0,
) -> Iterator[Result]:
    """Pass results on, and report rows and audio on standard error as they arrive.

    ``measure`` gives rows and samples of a result. The rates leave out the ``done`` rows of an
    earlier run.
    """
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    begin = printed = time.monotonic()
    rows = samples = 0

    def status() -> str:
        elapsed = max(time.monotonic() - begin, 1e-3)
        finished = f"{verb} {done + rows:,}/{total:,} rows"
        if not rows:
            return finished
        return (
            f"{finished}  {rows / elapsed:,.0f} rows/s  "
            f"{samples / SAMPLE_RATE / 3600 / elapsed:.2f} audio-hours/s  "
            f"ETA {elapsed * (total - done - rows) / rows:,.0f} s"
        )

    with Progress(console=console, disable=not console.is_terminal) as display:
        bar = display.add_task(status(), total=total, completed=done)
        for result in results:
            more_rows, more_samples = measure(result)
            rows, samples = rows + more_rows, samples + more_samples
            display.update(bar, completed=done + rows, description=status())
            if not console.is_terminal and time.monotonic() - printed >= _INTERVAL:
                printed = time.monotonic()
                console.print(status())
            yield result
        if not console.is_terminal:
            console.print(status())
