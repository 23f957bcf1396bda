"""Utterances of any source to a built dataset (the contract: ``data/README.md``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """Options of a conversion, with the defaults of ``danish-asr convert``.

    Attributes:
        max_seconds: Longer utterances go to the ledger. The limit also bounds memory.
        shard_rows: Most source rows per shard; row groups of the source stay whole if they fit.
        max_drop: Largest share of the source rows that may go to the ledger. It stops a
            conversion; it does not change its bytes.
    """

    max_seconds: float = 600.0
    shard_rows: int = 1000
    max_drop: float = 0.05
