"""Any audio as a stream of 16 kHz blocks: files, encoded bytes, arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import soxr
from numpy.typing import NDArray

from danish_asr.base.audio import RESAMPLING_QUALITY
from danish_asr.base.decoders import (
    SLACK,
    UNKNOWN_LENGTH,
    Decoder,
    ForwardDecoder,
    header_fault,
    open_audio,
)
from danish_asr.base.errors import AudioError, TranscriptionError
from danish_asr.base.schema import SAMPLE_RATE

if TYPE_CHECKING:
    import torch

Samples: TypeAlias = NDArray[np.float32]
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
    name: str  # what messages call it
    file: str | None  # its path, None if it is not a file
    total: float | None  # seconds of audio as the header has it, None if it does not say
    expected: float | None  # the same, or an estimate
    seconds: float = 0.0  # of audio that was read so far

    def __iter__(self) -> Iterator[Samples]:
        """Yield blocks of samples at 16 kHz.

        Raises TranscriptionError if the audio is damaged, empty or has non-finite samples.
        """
        resampler = soxr.ResampleStream(
            self.rate, SAMPLE_RATE, 1, dtype="float32", quality=RESAMPLING_QUALITY
        )
        for block in self.blocks:
            if not np.isfinite(block).all():
                raise TranscriptionError(f"{self.name}: has samples that are NaN or infinite")
            self.seconds += len(block) / self.rate
            samples = _mixed(block) if self.channel is None else block[:, self.channel]
            yield samples if self.rate == SAMPLE_RATE else resampler.resample_chunk(samples)
        if self.rate != SAMPLE_RATE:
            yield resampler.resample_chunk(np.empty(0, np.float32), last=True)
        if not self.seconds:
            raise TranscriptionError(f"{self.name}: no samples; record or copy it again")
        if self.total is not None and self.seconds < self.total - SLACK:
            raise TranscriptionError(
                f"{self.name}: ends at {self.seconds:.1f} s, but its header says "
                f"{self.total:.1f} s; copy or convert it again"
            )


@contextmanager
def open_sound(
    audio: Audio | Iterator[Array], *, rate: int | None = None, channel: int | None = None
) -> Iterator[Sound]:
    """Open a file, an encoded file in memory, or an array with its ``rate``, in Hz.

    An array, of NumPy or PyTorch, is (samples,), (samples, channels) or (channels, samples): floats
    in [-1, 1] or integers of full scale. An iterator yields such arrays, the blocks of a stream.
    ``channel`` takes one channel, from 0, instead of the mix of all. Raises TranscriptionError if
    it is missing or not audio, and SourceError if it cannot be read.
    """
    if isinstance(audio, Iterator):
        rate, stream = _checked(rate), filter(len, map(_samples, audio))
        firsts = [*islice(stream, 1)]
        count = firsts[0].shape[1] if firsts else 1
        yield Sound(chain(firsts, stream), rate, count, channel, "the stream", None, None, None)
        return
    if not isinstance(audio, bytes | str | Path):
        samples, rate = _samples(audio), _checked(rate)
        parts = np.split(samples, range(BLOCK_SECONDS * rate, len(samples), BLOCK_SECONDS * rate))
        seconds, count = len(samples) / rate, samples.shape[1]
        yield Sound(filter(len, parts), rate, count, channel, "the audio", None, seconds, seconds)
        return
    file, name = None, "the audio"
    if not isinstance(audio, bytes):
        # A name that is not UTF-8 could not be printed or written.
        file = name = os.fsencode(audio).decode(errors="replace")
        audio = Path(audio).expanduser()
    with _open(audio, name) as decoder:
        rate, total = int(decoder.samplerate), None
        if fault := header_fault(decoder):
            raise TranscriptionError(f"{name}: {fault}; copy it again")
        if decoder.frames < UNKNOWN_LENGTH:
            total = decoder.frames / rate
        expected = decoder.expected if isinstance(decoder, ForwardDecoder) else total
        blocks, channels = _decoded(decoder, name), int(decoder.channels)
        yield Sound(blocks, rate, channels, channel, name, file, total, expected)


def _samples(array: Any) -> Samples:
    """Return an array as (samples, channels), floats in [-1, 1]."""
    try:
        array = np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)
    except TypeError as error:  # bfloat16
        raise TranscriptionError(f"an array of {array.dtype}: convert it to float32") from error
    if array.dtype.kind not in "fiu":
        raise TranscriptionError(f"an array of {array.dtype}: it must have floats or integers")
    if array.ndim == 2 and array.shape[0] < array.shape[1]:
        array = array.T
    if not 1 <= array.ndim <= 2 or (array.ndim == 2 and array.shape[1] > _MOST_CHANNELS):
        shapes = "(samples,), (samples, channels) or (channels, samples)"
        raise TranscriptionError(f"an array of the shape {array.shape}: it must be {shapes}")
    samples: Samples = np.atleast_2d(array.T).T.astype(np.float32)
    if array.dtype.kind == "f":
        return samples
    scale = 2.0 ** (8 * array.dtype.itemsize - 1)
    return samples / np.float32(scale) - np.float32(array.dtype.kind == "u")


def _checked(rate: float | None) -> int:
    if rate is None or not 1 <= rate <= _HIGHEST_RATE or rate != int(rate):
        raise TranscriptionError(f"an array needs rate=, its samples per second, and not {rate}")
    return int(rate)


def _open(source: Path | bytes, name: str) -> Decoder:
    try:
        return open_audio(source)
    except AudioError as error:
        raise TranscriptionError(f"{name}: {error}") from None
    except RuntimeError as error:  # of any decoder
        # Messages of libsndfile mislead: a text named .mp3 "does not exist or is a pipe".
        raise TranscriptionError(
            f"{name}: cannot be decoded as audio; convert it to WAV or MP3"
        ) from error


def _decoded(decoder: Decoder, name: str) -> Iterator[Samples]:
    rate, done = int(decoder.samplerate), 0
    try:
        while len(block := decoder.read(BLOCK_SECONDS * rate, dtype="float32", always_2d=True)):
            done += len(block)
            yield block
    except AudioError as error:
        raise TranscriptionError(f"{name}: {error}; copy or convert it again") from None
    except RuntimeError as error:  # of FLAC, MP4, ...
        raise TranscriptionError(
            f"{name}: cannot be decoded after {done / rate:.0f} s ({error}); copy or convert it "
            "again"
        ) from error


def _mixed(block: Samples) -> Samples:
    """Return the mean of the channels, or the loudest of them where they cancel each other.

    Independent channels have a mean with the power of one of them over their number.
    """
    mean: Samples = block.mean(axis=1)
    power = block.var(axis=0)  # without DC offset, which is no sound
    if mean.var() < 0.1 * power.mean() / len(power):
        return block[:, power.argmax()]
    return mean
