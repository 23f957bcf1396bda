"""Four Danish corpora in the folders in which they are published.

Common Voice: ``train.tsv``, ``dev.tsv``, ``test.tsv`` and ``clips``. Ages are decades; ``twenties``
covers parts of two age groups, so it is left out.

FLEURS: ``test.tsv`` without a header, and ``audio/test``. The transcript is the normalised one,
which leaderboards score; ``--column text=raw_transcription`` takes the one with capitals and
punctuation. Several speakers read a sentence, so the id of an utterance is the name of its audio.

FT Speech, the Danish parliament: ``text/ft-speech_train.tsv`` and others. An utterance such as
``S001_20161_M012_P00034-1`` is a part of the meeting ``audio/2016/20161_M012.wav``. ``<UNK>``, a
word outside of the vocabulary, is removed, as in the corpus's dataset on the hub. ``dev-other``
and ``test-other`` are a corpus of their own: scores of the balanced sets stay comparable.

NST (Språkbanken's reorganised version): a JSON file per session, and WAV. A session's ``pid`` and
the name of a recording's file are the name of the audio, in lower case: ``PID_u0047.wav`` with both
channels, or ``-1.wav`` and ``-2.wav``, in any folder below the source.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLITS
from danish_asr.corpus.sources.base import SourceOptions
from danish_asr.corpus.sources.listed import ListedSource, Values, open_lists, read_table

_AGE_GROUPS: Final = {
    "teens": "0-24",
    **dict.fromkeys(("thirties", "forties", "fourties"), "25-49"),
    **dict.fromkeys(("fifties", "sixties", "seventies", "eighties", "nineties"), "50+"),
}

_FLEURS_FIELDS: Final = (
    *("sentence_id", "file_name", "raw_transcription", "transcription", "symbols", "num_samples"),
    "gender",
)

_FT_SPEECH: Final = "ft-speech_"

_NST_TEST: Final = {"supplement_dk", "testdata", "test"}
"""Folders of NST's test sessions."""

_NST_SILENCE: Final = "tavshed under denne ind"
"""In the "text" of a recording without speech."""


def open_common_voice(location: str, options: SourceOptions) -> ListedSource:
    """Open the folder of a language, or one that holds ``da``."""

    def lists(folder: Path) -> list[Path]:
        return _split_lists(folder) or list(folder.glob("validated.tsv"))

    if Path(location, "da", "clips").is_dir():
        location = str(Path(location, "da"))
    what = "train.tsv, dev.tsv or test.tsv of Common Voice (validated.tsv needs --split)"
    corpus = "common_voice_da"
    return open_lists(
        location, options, lists, read_table, _common_voice_values, what=what, corpus=corpus
    )


def _split_lists(folder: Path) -> list[Path]:
    return [folder / f"{name}.tsv" for name in SPLITS if (folder / f"{name}.tsv").is_file()]


def _common_voice_values(root: Path, name: str, row: dict[str, Any] | None) -> Values:
    if row is None:
        return None
    if not row.get("path"):
        return row | {"text": None, "audio": None}
    return row | {
        "id": Path(row["path"]).stem,
        "text": row.get("sentence"),
        "audio": (root / name).parent / "clips" / row["path"],
        "speaker_id": row.get("client_id"),
        "dialect": row.get("accents") or row.get("accent"),
        "gender": (row.get("gender") or "").partition("_")[0],  # male_masculine
        "age": None,
        "age_group": _AGE_GROUPS.get(row.get("age") or ""),
    }


def open_fleurs(location: str, options: SourceOptions) -> ListedSource:
    """Open the folder of a language, such as ``data/da_dk``."""
    what, corpus = "train.tsv, dev.tsv or test.tsv of FLEURS", "fleurs_da"
    return open_lists(
        location, options, _split_lists, _fleurs_rows, _fleurs_values, what=what, corpus=corpus
    )


def is_fleurs(folder: Path) -> bool:
    """Whether the first row of a folder has FLEURS's fields and no header."""
    try:
        fields = next((row for path in _split_lists(folder) for row in _fleurs_rows(path, 0)), [])
    except (OSError, UnicodeDecodeError):
        return False
    return len(fields) >= 6 and fields[5].isdecimal() and fields[1].endswith(".wav")


