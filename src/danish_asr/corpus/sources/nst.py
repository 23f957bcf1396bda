"""NST's Danish database (Språkbanken's reorganised version): a JSON file per session, and WAV.

A session's ``pid`` and the name of a recording's file are the name of the audio, in lower case:
``dk/PID/PID_u0047.wav`` with both channels, or ``-1.wav`` and ``-2.wav``. Audio may be in any
folder below the source. The test sessions are those below ``supplement_dk`` or ``testdata``.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources.base import SourceOptions
from danish_asr.corpus.sources.listed import ListedSource, Values, open_lists

_TEST: Final = {"supplement_dk", "testdata", "test"}  # folders

_SILENCE: Final = "tavshed under denne ind"
"""In the "text" of a recording without speech."""


def open_nst(location: str, options: SourceOptions) -> ListedSource:
    """Open a folder with sessions and audio in any folders below it."""
    return open_lists(
        location,
        options,
        _lists,
        _rows,
        _values,
        what="sessions (*.json)",
        corpus="nst_da",
        split_of=lambda path: options.split_of(
            PurePosixPath("train" if _TEST.isdisjoint(path.parts) else "test")
        ),
    )


def _lists(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*.json") if b'"val_recordings"' in path.read_bytes())


def _rows(path: Path, start: int) -> list[dict[str, Any]]:
    try:
        session = json.loads(path.read_bytes())
        pid = session.get("pid") or path.stem.partition("_")[0]
        common = dict(session.get("info") or {}) | {"pid": pid}
        return [common | recording for recording in session["val_recordings"][start:]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceError(f"{path}: not a session of NST ({error})") from error


def _values(root: Path, name: str, row: dict[str, Any]) -> Values:
    stem = f"{row['pid']}_{Path(row.get('file') or '').stem}"
    audio = _audio_files(root / PurePosixPath(name).parts[0])
    names = (f"{stem}{channel}.wav".lower() for channel in ("", "-1", "-2"))
    text = row.get("text")
    return row | {
        "id": stem,
        "text": None if _SILENCE in (text or "") else text,
        "audio": next((audio[name] for name in names if name in audio), root / f"{stem}.wav"),
        "speaker_id": row.get("Speaker_ID"),
        "age": row.get("Age"),
        "gender": str(row.get("Sex") or "").lower(),
        "dialect": row.get("Region_of_Dialect") or row.get("Region_of_Youth"),
    }


@lru_cache(maxsize=1)
def _audio_files(folder: Path) -> dict[str, Path]:
    return {path.name.lower(): path for path in folder.rglob("*.[wW][aA][vV]")}
