"""Transforms of training waveforms: speed, SpecAugment, noise and rooms.

In: the keys of ``dataset``. Out: transforms in the order in which they act. Speed alone changes the
length, for which the batches of an epoch are planned. A `Transform` draws from a generator that is
seeded with the utterance's place in the epoch. Levels are relative to the utterance's own.
docs/howto/extend.md adds one.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
import scipy.fft
import soxr
from annotated_types import Ge, Le
from numpy.typing import NDArray
from pydantic import ConfigDict
from soundfile import SoundFile, SoundFileError
from typing_extensions import override

from danish_asr.base.audio import RESAMPLING_QUALITY, mixed
from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import ConfigError, RunFailedError, find_named
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.load import validated
from danish_asr.recipe.config.schema import DatasetSection
from danish_asr.recipe.config.training_sections import Count, Share

Waveform: TypeAlias = NDArray[np.float32]
"""``(samples,)`` at 16 kHz, in -1 to 1 before normalisation."""

Decibels: TypeAlias = Annotated[float, Ge(-100), Le(100)]

_N_FFT: Final = 400
_HOP: Final = 200
_RISING: Final = np.hanning(2 * _HOP)[:_HOP].astype(np.float32)
_LEAST_LEVEL: Final = 1e-12
_LEAST_BLOCK: Final = 1 << 12
_SAMPLES_AT_ONCE: Final = 1 << 16  # which stay in a processor's cache
_VECTOR: Final = 4  # blocks, which scipy transforms in the time of one and a half
_RESPONSES: Final = 256  # with a second of echo each, 70 MB
_LEAST_FREQUENCY_MASK: Final = 20
_MOST_TIME_MASK: Final = 120


def transforms_of_training(section: DatasetSection) -> "list[Transform]":
    """Create the transforms of a configuration; raises `ConfigError` for a faulty one."""
    entries = list(section.transforms)
    if section.asr_task_config.spec_aug_p:
        entries.append({"name": "spec_augment", "probability": section.asr_task_config.spec_aug_p})
    transforms = list[Transform]()
    for number, entry in enumerate(entries):
        key, name = f"dataset.transforms[{number}]", str(entry.get("name"))
        kind: Any = find_named(name, TRANSFORMS, f"{key}.name")
        settings = {field: value for field, value in entry.items() if field != "name"}
        transform, faults = validated(kind, settings, key)
        if faults:
            raise ConfigError(faults)
        transforms.append(transform)
    return transforms


class Transform(ABC):
    """Changes a training waveform, but not its length.

    A subclass is a dataclass whose fields are the keys of its entry in ``dataset.transforms``; its
    ``__post_init__`` raises ``ValueError`` if a value is impossible.

    Attributes:
        after_normalization: Act on the waveform as the model sees it. Default: before
            ``normalize_audio``.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    after_normalization: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, waveform: Waveform, rng: np.random.Generator) -> Waveform:
        """Return a waveform of the same length; the input may be changed in place."""


def samples_at_speed(samples: NDArray[np.int32], factors: NDArray[np.float64]) -> NDArray[np.int32]:
    """The samples of rows that are played at these speeds, ``(rows,)``."""
    return np.asarray(np.rint(samples / factors), np.int32)


def at_speed(waveform: Waveform, factor: float, samples: int) -> Waveform:
    """Play a waveform at a speed, in as many samples as `samples_at_speed` has for it.

    Ko et al., "Audio augmentation for speech recognition", Interspeech 2015: the waveform is
    resampled, so that a factor of 1.1 leaves 1 / 1.1 of its length and raises its pitch by a tenth.
    """
    if factor == 1:
        return waveform
    rate = SAMPLE_RATE * factor
    played = soxr.resample(waveform, rate, SAMPLE_RATE, quality=RESAMPLING_QUALITY)
    # soxr's odd sample is cut, or a zero fills its place.
    return np.pad(played[:samples], (0, max(0, samples - len(played))))


