"""Transforms of training waveforms that keep their length: SpecAugment, noise, rooms, channels.

docs/howto/add-a-transform.md adds one. Each draws from a generator that is seeded with the
utterance's place in the epoch. Levels are relative to the utterance's own, so that they hold for
quiet recordings too. Transforms that change the length are in :mod:`.epoch_lengths`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
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
_LEAST_FREQUENCY_MASK: Final = 20
_MOST_TIME_MASK: Final = 120
_SUFFIXES = {".flac", ".ogg", ".wav"}
_MU = 255
"""Of the μ-law of telephony, ITU-T G.711."""

_RANGES: Final = {
    ("probability",): (0, 1),
    ("least_db", "most_db"): (-100, 100),
    ("low", "high"): (1, SAMPLE_RATE // 2),
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
class ColouredNoise(_Sometimes):
    """Adds noise whose power falls with frequency as 1/f^exponent: 0 is white, 1 pink, 2 brown.

    ``least_db`` and ``most_db`` are the range of the signal-to-noise ratio.
    """

    least_db: float = 10.0
    most_db: float = 40.0
    exponents: Sequence[float] = (0.0, 1.0, 2.0)

    @override
    def _change(self, waveform: Waveform, rng: np.random.Generator) -> NDArray[Any]:
        white = np.fft.rfft(rng.standard_normal(_fast_size(len(waveform))))
        frequency = np.maximum(np.arange(len(white)), 1.0)
        white *= frequency ** (-rng.choice(self.exponents) / 2)
        noise = np.fft.irfft(white)[: len(waveform)]
        return _mixed(waveform, noise, rng.uniform(self.least_db, self.most_db))


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

    def _recording(self, rng: np.random.Generator, samples: int | None) -> NDArray[np.float32]:
        """Return mono sound at 16 kHz: ``samples`` from a random place, repeated, or all."""
        file = self._files[rng.integers(len(self._files))]
        share = rng.random()
        try:
            with soundfile.SoundFile(file) as sound:
                count = sound.frames
                if samples is not None:
                    count = min(count, samples * sound.samplerate // SAMPLE_RATE + 1)
                    sound.seek(int(share * (sound.frames - count + 1)))
                mono = sound.read(count, np.float32, always_2d=True).mean(axis=1)
                rate = sound.samplerate
        except soundfile.LibsndfileError as error:
            raise RunFailedError(f"dataset.transforms: {file} cannot be read: {error}") from error
        if rate != SAMPLE_RATE:
            mono = soxr.resample(mono, rate, SAMPLE_RATE, quality=RESAMPLING_QUALITY)
        return mono if samples is None else np.resize(mono, samples)


@dataclass(frozen=True, kw_only=True)
class Noise(_FromFolder):
    """Adds recorded noise, such as MUSAN's or ESC-50's, at a signal-to-noise ratio in a range."""

    least_db: float = 5.0
    most_db: float = 30.0

    @override
    def _change(self, waveform: Waveform, rng: np.random.Generator) -> NDArray[Any]:
        noise = self._recording(rng, len(waveform))
        return _mixed(waveform, noise, rng.uniform(self.least_db, self.most_db))


@dataclass(frozen=True, kw_only=True)
class Reverb(_FromFolder):
    """Places the speaker in a room, by convolution with a recorded impulse response.

    The direct sound stays where it was, and the level of the utterance too. OpenSLR's RIRS_NOISES
    has such recordings.
    """

    @override
    def _change(self, waveform: Waveform, rng: np.random.Generator) -> NDArray[Any]:
        recording = self._recording(rng, None)
        response = recording[int(np.abs(recording).argmax()) :]
        size = _fast_size(len(waveform) + len(response) - 1)
        spectrum = np.fft.rfft(waveform, size) * np.fft.rfft(response, size)
        wet = np.fft.irfft(spectrum, size)[: len(waveform)]
        return np.asarray(wet * (_level(waveform) / max(_level(wet), 1e-12)))


@dataclass(frozen=True, kw_only=True)
class BandPass(_Sometimes):
    """Removes what is below one frequency and above another, each drawn from a range in Hz."""

    low: tuple[float, float] = (50.0, 300.0)
    high: tuple[float, float] = (3_000.0, 7_500.0)

    @override
    def _change(self, waveform: Waveform, rng: np.random.Generator) -> NDArray[Any]:
        return _band(waveform, rng.uniform(*self.low), rng.uniform(*self.high))


@dataclass(frozen=True, kw_only=True)
class Telephone(_Sometimes):
    """A telephone line: 300 to 3,400 Hz, and 8-bit μ-law as in ITU-T G.711."""

    @override
    def _change(self, waveform: Waveform, rng: np.random.Generator) -> NDArray[Any]:
        band = _band(waveform, 300.0, 3_400.0)
        peak = max(np.abs(band).max(), 1e-12)
        companded = np.sign(band) * np.log1p(_MU * np.abs(band) / peak) / np.log1p(_MU)
        codes = np.round(companded * 127) / 127
        return np.asarray(np.sign(codes) * peak * np.expm1(np.abs(codes) * np.log1p(_MU)) / _MU)


def _band(waveform: Waveform, low: float, high: float) -> NDArray[Any]:
    size = _fast_size(len(waveform))
    spectrum = np.fft.rfft(waveform, size)
    frequency = np.fft.rfftfreq(size, 1 / SAMPLE_RATE)
    # Butterworth's response of the fourth order, without its phase.
    with np.errstate(divide="ignore", over="ignore"):
        spectrum /= np.sqrt((1 + (low / frequency) ** 8) * (1 + (frequency / high) ** 8))
    return np.fft.irfft(spectrum, size)[: len(waveform)]


def _fast_size(samples: int) -> int:
    """The next even size without large prime factors, for which the transform is fast."""
    power = 1 << max(samples - 1, 15).bit_length()
    return min(n for n in (power, power * 15 // 16, power * 3 // 4, power * 5 // 8) if n >= samples)


def _mixed(waveform: Waveform, noise: NDArray[Any], ratio_db: float) -> NDArray[Any]:
    factor = _level(waveform) / max(_level(noise), 1e-12) * 10 ** (-ratio_db / 20)
    return waveform + noise * factor


def _level(waveform: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(waveform, dtype=np.float64))))
