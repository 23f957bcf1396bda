"""Transforms of training waveforms: SpecAugment, noise, rooms and speed.

docs/howto/add-a-transform.md adds one. A :class:`Transform` keeps the length; it draws from a
generator that is seeded with the utterance's place in the epoch. Levels are relative to the
utterance's own, so that they hold for quiet recordings too. A :class:`LengthTransform` changes the
length.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
import scipy.fft
import soundfile
import soxr
import torch
from numpy.typing import NDArray
from typing_extensions import override

from danish_asr.base.audio import RESAMPLING_QUALITY
from danish_asr.base.errors import RunFailedError
from danish_asr.base.schema import SAMPLE_RATE

Waveform: TypeAlias = NDArray[np.float32]
"""``(samples,)`` at 16 kHz, in -1 to 1 before normalisation."""

_N_FFT: Final = 400
_HOP: Final = 200
_LEAST_LEVEL: Final = 1e-12
_LEAST_BLOCK: Final = 1 << 12
_RESPONSES: Final = 256  # with a second of echo each, 40 MB
_MAPPED_FILES: Final = 4_096
_LEAST_FREQUENCY_MASK: Final = 20
_MOST_TIME_MASK: Final = 120
_SUFFIXES = {".flac", ".ogg", ".wav"}

_RANGES: Final = {
    ("probability",): (0, 1),
    ("least_db", "most_db"): (-100, 100),
}
"""Fields whose values, in this order, ascend from one limit to the other."""


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


AnyTransform: TypeAlias = Transform | LengthTransform


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


@dataclass(frozen=True, kw_only=True)
class _Sometimes(Transform):
    probability: float = 1.0

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for values that are impossible."""
        for names, (least, most) in _RANGES.items():
            values = np.ravel([getattr(self, name) for name in names if hasattr(self, name)])
            if (np.diff([least, *values, most]) < 0).any():
                raise ValueError(
                    f"{', '.join(names)}: expected {least} to {most}, ascending, found "
                    f"{', '.join(map(str, values.tolist()))}"
                )

    @override
    def __call__(self, waveform: Waveform, rng: np.random.Generator) -> Waveform:
        if rng.random() >= self.probability or not waveform.any():
            return waveform
        return self._change(waveform, rng).astype(np.float32, copy=False)

    def _change(self, waveform: Waveform, rng: np.random.Generator) -> NDArray[Any]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class _FromFolder(_Sometimes):
    """Takes recordings from a folder and its folders: WAV, FLAC or Ogg of any rate."""

    folder: str

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a folder without recordings."""
        super().__post_init__()
        if not self._files:
            raise ValueError(f"folder: no WAV, FLAC or Ogg files in {self.folder}")

    @cached_property
    def _files(self) -> list[Path]:
        files = Path(self.folder).expanduser().rglob("*")
        return sorted(file for file in files if file.suffix.lower() in _SUFFIXES)


@dataclass(frozen=True, kw_only=True)
class Noise(_FromFolder):
    """Adds recorded noise, such as MUSAN's or ESC-50's, at a signal-to-noise ratio in a range."""

    least_db: float = 5.0
    most_db: float = 30.0

    @override
    def _change(self, waveform: Waveform, rng: np.random.Generator) -> NDArray[Any]:
        file, place = self._files[rng.integers(len(self._files))], rng.random()
        noise = _recording(file).part(place, len(waveform))
        ratio = 10 ** (-rng.uniform(self.least_db, self.most_db) / 20)
        noise *= np.float32(ratio * _level(waveform) / max(_level(noise), _LEAST_LEVEL))
        noise += waveform
        return noise


@dataclass(frozen=True, kw_only=True)
class Reverb(_FromFolder):
    """Places the speaker in a room, by convolution with a recorded impulse response.

    The direct sound stays where it was, and the level of the utterance too. OpenSLR's RIRS_NOISES
    has such recordings.
    """

    @override
    def _change(self, waveform: Waveform, rng: np.random.Generator) -> NDArray[Any]:
        file = self._files[rng.integers(len(self._files))]
        wet = _response(file).convolved(waveform)
        wet *= np.float32(_level(waveform) / max(_level(wet), _LEAST_LEVEL))
        return wet


class _Response(NamedTuple):
    """An impulse response, for the overlap-add method in blocks of ``step`` samples."""

    spectrum: NDArray[np.complex64]  # of a block and its echo
    size: int  # samples of a block and its echo, at most two blocks
    step: int

    def convolved(self, waveform: Waveform) -> Waveform:
        """The waveform with its echo, cut to the waveform's length."""
        count = -(-len(waveform) // self.step)
        blocks = np.zeros((count, self.step), np.float32)
        blocks.reshape(-1)[: len(waveform)] = waveform
        spectra = scipy.fft.rfft(blocks, self.size, axis=1)
        spectra *= self.spectrum
        echoed = scipy.fft.irfft(spectra, self.size, axis=1)
        blocks[:] = echoed[:, : self.step]
        blocks[1:, : self.size - self.step] += echoed[:-1, self.step :]
        return blocks.reshape(-1)[: len(waveform)]


@lru_cache(_RESPONSES)
def _response(file: Path) -> _Response:
    """Read the response of a room from its direct sound on."""
    with _opened(file) as sound:
        recording = _at_16_khz(_mono(sound.read(dtype="float32")), sound.samplerate)
    response = recording[int(np.abs(recording).argmax()) :]
    size = max(1 << (2 * len(response) - 1).bit_length(), _LEAST_BLOCK)
    return _Response(scipy.fft.rfft(response, size), size, size - len(response) + 1)


@dataclass(frozen=True, eq=False)
class _Recording:
    """A recording of which parts are read."""

    file: Path
    rate: int
    frames: int
    mapped: NDArray[np.int16] | None
    """Of a WAV file with 16 bits: ``(frames,)`` or ``(frames, channels)``, mapped into memory."""

    def part(self, place: float, samples: int) -> Waveform:
        """A new array of mono sound at 16 kHz: from ``place``, 0 to 1, on; repeated if it is short.

        Full scale is 1, or 32,768 if the file is mapped.
        """
        count = min(self.frames, samples * self.rate // SAMPLE_RATE + 1)
        begin = int(place * (self.frames - count + 1))
        if self.mapped is not None:
            sound = self.mapped[begin : begin + count].astype(np.float32)
        else:
            with _opened(self.file) as file:
                file.seek(begin)
                sound = file.read(count, "float32")
        mono = _at_16_khz(_mono(sound), self.rate)
        return mono[:samples] if len(mono) >= samples else np.resize(mono, samples)


@lru_cache(_MAPPED_FILES)
def _recording(file: Path) -> _Recording:
    # Slow to import, and few need it.
    from scipy.io import wavfile  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # of chunks without sound
            rate, mapped = wavfile.read(file, mmap=True)
        if mapped.dtype == np.int16:
            return _Recording(file, rate, len(mapped), mapped)
    except ValueError:  # another format
        pass
    with _opened(file) as sound:
        return _Recording(file, sound.samplerate, sound.frames, None)


@contextmanager
def _opened(file: Path) -> Iterator[soundfile.SoundFile]:
    try:
        with soundfile.SoundFile(file) as sound:
            yield sound
    except soundfile.LibsndfileError as error:
        raise RunFailedError(f"dataset.transforms: {file} cannot be read: {error}") from error


def _mono(samples: NDArray[np.float32]) -> Waveform:
    return samples if samples.ndim == 1 else np.asarray(samples.mean(axis=1), np.float32)


def _at_16_khz(mono: Waveform, rate: int) -> Waveform:
    if rate == SAMPLE_RATE:
        return mono
    return np.asarray(soxr.resample(mono, rate, SAMPLE_RATE, quality=RESAMPLING_QUALITY))


def _level(waveform: Waveform) -> float:
    """Root mean square; not by ``np.dot``, which may wake a pool of threads."""
    return float(np.sqrt(np.einsum("i,i->", waveform, waveform) / len(waveform)))
