"""Find the recordings in files and folders, and name what is written for each."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from danish_asr.base.errors import DanishAsrError
from danish_asr.inference.formats import SUFFIXES

_SUFFIXES: Final = (
    "wav flac mp3 ogg oga opus aif aiff aifc au snd caf w64 rf64 sph nist "
    "m4a m4b mp4 m4v mov 3gp aac webm weba mkv mka"
)
AUDIO_SUFFIXES: Final = frozenset(f".{name}" for name in _SUFFIXES.split())
"""What is taken from a folder. A file that is named itself may have any suffix."""

_KNOWN: Final = AUDIO_SUFFIXES | {suffix.lower() for suffix in SUFFIXES.values()}


@dataclass(frozen=True)
class Recording:
    """An audio file, and the path of its transcripts without a suffix."""

    path: Path
    target: Path

    def output(self, format_: str) -> Path:
        """The file of a format."""
        return self.target.with_name(self.target.name + SUFFIXES[format_])

    def renamed(self) -> "Recording":
        """The recording as it is named where another differs, or none does, only in the suffix."""
        name = self.path.stem if self.target.name == self.path.name else self.path.name
        return replace(self, target=self.target.with_name(name))


@dataclass(frozen=True)
class Found:
    """What files and folders contain."""

    recordings: Sequence[Recording]
    others: int
    """Files in the folders that are neither audio nor transcripts, by their suffix."""
    links: int
    """Links that are left out, because they lead to another recording here."""


def find_recordings(paths: Sequence[Path], out: Path | None = None) -> Found:
    """Find audio files, in folders by their suffix and recursively; hidden ones are left out.

    A file that links lead to as well is one recording, with its own name. Transcripts are written
    beside the audio, or below ``out`` with the tree of their folder. Where two recordings differ
    only in their suffix, their transcripts keep it: ``a.wav.txt``.

    Raises:
        DanishAsrError: A path is missing, a folder has no audio, or two recordings would have the
            same transcript.
    """
    found: dict[Path, Recording] = {}
    others = links = 0
    for path in paths:
        if path.is_dir():
            files = list(_walk(path))
            audio = [file for file in files if file.suffix.lower() in AUDIO_SUFFIXES]
            others += sum(file.suffix.lower() not in _KNOWN for file in files)
            if not audio:
                raise DanishAsrError(
                    f"{path}: no audio file among {len(files)} files; known suffixes: "
                    f"{_SUFFIXES} (a file with another one can be named)"
                )
        elif path.exists():
            audio = [path]
        else:
            raise DanishAsrError(f"{path}: no such file or folder")
        for file in audio:
            relative = file.relative_to(path) if path.is_dir() else Path(file.name)
            target = (file if out is None else out / relative).with_suffix("")
            real = file.resolve()
            if real in found:
                links += file.is_symlink() or found[real].path.is_symlink()
            if real not in found or (found[real].path.is_symlink() and not file.is_symlink()):
                found[real] = Recording(file, target)
    return Found(_distinct(list(found.values())), others, links)


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(root, name) for name in sorted(files) if not name.startswith("."))


def _refuse(error: OSError) -> None:
    raise DanishAsrError(f"{error.filename}: cannot be read ({error.strerror})") from error


def _distinct(recordings: Sequence[Recording]) -> list[Recording]:
    shared = Counter(recording.target for recording in recordings)
    distinct: dict[Path, Recording] = {}
    for recording in recordings:
        named = recording
        if shared[recording.target] > 1:
            named = replace(recording, target=recording.target.with_name(recording.path.name))
        other = distinct.setdefault(named.target, named)
        if other is not named:
            raise DanishAsrError(
                f"{other.path} and {recording.path} would both be written to {named.target}.*; "
                "name the folder that contains both, or use another --out for each"
            )
    return list(distinct.values())
