"""Recordings by their names: the file that a table or a transcript means.

A name may lack its ending, be in another Unicode form than on the disk, or be of a file in some
folder below the source.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from unicodedata import normalize

import pyarrow as pa

from danish_asr.base.audio import AudioError
from danish_asr.base.folders import AUDIO_SUFFIXES, file_of_name, walk
from danish_asr.corpus.rows import Audio


def fetch_files(root: Path, rows: pa.Table) -> Iterator[Audio]:
    """Yield the paths of the recordings that the rows of a table name, below ``root``."""
    for name in rows["audio"].to_pylist():
        yield None if name is None else find_recording(root, name)


def find_recording(root: Path, name: str) -> Path | AudioError:
    """The file that a name means: there, with an ending, or alone of its name below ``root``.

    The path itself if there is none, and an error if several have the name.
    """
    usual = name.strip().replace("\\", "/")  # written on Windows, or with spaces around it
    for spelling in dict.fromkeys((name, usual)):
        if path := file_of_name(root / spelling):
            return path
    path = root / usual
    ending = path.suffix.lower()
    if ending not in AUDIO_SUFFIXES:
        for suffix in AUDIO_SUFFIXES:
            if path.name and (beside := file_of_name(path.with_name(path.name + suffix))):
                return beside
    stem = path.stem if ending in AUDIO_SUFFIXES else path.name
    found = recordings(root).get(stem_key(stem), [])
    if ending in AUDIO_SUFFIXES:
        found = [other for other in found if other.suffix.lower() == ending]
    if len(found) > 1:
        return AudioError("several recordings of this name")
    return found[0] if found else path


def stem_key(stem: str) -> str:
    """What is compared of two names."""
    return normalize("NFC", stem).lower()


@lru_cache(maxsize=4)
def recordings(folder: Path) -> dict[str, list[Path]]:
    """The audio files below a folder by stem, in `stem_key`'s form, WAV first."""
    found: dict[str, list[Path]] = {}
    for parent, names in walk(folder):
        for name in names:
            if name.lower().endswith(AUDIO_SUFFIXES):
                found.setdefault(stem_key(Path(name).stem), []).append(Path(parent, name))
    order = {suffix: number for number, suffix in enumerate(AUDIO_SUFFIXES)}
    for paths in found.values():
        paths.sort(key=lambda path: (order[path.suffix.lower()], path))
    return found
