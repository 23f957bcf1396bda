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

_SHORTEST_PAUSE: Final = 0.02
"""Seconds. Its frame is enough for the space between two texts: where CTC has enough frames for
each of them, it has enough for both."""

_FLOOR: Final = SAMPLE_RATE // 50
"""Samples over which the level of the noise is measured."""


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


class Joined(NamedTuple):
    """The joined utterances of an epoch, flat: those of one after those of the other."""

    parts: Rows
    """The row of the index of each part, (parts,)."""

    pauses: NDArray[np.int32]
    """The samples of the pause before each part, 0 before the first of its utterance, (parts,)."""

    begins: NDArray[np.int64]
    """Where the parts of each joined utterance begin, and the number of parts, (joined + 1,)."""


@dataclass(frozen=True)
class Join:
    """Joins utterances, with pauses between them, as in a recording; other ones each epoch.

    They are of one corpus, and of any speakers. A pause has noise as quiet as the quietest 20 ms of
    the utterances beside it. What would be longer than ``max_audio_len`` or ``max_num_elements`` is
    not joined.

    Attributes:
        probability: That another utterance follows. With 0.5, joined utterances have 3 parts on
            average.
        max_pause: The longest pause, in seconds; each is drawn from 0.02 to this, evenly on a
            logarithmic scale.
    """

    probability: float
    max_pause: float = 0.4

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for values that are impossible."""
        if not 0 <= self.probability < 1:
            raise ValueError(f"probability: expected 0 to below 1, found {self.probability}")
        if not _SHORTEST_PAUSE <= self.max_pause <= 10:
            raise ValueError(f"max_pause: expected 0.02 to 10 seconds, found {self.max_pause}")

    def draw(
        self,
        entries: Rows,
        corpora: NDArray[np.int16],
        lengths: NDArray[np.int32],
        most: int,
        rng: np.random.Generator,
    ) -> tuple[Rows, Joined]:
        """Join rows at random; returns an epoch's entries, and the joined ones among them.

        ``entries`` are the rows of the epoch, ascending, repeated rows several times; ``corpora``
        the partition and ``lengths`` the samples in this epoch, of each row of the index; ``most``
        the samples of the longest joined utterance.
        """
        # Rows of one corpus stand together, in random order.
        rows = entries[np.lexsort((rng.random(len(entries)), corpora[entries]))]
        follows = rng.random(len(rows)) < self.probability
        follows[:1] = False
        follows[1:] &= (corpora[rows[1:]] == corpora[rows[:-1]]) & (rows[1:] != rows[:-1])
        logs = rng.uniform(np.log(_SHORTEST_PAUSE), np.log(self.max_pause), len(rows))
        pauses = np.where(follows, np.exp(logs) * SAMPLE_RATE, 0).astype(np.int32)
        begins = np.flatnonzero(~follows)
        sizes = np.diff(np.append(begins, len(rows)))
        samples = np.add.reduceat(lengths[rows] + pauses.astype(np.int64), begins)
        joined = (sizes > 1) & (samples <= most)
        is_part = np.repeat(joined, sizes)
        new = len(lengths) + np.arange(joined.sum(), dtype=np.int32)
        entries = np.concatenate([np.sort(rows[~is_part]), new])
        begins = np.append(0, np.cumsum(sizes[joined]))
        return entries, Joined(rows[is_part], pauses[is_part], begins)


def fill_pauses(
    out: Waveform,
    parts: Sequence[tuple[int, int]],
    lengths: NDArray[np.int32],
    rng: np.random.Generator,
) -> None:
    """Fill the pauses of a joined utterance in place with white noise, as quiet as its parts.

    Args:
        out: ``(samples,)``, with the waveforms of the parts.
        parts: The row of each part, and the samples of the pause before it.
        lengths: Samples of each row.
        rng: Draws the noise.
    """
    level, begin = 0.0, 0
    for row, pause in parts:
        part = begin + pause
        end = part + int(lengths[row])
        next_level = _quietest(out[part:end])
        fade = np.linspace(level, next_level, pause, dtype=np.float32)
        out[begin:part] = fade * rng.standard_normal(pause, np.float32)
        level, begin = next_level, end


def _quietest(waveform: Waveform) -> float:
    """The level (root mean square) of the quietest 20 ms; 0 for a shorter waveform."""
    frames = waveform[: len(waveform) // _FLOOR * _FLOOR].reshape(-1, _FLOOR)
    return float(np.sqrt(np.square(frames).mean(axis=1).min())) if len(frames) else 0.0


AnyTransform: TypeAlias = Transform | LengthTransform | Join


@dataclass(frozen=True, eq=False)
class EpochLengths:
    """The lengths of all rows in one epoch, and the draws that they follow from.

    Attributes:
        lengths: Samples of every row of the index, then of every joined one, ``(rows + joined,)``.
        draws: For each length transform its value for every row, and whether it acts on the row.
        joined: Rows that are joined in this epoch.
    """

    lengths: NDArray[np.int32]
    draws: tuple[tuple[LengthTransform, NDArray[Any], NDArray[np.bool_]], ...] = ()
    joined: Joined | None = None

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

    def with_joined(self, joined: Joined) -> Self:
        """These lengths, and those of the joined utterances."""
        samples = self.lengths[joined.parts] + joined.pauses
        sums = np.add.reduceat(samples, joined.begins[:-1]) if len(samples) else samples
        return replace(self, lengths=np.append(self.lengths, sums), joined=joined)

    def parts(self, row: int) -> list[tuple[int, int]]:
        """The rows of the index of which a row is made, each after the samples of a pause."""
        number = row - len(self.lengths)  # from the end
        if self.joined is None or number < -len(self.joined.begins) + 1:
            return [(row, 0)]
        begin, end = self.joined.begins[number - 1], self.joined.begins[number]
        parts, pauses = self.joined.parts[begin:end], self.joined.pauses[begin:end]
        return [*zip(parts.tolist(), pauses.tolist(), strict=True)]

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
