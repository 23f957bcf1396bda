"""The recordings in files and folders, where their transcripts go, and work on one by one."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from danish_asr.base.errors import DanishAsrError, RunError, RunFailedError
from danish_asr.base.folders import AUDIO_SUFFIXES, is_audio, walk
from danish_asr.base.progress import Progress
from danish_asr.inference.formats import SUFFIXES


@dataclass(frozen=True)
class Recording:
    """An audio file."""

    path: Path
    name: Path
    """Its path below the folder that was searched, without a suffix."""
    target: Path
    """The path of its transcripts, without a suffix."""

    def transcripts(self, formats: Sequence[str]) -> dict[str, Path]:
        """Return the files of its transcripts, by format."""
        name = self.target.name
        return {own: self.target.with_name(name + SUFFIXES[own]) for own in formats}


def find_recordings(paths: Sequence[Path], out: Path | None = None) -> list[Recording]:
    """Find audio files, in folders by their suffix and recursively; hidden ones are left out.

    Transcripts are written beside the audio, or below ``out`` with the tree of their folder. Where
    two recordings differ only in their suffix, their transcripts keep it: ``a.wav.txt``.

    Raises:
        DanishAsrError: A path is missing, a folder has no audio, or two recordings would have the
            same transcript.
    """
    recordings: dict[str, Recording] = {}
    for path in paths:
        if not path.exists() and not path.is_symlink():
            raise DanishAsrError(f"{path}: no such file or folder")
        folder, audio = path.parent, [path]
        if path.is_dir():
            folder = path
            audio = [
                where / name for where, names in walk(path) for name in names if is_audio(name)
            ]
            if not audio:
                raise DanishAsrError(
                    f"{path}: no audio file; its suffix is one of {' '.join(AUDIO_SUFFIXES)} (a "
                    "file with another one can be named)"
                )
        for file in audio:
            name = file.relative_to(folder).with_suffix("")
            target = (folder if out is None else out) / name
            # `Path.resolve` ends in an error at a link to itself.
            recordings.setdefault(os.path.realpath(file), Recording(file, name, target))
    return _with_distinct_targets([*recordings.values()])


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


def work_through(
    recordings: Sequence[Recording],
    work: Callable[[Recording, Callable[[float, float | None], None]], None],
    console: Console,
) -> list[str]:
    """Call ``work`` with recordings and what shows its progress; return what failed.

    Whatever breaks at a recording, the others go on.
    """
    failures = []
    total = len(recordings)
    with Progress(f"0/{total:,} recordings", total, console=console) as bar:

        def show(seconds: float, all_seconds: float | None) -> None:
            bar.update(number + (min(seconds / all_seconds, 1.0) if all_seconds else 0.0))

        for number, recording in enumerate(recordings):
            bar.update(number, text=f"{number:,}/{total:,} recordings")
            try:
                work(recording, show)
            except (RunError, RunFailedError):  # of the model
                raise
            except Exception as error:  # noqa: BLE001 - see above
                path, fault = str(recording.path), str(error)
                if not isinstance(error, DanishAsrError):
                    fault = f"cannot be read ({type(error).__name__}: {error})"
                failures.append(fault if path in fault else f"{path}: {fault}")
    return failures
