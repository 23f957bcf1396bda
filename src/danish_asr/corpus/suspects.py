"""Measure the audio of an utterance: what cannot be speech, and what a person should listen to.

Each limit is a matter of judgement, except that of `_IMPOSSIBLE`: the fastest speaker on record
recited 260 words of English, about 1,050 letters, in 23.8 s (Sean Shannon, 655 words a minute,
Guinness World Records 1995), which is 44 letters a second.
"""

from collections.abc import Iterator
from math import log10
from typing import Final

import numpy as np
from numpy.typing import NDArray

from danish_asr.base.audio.decode import AudioError
from danish_asr.base.schema import SAMPLE_RATE

_IMPOSSIBLE: Final = 50  # letters and digits per second
_PLAUSIBLE: Final = (1.0, 30.0)  # the same
_ROUNDING: Final = 0.01  # seconds by which a manifest may round a duration up
_FULL_SCALE: Final = 0.999
_CLIPPED: Final = 0.001  # share of the samples at full scale
_QUIET: Final = -60.0  # dBFS, RMS
_SILENCE: Final = (3.0, 1e-4)  # seconds; energy below this share of the loudest frame's
_FRAME: Final = SAMPLE_RATE // 100


def examine(
    mono: NDArray[np.float32], peak: float, text: str, asked: float | None
) -> Iterator[tuple[str, float]]:
    """Yield the reasons to suspect an utterance of 16 kHz, with what was measured.

    ``peak`` is that of `peak_of`, ``asked`` the length in seconds that the corpus gives.

    Raises:
        AudioError: It cannot be speech.
    """
    seconds = len(mono) / SAMPLE_RATE
    speed = sum(map(str.isalnum, text)) / seconds
    whole = len(mono) - len(mono) % _FRAME
    frames = mono[:whole].reshape(-1, _FRAME) if whole else mono[None]
    energies = np.einsum("ij,ij->i", frames, frames)
    if peak * 32768 < 1.5:  # dither at most: the last of 16 bits
        raise AudioError("digital silence")
    if speed > _IMPOSSIBLE:
        raise AudioError(f"more than {_IMPOSSIBLE} letters per second")
    if not _PLAUSIBLE[0] <= speed <= _PLAUSIBLE[1]:
        yield "letters per second", speed
    if asked is not None and asked - seconds > _ROUNDING:
        yield "seconds missing at the end", asked - seconds
    if peak >= _FULL_SCALE:
        share = np.count_nonzero(np.abs(mono) >= _FULL_SCALE) / len(mono)
        if share > _CLIPPED:
            yield "share of clipped samples", share
    loudness = 10 * log10(max(float(energies.mean()) / frames.shape[1], 1e-12))
    if loudness < _QUIET:
        yield "dBFS, very quiet", loudness
    loud = np.flatnonzero(energies >= _SILENCE[1] * energies.max())
    pause = (loud[1:] - loud[:-1]).max(initial=1) - 1
    silence = float(max(loud[0], pause, len(energies) - 1 - loud[-1])) / 100
    if silence > _SILENCE[0]:
        yield "seconds of silence", silence
