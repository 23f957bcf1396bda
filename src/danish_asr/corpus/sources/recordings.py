"""The recordings of a folder by their names."""

from functools import lru_cache
from pathlib import Path

from danish_asr.base.files import walk
from danish_asr.corpus.sources.base import AUDIO_SUFFIXES


@lru_cache(maxsize=4)
def recordings(folder: Path) -> dict[str, list[Path]]:
    """The audio files below a folder by stem in lower case, WAV first."""
    found: dict[str, list[Path]] = {}
    order = {suffix: number for number, suffix in enumerate(AUDIO_SUFFIXES)}
    for parent, names in walk(folder):
        for name in names:
            if name.lower().endswith(AUDIO_SUFFIXES):
                found.setdefault(Path(name).stem.lower(), []).append(Path(parent, name))
    for paths in found.values():
        paths.sort(key=lambda path: (order[path.suffix.lower()], path))
    return found


def with_ending(path: Path, folder: Path) -> Path:
    """The recording that a path without its ending names: there, or alone below ``folder``.

    The path itself if it has one, or if there is no such recording.
    """
    if path.suffix.lower() in AUDIO_SUFFIXES or path.is_file():
        return path
    there = (path.with_name(f"{path.name}{suffix}") for suffix in AUDIO_SUFFIXES if path.name)
    if (beside := next(filter(Path.is_file, there), None)) is not None:
        return beside
    below = recordings(folder).get(path.name.lower(), [])
    return below[0] if len(below) == 1 else path
