"""FLEURS as its archive lies on the hub: ``test.tsv`` without a header, and ``audio/test``.

The transcript is the normalised one, which leaderboards score; ``--column text=raw_transcription``
takes the one with capitals and punctuation. The first column is the id of a sentence, which
several speakers read, so the id of an utterance is the name of its audio.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from danish_asr.corpus.sources.base import SourceOptions
from danish_asr.corpus.sources.listed import ListedSource, Values, open_lists, split_lists

_FIELDS: Final = (
    *("sentence_id", "file_name", "raw_transcription", "transcription", "symbols", "num_samples"),
    "gender",
)


def open_fleurs(location: str, options: SourceOptions) -> ListedSource:
    """Open the folder of a language, such as ``data/da_dk``."""
    what, corpus = "train.tsv, dev.tsv or test.tsv of FLEURS", "fleurs_da"
    return open_lists(location, options, split_lists, _rows, _values, what=what, corpus=corpus)


def is_fleurs(folder: Path) -> bool:
    """Whether the first row of a folder has FLEURS's fields and no header."""
    try:
        fields = next((row for path in split_lists(folder) for row in _rows(path, 0)), [])
    except (OSError, UnicodeDecodeError):
        return False
    return len(fields) >= 6 and fields[5].isdecimal() and fields[1].endswith(".wav")


def _rows(path: Path, start: int) -> Iterator[list[str]]:
    with path.open(encoding="utf-8-sig") as lines:
        for line in islice(filter(str.strip, lines), start, None):
            yield line.rstrip("\r\n").split("\t")


def _values(root: Path, name: str, row: list[str]) -> Values:
    if len(row) < 6:
        return None
    values = dict(zip(_FIELDS, row, strict=False))
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
