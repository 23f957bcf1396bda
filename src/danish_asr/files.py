"""Publish files atomically: a file is there as a whole, or it is not there.

What is written goes to a temporary name first, is flushed to the disk and renamed. A process that
is killed leaves temporary files, never half a file under its own name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from danish_asr.errors import DanishAsrError

PARTIAL_SUFFIX: Final = ".partial"


@contextmanager
def publish(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that gets its name when the block ends without an error.

    The temporary name carries the process id, so that a process which outlives its killed parent
    for a moment cannot write into the file of the one that continues the work.

    Raises:
        DanishAsrError: The file cannot be written: the disk is full, say.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        _discard(partial)
        raise DanishAsrError(
            f"{path.parent}: cannot be written ({error.strerror or error}); what is finished is "
            "kept, so make room and run the same command again"
        ) from error
    except BaseException:
        _discard(partial)
        raise


def publish_text(path: Path, text: str) -> None:
    """Write a text file atomically, as UTF-8."""
    with publish(path) as stream:
        stream.write(text.encode())


def sweep(root: Path) -> None:
    """Remove temporary files that killed processes left below ``root``."""
    for partial in root.rglob(f".*{PARTIAL_SUFFIX}"):
        partial.unlink(missing_ok=True)


def _discard(partial: Path) -> None:
    with suppress(OSError):
        partial.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
