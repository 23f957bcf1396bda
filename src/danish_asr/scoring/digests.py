"""What says that two files have the same hypotheses, or the same references: a hash of each.

The hash of a row is the SHA-256 of the JSON array of its id and its text, such as
``["utt-1", "det er koldt"]``, in UTF-8. The hash of a file is the sum of those of its rows modulo
2**256, so that it depends neither on the order of the rows nor on the format of the file.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from danish_asr.scoring.predictions import Prediction

_MODULUS: Final = 1 << 256


class Digests(NamedTuple):
    """In hexadecimal; the names are the keys in JSON."""

    predictions_sha256: str
    references_sha256: str


class RowDigests:
    """The sums over the rows that were added."""

    def __init__(self) -> None:
        self._hypotheses = self._references = 0

    def add(self, row: Prediction) -> None:
        """Add a row, once."""
        self._hypotheses += _of_text(row.id, row.hypothesis)
        self._references += _of_text(row.id, row.reference)

    def digests(self) -> Digests:
        """Return both hashes."""
        sums = self._hypotheses, self._references
        return Digests(*(f"{total % _MODULUS:064x}" for total in sums))


def digests_by_corpus(
    predictions: Iterable[Prediction],
) -> dict[tuple[str | None, str | None], Digests]:
    """Return the hashes of the rows of each corpus and split."""
    parts: dict[tuple[str | None, str | None], RowDigests] = {}
    for row in predictions:
        parts.setdefault((row.corpus, row.split), RowDigests()).add(row)
    return {part: rows.digests() for part, rows in parts.items()}


def digests_of(predictions: Iterable[Prediction]) -> Digests:
    """Return the hashes of rows."""
    rows = RowDigests()
    for row in predictions:
        rows.add(row)
    return rows.digests()


def _of_text(row_id: str, text: str) -> int:
    line = json.dumps([row_id, text], ensure_ascii=False).encode()
    return int.from_bytes(hashlib.sha256(line).digest(), "big")
