"""Files of a corpus: the endings of recordings, their versions, and walking a folder."""

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Final

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.schema import INVENTORY_FILE, VERSION_DIR, WORK_DIR

AUDIO_SUFFIXES: Final = (
    *(".wav", ".flac", ".mp3", ".ogg", ".opus", ".aif", ".aiff", ".m4a", ".mp4", ".aac", ".webm"),
    *(".wma", ".oga", ".aifc", ".au", ".caf", ".w64", ".m4b", ".mov", ".mkv", ".mka", ".3gp"),
    *(".amr", ".avi"),
)
"""Endings of recordings, in lower case."""


def is_audio(name: str) -> bool:
    """Whether a file is a recording by its ending."""
    return name.lower().endswith(AUDIO_SUFFIXES)


def version_of(path: Path) -> str | None:
    """Size and time of change of a file, by which one that was replaced is told; else None."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return f"{status.st_size} {status.st_mtime_ns}" if S_ISREG(status.st_mode) else None


def walk(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield each folder below one and the names of its files, sorted; hidden ones are left out.

    No folder is walked twice: a link may lead to one above it. Datasets of this program are left
    out: what was converted is no source.

    Raises DanishAsrError for a folder that cannot be read.
    """
    walked = set[Path]()
    for parent, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        own = Path(parent).resolve()
        if own in walked or is_ours(own):
            folders.clear()  # not walked then
            continue
        walked.add(own)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield Path(parent), sorted(name for name in names if not name.startswith("."))


def _refuse(error: OSError) -> None:
    raise DanishAsrError(f"{error.filename}: cannot be read ({error.strerror})") from error


def is_ours(folder: Path) -> bool:
    """Whether a folder holds a dataset of ``danish-asr convert``, perhaps unfinished."""
    finished = (folder / INVENTORY_FILE).is_file() and (folder / VERSION_DIR).is_dir()
    return finished or (folder / WORK_DIR).is_dir()
