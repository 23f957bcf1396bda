"""The recordings in files and folders, and where their transcripts go."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from danish_asr.base.errors import DanishAsrError
from danish_asr.inference.formats import SUFFIXES

_SUFFIXES: Final = (
    "wav flac mp3 ogg oga opus aif aiff aifc au snd caf w64 rf64 sph nist "
    "m4a m4b mp4 m4v mov 3gp aac webm weba mkv mka wma amr avi"
)
AUDIO_SUFFIXES: Final = frozenset(f".{name}" for name in _SUFFIXES.split())
"""What is taken from a folder. A file that is named itself may have any suffix."""


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
    transcripts = {suffix.lower() for suffix in SUFFIXES.values()}
    for path in paths:
        if not path.exists() and not path.is_symlink():
            raise DanishAsrError(f"{path}: no such file or folder")
        folder, audio = path.parent, [path]
        if path.is_dir():
            files = list(_walk(path))
            folder, audio = path, [file for file in files if file.suffix.lower() in AUDIO_SUFFIXES]
            others += sum(file.suffix.lower() not in AUDIO_SUFFIXES | transcripts for file in files)
            if not audio:
                raise DanishAsrError(
                    f"{path}: no audio file among {len(files)} files; known suffixes: "
                    f"{_SUFFIXES} (a file with another one can be named)"
                )
        for file in audio:
            name = file.relative_to(folder).with_suffix("")
            target = (folder if out is None else out) / name
            # `Path.resolve` ends in an error at a link to itself.
            recordings.setdefault(os.path.realpath(file), Recording(file, name, target))
    return Recordings(_with_distinct_targets([*recordings.values()]), others)


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(root, name) for name in sorted(files) if not name.startswith("."))


def _refuse(error: OSError) -> None:
    raise DanishAsrError(f"{error.filename}: cannot be read ({error.strerror})") from error


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
