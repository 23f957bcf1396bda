"""Recordings by their names: the file that a table or a transcript means.

A name may lack its ending, be in another Unicode form than on the disk, as from a Mac, or be that
of a single file in some folder below the source.
"""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from unicodedata import normalize

import pyarrow as pa

from danish_asr.base.errors import AudioError
from danish_asr.base.folders import AUDIO_SUFFIXES, is_audio, version_of, walk
from danish_asr.corpus.rows import Audio, of_each


def fetch_files(root: Path, rows: pa.Table) -> Iterator[Audio]:
    """Yield the paths of the recordings that the rows of a table name, below ``root``."""
    for name in rows["audio"].to_pylist():
        yield None if name is None else find_recording(root, name)


def versions_of_files(root: Path, rows: pa.Table) -> pa.Array:
    """The versions of the recordings that the rows of a table name, below ``root``, as of now."""
    recordings.cache_clear()

    def version(name: str) -> str | None:
        found = find_recording(root, name)
        return version_of(found) if isinstance(found, Path) else None

    return of_each(rows["audio"], version)


def find_recording(root: Path, name: str) -> Path | AudioError:
    """The file of a name; the path itself if there is none, an error if there are several."""
    plain = name.strip().replace("\\", "/")  # written on Windows, or with spaces around it
    for spelling in (name, plain, normalize("NFC", plain), normalize("NFD", plain)):
        if os.path.isfile(root / spelling):  # noqa: PTH113 - no error for impossible names
            return root / spelling
    path = root / plain
    stem = path.stem if is_audio(plain) else path.name
    wanted = f"/{name_key(plain).lstrip('/')}"
    paths = [
        other
        for other in recordings(root).get(name_key(stem), [])
        if any(name_key(str(own)).endswith(wanted) for own in (other, other.with_suffix("")))
    ]
    if len({other.parent for other in paths}) > 1:
        return AudioError("several recordings of this name")
    return paths[0] if paths else path


def name_key(name: str) -> str:
    """What is compared of two names."""
    return normalize("NFC", name).lower()


@lru_cache(maxsize=4)
def recordings(folder: Path) -> dict[str, list[Path]]:
    """The audio files below a folder, by the key of their stem; of one name WAV first."""
    by_stem: dict[str, list[Path]] = {}
    if not folder.is_dir():  # the location of a source of one's own may be anything
        return by_stem
    for parent, names in walk(folder):
        for name in names:
            if is_audio(name):
                by_stem.setdefault(name_key(Path(name).stem), []).append(Path(parent, name))
    for paths in by_stem.values():
        paths.sort(key=lambda path: (AUDIO_SUFFIXES.index(path.suffix.lower()), path))
    return by_stem
