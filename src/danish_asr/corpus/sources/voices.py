"""The speech of the synthetic corpus: eSpeak NG, and its speakers in ``voices.toml``.

A synthesiser has no Danish dialects. Each group has its own voices, rate, pitch and melody instead,
which describe no real dialect. Non-native speech is Danish text in a Norwegian or Swedish voice.
"""

import ctypes
import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from danish_asr.base.errors import MissingExtraError, SourceError
from danish_asr.corpus.people import NON_NATIVE, SUB_DIALECTS


class DialectVoice(NamedTuple):
    """Settings of a dialect group in ``voices.toml``."""

    share: float
    women: list[str]
    men: list[str]
    rate: int
    pitch: int
    pitch_range: int


_VOICES: Final[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("voices.toml").read_text(encoding="utf-8")
)
DIALECT_VOICES: Final = {
    dialect: DialectVoice(**values) for dialect, values in _VOICES["dialects"].items()
}
AGE_GROUPS: Final[list[dict[str, Any]]] = _VOICES["ages"]

# From espeak-ng's speak_lib.h.
_OUTPUT_SYNCHRONOUS, _CHARS_UTF8 = 2, 1
_RATE, _PITCH, _RANGE = 1, 3, 4
_CALLBACK: Final = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


@dataclass(frozen=True, slots=True)
class SyntheticSpeaker:
    """A speaker with settings of eSpeak NG and a recording place."""

    row: dict[str, Any]  # the speaker's columns in CoRal
    voice: str  # eSpeak's voice and variant, such as da+f2
    rate: int  # words per minute, from 80 to 450
    pitch: int  # from 0 to 99; 50 is the voice's own
    pitch_range: int  # from 0 (monotone) to 99; 50 is the voice's own
    noise_db: float  # level of the noise below the speech
    gain_db: float  # level of the recording below full scale


def draw_speaker(random: Random, id_: str, dialect: str, age_group: int | None) -> SyntheticSpeaker:
    """Draw a speaker of a dialect; ``age_group`` is an index into `AGE_GROUPS`, None for any.

    The order of the draws fixes the bytes of the corpus.
    """
    settings = DIALECT_VOICES[dialect]
    if age_group is None:
        shares = [group["share"] for group in AGE_GROUPS]
        age_group = random.choices(range(len(AGE_GROUPS)), shares)[0]
    ages = AGE_GROUPS[age_group]
    genders = _VOICES["genders"]
    gender = random.choices(list(genders), list(genders.values()))[0]
    everyone = settings.women + settings.men
    voices = {"female": settings.women, "male": settings.men}.get(gender, everyone)
    native = dialect != NON_NATIVE
    spoken = dialect if native else "Sjællandsk"
    return SyntheticSpeaker(
        row={
            "id_speaker": id_,
            "dialect": random.choice(SUB_DIALECTS.get(spoken, (spoken,))),
            "age": random.randint(*ages["years"]),
            "gender": gender,
            "country_birth": "DK" if native else random.choice(("NO", "SE")),
        },
        voice=random.choice(voices),
        rate=settings.rate + ages["rate"] + random.randint(-12, 12),
        pitch=settings.pitch + ages["pitch"] + random.randint(-8, 8),
        pitch_range=settings.pitch_range + random.randint(-8, 8),
        noise_db=random.uniform(30, 45),
        gain_db=random.uniform(0, 12),
    )


def find_espeak() -> Any:
    """The module that contains eSpeak NG's library; raises `MissingExtraError` without it."""
    try:
        return import_module("espeakng_loader")
    except ImportError:
        raise MissingExtraError("synthetic speech", "synthetic") from None


class Espeak:
    """eSpeak NG's synthesiser through its C library; one per process, as its state is global.

    Flutter and noise of a voice continue from one call to the next, also if the library is ended
    and started again: the same bytes need the same sentences in the same order in a fresh process.
    """

    def __init__(self) -> None:
        loader = find_espeak()
        self._library: Any = ctypes.CDLL(loader.get_library_path())
        data = loader.get_data_path().encode()
        self.sample_rate = int(self._library.espeak_Initialize(_OUTPUT_SYNCHRONOUS, 0, data, 0))
        if self.sample_rate <= 0:
            raise SourceError(f"eSpeak NG does not start with its data in {data.decode()}")
        # Otherwise the noise in its voices would depend on the time of day.
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(1))
        self._parts: list[NDArray[np.int16]] = []
        # A reference must live as long as the library may call.
        self._callback = _CALLBACK(self._receive)
        self._library.espeak_SetSynthCallback(self._callback)

    def speak(self, text: str, speaker: SyntheticSpeaker) -> NDArray[np.float32]:
        """Return the speech as samples in [-1, 1] at `sample_rate`."""
        self._library.espeak_SetVoiceByName(speaker.voice.encode())
        self._library.espeak_SetParameter(_RATE, speaker.rate, 0)
        self._library.espeak_SetParameter(_PITCH, speaker.pitch, 0)
        self._library.espeak_SetParameter(_RANGE, speaker.pitch_range, 0)
        encoded = text.encode()
        self._parts.clear()
        self._library.espeak_Synth(encoded, len(encoded) + 1, 0, 0, 0, _CHARS_UTF8, None, None)
        self._library.espeak_Synchronize()
        return np.concatenate(self._parts) / np.float32(32768)

    def _receive(self, samples: Any, count: int, _events: int | None) -> int:
        if count > 0:
            self._parts.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0
