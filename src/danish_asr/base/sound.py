"""Any audio as a stream of 16 kHz blocks: files, encoded bytes, arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import soxr
from numpy.typing import NDArray

from danish_asr.base.audio import RESAMPLING_QUALITY, mixed
from danish_asr.base.containers import Samples
from danish_asr.base.decoders import Decoder, open_audio
from danish_asr.base.errors import AudioError, TranscriptionError
from danish_asr.base.schema import SAMPLE_RATE

if TYPE_CHECKING:
    import torch

Array: TypeAlias = "NDArray[np.generic] | torch.Tensor"
Audio: TypeAlias = "str | Path | bytes | Array"

ShowProgress: TypeAlias = Callable[[float, float | None], None]
"""Called with the seconds that are done and those that there are, None if that is not known."""

BLOCK_SECONDS: Final = 10
"""Audio that is decoded at a time."""

_MOST_CHANNELS: Final = 32
_HIGHEST_RATE: Final = 384_000


@dataclass
class Sound:
    """Audio that is decoded while it is read, once; `open_sound` opens it."""

    blocks: Iterator[Samples]  # as they are decoded, (samples, channels) at ``rate``
    rate: int
    channels: int  # that it has
    channel: int | None  # that comes out, from 0; None for the mix of all
    file: str | None = None  # its path, None if it is not a file
    expected: float | None = None  # seconds by its header or an estimate, None if unknown
    seconds: float = 0.0  # of audio that was read so far

    def __iter__(self) -> Iterator[Samples]:
        """Yield blocks of samples at 16 kHz; of damaged or empty audio, `open_sound` raises."""
        resampler = soxr.ResampleStream(
            self.rate, SAMPLE_RATE, 1, dtype="float32", quality=RESAMPLING_QUALITY
        )
        for block in self.blocks:
            if not np.isfinite(block).all():
                raise AudioError("non-finite samples")
            self.seconds += len(block) / self.rate
            samples = mixed(block) if self.channel is None else block[:, self.channel]
            yield samples if self.rate == SAMPLE_RATE else resampler.resample_chunk(samples)
        if self.rate != SAMPLE_RATE:
            yield resampler.resample_chunk(np.empty(0, np.float32), last=True)
        if not self.seconds:
            raise AudioError("zero samples")


@contextmanager
def open_sound(
    audio: Audio | Iterator[Array], *, rate: int | None = None, channel: int | None = None
) -> Iterator[Sound]:
    """Open a file, an encoded file in memory, or an array with its ``rate``, in Hz.

    An array, of NumPy or PyTorch, is (samples,), (samples, channels) or (channels, samples): floats
    in [-1, 1] or integers of full scale. An iterator yields such arrays, the blocks of a stream.
    ``channel`` takes one channel, from 0, instead of the mix of all. Raises TranscriptionError if
    it is missing or not audio, also while it is read, and SourceError if it cannot be read.
    """
    file, name = None, "the audio"
    if isinstance(audio, str | Path):
        # A name that is not UTF-8 could not be printed or written.
        file = name = os.fsencode(audio).decode(errors="replace")
        audio = Path(audio).expanduser()
    try:
        if not isinstance(audio, bytes | Path):
            yield _of_arrays(audio, rate, channel)
            return
        with closing(open_audio(audio)) as decoder:
            own, channels = int(decoder.samplerate), int(decoder.channels)
            yield Sound(_decoded(decoder), own, channels, channel, file, decoder.expected)
    except AudioError as error:
        advice = "; copy it again, or convert it to WAV" if isinstance(audio, bytes | Path) else ""
        raise TranscriptionError(f"{name}: {error}{advice}") from None


def _of_arrays(audio: Any, rate: int | None, channel: int | None) -> Sound:
    if (
        isinstance(rate, bool)
        or not isinstance(rate, int | float | np.number)
        or not 1 <= rate <= _HIGHEST_RATE
        or rate != int(rate)
    ):
        raise AudioError(f"an array needs rate=, its samples per second, and not {rate!r}")
    rate, seconds = int(rate), None
    if isinstance(audio, Iterator):
        parts: Iterator[Samples] = map(_samples, audio)
    else:
        samples = _samples(audio)
        seconds = len(samples) / rate
        size = BLOCK_SECONDS * rate
        parts = iter(np.split(samples, range(size, len(samples), size)))
    blocks = filter(len, parts)
    first = [*islice(blocks, 1)]
    count = first[0].shape[1] if first else 1
    return Sound(chain(first, blocks), rate, count, channel, None, seconds)


def _samples(array: Any) -> Samples:
    """Return an array as (samples, channels), floats in [-1, 1]."""
    try:
        array = np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)
    except TypeError:  # bfloat16
        raise AudioError(f"an array of {array.dtype}: convert it to float32") from None
    if array.dtype.kind not in "fiu":
        raise AudioError(f"an array of {array.dtype}: it must have floats or integers")
    if array.ndim == 2 and array.shape[0] < array.shape[1]:
        array = array.T
    if not 1 <= array.ndim <= 2 or (array.ndim == 2 and array.shape[1] > _MOST_CHANNELS):
        shapes = "(samples,), (samples, channels) or (channels, samples)"
        raise AudioError(f"an array of the shape {array.shape}: it must be {shapes}")
    samples: Samples = np.atleast_2d(array.T).T.astype(np.float32)
    if array.dtype.kind == "f":
        return samples
    scale = 2.0 ** (8 * array.dtype.itemsize - 1)
    return samples / np.float32(scale) - np.float32(array.dtype.kind == "u")


def _decoded(decoder: Decoder) -> Iterator[Samples]:
    if decoder.header_fault:
        raise AudioError(decoder.header_fault)
    rate, done = int(decoder.samplerate), 0
    try:
        while len(block := decoder.read(done, BLOCK_SECONDS * rate)):
            done += len(block)
            yield block
    except AudioError as error:
        raise AudioError(f"{error} after {done / rate:.0f} s") from None
