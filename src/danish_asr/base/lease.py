"""One process writes in a directory at a time, on whichever host it runs."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from filelock import LeaseCompromise, SoftFileLease, Timeout

from danish_asr.base.errors import EXIT_FAILED, DanishAsrError

LOCK_FILE: Final = ".lock"

SECONDS: Final = 60.0
"""A process on another host that has not refreshed its lock for this long has ended. It must be the
same for all processes."""


def take(directory: Path, *, error: type[DanishAsrError], advice: str, work: str) -> SoftFileLease:
    """Take the lock of ``directory``, which is created if it is missing; the caller releases it.

    The lock is a file that names its holder's host and process, who refreshes it. No lock of the
    operating system is used, because a parallel file system may keep it on one host. The lock of a
    killed process is taken over: at once on the same host, after :data:`SECONDS` on another or if
    its parent has not read its status. This process ends if another has taken over its ``work``.

    Raises:
        error: Another process is writing in the directory, with the ``advice``; or nothing can be
            written there.
    """

    def end_if_taken_over(lost: LeaseCompromise) -> None:
        """End a process that was suspended for so long that another one continues its work."""
        if lost.reason == "owner-changed":
            message = f"another process continues this {work}: it has taken over {lost.lock_file}"
            print(f"error: {message}", file=sys.stderr)  # noqa: T201
            os._exit(EXIT_FAILED)

    try:
        directory.mkdir(parents=True, exist_ok=True)
        lease = SoftFileLease(
            directory / LOCK_FILE, lease_duration=SECONDS, on_compromise=end_if_taken_over
        )
        try:
            lease.acquire(timeout=1)
        except Timeout:
            if _runs_here(lease):
                raise
            note = f"{_holder(lease)}; waiting {SECONDS:.0f} s for a sign that it runs"
            print(f"note: {note}", file=sys.stderr)  # noqa: T201
            lease.acquire(timeout=1.2 * SECONDS)
    except Timeout:
        raise error(f"{_holder(lease)}. {advice}") from None
    except OSError as reason:
        raise error(f"{directory} cannot be written: {reason}") from reason
    return lease


def _holder(lease: SoftFileLease) -> str:
    owner, directory = lease.owner, Path(lease.lock_file).parent
    if owner is None:
        return f"another process is writing in {directory}"
    # Behind a question mark stands the container.
    return f"process {owner.pid} on {owner.hostname.partition('?')[0]} is writing in {directory}"


def _runs_here(lease: SoftFileLease) -> bool:
    """Whether the holder was found among this host's processes, and has not ended.

    A process that ended stays visible, as a zombie, until its parent has read its status; in a
    container without an init process that is never.
    """
    with TemporaryDirectory() as folder, SoftFileLease(Path(folder, LOCK_FILE)) as own:
        holder, here = lease.owner, own.owner
        if holder is None or here is None or holder.hostname != here.hostname:
            return False
    with suppress(OSError):
        return Path(f"/proc/{holder.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True
