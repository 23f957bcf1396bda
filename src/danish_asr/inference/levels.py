"""The level of a window of speech: speakers made equally loud, and short pauses."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from danish_asr.base.schema import SAMPLE_RATE

FRAME: Final = 320
"""Samples from a frame of the model to the next."""

_LEVELLED: Final = 4 * SAMPLE_RATE
"""Samples of a window from which on it may have speakers of different levels."""

_LEVEL_FRAMES: Final = 75
"""Frames, 1.5 s, over which their level is measured."""

_MOST_GAIN: Final = 4.0
"""By how much a quiet speaker is amplified, and a loud one lowered."""

_STEP: Final = SAMPLE_RATE // 100
"""Samples of which the level says whether they are a pause."""

_LOUD_DB: Final = 50.0
"""Decibels that a recording's noise can be below its speech; what is quieter is silence."""

_PAUSE_LEVEL: Final = 0.4
"""Where a pause lies between the level of the noise, 0, and that of speech, 1."""


def levelled(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a copy of a window, (samples,), with an even level over 1.5 s; gains are 1/4 to 4.

    A model normalises a window as a whole, so that a quiet speaker beside a loud one would be
    quieter than any in training. Windows below 4 s stay as they are.
    """
    frames = len(samples) // FRAME
    if len(samples) < _LEVELLED or not samples.any():
        return samples.copy()
    energy = np.square(samples[: frames * FRAME].reshape(-1, FRAME)).mean(axis=1)
    weights = np.hanning(_LEVEL_FRAMES + 2)[1:-1]
    sums = np.convolve(energy, weights, "same")
    around = sums / np.convolve(np.ones(frames), weights, "same")
    gains = np.sqrt(energy.mean() / np.maximum(around, energy.mean() / _MOST_GAIN**2))
    gains = np.maximum(gains, 1 / _MOST_GAIN)
    middles = np.arange(frames) * FRAME + FRAME // 2
    return (samples * np.interp(np.arange(len(samples)), middles, gains)).astype(np.float32)


def pauses(samples: NDArray[np.float32], shortest: float) -> list[tuple[int, float]]:
    """Return the sample in the middle of each pause of at least so many seconds, and its seconds.

    silero-vad, whose chunks have 32 ms, misses most of those below 0.2 s.
    """
    steps = samples[: len(samples) // _STEP * _STEP].reshape(-1, _STEP)
    if not len(steps):
        return []
    levels = 10 * np.log10(np.square(steps).mean(axis=1) + 1e-12)
    noise, speech = np.percentile(levels, [2, 95])
    noise = max(noise, speech - _LOUD_DB)
    quiet = levels < noise + _PAUSE_LEVEL * (speech - noise)
    # Pairs of where a quiet stretch begins and ends; those at the edges are none within.
    changes = np.flatnonzero(np.diff(quiet)) + 1
    if quiet[0]:
        changes = changes[1:]
    stretches = changes[: len(changes) // 2 * 2].reshape(-1, 2)
    seconds = np.diff(stretches)[:, 0] * _STEP / SAMPLE_RATE
    middles = stretches.sum(axis=1) * _STEP // 2
    lasting = seconds >= shortest
    return [*zip(middles[lasting].tolist(), seconds[lasting].tolist(), strict=True)]
