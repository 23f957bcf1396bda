"""Publish files atomically: a file is there as a whole, or it is not there.

What is written goes to a temporary name first, is flushed to the disk and renamed. A process that
is killed leaves temporary files, never half a file under its own name.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from danish_asr.errors import DanishAsrError

PARTIAL_SUFFIX: Final = ".partial"

_MENDS: Final = dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room") | (
    dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "get the right to write there")
)
"""What mends the errors of the system that have a mend of their own."""

_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
"""What file systems say that have no hard links."""


@contextmanager
def publish(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that gets its name when the block ends without an error.

    The temporary name carries machine and process, so that a process which outlives its killed
    parent for a moment cannot write into the file of the one that continues the work.

    Raises:
        DanishAsrError: The file cannot be written: the disk is full, say.
    """
    with _partial(path) as partial:
        with partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
        _sync_directory(path.parent)


def publish_first(path: Path, text: str) -> None:
    """Write a text file atomically, unless it is there: of many processes, the first one wins.

    Raises:
        DanishAsrError: The file cannot be written.
    """
    with _partial(path) as partial:
        publish_text(partial, text)
        try:
            path.hardlink_to(partial)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # The last one wins then, among those that begin at the same moment.
            if not path.exists():
                partial.replace(path)


@contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """A temporary name for a file, which is free again when the block has ended."""
    mark = f"{os.uname().nodename}-{os.getpid()}"
    partial = path.with_name(f".{path.name}.{mark}{PARTIAL_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
    except OSError as error:
        raise DanishAsrError(
            f"{path.parent}: cannot be written ({error.strerror or error}); what is finished is "
            f"kept, so {_MENDS.get(error.errno or 0, 'mend that')} and run the same command again"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def publish_text(path: Path, text: str) -> None:
    """Write a text file atomically, as UTF-8."""
    with publish(path) as stream:
        stream.write(text.encode())


def sweep(root: Path) -> None:
    """Remove temporary files that killed processes left below ``root``."""
    for partial in root.rglob(f".*{PARTIAL_SUFFIX}"):
        partial.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
