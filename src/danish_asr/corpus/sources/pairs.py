"""A folder of recordings with a text file for each: ``0001.wav`` and ``0001.txt``.

Each folder with recordings is one list. The name of a recording's folder is the column ``folder``,
so ``--column speaker_id=folder`` makes speakers of the folders; ``--split-by-speaker`` does so too.
"""

from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from danish_asr.base.errors import SourceError
from danish_asr.base.files import decode_line, walk
from danish_asr.corpus.sources.base import AUDIO_SUFFIXES, SourceOptions
from danish_asr.corpus.sources.listed import ListedSource, Values, open_lists

_TEXTS = (".txt", ".TXT")
_WHAT = "audio files with a .txt file of the same name"


def open_pairs(location: str, options: SourceOptions) -> ListedSource:
    """Open a folder and all folders below it."""
    if options.by_speaker and not any(pair.startswith("speaker_id=") for pair in options.columns):
        options = replace(options, columns=(*options.columns, "speaker_id=folder"))
    source = open_lists(location, options, _folders, _recordings, _values, what=_WHAT)
    alone: list[str] = []
    for file in source.files:
        folder = source.root / file.name
        stems = {Path(name).stem for name in _recordings(folder, 0)}
        texts = sorted(path.name for path in folder.iterdir() if path.suffix in _TEXTS)
        alone += [f"{file.name}/{name}" for name in texts if Path(name).stem not in stems]
    if not alone:
        return source
    note = f"text files without a recording: {len(alone):,}, such as {alone[0]}"
    return replace(source, notes=(note,))


def _folders(folder: Path) -> Iterator[Path]:
    for parent, names in walk(folder):
        stems = {Path(name).stem for name in names if name.endswith(_TEXTS)}
        if any(_is_audio(name) and Path(name).stem in stems for name in names):
            yield parent


def has_pairs(folder: Path) -> bool:
    """Whether a recording has a text file of its name."""
    return next(_folders(folder), None) is not None


def _is_audio(name: str) -> bool:
    return name.lower().endswith(AUDIO_SUFFIXES) and not name.startswith(".")


def _recordings(folder: Path, start: int) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if _is_audio(path.name))[start:]


def _values(root: Path, name: str, recording: str) -> Values:
    audio = root / name / recording
    own = {"id": f"{name}/{audio.stem}", "audio": audio, "folder": audio.parent.name}
    texts = [audio.with_suffix(suffix) for suffix in _TEXTS]
    text_file = next((path for path in texts if path.is_file()), None)
    if text_file is None:
        return own | {"text": None, "refused": "no text file"}
    lines = text_file.read_bytes().removeprefix(BOM_UTF8).splitlines()
    decoded = [
        decode_line(line, f"{text_file}:{number}", SourceError)
        for number, line in enumerate(lines, start=1)
    ]
    return own | {"text": "\n".join(decoded).strip(), "text_file": text_file}