def _fleurs_rows(path: Path, start: int) -> Iterator[list[str]]:
    with path.open(encoding="utf-8-sig") as lines:
        for line in islice(filter(str.strip, lines), start, None):
            yield line.rstrip("\r\n").split("\t")


def _fleurs_values(root: Path, name: str, row: list[str]) -> Values:
    if len(row) < 6:
        return None
    values = dict(zip(_FLEURS_FIELDS, row, strict=False))
    table = root / name
    audio = table.parent / "audio" / table.stem / values["file_name"]
    if not audio.is_file():
        audio = table.parent / table.stem / values["file_name"]
    return values | {
        "id": Path(values["file_name"]).stem,
        "text": values["transcription"],
        "audio": audio,
        "gender": values.get("gender", "").lower(),
    }


def open_ft_speech(location: str, options: SourceOptions) -> ListedSource:
    """Open the folder that holds ``text`` and ``audio``."""
    return open_lists(
        location,
        options,
        lambda folder: [
            *folder.glob(f"{_FT_SPEECH}*.tsv"),
            *folder.glob(f"text/{_FT_SPEECH}*.tsv"),
        ],
        read_table,
        _ft_speech_values,
        what=f"{_FT_SPEECH}*.tsv",
        corpus="ftspeech",
        corpus_of=lambda name, corpus: f"{corpus}_other" if "-other" in name else corpus,
        split_of=lambda path: options.split_of(PurePosixPath(path.name.removeprefix(_FT_SPEECH))),
    )


def _ft_speech_values(root: Path, name: str, row: dict[str, Any] | None) -> Values:
    if row is None:
        return None
    try:
        speaker, year, meeting = row["utterance_id"].split("_")[:3]
        start, end = float(row["start_time"]), float(row["end_time"])
    except (KeyError, ValueError):
        return None
    folder = (root / name).parent
    if folder.name == "text":
        folder = folder.parent
    text = row.get("transcript") or row.get("sentence") or row.get("text") or ""
    return row | {
        "id": row["utterance_id"],
        "text": text.replace("<UNK>", "").strip(),
        "audio": folder / "audio" / year[:4] / f"{year}_{meeting}.wav",
        "start": start,
        "seconds": end - start,
        "speaker_id": speaker,
        "gender": row.get("speaker_gender") or row.get("gender"),
    }


def open_nst(location: str, options: SourceOptions) -> ListedSource:
    """Open a folder with sessions and audio in any folders below it."""

    def lists(folder: Path) -> Iterator[Path]:
        return (path for path in folder.rglob("*.json") if b'"val_recordings"' in path.read_bytes())

    def split_of(path: PurePosixPath) -> str:
        split = "train" if _NST_TEST.isdisjoint(path.parts) else "test"
        return options.split_of(PurePosixPath(split))

    return open_lists(
        location,
        options,
        lists,
        _nst_rows,
        _nst_values,
        what="sessions (*.json)",
        corpus="nst_da",
        split_of=split_of,
    )


def _nst_rows(path: Path, start: int) -> list[dict[str, Any]]:
    try:
        session = json.loads(path.read_bytes())
        pid = session.get("pid") or path.stem.partition("_")[0]
        common = dict(session.get("info") or {}) | {"pid": pid}
        return [common | recording for recording in session["val_recordings"][start:]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceError(f"{path}: not a session of NST ({error})") from error


def _nst_values(root: Path, name: str, row: dict[str, Any]) -> Values:
    stem = f"{row['pid']}_{Path(row.get('file') or '').stem}"
    audio = _wav_files(root / PurePosixPath(name).parts[0])
    names = (f"{stem}{channel}.wav".lower() for channel in ("", "-1", "-2"))
    text = row.get("text")
    return row | {
        "id": stem,
        "text": None if _NST_SILENCE in (text or "") else text,
        "audio": next((audio[name] for name in names if name in audio), root / f"{stem}.wav"),
        "speaker_id": row.get("Speaker_ID"),
        "age": row.get("Age"),
        "gender": str(row.get("Sex") or "").lower(),
        "dialect": row.get("Region_of_Dialect") or row.get("Region_of_Youth"),
    }


@lru_cache(maxsize=1)
def _wav_files(folder: Path) -> dict[str, Path]:
    return {path.name.lower(): path for path in folder.rglob("*.[wW][aA][vV]")}
