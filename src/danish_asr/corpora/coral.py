"""CoRal: Danish conversational and read-aloud speech (``CoRal-project/coral`` v1, v2 and v3).

The two subsets have other columns, and the versions differ in small things; what is common to them
is read, and a column that a version lacks is null. Licence OpenRAIL-D: no speech synthesis and no
biometric identification. The hub's repositories are gated.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Final

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from danish_asr.corpora.base import SourceFile
from danish_asr.corpora.parquet import (
    Columns,
    ParquetSource,
    fingerprint,
    open_parquet,
    stamp,
)
from danish_asr.errors import SourceError
from danish_asr.schema import SPLIT_ALIASES, SPLITS

_SPEAKER: Final = {
    "speaker_id": "id_speaker",
    "dialect": "dialect",
    "age": "age",
    "gender": "gender",
    "country_birth": "country_birth",
}

READ_ALOUD: Final = "coral_read_aloud"
CONVERSATION: Final = "coral_conversation"

COLUMNS: Final = {
    READ_ALOUD: Columns(id=("id_recording",), validated="validated", **_SPEAKER),
    CONVERSATION: Columns(id=("id_conversation", "id_segment"), **_SPEAKER),
}
"""The corpora of a built dataset, and where each one's columns are."""

_SPLIT_NAME: Final = re.compile(r"^([a-z]+)(?=[-_.]|$)")


def open_folder(folder: Path, *, subset: str | None = None) -> ParquetSource:
    """Open the Parquet files of a local copy of CoRal.

    Args:
        folder: Any folder above the files.
        subset: ``read_aloud`` or ``conversation``; None for all that is there.

    Raises:
        SourceError: There is no such folder, it has no rows, or a file is not CoRal's.
    """
    if not folder.is_dir():
        raise SourceError(f"{folder}: no such folder; expected one with CoRal's Parquet files")
    return open_files(LocalFileSystem(), str(folder), name=str(folder), subset=subset)


def open_files(
    fs: AbstractFileSystem, root: str, *, name: str, subset: str | None = None
) -> ParquetSource:
    """Open CoRal's Parquet files below ``root`` of any file system; see `open_folder`."""
    paths = sorted(str(path) for path in fs.find(root) if str(path).endswith(".parquet"))
    files = [_inspect(fs, root, path) for path in paths]
    if subset is not None:
        wanted = READ_ALOUD if subset == "read_aloud" else CONVERSATION
        files = [file for file in files if file.corpus == wanted]
    if not sum(file.rows for file in files):
        kind = "Parquet files" if not paths else "rows"
        of = f" of the subset '{subset}'" if subset else ""
        raise SourceError(f"{name}: the source is empty, it has no {kind}{of}")
    return ParquetSource(name=name, root=root, files=tuple(files), columns=COLUMNS, fs=fs)


def _inspect(fs: AbstractFileSystem, root: str, path: str) -> SourceFile:
    with open_parquet(fs, path) as parquet:
        columns = parquet.schema_arrow.names
        footer = parquet.metadata
        chunks = tuple(footer.row_group(group).num_rows for group in range(footer.num_row_groups))
    if missing := [column for column in ("text", "audio") if column not in columns]:
        raise SourceError(
            f"{path}: no column {' and no column '.join(missing)}; "
            f"the columns are {', '.join(columns)}"
        )
    relative = PurePosixPath(path).relative_to(root)
    return SourceFile(
        name=str(relative),
        corpus=_corpus(columns, path),
        split=split_of(relative),
        chunks=chunks,
        fingerprint=fingerprint(fs, path),
        stamp=stamp(fs, path),
    )


def _corpus(columns: list[str], path: str) -> str:
    if "id_recording" in columns:
        return READ_ALOUD
    if {"id_conversation", "id_segment"} <= set(columns):
        return CONVERSATION
    raise SourceError(
        f"{path}: not a file of CoRal: expected id_recording (read aloud), or id_conversation and "
        f"id_segment (conversation); the columns are {', '.join(columns)}"
    )


def split_of(path: PurePosixPath) -> str:
    """Our name for the split that a file belongs to, from its name or a folder above it.

    Raises:
        SourceError: Neither names a split.
    """
    for part in (path.name, *reversed(path.parent.parts)):
        match = _SPLIT_NAME.match(part)
        split = SPLIT_ALIASES.get(match[1], match[1]) if match else None
        if split in SPLITS:
            return split
    known = ", ".join((*SPLITS, *SPLIT_ALIASES))
    raise SourceError(f"{path}: the name tells no split; expected it to begin with one of {known}")
