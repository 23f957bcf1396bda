"""A folder of recordings with a text file for each: ``0001.wav`` and ``0001.txt``.

Each folder with recordings is one list. The name of a recording's folder is the column ``folder``,
so ``--column speaker_id=folder`` makes speakers of the folders; ``--split-by-speaker`` does so too.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from danish_asr.base.errors import SourceError
from danish_asr.base.files import decode_line, walk
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS
from danish_asr.corpus.sources.base import AUDIO_SUFFIXES, SourceOptions
from danish_asr.corpus.sources.listed import ListedSource, Values, open_lists

_TEXTS = (".txt", ".TXT", ".lab")  # the last one of the Montreal Forced Aligner
_WHAT = "audio files with a .txt file of the same name"

_TABLES: Final = {
    "two numbers before the text, as in TIMIT and Audacity's labels": re.compile(
        r"\d+(\.\d+)?\s+\d+(\.\d+)?\s+[^\W\d]"
    ),
    "a time, as in oTranscribe and subtitles": re.compile(r"(\d+\s+)?[\[(]?\d{1,2}:\d\d\b"),
    "columns with tabs between them, as in CORAAL": re.compile(r"[^\n]*\t"),
}
"""How text files begin that do not hold the words alone."""


def open_pairs(location: str, options: SourceOptions) -> ListedSource:
    """Open a folder and all folders below it."""
    by_folder = options.by_speaker and not any(
        pair.startswith("speaker_id=") for pair in options.columns
    )
    if by_folder:
        options = replace(options, columns=(*options.columns, "speaker_id=folder"))
    source = open_lists(location, options, _folders, _recordings, _values, what=_WHAT)
    _check_texts([source.root / file.name for file in source.files])
    if by_folder:
        _check_speakers([Path(file.name) for file in source.files])
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


def _check_texts(folders: Sequence[Path]) -> None:
    """Refuse files of times or columns, of which the first five of each folder are looked at."""
    texts: list[Path] = []
    for folder in folders:
        recordings = _recordings(folder, 0)
        named = (_text_file(folder / name) for name in recordings)
        texts += islice((path for path in named if path is not None), 5)
    for what, beginning in _TABLES.items():
        found = [path for path in texts if beginning.match(_head(path))]
        if len(found) > len(texts) / 2:
            raise SourceError(
                f"{found[0]}: begins with {what}: {_head(found[0])[:40]!r}, as do "
                f"{len(found):,} of {len(texts):,} text files; each must hold the "
                "spoken words alone. Write a table with the columns path, start, end and text, "
                "times in seconds"
            )


def _head(path: Path) -> str:
    with path.open("rb") as stream:
        return stream.read(200).removeprefix(BOM_UTF8).decode(errors="replace").strip()


def _check_speakers(folders: Sequence[Path]) -> None:
    """Refuse folders of one name, such as ``anna/day1`` and ``bo/day1``, as speakers."""
    seen: dict[str, Path] = {}
    for folder in folders:
        parts = [part for part in folder.parts if part.lower() not in {*SPLITS, *SPLIT_ALIASES}]
        place = Path(*parts)
        if seen.setdefault(place.name, place) != place:
            raise SourceError(
                f"--split-by-speaker: the folders {seen[place.name]} and {place} have one name, so "
                "who speaks is unclear. If the folder above names the speaker, add --column "
                "speaker_id=folder_above; if both are one person, --column speaker_id=folder"
            )


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


def _text_file(audio: Path) -> Path | None:
    texts = (audio.with_suffix(suffix) for suffix in _TEXTS)
    return next((path for path in texts if path.is_file()), None)


def _values(root: Path, name: str, recording: str) -> Values:
    audio = root / name / recording
    own = {
        "id": f"{name}/{audio.stem}",
        "audio": audio,
        "folder": audio.parent.name,
        "folder_above": audio.parent.parent.name,
    }
    text_file = _text_file(audio)
    if text_file is None:
        return own | {"text": None, "refused": "no text file"}
    lines = text_file.read_bytes().removeprefix(BOM_UTF8).splitlines()
    decoded = [
        decode_line(line, f"{text_file}:{number}", SourceError)
        for number, line in enumerate(lines, start=1)
    ]
    return own | {"text": "\n".join(decoded).strip(), "text_file": text_file}
