"""FT Speech, recordings of the Danish parliament: ``text/ft-speech_train.tsv`` and others.

An utterance such as ``S001_20161_M012_P00034-1`` lies between ``start_time`` and ``end_time`` of
the meeting ``audio/2016/20161_M012.wav``. ``<UNK>`` stands for a word outside of the vocabulary and
is removed, as in the corpus's dataset on the hub. ``dev-other`` and ``test-other`` are a corpus of
their own, ``ftspeech_other``, so that scores of the balanced sets are comparable to others'.
"""

from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.corpus.sources.base import SourceOptions
from danish_asr.corpus.sources.listed import ListedSource, Values, open_lists, read_table

_PREFIX: Final = "ft-speech_"


def open_ft_speech(location: str, options: SourceOptions) -> ListedSource:
    """Open the folder that holds ``text`` and ``audio``."""
    return open_lists(
        location,
        options,
        _lists,
        read_table,
        _values,
        what=f"{_PREFIX}*.tsv",
        corpus="ftspeech",
        corpus_of=lambda name, corpus: f"{corpus}_other" if "-other" in name else corpus,
        split_of=lambda path: options.split_of(PurePosixPath(path.name.removeprefix(_PREFIX))),
    )


def _lists(folder: Path) -> list[Path]:
    return [*folder.glob(f"{_PREFIX}*.tsv"), *folder.glob(f"text/{_PREFIX}*.tsv")]


def _values(root: Path, name: str, row: dict[str, Any] | None) -> Values:
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
