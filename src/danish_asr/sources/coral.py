"""CoRal: Danish conversational and read-aloud speech (``CoRal-project/coral`` v1, v2 and v3).

The two subsets have different columns, and the versions differ slightly. The columns below are
read; one that a version does not have is null. Licence OpenRAIL-D: no speech synthesis and no
biometric identification. The hub's repositories are gated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from danish_asr.errors import SourceError
from danish_asr.sources.base import COLUMNS, Columns, SourceOptions
from danish_asr.sources.location import locate
from danish_asr.sources.parquet import ParquetSource, open_parquet_files

READ_ALOUD: Final = "coral_read_aloud"
CONVERSATION: Final = "coral_conversation"
"""Names of the corpora in a built dataset; the versions share them."""

_COLUMNS: Final[Mapping[str, Columns]] = {
    READ_ALOUD: {**COLUMNS, "id": "id_recording", "speaker_id": "id_speaker"},
    CONVERSATION: {**COLUMNS, "id": "id_conversation,id_segment", "speaker_id": "id_speaker"},
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
    wanted = _SUBSETS.get(location.subset or "")

    def corpus_of(columns: list[str], path: str) -> str | None:
        for column, corpus in (("id_recording", READ_ALOUD), ("id_conversation", CONVERSATION)):
            if column in columns:
                return corpus if wanted in {None, corpus} else None
        raise SourceError(
            f"{path}: not a file of CoRal: expected a column id_recording (read aloud) or "
            f"id_conversation; found the columns {', '.join(columns)}. Convert other Parquet files "
            "as hf-parquet:FOLDER"
        )

    return open_parquet_files(where, location, _COLUMNS, corpus_of)
