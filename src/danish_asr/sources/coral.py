"""CoRal: Danish conversational and read-aloud speech (``CoRal-project/coral`` v1, v2 and v3).

The two subsets have different columns, and the versions differ slightly. The columns below are
read; one that a version does not have is null. Licence OpenRAIL-D: no speech synthesis and no
biometric identification. The hub's repositories are gated.
"""

from __future__ import annotations

from typing import Final

from danish_asr.errors import SourceError
from danish_asr.sources.base import Columns, SourceOptions
from danish_asr.sources.location import locate
from danish_asr.sources.parquet import (
    ParquetSource,
    find_parquet,
    open_parquet,
    open_parquet_files,
)

READ_ALOUD: Final = "coral_read_aloud"
CONVERSATION: Final = "coral_conversation"
"""Names of the corpora in a built dataset; the versions share them."""

COLUMNS: Final = {
    READ_ALOUD: Columns(id=("id_recording",), speaker_id="id_speaker"),
    CONVERSATION: Columns(id=("id_conversation", "id_segment"), speaker_id="id_speaker"),
}

_SUBSETS: Final = {
    "read_aloud": READ_ALOUD,
    "conversation": CONVERSATION,
    "conversational": CONVERSATION,
}


def open_coral(where: str, options: SourceOptions) -> ParquetSource:
    """Open a local copy of CoRal (any folder above its Parquet files), or CoRal on the hub.

    Raises:
        SourceError: It does not exist, has no rows, or a file is not CoRal's.
    """
    if options != SourceOptions():
        raise SourceError("--corpus, --column and --split do not apply to CoRal")
    location = locate(where)
    if location.subset is not None and location.subset not in _SUBSETS:
        raise SourceError(
            f"{where}: CoRal has no subset '{location.subset}'; expected {', '.join(_SUBSETS)}"
        )
    wanted = _SUBSETS[location.subset] if location.subset else None
    corpus_of = {}
    for path in find_parquet(location):
        with open_parquet(location, path) as parquet:
            corpus = _corpus_of(parquet.schema_arrow.names, path)
        if wanted in {None, corpus}:
            corpus_of[path] = corpus
    return open_parquet_files(where, location, corpus_of=corpus_of, columns=COLUMNS)


def _corpus_of(columns: list[str], path: str) -> str:
    """The subset of a file, by the columns that only it has."""
    if "id_recording" in columns:
        return READ_ALOUD
    if "id_conversation" in columns:
        return CONVERSATION
    raise SourceError(
        f"{path}: not a file of CoRal: expected a column id_recording (read aloud) or "
        f"id_conversation; found the columns {', '.join(columns)}. Convert other Parquet files as "
        "hf-parquet:FOLDER"
    )
