"""Report the progress and the outcome of transcriptions on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from danish_asr.base.progress import Progress

_LISTED: Final = 10  # most skipped files that are named


class Display:
    """A bar in a terminal, else a line per minute; at the end what was done, skipped or failed.

    The remaining time is estimated from bytes, which are known before a file is decoded.

    Attributes:
        failed: A message for each file that failed.
    """

    def __init__(self) -> None:
        self.failed: list[str] = []
        self._skipped: list[Path] = []
        self._files = self._finished = 0
        self._bytes = self._done = 0
        self._audio = 0.0
        self._begin = time.monotonic()
        self._bar = Progress("")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__()
        if self._skipped:
            names = ", ".join(map(str, self._skipped[:_LISTED]))
            more = len(self._skipped) - _LISTED
            self.say(
                f"skipped, already transcribed: {names}" + (f" and {more:,} more" * (more > 0))
            )
        if self._finished:
            self.say(
                f"transcribed {counted(self._finished, 'file')}: {clock(self._audio)} of audio in "
                f"{clock(self._elapsed)}, "
                f"real-time factor {self._elapsed / max(self._audio, 1e-3):.3f}"
            )
        if self.failed:
            self.say("\n  ".join([f"failed: {len(self.failed):,}", *self.failed]))

    def say(self, message: str) -> None:
        """Print a line."""
        self._bar.console.print(message)

    def skip(self, path: Path) -> None:
        """Count a file that is finished already."""
        self._skipped.append(path)

    def start(self, sizes: Sequence[int]) -> None:
        """Begin with files of so many bytes; the clock starts."""
        self._files, self._bytes = len(sizes), max(sum(sizes), 1)
        self._begin = time.monotonic()
        self._bar.__enter__()
        self._show()

    def part_of(self, size: int) -> Callable[[float, float | None], None]:
        """Return what takes the seconds done, and those in all, of a file with so many bytes."""

        def update(seconds: float, total: float | None) -> None:
            self._show(size * min(seconds / total, 1) if total else 0, seconds)

        return update

    def finish(self, size: int, seconds: float | None) -> None:
        """Count a file of so many bytes; seconds are None if it failed."""
        self._done += size
        if seconds is not None:
            self._finished += 1
            self._audio += seconds
        self._show()

    @property
    def _elapsed(self) -> float:
        return max(time.monotonic() - self._begin, 1e-3)

    def _show(self, size: float = 0, seconds: float = 0) -> None:
        done, audio = self._done + size, self._audio + seconds
        status = f"{self._finished:,}/{self._files:,} files"
        if audio:
            status += f"  real-time factor {self._elapsed / audio:.3f}"
        self._bar.update(done, text=status, total=self._bytes)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as 1 file or 1,000 files."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def clock(seconds: float) -> str:
    """Return a duration to read, such as 7.5 s, 1:07 or 2:05:09."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
