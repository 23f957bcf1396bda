"""Danish speech from eSpeak NG, through its C library.

The library carries state from one call to the next (its flutter and its noise go on), so that the
samples of a sentence depend on all that was said before in the process. Whoever wants the same
bytes again says the same sentences in the same order in a fresh process.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from danish_asr.errors import MissingExtraError, SourceError

# From espeak-ng's speak_lib.h.
_OUTPUT_SYNCHRONOUS: Final = 2
_CHARS_UTF8: Final = 1
_RATE, _PITCH, _RANGE = 1, 3, 4

_SEED: Final = 1

_CALLBACK: Final = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """How a speaker sounds.

    Attributes:
        name: eSpeak's voice and variant, such as ``da+f2``.
        rate: Words per minute, from 80 to 450.
        pitch: Base pitch, from 0 to 99; 50 is the voice's own.
        pitch_range: How lively the pitch moves, from 0 (monotone) to 99; 50 is the voice's own.
    """

    name: str
    rate: int
    pitch: int
    pitch_range: int


def find_espeak() -> Any:
    """The module that knows where the library is.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module("espeakng_loader")
    except ImportError:
        raise MissingExtraError("synthetic speech", "synthetic") from None


class Espeak:
    """eSpeak NG's synthesiser; one per process, as the library has global state."""

    def __init__(self) -> None:
        loader = find_espeak()
        self._library: Any = ctypes.CDLL(loader.get_library_path())
        data = loader.get_data_path().encode()
        self.sample_rate = int(self._library.espeak_Initialize(_OUTPUT_SYNCHRONOUS, 0, data, 0))
        if self.sample_rate <= 0:
            raise SourceError(f"eSpeak NG does not start with its data in {data.decode()}")
        # Otherwise the noise in its voices would begin with the time of day.
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(_SEED))
        self._said: list[NDArray[np.int16]] = []
        # A reference must live as long as the library may call.
        self._callback = _CALLBACK(self._receive)
        self._library.espeak_SetSynthCallback(self._callback)

    def say(self, text: str, voice: Voice) -> NDArray[np.float32]:
        """Return the speech as samples in [-1, 1] at `sample_rate`."""
        if self._library.espeak_SetVoiceByName(voice.name.encode()) != 0:
            raise SourceError(f"eSpeak NG has no voice '{voice.name}'")
        for parameter, value in (
            (_RATE, voice.rate),
            (_PITCH, voice.pitch),
            (_RANGE, voice.pitch_range),
        ):
            self._library.espeak_SetParameter(parameter, value, 0)
        encoded = text.encode()
        self._said.clear()
        self._library.espeak_Synth(encoded, len(encoded) + 1, 0, 0, 0, _CHARS_UTF8, None, None)
        self._library.espeak_Synchronize()
        samples: NDArray[np.float32] = np.concatenate([np.empty(0, np.int16), *self._said]) / (
            np.float32(32768)
        )
        return samples

    def _receive(self, samples: Any, count: int, _events: int | None) -> int:
        if count > 0:
            self._said.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0
