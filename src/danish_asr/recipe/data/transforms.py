"""Transforms of training waveforms: speed perturbation, SpecAugment and those that users add.

docs/extending.md shows how to add one. All that is random follows from seed and epoch: a
:class:`LengthTransform` draws once per row of the index, before batches are made; a
:class:`Transform` draws from a generator that is seeded with the utterance's place in the epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from typing_extensions import override

from danish_asr.base.audio.decode import RESAMPLING_QUALITY
from danish_asr.base.extending import user_code
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.data.joining import Join, Pairs

Waveform: TypeAlias = NDArray[np.float32]
"""``(samples,)`` at 16 kHz, in -1 to 1 before normalisation."""

_N_FFT: Final = 400
_HOP: Final = 200
_LEAST_FREQUENCY_MASK: Final = 20
_MOST_TIME_MASK: Final = 120


class Transform(ABC):
    """Changes a training waveform, but not its length.

    A subclass is a dataclass whose fields are the keys of its entry in ``dataset.transforms``; its
    ``__post_init__`` raises ``ValueError`` if a value is impossible.

    Attributes:
        after_normalization: Act on the waveform as the model sees it. Default: before
            ``normalize_audio``.
    """

    after_normalization: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, waveform: Waveform, rng: np.random.Generator) -> Waveform:
        """Return a waveform of the same length; the input may be changed in place."""


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


AnyTransform: TypeAlias = Transform | LengthTransform | Join


@dataclass(frozen=True)
class Speed(LengthTransform):
    """Plays each row at one of several speeds, drawn evenly.

    Ko et al., "Audio augmentation for speech recognition", Interspeech 2015: the waveform is
    resampled, so that a factor of 1.1 leaves 1 / 1.1 of its length and raises its pitch by a tenth.
    """

    factors: Sequence[float]

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for factors that cannot be used."""
        for factor in self.factors:
            if not 0.5 <= factor <= 2:
                raise ValueError(f"expected factors from 0.5 to 2, found {factor}")
        if not 0 < len(set(self.factors)) == len(self.factors) <= 255:
            raise ValueError(f"expected 1 to 255 factors, each once, found {list(self.factors)}")

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
        out = np.zeros(int(np.rint(len(waveform) / value)), np.float32)
        count = min(len(played), len(out))
        out[:count] = played[:count]
        return out


@dataclass(frozen=True)
class SpecAugment(Transform):
    """Masks a band of frequencies and a stretch of time (arXiv:1904.08779).

    The short-time transform (400 samples, hop 200) and the ranges of the masks are upstream's.
    Upstream masks time in place of frequency, as it indexes the axes of a multi-channel
    spectrogram; here each mask acts on its own axis.

    Attributes:
        probability: That an utterance is augmented.
        max_frequency: Most bins of 201 that are masked; the least is 20, or this if smaller.
        max_time: Most frames that are masked; never above 120 or a quarter of the utterance.
    """

    after_normalization: ClassVar[bool] = True

    probability: float
    max_frequency: int = 80
    max_time: int = 80

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for values that are impossible."""
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability: expected 0 to 1, found {self.probability}")
        if min(self.max_frequency, self.max_time) < 0:
            raise ValueError("max_frequency, max_time: expected 0 or more")

    @override
    def __call__(self, waveform: Waveform, rng: np.random.Generator) -> Waveform:
        if rng.random() >= self.probability or len(waveform) <= _N_FFT:
            return waveform
        window = torch.hann_window(_N_FFT)
        spectrum = torch.stft(
            torch.from_numpy(waveform), _N_FFT, _HOP, window=window, return_complex=True
        )
        bins, frames = spectrum.shape
        most = min(self.max_frequency, bins)
        width = int(rng.integers(min(_LEAST_FREQUENCY_MASK, most), most + 1))
        low = int(rng.integers(0, bins - width + 1))
        spectrum[low : low + width] = 0
        width = int(rng.integers(0, min(self.max_time, _MOST_TIME_MASK, frames // 4) + 1))
        first = int(rng.integers(0, frames - width + 1))
        spectrum[:, first : first + width] = 0
        masked = torch.istft(spectrum, _N_FFT, _HOP, window=window, length=len(waveform))
        return np.asarray(masked.numpy(), np.float32)


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
    ) -> EpochLengths:
        """Draw an epoch's values; a row acts only if it ``fits`` with its new length."""
        rng = np.random.default_rng([seed, epoch, 3])
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

    def joined(self, pairs: Pairs) -> EpochLengths:
        """These lengths, and those of the pairs."""
        return replace(
            self, lengths=np.append(self.lengths, pairs.lengths(self.lengths)), pairs=pairs
        )

    def parts(self, row: int) -> tuple[list[int], int]:
        """The rows of the index that a row or pair is made of, and the samples between two."""
        if self.pairs is None or (number := row - len(self.lengths) + len(self.pairs.first)) < 0:
            return [row], 0
        pairs = self.pairs
        return [int(pairs.first[number]), int(pairs.second[number])], int(pairs.pauses[number])

    def change(self, waveform: Waveform, row: int) -> Waveform:
        """Apply the length transforms that act on a row of the index."""
        for transform, values, acts in self.draws:
            if acts[row]:
                with user_code(transform, "changing a waveform"):
                    waveform = np.asarray(transform(waveform, values[row]), np.float32)
        if len(waveform) != (stated := self.lengths[row]):
            names = ", ".join(type(transform).__name__ for transform, _, _ in self.draws)
            raise ValueError(f"{names} returned {len(waveform)} samples, `lengths` stated {stated}")
        return waveform
