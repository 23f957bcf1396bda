"""Write files: atomically, and by one process in a directory at a time.

Content is written under a temporary name, flushed to the disk and renamed. A process that is killed
leaves temporary files, never half a file under the final name.
"""

import hashlib
import io
import json
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, TypeAlias

from filelock import LeaseCompromise, SoftFileLease, Timeout
from ruamel.yaml import YAML

from danish_asr.base.errors import EXIT_FAILED, ConfigError, DanishAsrError, note

LOCK_FILE: Final = ".lock"

LOCK_SECONDS: Final = 60.0
"""A process on another host that has not refreshed its lock for this long has ended. It must be the
same for all processes."""

AnyPath: TypeAlias = str | os.PathLike[str]

_PROBE: Final = 4_096
"""Bytes that a folder must have room for before a work begins that writes text to it."""

_Place: TypeAlias = str | tuple[int, int]


@contextmanager
def publish(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing; it gets its name when the block ends without an error.

    What a link points to is replaced, not the link; a device or a pipe is written to.
    """
    path = path.resolve()
    if path.is_char_device() or path.is_fifo():  # /dev/null would become a file
        with path.open("wb") as device:
            yield device
        return
    # The name contains host and process: a worker that outlives its killed parent for a moment must
    # not write into the file of the process that continues the work.
    partial = path.with_name(f".{path.name}.{os.uname().nodename}-{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        raise DanishAsrError(
            f"{path.parent}: cannot be written ({error.strerror or error}); finished files are "
            "kept: fix that and run the same command again"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def publish_text(path: Path, text: str) -> None:
    """Write a text file atomically, as UTF-8."""
    with publish(path) as stream:
        stream.write(text.encode())


def publish_json(path: Path, content: object) -> None:
    """Write a file of JSON atomically, for people to read too."""
    publish_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def refuse_overwriting(
    outputs: Iterable[AnyPath], inputs: Iterable[AnyPath], *, option: str = "--out"
) -> None:
    """Refuse to write over what is read; called before any work, with all that will be written.

    A folder stands for all that is below it. Paths are compared as places: a link, or another case
    where the file system ignores it, is a second name of one place.

    Raises:
        ConfigError: Outputs are inputs, or hold inputs, or are below them; ``option`` names others.
    """
    place_of = cache(_place_of)
    sources: dict[_Place, Path] = {}
    holders: dict[_Place, Path] = {}  # folders with a source somewhere below them
    for path in map(Path, inputs):
        sources.setdefault(place_of(path), path)
        for folder in _folders_above(path):
            holders.setdefault(place_of(folder), path)
    faults = []
    for output in map(Path, outputs):
        place = place_of(output)
        above = [place_of(folder) for folder in _folders_above(output)]
        found = [sources[own] for own in (place, *above) if own in sources]
        if place in holders:
            found.append(holders[place])
        if found:
            fault = f"would overwrite {found[0]}, which is read; choose another {option}"
            faults.append(f"{output} {fault}")
    if faults:
        raise ConfigError(faults, where="the list of outputs")


def check_writable(folders: Iterable[Path], remedy: str) -> None:
    """Create folders and write a small file into each, which is deleted; called before long work.

    Raises DanishAsrError, with the ``remedy``, if one cannot be created or written, or is full.
    """
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder) as probe:
                probe.write(bytes(_PROBE))
                probe.flush()
        except OSError as error:
            raise DanishAsrError(
                f"{folder}: cannot be written ({error.strerror or error}); {remedy}"
            ) from error


def _folders_above(path: Path) -> Sequence[Path]:
    return Path(os.path.realpath(path)).parents


def _place_of(path: Path) -> _Place:
    """Return what two names of one file or folder share; of one that is not there, its path."""
    try:
        status = path.stat()
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def sweep(root: Path) -> None:
    """Remove temporary files that killed processes left below ``root``, where that is possible."""
    for partial in root.rglob(".*.partial"):
        with suppress(OSError):
            partial.unlink()


def sha256_of(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def from_yaml(text: str) -> Any:
    """Parse YAML 1.2, as fairseq2 does (``1e-05`` is a number); raises ruamel's `YAMLError`."""
    return YAML(typ="safe", pure=True).load(text)


def to_yaml(tree: dict[str, Any]) -> str:
    """Return a mapping as YAML, its keys in their order and long lines not folded."""
    yaml = YAML(pure=True)
    yaml.width = 1 << 20
    text = io.StringIO()
    yaml.dump(tree, text)
    return text.getvalue()


def take(directory: Path, *, error: type[DanishAsrError], advice: str, work: str) -> SoftFileLease:
    """Take the lock of ``directory``, which is created if it is missing; the caller releases it.

    The lock is a file that names its holder's host and process, who refreshes it. No lock of the
    operating system is used, because a parallel file system may keep it on one host. The lock of a
    killed process is taken over: at once on the same host, after :data:`LOCK_SECONDS` on another.
    ``DANISH_ASR_LOCK_MINUTES``, which a job has that starts again, is how long a process that runs
    is waited for. This process ends if another has taken over its ``work``, as after a long
    suspension.

    Raises:
        error: Another process is writing in the directory, with the ``advice``; or nothing can be
            written there.
    """

    def end_if_taken_over(lost: LeaseCompromise) -> None:
        if lost.reason == "owner-changed":
            message = f"another process continues this {work}: it has taken over {lost.lock_file}"
            print(f"error: {message}", file=sys.stderr)  # noqa: T201
            os._exit(EXIT_FAILED)

    try:
        directory.mkdir(parents=True, exist_ok=True)
        lease = SoftFileLease(
            directory / LOCK_FILE, lease_duration=LOCK_SECONDS, on_compromise=end_if_taken_over
        )
        try:
            lease.acquire(timeout=1)
        except Timeout:
            host, process = _holder(lease)
            patience = 60 * float(os.environ.get("DANISH_ASR_LOCK_MINUTES") or 0)
            if not patience and host == socket.gethostname() and not _has_ended(host, process):
                raise
            patience = max(patience, 1.2 * LOCK_SECONDS)
            holder = f"process {process} on {host} may be writing in {directory}"
            note(f"{holder}; waiting up to {patience:.0f} s")
            lease.acquire(timeout=patience)
    except Timeout:
        host, process = _holder(lease)
        raise error(f"process {process} on {host} is writing in {directory}. {advice}") from None
    except FileExistsError:
        raise error(f"{directory} is a file; name a folder") from None
    except OSError as reason:
        raise error(f"{directory} cannot be written: {reason}") from reason
    return lease


def is_written(directory: Path) -> bool:
    """Whether a process that holds the lock of a directory is alive, as far as can be seen here."""
    lock = directory / LOCK_FILE
    if not lock.exists() or time.time() - lock.stat().st_mtime > LOCK_SECONDS:
        return False
    return not _has_ended(*_holder(SoftFileLease(lock, lease_duration=LOCK_SECONDS)))


def _has_ended(host: str, process: int) -> bool:
    """Whether a process is one of this host that has ended, or that is still listed as a zombie."""
    if host != socket.gethostname():
        return False
    try:
        return ") Z " in Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return True


def _holder(lease: SoftFileLease) -> tuple[str, int]:
    """Host and process; a question mark separates the host from its container."""
    owner = lease.owner
    return (owner.hostname.partition("?")[0], owner.pid) if owner else ("an unknown host", 0)
