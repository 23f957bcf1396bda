"""A share of a split's hours, so that a larger share contains the smaller one."""

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from danish_asr.recipe.data.index import Index


def rows_of_share(index: Index, share: float, seed: int) -> NDArray[np.int64]:
    """Return the rows of about this share of each dialect's hours, ascending.

    Speakers are taken one after the other, in an order that depends on the seed and their names
    alone; of the last one of a dialect only as much as is needed. A row without a speaker is its
    own. At least one row of each dialect is taken.
    """
    place_of = _places(index, seed)
    codes, _ = index.dialects()
    order = np.lexsort((np.arange(len(index)), place_of, codes))
    lengths = index.lengths[order].astype(np.int64)
    chosen = np.zeros(len(index), np.bool_)
    ends = np.flatnonzero(np.diff(codes[order], append=-1)) + 1
    begin = 0
    for end in ends.tolist():
        sums = lengths[begin:end].cumsum()
        wanted = share * sums[-1]
        middles = sums - lengths[begin:end] / 2  # so that the sum is as near as rows allow
        taken = max(int(np.count_nonzero(middles < wanted)), 1)
        chosen[order[begin : begin + taken]] = True
        begin = end
    return np.flatnonzero(chosen)


def _places(index: Index, seed: int) -> NDArray[Any]:
    """Return a number per row, the same for rows of one speaker, ``(rows,)``, drawn by the seed."""
    speakers = index.values("speaker_id", range(len(index)))
    places: dict[str, int] = {}
    numbers = np.empty(len(index), np.uint64)
    for row, (speaker, partition) in enumerate(zip(speakers, index.partition_of, strict=True)):
        name = f"{index.partitions[partition].corpus} {speaker}"
        if speaker is None:
            (name,) = index.values("id", [row])
        if name not in places:
            digest = blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
            places[name] = int.from_bytes(digest, "little")
        numbers[row] = places[name]
    return numbers
