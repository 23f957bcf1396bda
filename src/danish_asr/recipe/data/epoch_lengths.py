"""The lengths of an epoch's rows: speed, joined utterances, and what else changes a length.

All of it is drawn for a whole epoch before batches are made, from seed and epoch alone, so that the
sampler plans with the lengths that come out.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
import soxr
from numpy.typing import NDArray
from typing_extensions import override

from danish_asr.base.audio import RESAMPLING_QUALITY
from danish_asr.base.errors import user_code
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.data.sampler import RandomStream, Rows
from danish_asr.recipe.data.transforms import Transform, Waveform

_SHORTEST_PAUSE: Final = 0.1
"""Seconds. Its five frames are enough for the space between two texts: where CTC has enough frames
for each of them, it has enough for both."""


class LengthTransform(ABC):
    """Changes a training waveform and its length, by a rule that needs no audio.

    Batches are made of the new lengths, so all that is random is drawn for the whole epoch first.
    A row that would break a limit (``min_audio_len``, ``max_audio_len``, ``max_num_elements``, the
    frames that CTC needs) is not transformed in that epoch. Acts before normalisation. A subclass
    is a dataclass, as a :class:`Transform` is.
    """

    @abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> NDArray[Any]:
        """A value for each of ``count`` rows, ``(count,)``."""

    @abstractmethod
    def lengths(self, lengths: NDArray[np.int32], values: NDArray[Any]) -> NDArray[np.int32]:
        """The samples that come out for rows of these lengths with these values, ``(rows,)``."""

    @abstractmethod
    def __call__(self, waveform: Waveform, value: Any) -> Waveform:
        """Return a waveform with exactly the samples that :meth:`lengths` states for the value."""


@dataclass(frozen=True)
class Speed(LengthTransform):
    """Plays each row at one of several speeds, drawn evenly.

    Ko et al., "Audio augmentation for speech recognition", Interspeech 2015: the waveform is
    resampled, so that a factor of 1.1 leaves 1 / 1.1 of its length and raises its pitch by a tenth.
    """

    factors: Sequence[float]

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for factors that cannot be used."""
        factors = list(self.factors)
        if not factors or len(set(factors)) < len(factors) or len(factors) > 255:
            raise ValueError(f"expected 1 to 255 factors, each once, found {factors}")
        if not all(0.5 <= factor <= 2 for factor in factors):
            raise ValueError(f"expected factors from 0.5 to 2, found {factors}")

    @override
    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        codes = rng.integers(1, len(self.factors), count, np.uint8, endpoint=True)
        return np.asarray(np.array(self.factors)[codes - 1], np.float64)

    @override
    def lengths(self, lengths: NDArray[np.int32], values: NDArray[np.float64]) -> NDArray[np.int32]:
        return np.asarray(np.rint(lengths / values), np.int32)

    @override
    def __call__(self, waveform: Waveform, value: float) -> Waveform:
        if value == 1:
            return waveform
        rate = SAMPLE_RATE * value
        played = soxr.resample(waveform, rate, SAMPLE_RATE, quality=RESAMPLING_QUALITY)
        # soxr's odd sample is cut, or a zero fills its place.
        samples = int(np.rint(len(waveform) / value))
        return np.pad(played[:samples], (0, max(0, samples - len(played))))


