"""Room for the run's checkpoints, and caches that do not fill a small home."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from danish_asr.doctor.finding import Finding, error, ok, warning

GIB: Final = 2**30
SMALL_HOME: Final = 100 * GIB
LOW_HOME: Final = 5 * GIB
"""The 300M model, its tokenizer and some temporary files."""

CACHES: Final = {
    "HF_HOME": ".cache/huggingface",
    "FAIRSEQ2_CACHE_DIR": ".cache/fairseq2",
    "TMPDIR": "",
}
"""Variables that place what is downloaded or temporary, and where it goes in home without them."""


def check_room(run: Path, needed: int) -> Iterator[Finding]:
    """The file system of a run's directory has room for its checkpoints, and so has the quota.

    Free space is the file system's; a quota shows only when space is reserved. So the space is
    reserved for a moment, where the file system can do that.

    Args:
        run: The run's directory; it need not exist.
        needed: Bytes.
    """
    folder = _existing(run)
    free = shutil.disk_usage(folder).free
    found = f"{needed / GIB:.2f} GiB needed for checkpoints, {free / GIB:.1f} GiB free in {folder}"
    mend = (
        "delete what is old, ask for quota, put the run elsewhere (ASR_RUN), or keep fewer "
        "checkpoints: regime.keep_last_n_checkpoints=1"
    )
    if not os.access(folder, os.W_OK):
        yield error("room", f"{folder} cannot be written to", "choose another OUTDIR (ASR_RUN)")
    elif free < needed:
        yield error("room", found, mend)
    elif (reason := refusal(folder, needed)) is not None:
        yield error("quota", f"{needed / GIB:.2f} GiB cannot be reserved: {reason}", mend)
    else:
        yield ok("room", found)


def check_caches(
    environment: Mapping[str, str] = os.environ,
    home: Path | None = None,
    home_size: tuple[int, int] | None = None,
) -> Iterator[Finding]:
    """Caches stand on scratch, if home is small.

    Args:
        environment: Has the variables that place them.
        home: The home directory; None: the user's.
        home_size: Bytes in all and free in home; None: as the system says, or 30 GB in all (a
            usual quota) where LSF is installed.
    """
    home = (home or Path.home()).resolve()
    usage = shutil.disk_usage(home)
    on_cluster = bool(environment.get("LSF_ENVDIR") or shutil.which("bsub"))
    total, free = home_size or (30 * GIB if on_cluster else usage.total, usage.free)
    for name, default in CACHES.items():
        place = Path(environment.get(name) or (home / default if default else "/tmp"))  # noqa: S108
        at_home = place.expanduser().resolve().is_relative_to(home)
        if at_home and total < SMALL_HOME:
            found = f"{place} is in a home of {total / GIB:.0f} GiB with {free / GIB:.0f} GiB free"
            mend = f"export {name} on scratch; lsf/*.sh do (ASR_CACHE)"
            yield (error if free < LOW_HOME else warning)(f"cache {name}", found, mend)
        else:
            yield ok(f"cache {name}", str(place))


def refusal(folder: Path, needed: int) -> str | None:
    """Return why so much space cannot be reserved; None if it can, or if nobody can tell."""
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        # Not os.posix_fallocate, which writes every block where the file system cannot reserve.
        length = ctypes.c_int64(max(1, needed))
        if libc.fallocate(file.fileno(), 0, ctypes.c_int64(0), length) == 0:
            return None
        number = ctypes.get_errno()
    return os.strerror(number) if number in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} else None


def _existing(path: Path) -> Path:
    path = path.expanduser().resolve()
    return next(folder for folder in [path, *path.parents] if folder.is_dir())
