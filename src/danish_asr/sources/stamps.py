"""Tell whether local files are still those that were read, by size and times of change."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from danish_asr.errors import SourceError

_MEND: Final = "restore it, and run the same command again to continue"


class Stamp(NamedTuple):
    """The state of a file.

    Attributes:
        size: Bytes.
        written: When its content was last written, in nanoseconds; a copy may carry it on.
        touched: When anything about the file was last changed, its place and its rights included.
    """

    size: int
    written: int
    touched: int


def stamp(path: Path) -> Stamp | None:
    """The state of a local file; None if there is none that can be looked at."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: no file can be called so
        return None
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def check_stamp(path: Path, expected: Stamp | None) -> None:
    """Raise `SourceError` if a file has come, is gone or was written since it had a stamp.

    Other touches are left alone here: a backup that links files would stop a long conversion.
    """
    found = stamp(path)
    if found is None and expected is not None:
        raise SourceError(f"{path}: was there when the conversion began, and is gone; {_MEND}")
    if found and (expected is None or found[:2] != expected[:2]):
        raise SourceError(f"{path}: has changed since the conversion began; {_MEND}")


def touched_since(path: Path, moment: int) -> bool:
    """Whether a file was changed, replaced, taken away or moved at or after a moment.

    The moment is in nanoseconds, as files have it. What is not there is told by the folder that it
    would be in.
    """
    for place in (path, *path.parents):
        if (found := stamp(place)) is not None:
            return max(found.written, found.touched) >= moment
    return True
