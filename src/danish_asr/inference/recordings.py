"""The recordings in files and folders, where their transcripts go, and work on one by one."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    name: Path  # its path below the folder that was searched, without a suffix
    target: Path  # the path of its transcripts, without a suffix

    def transcripts(self, formats: Sequence[str]) -> dict[str, Path]:
        """Return the files of its transcripts, by format."""
        name = self.target.name
        return {each: self.target.with_name(name + SUFFIXES[each]) for each in formats}


def find_recordings(
    paths: Sequence[Path], out: Path | None = None, *, once: bool = False
) -> list[Recording]:
    """Find audio files, in folders by their suffix and recursively; hidden ones are left out.

    Transcripts are written beside the audio, or below ``out`` with the tree of their folder. A link
    has its own, but ``once`` each recording is meant only by the first name that it has. Raises
    DanishAsrError if a path is missing, a folder has no audio, or two recordings would have the
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
            place = os.path.realpath(file if once else file.parent)
            key = place if once else f"{place}/{file.name}"
            recordings.setdefault(key, Recording(file, name, target))
    targets: dict[Path, Path] = {}
    for recording in recordings.values():
        other = targets.setdefault(recording.target, recording.path)
        if other != recording.path:
            raise DanishAsrError(
                f"{other} and {recording.path} would both be written to {recording.target}.*; "
                "rename one, or use another --out for one of them"
            )
    return [*recordings.values()]


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
