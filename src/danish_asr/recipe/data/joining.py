"""Joins utterances to longer ones, in training: decided for a whole epoch, before batches are made.

A pair is a row of its own, numbered after the rows of the index, so that the sampler plans with the
lengths that come out. Corpora that are read aloud hold one sentence in a recording; what is to be
recognised holds several, with pauses between them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.data.sampler import Rows

_SHORTEST_PAUSE: Final = 0.1
"""Seconds. Its five frames are enough for the space between two texts: where CTC has enough frames
for each of them, it has enough for both."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of an epoch: two rows of the index each, and the silence between them, (pairs,)."""

    first: Rows
    second: Rows
    pauses: NDArray[np.int32]  # in samples

    def lengths(self, lengths: NDArray[np.int32]) -> NDArray[np.int32]:
        """Samples of each pair, from those of each row."""
        return lengths[self.first] + self.pauses + lengths[self.second]


@dataclass(frozen=True)
class Join:
    """Joins pairs of utterances of one speaker, with silence between them; other pairs each epoch.

    Where speakers are unknown, the two are of one corpus. A pair that would be longer than
    ``max_audio_len`` or ``max_num_elements`` is not joined.

    Attributes:
        probability: That a pair is joined; with 1, nearly all utterances are in one.
        max_pause: The longest silence, in seconds; each is drawn evenly from 0.1 to this.
    """

    probability: float
    max_pause: float = 0.6

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for values that are impossible."""
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability: expected 0 to 1, found {self.probability}")
        if not _SHORTEST_PAUSE <= self.max_pause <= 10:
            raise ValueError(f"max_pause: expected 0.1 to 10 seconds, found {self.max_pause}")

    def draw(
        self,
        entries: Rows,
        voices: NDArray[np.int64],
        lengths: NDArray[np.int32],
        most: int,
        rng: np.random.Generator,
    ) -> tuple[Rows, Pairs]:
        """Pair rows at random; returns an epoch's entries, and the pairs among them.

        Args:
            entries: The rows of the epoch, ascending, repeated rows several times.
            voices: What the rows of a pair must share, for each row of the index.
            lengths: Samples of each row of the index in this epoch.
            most: Samples of the longest pair.
            rng: Seeded for this epoch.
        """
        places = np.lexsort((rng.random(len(entries)), voices[entries]))
        rows = entries[places]
        same = voices[rows[1:]] == voices[rows[:-1]]
        # The first row of a voice with its second, the third with the fourth, ...
        numbers = np.arange(len(rows))
        begins = np.maximum.accumulate(np.where(np.append(True, ~same), numbers, 0))
        at = np.flatnonzero(same & ((numbers - begins)[:-1] % 2 == 0))
        at = at[(rng.random(len(at)) < self.probability) & (rows[at] != rows[at + 1])]
        seconds = rng.uniform(_SHORTEST_PAUSE, self.max_pause, len(at))
        pauses = (seconds * SAMPLE_RATE).astype(np.int32)
        fits = Pairs(rows[at], rows[at + 1], pauses).lengths(lengths) <= most
        at, pauses = at[fits], pauses[fits]
        alone = np.ones(len(entries), np.bool_)
        alone[places[at]] = alone[places[at + 1]] = False
        new = len(lengths) + np.arange(len(at), dtype=np.int32)
        return np.concatenate([entries[alone], new]), Pairs(rows[at], rows[at + 1], pauses)
