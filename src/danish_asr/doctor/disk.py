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

RESERVED: Final = "reserved"
UNKNOWN: Final = "unknown"
_REFUSALS: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

CACHES: Final = {
    "HF_HOME": ("HF_HUB_CACHE", "huggingface"),
    "FAIRSEQ2_CACHE_DIR": (None, "fairseq2"),
}
"""Variables that place what is downloaded; one that places all of it before them, and the name of
the directory below ``$XDG_CACHE_HOME`` or ``~/.cache`` without any."""


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
    elif (answer := reserve(folder, needed)) == RESERVED:
        yield ok("room", found)
    elif answer == UNKNOWN:
        yield ok("room", f"{found}; a quota cannot be asked for there, only your site knows it")
    else:
        yield error("quota", f"{needed / GIB:.2f} GiB cannot be reserved: {answer}", mend)


def check_caches(
    environment: Mapping[str, str] = os.environ,
    home: Path | None = None,
    home_size: tuple[int, int] | None = None,
) -> Iterator[Finding]:
    """Caches stand on scratch, if home is small.

    Args:
        environment: Has the variables that place them.
        home: The home directory; None: the user's.
        home_size: Bytes in all and free in home; None: as the system says. Where LSF is installed,
            a home is small whatever the system says, because a quota makes it so.
    """
    home = _existing(home or Path(environment.get("HOME") or Path.home()))
    usage = shutil.disk_usage(home)
    total, free = home_size or (usage.total, usage.free)
    on_cluster = bool(environment.get("LSF_ENVDIR") or shutil.which("bsub"))
    small = total < SMALL_HOME or on_cluster
    for name, place in _caches(environment, home):
        if not (small and place.expanduser().resolve().is_relative_to(home)):
            yield ok(f"cache {name}", str(place))
            continue
        refused = reserve(home, LOW_HOME) not in {RESERVED, UNKNOWN}
        size = "where a quota is usual" if on_cluster else f"of {total / GIB:.0f} GiB"
        found = f"{place} is in a home {size}"
        found += f", with {free / GIB:.0f} GiB free" if not on_cluster else ""
        found += f", and {LOW_HOME / GIB:.0f} GiB more are refused" if refused else ""
        mend = f"export {name} on scratch; lsf/*.sh do (ASR_CACHE)"
        yield (error if refused or free < LOW_HOME else warning)(f"cache {name}", found, mend)


def _caches(environment: Mapping[str, str], home: Path) -> Iterator[tuple[str, Path]]:
    fallback = environment.get("XDG_CACHE_HOME") or home / ".cache"
    for name, (before, folder) in CACHES.items():
        given = (before and environment.get(before)) or environment.get(name)
        yield name, Path(given) if given else Path(fallback, folder)
    yield "TMPDIR", Path(environment.get("TMPDIR") or "/tmp")  # noqa: S108 - what Python takes


def reserve(folder: Path, needed: int) -> str:
    """Reserve space for a moment, as a quota shows itself only then.

    Returns:
        `RESERVED`, `UNKNOWN` where the file system cannot reserve, or why it refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            # Not os.posix_fallocate, which writes every block where nothing can be reserved.
            length = ctypes.c_int64(max(1, needed))
            if libc.fallocate(file.fileno(), 0, ctypes.c_int64(0), length) == 0:
                return RESERVED
            number = ctypes.get_errno()
    except OSError as problem:
        number = problem.errno or 0
    return os.strerror(number) if number in _REFUSALS else UNKNOWN


def _existing(path: Path) -> Path:
    path = path.expanduser().resolve()
    return next(folder for folder in [path, *path.parents] if folder.is_dir())
