"""From encoded audio to the waveform that the model hears."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import layer_norm

from danish_asr import native  # noqa: F401 - libsndfile before fairseq2's native half
from danish_asr.data.speed import change_speed
from danish_asr.flac import open_flac
from danish_asr.schema import SAMPLE_RATE

# isort: split
from fairseq2.data._memory import MemoryBlock
from fairseq2.data.audio import AudioDecoder

_N_FFT = 400
_HOP = 200
_LEAST_FREQUENCY_MASK = 20
_MOST_TIME_MASK = 120


@dataclass(frozen=True, slots=True)
class SpecAugment:
    """Masks a band of frequencies and a stretch of time (arXiv:1904.08779), in training only.

    The keys are upstream's ``spec_aug_*``, and so are the transform (400 samples, hop 200) and the
    ranges of the masks. Upstream masks time in place of frequency, as it indexes the axes of a
    multi-channel spectrogram; here each mask acts on its own axis.

    Attributes:
        probability: That an utterance is augmented.
        max_frequency: Most bins of 201 that are masked; the least is 20, or this if smaller.
        max_time: Most frames that are masked; never above 120 or a quarter of the utterance.
    """

    probability: float
    max_frequency: int = 80
    max_time: int = 80

    def __call__(self, waveform: Tensor, rng: np.random.Generator) -> Tensor:
        """A waveform of the same length; the input is left as it is."""
        if rng.random() >= self.probability or len(waveform) <= _N_FFT:
            return waveform
        window = torch.hann_window(_N_FFT)
        spectrum = torch.stft(waveform, _N_FFT, _HOP, window=window, return_complex=True)
        bins, frames = spectrum.shape
        most = min(self.max_frequency, bins)
        width = int(rng.integers(min(_LEAST_FREQUENCY_MASK, most), most + 1))
        low = int(rng.integers(0, bins - width + 1))
        spectrum[low : low + width] = 0
        width = int(rng.integers(0, min(self.max_time, _MOST_TIME_MASK, frames // 4) + 1))
        first = int(rng.integers(0, frames - width + 1))
        spectrum[:, first : first + width] = 0
        return torch.istft(spectrum, _N_FFT, _HOP, window=window, length=len(waveform))


class WaveformDecoder:
    """Decodes utterances to mono float32 at 16 kHz, normalised if asked for; thread-safe."""

    def __init__(self, *, normalize: bool) -> None:
        self._decode_other = AudioDecoder(dtype=torch.float32)
        self._normalize = normalize

    def __call__(
        self, encoded: bytes, out: NDArray[np.float32], *, samples: int, speed: float = 1.0
    ) -> None:
        """Fill ``out``, contiguous, with the waveform.

        Args:
            encoded: The audio.
            out: ``(samples,)``, or as many as :func:`perturbed_lengths` says for ``speed``.
            samples: Of the audio as it was recorded.
            speed: Play the audio faster by this factor.

        Raises:
            ValueError: The audio cannot be decoded, is not 16 kHz, or has another number of
                samples; ``out`` may hold anything then.
        """
        if speed == 1:
            self._decode(encoded, out)
        else:
            recorded = np.empty(samples, np.float32)
            self._decode(encoded, recorded)
            change_speed(recorded, speed, out)
        if self._normalize:
            waveform = torch.from_numpy(out)
            # NumPy copies in this thread. Torch would wake its pool for each copy, whose threads
            # then spin: three times the processor time for the whole reader.
            out[:] = layer_norm(waveform, waveform.shape).numpy()

    def _decode(self, encoded: bytes, out: NDArray[np.float32]) -> None:
        if not _decode_flac(encoded, out):
            self._other(encoded, out)

    def _other(self, encoded: bytes, out: NDArray[np.float32]) -> None:
        """What is not FLAC, or has channels to average, through libsndfile."""
        try:
            output = self._decode_other(MemoryBlock(encoded))
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"the audio cannot be decoded ({error})") from error
        waveform = output["waveform"]
        _check_form(output["sample_rate"], len(waveform), len(out))
        out[:] = (waveform.mean(dim=1) if waveform.ndim == 2 else waveform).numpy()


def _decode_flac(encoded: bytes, out: NDArray[np.float32]) -> bool:
    """Decode what `open_flac` opens straight into the memory of a batch, and say whether it did."""
    with open_flac(encoded) as flac:
        if flac is None:
            return False
        _check_form(flac.rate, flac.samples, len(out))
        read = flac.read(out)
    if read != len(out):
        raise ValueError(f"the audio is damaged: {read} of {len(out)} samples can be decoded")
    return True


def _check_form(rate: float, samples: int, expected: int) -> None:
    """Raise ``ValueError`` for audio that is not at 16 kHz or not of the expected length."""
    if rate != SAMPLE_RATE:
        raise ValueError(f"expected audio at {SAMPLE_RATE} Hz, found {rate:g} Hz")
    if samples != expected:
        raise ValueError(f"audio_size is {expected}, the audio has {samples} samples")
