"""A folder of recordings with a text file for each: ``0001.wav`` and ``0001.txt``.

Each folder with recordings is one list. The name of a recording's folder is the column ``folder``,
so ``--column speaker_id=folder`` makes speakers of the folders; ``--split-by-speaker`` does so too.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from danish_asr.sources.base import SourceOptions
from danish_asr.sources.listed import AUDIO_SUFFIXES, ListedSource, Row, open_lists

_WHAT = "audio files with a .txt file of the same name"


def open_pairs(where: str, options: SourceOptions) -> ListedSource:
    """Open a folder and all folders below it."""
    if options.by_speaker and not any(pair.startswith("speaker_id=") for pair in options.columns):
        options = replace(options, columns=(*options.columns, "speaker_id=folder"))
    return open_lists(where, options, _folders, _recordings, _values, what=_WHAT)


def _folders(folder: Path) -> Iterator[Path]:
    for place, below, names in os.walk(folder, followlinks=True):
        below[:] = [name for name in below if not name.startswith(".")]
        stems = {Path(name).stem for name in names if name.endswith(".txt")}
        if any(_is_audio(name) and Path(name).stem in stems for name in names):
            yield Path(place)


def _is_audio(name: str) -> bool:
    return name.lower().endswith(AUDIO_SUFFIXES) and not name.startswith(".")


def _recordings(folder: Path, start: int) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if _is_audio(path.name))[start:]


def _values(root: Path, name: str, recording: str) -> Row:
    audio = root / name / recording
    text = audio.with_suffix(".txt")
    try:
        words = text.read_text(encoding="utf-8-sig").strip()
    except FileNotFoundError:
        words = None
    except UnicodeDecodeError:
        return None
    own = {"id": f"{name}/{audio.stem}", "text": words, "audio": audio}
    return own | {"text_file": text if words else None, "folder": audio.parent.name}