@dataclass(frozen=True)
class SpecAugment(Transform):
    """Masks a band of frequencies and a stretch of time (arXiv:1904.08779).

    The ranges of the masks are upstream's, in bins and frames of a short-time transform (400
    samples, hop 200), which masks time in place of frequency; here each mask acts on its own axis.
    A filter takes out the band, and the stretch fades to silence.

    Attributes:
        probability: That an utterance is augmented.
        max_frequency: Most bins of 201 that are masked; the least is 20, or this if smaller.
        max_time: Most frames that are masked; never above 120 or a quarter of the utterance.
    """

    after_normalization: ClassVar[bool] = True

    probability: Share
    max_frequency: Count = 80
    max_time: Count = 80

    @override
    def __call__(self, waveform: Waveform, rng: np.random.Generator) -> Waveform:
        if rng.random() >= self.probability or len(waveform) <= _N_FFT:
            return waveform
        bins, frames = _N_FFT // 2 + 1, len(waveform) // _HOP + 1
        most = min(self.max_frequency, bins)
        width = int(rng.integers(min(_LEAST_FREQUENCY_MASK, most), most + 1))
        low = int(rng.integers(0, bins - width + 1))
        if width:
            waveform = _band_stop(low, low + width).applied(waveform)
        width = int(rng.integers(0, min(self.max_time, _MOST_TIME_MASK, frames // 4) + 1))
        first = int(rng.integers(0, frames - width + 1))
        if width:
            _silence(waveform, first * _HOP, (first + width - 1) * _HOP)
        return waveform


def _band_stop(low: int, high: int) -> "_Filter":
    """A filter that takes out the bins from ``low`` to ``high - 1``."""
    band = _low_pass(high) - _low_pass(low)
    return _Filter(1 - band, before=_N_FFT, step=_LEAST_BLOCK - 2 * _N_FFT)


@cache
def _low_pass(end: int) -> NDArray[np.complex64]:
    """The spectrum of a filter that keeps the bins below ``end``; its middle is at 0.

    It is the ideal one under a Hann window (Oppenheim and Schafer, "Discrete-Time Signal
    Processing", 7.5).
    """
    edge = min(max(0.0, end - 0.5) / _N_FFT, 0.5)
    times = np.arange(-_N_FFT, _N_FFT + 1)
    response = np.zeros(_LEAST_BLOCK, np.float32)
    response[times] = 2 * edge * np.sinc(2 * edge * times) * np.hanning(len(times))
    return np.asarray(scipy.fft.rfft(response), np.complex64)


def _silence(waveform: Waveform, first: int, end: int) -> None:
    """Silence a stretch in place; the hop before it fades out, the one after it fades in."""
    before = waveform[max(0, first - _HOP) : first]
    before *= _RISING[: len(before)][::-1]
    after = waveform[end : end + _HOP]
    after *= _RISING[: len(after)]
    waveform[first:end] = 0


@dataclass(frozen=True, kw_only=True)
class _FromFolder(Transform):
    """Takes recordings from a folder and its folders: WAV of any rate and depth."""

    folder: str
    probability: Share = 1.0

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a folder without recordings, or with some that have no sound."""
        _recordings(self.folder)

    @override
    def __call__(self, waveform: Waveform, rng: np.random.Generator) -> Waveform:
        if rng.random() >= self.probability or not (level := _level(waveform)):
            return waveform
        files = _recordings(self.folder)
        return self._change(waveform, level, files[rng.integers(len(files))], rng)

    @abstractmethod
    def _change(
        self, waveform: Waveform, level: float, file: Path, rng: np.random.Generator
    ) -> Waveform:
        """Return the waveform changed by a recording."""


@dataclass(frozen=True, kw_only=True)
class Noise(_FromFolder):
    """Adds recorded noise, such as MUSAN's or ESC-50's, at a signal-to-noise ratio in a range."""

    least_db: Decibels = 5.0
    most_db: Decibels = 30.0

    def __post_init__(self) -> None:
        """Raise ``ValueError`` as for any folder, or if no ratio is in the range."""
        super().__post_init__()
        if self.least_db > self.most_db:
            rule = f"must be at most most_db, {self.most_db:g}, but is {self.least_db:g}"
            raise ValueError(f"least_db {rule}")

    @override
    def _change(
        self, waveform: Waveform, level: float, file: Path, rng: np.random.Generator
    ) -> Waveform:
        noise = _part(file, rng.random(), len(waveform))
        ratio = 10 ** (-rng.uniform(self.least_db, self.most_db) / 20)
        noise *= np.float32(ratio * level / max(_level_in(file, noise), _LEAST_LEVEL))
        noise += waveform
        return noise


@dataclass(frozen=True, kw_only=True)
class Reverb(_FromFolder):
    """Places the speaker in a room, by convolution with a recorded impulse response.

    The direct sound stays where it was, and the level of the utterance too. OpenSLR's RIRS_NOISES
    has such recordings.
    """

    @override
    def _change(
        self, waveform: Waveform, level: float, file: Path, rng: np.random.Generator
    ) -> Waveform:
        size = _size_of_block(len(waveform), len(_echo(file)))
        wet = _room(file, size).applied(waveform)
        wet *= np.float32(level / max(_level(wet), _LEAST_LEVEL))
        return wet


class _Filter(NamedTuple):
    """A filter, for the overlap-save method in blocks whose outputs do not overlap."""

    spectrum: NDArray[np.complex64]  # of a block
    before: int  # samples of a block before those of its output
    step: int  # samples of its output

    def applied(self, waveform: Waveform) -> Waveform:
        """Return the filtered waveform; what would follow its end is lost."""
        size, count = 2 * (len(self.spectrum) - 1), _blocks(len(waveform), self.step)
        padded = np.zeros((count - 1) * self.step + size, np.float32)
        padded[self.before : self.before + len(waveform)] = waveform
        strides = (self.step * padded.itemsize, padded.itemsize)
        blocks: Waveform = np.ndarray((count, size), np.float32, padded, strides=strides)
        outputs = np.empty((count, self.step), np.float32)
        at_once = max(_VECTOR, _SAMPLES_AT_ONCE // size)
        for first in range(0, count, at_once):
            spectra = scipy.fft.rfft(blocks[first : first + at_once])
            spectra *= self.spectrum
            filtered = scipy.fft.irfft(spectra, size, overwrite_x=True)
            outputs[first : first + at_once] = filtered[:, self.before :][:, : self.step]
        return outputs.reshape(-1)[: len(waveform)]


def _blocks(samples: int, step: int) -> int:
    """Blocks of a waveform, in full vectors."""
    return -(-samples // (step * _VECTOR)) * _VECTOR


def _size_of_block(samples: int, echo: int) -> int:
    """The size of the blocks that are soonest transformed; long ones suit long waveforms."""
    size = max(1 << (2 * echo - 1).bit_length(), _LEAST_BLOCK)
    return min(size, size * 3 // 2, key=lambda one: _blocks(samples, one - echo + 1) * one)


@lru_cache(_RESPONSES)
def _room(file: Path, size: int) -> _Filter:
    echo = _echo(file)
    return _Filter(scipy.fft.rfft(echo, size), before=len(echo) - 1, step=size - len(echo) + 1)


@lru_cache(_RESPONSES)
def _echo(file: Path) -> Waveform:
    """Read the response of a room from its direct sound on; a silent one has no echo."""
    with _opened(file) as sound:
        recording = _mono_at_16_khz(sound)
    if not _level_in(file, recording):
        recording = np.ones(1, np.float32)
    return recording[int(np.abs(recording).argmax()) :]


def _part(file: Path, place: float, samples: int) -> Waveform:
    """A part of a recording as a new array: from ``place``, 0 to 1, on; repeated if it is short."""
    with _opened(file) as sound:
        count = min(sound.frames, samples * sound.samplerate // SAMPLE_RATE + 1)
        sound.seek(int(place * (sound.frames - count + 1)))
        mono = _mono_at_16_khz(sound, count)
    return mono[:samples] if len(mono) >= samples else np.resize(mono, samples)


@cache
def _recordings(folder: str) -> Sequence[Path]:
    """Return the WAV files of a folder, sorted; ``ValueError`` if there is none or a bad one."""
    found = Path(folder).expanduser().rglob("*")
    files = sorted(file for file in found if file.suffix.lower() == ".wav")
    if not files:
        raise ValueError(f"folder: no WAV files in {folder}")
    with ThreadPoolExecutor(usable_cpus()) as pool:
        faults = [fault for fault in pool.map(_fault_of, files) if fault]
    if faults:
        more = f" and {len(faults) - 1:,} more" if len(faults) > 1 else ""
        raise ValueError(f"folder: {faults[0]}{more} of {len(files):,} files; move them away")
    return files


def _fault_of(file: Path) -> str | None:
    """Say why a file cannot be used; None: it can. Only its header is read."""
    try:
        with _opened(file) as sound:
            return None if sound.frames else f"{file} is empty"
    except RunFailedError as error:
        return str(error)


def _opened(file: Path) -> SoundFile:
    try:
        return SoundFile(file)
    except (OSError, SoundFileError) as error:
        raise RunFailedError(f"{file} cannot be read: {error}") from error


def _mono_at_16_khz(sound: SoundFile, frames: int = -1) -> Waveform:
    """Read so many frames, by default all, as a new array, in any scale."""
    # NumPy turns 16 bits into floats in less time than libsndfile.
    recorded = sound.read(frames, "int16" if sound.subtype == "PCM_16" else "float32")
    mono: Waveform = recorded.astype(np.float32, copy=False)
    if mono.ndim > 1:
        mono = mixed(mono)
    if sound.samplerate == SAMPLE_RATE:
        return mono
    return np.asarray(soxr.resample(mono, sound.samplerate, SAMPLE_RATE, RESAMPLING_QUALITY))


def _level_in(file: Path, recording: Waveform) -> float:
    """The level of a recording; `RunFailedError` for one that holds NaN or infinite samples."""
    level = _level(recording)
    if not np.isfinite(level):
        raise RunFailedError(f"{file} holds NaN or infinite samples; move it away")
    return level


def _level(waveform: Waveform) -> float:
    """Root mean square; not by ``np.dot``, which may wake a pool of threads."""
    return float(np.sqrt(np.einsum("i,i->", waveform, waveform) / len(waveform)))


TRANSFORMS: Final[dict[str, type[Transform]]] = {
    "noise": Noise,
    "reverb": Reverb,
    "spec_augment": SpecAugment,
}
"""Names that ``dataset.transforms`` takes beside ``<module>:<class>``."""
