"""Tell what is a file before it is opened: a named pipe blocks its reader, a device has no end."""

from __future__ import annotations

import errno
import stat
from pathlib import Path


def regular_file(path: Path) -> Path:
    """Return the path of a regular file, or of a link to one, as it was given.

    Raises:
        OSError: Nothing is there, or something else, such as a directory.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return path
