"""Mozilla Common Voice: ``train.tsv``, ``dev.tsv``, ``test.tsv`` and the folder ``clips``.

Ages are decades. ``twenties`` covers parts of two age groups, so it is left out.
"""

from pathlib import Path
from typing import Any, Final

from danish_asr.corpus.sources.base import SourceOptions
from danish_asr.corpus.sources.listed import (
    ListedSource,
    Values,
    open_lists,
    read_table,
    split_lists,
)

_AGE_GROUPS: Final = {
    "teens": "0-24",
    **dict.fromkeys(("thirties", "forties", "fourties"), "25-49"),
    **dict.fromkeys(("fifties", "sixties", "seventies", "eighties", "nineties"), "50+"),
}


def open_common_voice(location: str, options: SourceOptions) -> ListedSource:
    """Open the folder of a language, or one that holds ``da``."""
    if Path(location, "da", "clips").is_dir():
        location = str(Path(location, "da"))
    what = "train.tsv, dev.tsv or test.tsv of Common Voice (validated.tsv needs --split)"
    corpus = "common_voice_da"
    return open_lists(location, options, _lists, read_table, _values, what=what, corpus=corpus)


def _lists(folder: Path) -> list[Path]:
    return split_lists(folder) or list(folder.glob("validated.tsv"))


def _values(root: Path, name: str, row: dict[str, Any] | None) -> Values:
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
