"""Run a module as one of a host's processes, and note the status it ends with.

``torchrun`` takes any status but 0 for a failure and kills the other processes, which may still be
saving. So a process that stopped as it was asked to ends with 0 here, and its status is read from a
file.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Final

STOPPED: Final = 75
"""The recipe's exit status for a run that is saved and not done."""

STATUS_DIR: Final = "DANISH_ASR_STATUS_DIR"
"""Names the directory that takes the statuses of a host's processes, a file for each."""


def main() -> None:
    """Run the module that the first argument names, with the others as its arguments."""
    sys.argv = sys.argv[1:]
    status: object = 0
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as exit_:
        status = exit_.code or 0
        if status != STOPPED:
            raise
    finally:
        if (error := sys.exc_info()[1]) is not None and not isinstance(error, SystemExit):
            status = 1
        file = Path(os.environ[STATUS_DIR], os.environ["LOCAL_RANK"])
        file.write_text(str(status if isinstance(status, int) else 1), encoding="utf-8")


def status_of(directory: Path) -> int | None:
    """Return what a host's processes ended with together; None if none came to its end.

    A failure of any is the failure of all, and the first one counts, because the others follow from
    it.
    """
    files = sorted(directory.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    statuses = [int(file.read_text(encoding="utf-8") or 1) for file in files]
    failures = [status for status in statuses if status not in {0, STOPPED}]
    if failures:
        return failures[0]
    return max(statuses, default=None)


if __name__ == "__main__":
    main()
