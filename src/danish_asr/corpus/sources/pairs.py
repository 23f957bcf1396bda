"""A folder of recordings with a text file for each: ``0001.wav`` and ``0001.txt``.

Each folder with recordings is one list. The name of a recording's folder is the column ``folder``,
so ``--column speaker_id=folder`` makes speakers of the folders; ``--split-by-speaker`` does so too.
"""

import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from danish_asr.base.errors import SourceError
from danish_asr.base.files import decode_line
from danish_asr.corpus.sources.base import SourceFile, SourceOptions
from danish_asr.corpus.sources.listed import AUDIO_SUFFIXES, ListedSource, Row, open_lists

_TEXTS = (".txt", ".TXT")
_WHAT = "audio files with a .txt file of the same name"


def open_pairs(where: str, options: SourceOptions) -> ListedSource:
    """Open a folder and all folders below it."""
    if options.by_speaker and not any(pair.startswith("speaker_id=") for pair in options.columns):
        options = replace(options, columns=(*options.columns, "speaker_id=folder"))
    source = open_lists(where, options, _folders, _recordings, _values, what=_WHAT)
    if alone := [name for file in source.files for name in _without_recording(source.root, file)]:
        note = f"text files without a recording: {len(alone):,}, such as {alone[0]}"
        return replace(source, notes=(note,))
    return source


def _folders(folder: Path) -> Iterator[Path]:
    for place, below, names in os.walk(folder, followlinks=True):
        below[:] = [name for name in below if not name.startswith(".")]
        stems = {Path(name).stem for name in names if name.endswith(_TEXTS)}
        if any(_is_audio(name) and Path(name).stem in stems for name in names):
            yield Path(place)


def _is_audio(name: str) -> bool:
    return name.lower().endswith(AUDIO_SUFFIXES) and not name.startswith(".")


def _without_recording(root: Path, file: SourceFile) -> list[str]:
    names = sorted(path.name for path in (root / file.name).iterdir())
    stems = {Path(name).stem for name in names if _is_audio(name)}
    texts = (name for name in names if name.endswith(_TEXTS) and Path(name).stem not in stems)
    return [f"{file.name}/{name}" for name in texts]


def _recordings(folder: Path, start: int) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if _is_audio(path.name))[start:]


def _values(root: Path, name: str, recording: str) -> Row:
    audio = root / name / recording
    own = {"id": f"{name}/{audio.stem}", "audio": audio, "folder": audio.parent.name}
    places = map(audio.with_suffix, _TEXTS)
    text = next((place for place in places if place.is_file()), None)
    if text is None:
        return own | {"text": None, "refused": "no text file"}
    lines = text.read_bytes().removeprefix(BOM_UTF8).splitlines()
    words = [
        decode_line(line, f"{text}:{number}", SourceError) for number, line in enumerate(lines, 1)
    ]
    return own | {"text": "\n".join(words).strip(), "text_file": text}
