"""Any audio as a stream of 16 kHz blocks: files, encoded bytes, arrays."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from danish_asr.base.audio import (
    RESAMPLING_QUALITY,
    AudioError,
    Decoder,
    header_fault,
    open_audio,
)
from danish_asr.base.audio_beyond_libsndfile import UNKNOWN_LENGTH
from danish_asr.base.errors import TranscriptionError
from danish_asr.base.schema import SAMPLE_RATE

Samples: TypeAlias = NDArray[np.float32]
Audio: TypeAlias = str | Path | bytes | NDArray[np.generic]

ShowProgress: TypeAlias = Callable[[float, float | None], None]
"""Called with the seconds that are done and those that there are, None if the file does not say."""

BLOCK_SECONDS: Final = 10
"""Audio that is decoded at a time."""

_SLACK: Final = 0.1
"""Seconds by which a file may be shorter than its header says, as some MP3s are."""


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
        if self.total is not None and self.seconds < self.total - _SLACK:
            raise TranscriptionError(
                f"{self.name}: ends at {self.seconds:.1f} s, but its header says "
                f"{self.total:.1f} s; copy or convert it again"
            )


@contextmanager
def open_sound(
    audio: Audio, *, rate: int | None = None, channel: int | None = None
) -> Iterator[Sound]:
    """Open a file, an encoded file in memory, or an array with its ``rate``.

    An array is (samples,) or (samples, channels), floats in [-1, 1] or integers of full scale.
    ``channel`` takes one channel, from 0, instead of the mix of all. Raises TranscriptionError if
    it is missing or not audio, and SourceError if it cannot be read or needs the extra ``media``.
    """
    file, name = None, "the audio"
    if isinstance(audio, np.ndarray):
        audio = _encoded(audio, rate)
    elif not isinstance(audio, bytes):
        # A name that is not UTF-8 could not be printed or written.
        file = name = os.fsencode(audio).decode(errors="replace")
        audio = Path(audio).expanduser()
    with _open(audio, name) as decoder:
        rate, total = int(decoder.samplerate), None
        if decoder.frames < UNKNOWN_LENGTH:
            if fault := header_fault(decoder):
                raise TranscriptionError(f"{name}: {fault}; copy it again")
            total = decoder.frames / rate
        blocks, count = _decoded(decoder, name), int(decoder.channels)
        yield Sound(blocks, rate, count, channel, name, file, total)


def _encoded(array: NDArray[Any], rate: int | None) -> bytes:
    """Return an array as a file."""
    if rate is None:
        raise TranscriptionError("an array needs rate=, its samples per second")
    file = io.BytesIO()
    subtype = "FLOAT" if array.dtype.kind == "f" else "PCM_16"
    soundfile.write(file, array, rate, format="WAV", subtype=subtype)
    return file.getvalue()


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
