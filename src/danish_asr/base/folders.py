"""Files of a corpus: endings of recordings, versions, and the listing of a folder."""

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from shlex import quote
from stat import S_ISREG
from typing import Final
from unicodedata import normalize

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.schema import INVENTORY_FILE, VERSION_DIR, WORK_DIR
from danish_asr.base.tables import code_page_hint, is_utf8, printable

AUDIO_SUFFIXES: Final = (
    *(".wav", ".flac", ".mp3", ".ogg", ".opus", ".aif", ".aiff", ".m4a", ".mp4", ".aac", ".webm"),
    *(".wma", ".oga", ".aifc", ".au", ".caf", ".w64", ".m4b", ".mov", ".mkv", ".mka", ".3gp"),
    *(".amr", ".avi"),
)
"""Endings of recordings, in lower case."""

_VIDEO: Final = (".mp4", ".webm", ".mov", ".mkv", ".3gp", ".avi")


def is_video(path: Path) -> bool:
    """Whether a recording is a video by its ending."""
    return path.suffix.lower() in _VIDEO


def is_audio(name: str) -> bool:
    """Whether a file is a recording by its ending."""
    return name.lower().endswith(AUDIO_SUFFIXES)


def name_key(name: str) -> str:
    """What is compared of two names."""
    return normalize("NFC", name).lower()


class Listing:
    """The files below a folder; it is walked once, when one of them is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.prefix = f"{self.root}/"  # of paths below it

    @cached_property
    def by_suffix(self) -> dict[str, list[Path]]:
        """The files by ending, in lower case, in the order of the walk."""
        files: dict[str, list[Path]] = {}
        if self.root.is_dir():  # the location of a source of one's own may be anything
            for parent, names in walk(self.root):
                for path in map(parent.joinpath, names):
                    files.setdefault(path.suffix.lower(), []).append(path)
        return files

    def of(self, *suffixes: str) -> list[Path]:
        """The files of some endings. Raises DanishAsrError for a name that is not UTF-8."""
        paths = [path for suffix in suffixes for path in self.by_suffix.get(suffix, ())]
        for path in paths:
            check_name(path, self.root.parent)
        return paths

    @cached_property
    def recordings(self) -> dict[str, dict[Path, list[Path]]]:
        """The recordings by the key of their stem, then by folder; of one name WAV first."""
        by_stem: dict[str, dict[Path, list[Path]]] = {}
        for path in self.of(*AUDIO_SUFFIXES):
            places = by_stem.setdefault(name_key(path.stem), {})
            places.setdefault(path.parent, []).append(path)
        return by_stem


def check_name(path: Path, root: Path = Path()) -> None:
    """Raise DanishAsrError for a path that is not UTF-8, of which ``root`` does not matter."""
    below = path if is_utf8(str(path)) else Path(os.path.relpath(path, root))
    if is_utf8(str(below)):
        return
    wrong = next(own for own in (*reversed(below.parents), below) if not is_utf8(str(own)))
    quoted = "".join(_in_bash(byte) for byte in os.fsencode(root / wrong))

    def command(page: str) -> str:
        name = os.fsencode(wrong.name).decode(page, errors="replace")
        renamed = printable(quote(str(root / wrong.with_name(name))))
        return f"mv $'{quoted}' {renamed} (`convmv -r -f {page}` renames many)"

    hint = code_page_hint(os.fsencode(below), command=command)
    raise DanishAsrError(f"{printable(str(path))}: the name is not UTF-8; {hint}")


def _in_bash(byte: int) -> str:
    """A byte of a name, as it stands between $' and '."""
    is_plain = 0x20 <= byte < 0x7F and byte not in b"'\\"
    return chr(byte) if is_plain else f"\\x{byte:02x}"


def version_of(path: Path | str) -> str | None:
    """Size and time of change of a file, by which one that was replaced is told; else None."""
    try:
        status = os.stat(path)  # noqa: PTH116 - for millions of rows
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
