"""Speech for tests, which is the same whatever the process said before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import soxr
from numpy.typing import NDArray

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.base.workers import run_in_processes
from danish_asr.corpus.sources.voices import Espeak, SyntheticSpeaker

Utterance = tuple[str, SyntheticSpeaker]


def speak(*utterances: Utterance) -> list[NDArray[np.float32]]:
    """Return what a new process of eSpeak NG says, each (samples,) in [-1, 1], at 16 kHz.

    Its voices continue from one call of the library to the next. Ending and starting it again does
    not reset them: only a new process does.
    """
    (spoken,) = run_in_processes(_speak, [utterances], 1, fresh=True)
    return spoken


def _speak(utterances: Sequence[Utterance]) -> list[NDArray[np.float32]]:
    espeak = Espeak()
    return [
        soxr.resample(espeak.speak(text, speaker), espeak.sample_rate, SAMPLE_RATE)
        for text, speaker in utterances
    ]
