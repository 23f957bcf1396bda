"""CoRal: Danish conversational and read-aloud speech (``CoRal-project/coral`` v1, v2 and v3).

The two subsets have other columns, and the versions differ in small things; what is common to them
is read, and a column that a version lacks is null. Licence OpenRAIL-D: no speech synthesis and no
biometric identification. The hub's repositories are gated.
"""

from __future__ import annotations

from typing import Final

from danish_asr.errors import SourceError
from danish_asr.sources.columns import Columns
from danish_asr.sources.location import locate
from danish_asr.sources.parquet import ParquetSource, open_parquet_files
from danish_asr.sources.parquet_file import column_names, find_parquet

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


def open_coral(where: str) -> ParquetSource:
    """Open a local copy of CoRal (any folder above its Parquet files), or CoRal on the hub.

    Args:
        where: A folder, or ``hf:CoRal-project/coral-v2[:read_aloud|conversation][@REVISION]``.

    Raises:
        SourceError: There is nothing there, it has no rows, or a file is not CoRal's.
    """
    location = locate(where)
    if location.subset is not None and location.subset not in _SUBSETS:
        raise SourceError(
            f"{where}: CoRal has no subset '{location.subset}'; it has {', '.join(_SUBSETS)}"
        )
    corpus_of = {
        path: _corpus(column_names(location, path), path) for path in find_parquet(location)
    }
    if location.subset is not None:
        wanted = _SUBSETS[location.subset]
        corpus_of = {path: corpus for path, corpus in corpus_of.items() if corpus == wanted}
    return open_parquet_files(where, location, corpus_of=corpus_of, columns=COLUMNS)


def _corpus(columns: list[str], path: str) -> str:
    """Tell the subset of a file by the columns that only it has."""
    if "id_recording" in columns:
        return READ_ALOUD
    if "id_conversation" in columns:
        return CONVERSATION
    raise SourceError(
        f"{path}: not a file of CoRal: expected a column id_recording (read aloud) or "
        f"id_conversation; the columns are {', '.join(columns)}. Other Parquet files are "
        "converted as hf-parquet:FOLDER"
    )
