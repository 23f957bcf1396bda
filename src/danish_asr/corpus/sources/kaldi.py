"""Kaldi's data folders, with ``wav.scp`` and ``text``: one, or several such as ``train``.

``segments``, ``utt2spk`` and ``spk2gender`` are read where they exist.
"""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources.base import SourceOptions
from danish_asr.corpus.sources.listed import (
    ListedSource,
    Row,
    open_lists,
    read_lines,
    resolve_audio,
)


class _Folder(NamedTuple):
    audio: dict[str, str]
    segments: dict[str, str]
    speakers: dict[str, str]
    genders: dict[str, str]


def open_kaldi(where: str, options: SourceOptions) -> ListedSource:
    """Open a folder with ``wav.scp`` and ``text``, or the folders below it that have them."""
    what = "folder with wav.scp and text"
    return open_lists(where, options, _lists, _rows, _values, what=what)


def _lists(folder: Path) -> list[Path]:
    for level in ("", "*/", "*/*/"):
        scps = list(folder.glob(f"{level}wav.scp"))
        if scps:  # what is deeper are parts of it, as `split_data.sh` makes them
            return [path for scp in scps if (path := scp.with_name("text")).is_file()]
    return []


def _rows(path: Path, start: int) -> list[str]:
    _read_folder(path.parent)  # refuse what cannot be read before the first row
    return read_lines(path, start)


def _values(root: Path, name: str, line: str) -> Row:
    id_, *words = line.split(maxsplit=1)
    folder = (root / name).parent
    tables = _read_folder(folder)
    recording, times = id_, {}
    if tables.segments:
        try:
            recording, start, end = tables.segments[id_].split()[:3]
            times = {"start": start}
            if float(end) > 0:  # -1 is the end of the recording
                times["seconds"] = str(float(end) - float(start))
        except (KeyError, ValueError):
            return None
    audio = tables.audio.get(recording)
    speaker = tables.speakers.get(id_)
    return {
        "id": id_,
        "text": "".join(words),
        "audio": None if audio is None else resolve_audio(audio, folder),
        "speaker_id": speaker,
        "gender": {"m": "male", "f": "female"}.get(tables.genders.get(speaker or "", "")),
        **times,
    }


@lru_cache(maxsize=4)
def _read_folder(folder: Path) -> _Folder:
    audio = _read_table(folder / "wav.scp")
    for key, value in audio.items():
        if value.endswith("|"):
            raise SourceError(
                f"{folder / 'wav.scp'}: {key} is a command ({value}), which is not run; write its "
                "output to a file (`wav-copy scp:wav.scp ...`), and list the file instead"
            )
    return _Folder(
        audio, *(_read_table(folder / name) for name in ("segments", "utt2spk", "spk2gender"))
    )


def _read_table(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    lines = (line.split(maxsplit=1) for line in path.read_text(encoding="utf-8-sig").splitlines())
    return {line[0]: line[1].strip() for line in lines if len(line) == 2}