class Pairs(NamedTuple):
    """The pairs of an epoch: two rows of the index each, and the silence between them, (pairs,)."""

    first: Rows
    second: Rows
    pauses: NDArray[np.int32]  # in samples


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

        ``entries`` are the rows of the epoch, ascending, repeated rows several times; ``voices``
        what the rows of a pair must share and ``lengths`` the samples in this epoch, of each row of
        the index; ``most`` the samples of the longest pair.
        """
        # Rows of one voice stand together, in random order.
        order = np.lexsort((rng.random(len(entries)), voices[entries]))
        rows = entries[order]
        same_voice = voices[rows[1:]] == voices[rows[:-1]]
        numbers = np.arange(len(rows))
        voice_begins = np.maximum.accumulate(np.where(np.append(True, ~same_voice), numbers, 0))
        # The first row of a voice with its second, the third with the fourth, ...
        at = np.flatnonzero(same_voice & ((numbers - voice_begins)[:-1] % 2 == 0))
        chosen = (rng.random(len(at)) < self.probability) & (rows[at] != rows[at + 1])
        at = at[chosen]
        seconds = rng.uniform(_SHORTEST_PAUSE, self.max_pause, len(at))
        pauses = (seconds * SAMPLE_RATE).astype(np.int32)
        fits = lengths[rows[at]] + pauses + lengths[rows[at + 1]] <= most
        at, pauses = at[fits], pauses[fits]
        alone = np.ones(len(entries), np.bool_)
        alone[order[at]] = False
        alone[order[at + 1]] = False
        new = len(lengths) + np.arange(len(at), dtype=np.int32)
        return np.concatenate([entries[alone], new]), Pairs(rows[at], rows[at + 1], pauses)


AnyTransform: TypeAlias = Transform | LengthTransform | Join


@dataclass(frozen=True, eq=False)
class EpochLengths:
    """The lengths of all rows in one epoch, and the draws that they follow from.

    Attributes:
        lengths: Samples of every row of the index, and then of every pair, ``(rows + pairs,)``.
        draws: For each length transform its value for every row, and whether it acts on the row.
        pairs: Rows that are joined in this epoch.
    """

    lengths: NDArray[np.int32]
    draws: tuple[tuple[LengthTransform, NDArray[Any], NDArray[np.bool_]], ...] = ()
    pairs: Pairs | None = None

    @classmethod
    def draw(
        cls,
        transforms: Sequence[AnyTransform],
        lengths: NDArray[np.int32],
        fits: Callable[[NDArray[np.int32]], NDArray[np.bool_]],
        *,
        seed: int,
        epoch: int,
    ) -> Self:
        """Draw an epoch's values; a row acts only if it ``fits`` with its new length."""
        rng = RandomStream.LENGTHS.generator(seed, epoch)
        draws = []
        for transform in transforms:
            if isinstance(transform, LengthTransform):
                with user_code(transform, "in `draw` and `lengths`"):
                    values = transform.draw(len(lengths), rng)
                    changed = np.asarray(transform.lengths(lengths, values))
                    if changed.shape != lengths.shape or changed.dtype.kind not in "iu":
                        raise TypeError(f"expected {lengths.shape} integers from `lengths`")
                acts = fits(changed)
                lengths = np.where(acts, changed, lengths)
                draws.append((transform, values, acts))
        return cls(lengths, tuple(draws))

    def joined(self, pairs: Pairs) -> Self:
        """These lengths, and those of the pairs."""
        of_pairs = self.lengths[pairs.first] + pairs.pauses + self.lengths[pairs.second]
        return replace(self, lengths=np.append(self.lengths, of_pairs), pairs=pairs)

    def parts(self, row: int) -> tuple[list[int], int]:
        """The rows of the index that a row or pair is made of, and the samples between two."""
        if self.pairs is None or row < len(self.lengths) - len(self.pairs.first):
            return [row], 0
        number = row - len(self.lengths)  # from the end
        rows = [int(self.pairs.first[number]), int(self.pairs.second[number])]
        return rows, int(self.pairs.pauses[number])

    def change(self, waveform: Waveform, row: int) -> Waveform:
        """Apply the length transforms that act on a row of the index."""
        for transform, values, acts in self.draws:
            if acts[row]:
                with user_code(transform, "changing a waveform"):
                    waveform = np.asarray(transform(waveform, values[row]), np.float32)
        if len(waveform) != self.lengths[row]:
            names = ", ".join(type(transform).__name__ for transform, _, _ in self.draws)
            raise ValueError(
                f"{names} returned {len(waveform)} samples, `lengths` stated {self.lengths[row]}"
            )
        return waveform
