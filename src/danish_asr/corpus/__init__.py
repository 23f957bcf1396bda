"""From a corpus to a built dataset, its check, and finding its shards again.

Comes in: a folder, a manifest or a corpus of the hub (``sources/``, one file per kind).
Goes out: Parquet shards with FLAC, a ledger of what was left out, cards and ``manifest.json``, the
contract of which is ``data/README.md``.
Read first: ``convert.py``.
"""

from dataclasses import dataclass
from typing import Final

DANISH: Final = "dan_Latn"
"""omniASR's code for Danish in Latin script, the language of a dataset that names no other."""

LANGUAGE_CODE: Final = "[a-z]{3}_[A-Z][a-z]{3}"
"""The form of such codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """Options of a conversion, with the defaults of ``danish-asr convert``."""

    max_seconds: float = 600.0  # longer utterances go to the ledger; this also bounds memory
    shard_rows: int = 1000  # most source rows per shard; row groups stay whole if they fit
    max_drop: float = 0.05  # largest share of the rows that may go to the ledger
    split_by_speaker: str | None = None  # shares, such as 80/10/10; None keeps the source's splits
    language: str = DANISH  # omniASR's code: the partition of all rows
    channel: int | None = None  # from 1, for rows that name none; None for the mean of all
    drop_shared_sentences: bool = False  # rows of train whose sentence is in dev or test
