"""The recordings in files and folders, and where their transcripts go."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.folders import AUDIO_SUFFIXES, walk
from danish_asr.inference.formats import SUFFIXES


@dataclass(frozen=True)
class Recording:
    """An audio file."""

    path: Path
    name: Path
    """Its path below the folder that was searched, without a suffix."""
    target: Path
    """The path of its transcripts, without a suffix."""


class Recordings(NamedTuple):
    """What files and folders contain."""

    recordings: list[Recording]
    others: int
    """Files in the folders that are neither audio nor transcripts, by their suffix."""


def find_recordings(paths: Sequence[Path], out: Path | None = None) -> Recordings:
    """Find audio files, in folders by their suffix and recursively; hidden ones are left out.

    Transcripts are written beside the audio, or below ``out`` with the tree of their folder. Where
    two recordings differ only in their suffix, their transcripts keep it: ``a.wav.txt``.

    Raises:
        DanishAsrError: A path is missing, a folder has no audio, or two recordings would have the
            same transcript.
    """
    recordings: dict[str, Recording] = {}
    others = 0
    for path in paths:
        if not path.exists() and not path.is_symlink():
            raise DanishAsrError(f"{path}: no such file or folder")
        folder, audio = path.parent, [path]
        if path.is_dir():
            files = [folder / name for folder, names in walk(path) for name in names]
            folder, audio = path, [file for file in files if file.suffix.lower() in AUDIO_SUFFIXES]
            known = {*AUDIO_SUFFIXES, *map(str.lower, SUFFIXES.values())}
            others += sum(file.suffix.lower() not in known for file in files)
            if not audio:
                raise DanishAsrError(
                    f"{path}: no audio file among {len(files)} files; known suffixes: "
                    f"{' '.join(AUDIO_SUFFIXES)} (a file with another one can be named)"
                )
        for file in audio:
            name = file.relative_to(folder).with_suffix("")
            target = (folder if out is None else out) / name
            # `Path.resolve` ends in an error at a link to itself.
            recordings.setdefault(os.path.realpath(file), Recording(file, name, target))
    return Recordings(_with_distinct_targets([*recordings.values()]), others)


def _with_distinct_targets(recordings: Sequence[Recording]) -> list[Recording]:
    shared = Counter(recording.target for recording in recordings)
    distinct: dict[Path, Recording] = {}
    for recording in recordings:
        target = recording.target
        if shared[target] > 1:
            target = target.with_name(recording.path.name)
        if target in distinct:
            raise DanishAsrError(
                f"{distinct[target].path} and {recording.path} would both be written to "
                f"{target}.*; name the folder that contains both, or use another --out for each"
            )
        distinct[target] = replace(recording, target=target)
    return [*distinct.values()]
