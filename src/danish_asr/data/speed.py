"""Speed perturbation: in each epoch a row is played at one of several speeds.

Ko et al., "Audio augmentation for speech recognition", Interspeech 2015: the waveform is resampled,
so that a factor of 1.1 leaves 1 / 1.1 of its length and raises its pitch by a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import soxr
from numpy.typing import NDArray

from danish_asr.audio import RESAMPLING_QUALITY
from danish_asr.data.frames import FrameCount
from danish_asr.schema import SAMPLE_RATE

MOST_FACTORS: Final = 255
"""A row's factor is kept as one byte, of which 0 is the speed as it was recorded."""


@dataclass(frozen=True, eq=False)
class Speeds:
    """The speed of every row in one epoch.

    Attributes:
        factors: The factor of each code; the first is 1.
        codes: ``(rows,)`` uint8, one per row of the index.
    """

    factors: NDArray[np.float64]
    codes: NDArray[np.uint8]

    def of(self, rows: NDArray[np.integer[Any]] | slice) -> NDArray[np.float64]:
        """The factor of each of these rows."""
        factors: NDArray[np.float64] = self.factors[self.codes[rows]]
        return factors


@dataclass(frozen=True, eq=False)
class SpeedPerturbation:
    """Draws the speeds of an epoch.

    Attributes:
        factors: To choose from, all alike.
        suits: ``(factors, rows)``: whether a row may be played so; where it may not, a row that
            draws the factor keeps its own speed.
    """

    factors: tuple[float, ...]
    suits: NDArray[np.bool_]

    @classmethod
    def within(
        cls,
        factors: Sequence[float],
        lengths: NDArray[np.int32],
        *,
        least: int,
        most: int,
        needed: NDArray[np.int32],
        frames: FrameCount,
    ) -> SpeedPerturbation:
        """Keep every row at lengths that it can be trained on.

        Args:
            factors: To choose from.
            lengths: Samples of every row of the index.
            least: Fewest samples of a training utterance.
            most: Most samples of one.
            needed: Frames that CTC needs for each row; 0 if any of the factors leaves enough.
            frames: The model's frames for a number of samples.
        """
        suits = np.empty((len(factors), len(lengths)), np.bool_)
        tight = np.flatnonzero(needed)
        for fits, factor in zip(suits, factors, strict=True):
            changed = perturbed_lengths(lengths, factor)
            fits[:] = (changed >= least) & (changed <= most)
            there = [frames(samples) for samples in changed[tight].tolist()]
            fits[tight] &= np.array(there, np.int64) >= needed[tight]
        return cls(tuple(factors), suits)

    def draw(self, *, seed: int, epoch: int) -> Speeds:
        """The speeds of an epoch; nothing but the seed and the epoch decides."""
        rng = np.random.default_rng([seed, epoch, 3])
        count = self.suits.shape[1]
        codes = rng.integers(1, len(self.factors), count, np.uint8, endpoint=True)
        for code, fits in enumerate(self.suits, start=1):
            codes[(codes == code) & ~fits] = 0
        return Speeds(np.array([1.0, *self.factors]), codes)


def perturbed_lengths(
    lengths: NDArray[np.int32], factors: float | NDArray[np.float64]
) -> NDArray[np.int32]:
    """Samples of rows that are played faster by these factors."""
    return np.asarray(np.rint(lengths / factors), np.int32)


def change_speed(waveform: NDArray[np.float32], factor: float, out: NDArray[np.float32]) -> None:
    """Play a waveform faster, into ``out``; soxr's odd sample is cut, or a zero stands for it."""
    played = soxr.resample(waveform, SAMPLE_RATE * factor, SAMPLE_RATE, quality=RESAMPLING_QUALITY)
    count = min(len(played), len(out))
    out[:count] = played[:count]
    out[count:] = 0
