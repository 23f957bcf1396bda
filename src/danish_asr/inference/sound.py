"""Any audio as a stream of 16 kHz blocks: files, encoded bytes, arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
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
from danish_asr.base.errors import DanishAsrError, TranscriptionError
from danish_asr.base.schema import SAMPLE_RATE

Samples: TypeAlias = NDArray[np.float32]
Audio: TypeAlias = str | Path | bytes | NDArray[np.generic]
Channels = Literal["mix", "split"]

BLOCK_SECONDS: Final = 10
"""Audio that is decoded at a time."""

_SLACK: Final = 0.1
"""Seconds by which a file may be shorter than its header says, as some MP3s are."""


@dataclass
class Sound:
    """Audio that is decoded while it is read, once; `open_sound` opens it."""

    blocks: Iterator[Samples]
    """As they are decoded, (samples, channels) at ``rate``."""
    rate: int
    name: str
    """What messages call it."""
    total: float | None = None
    """Seconds of audio as the header has it, None if it does not say."""
    channels: int = 1
    """The number of channels that come out."""
    split: bool = False
    """Whether they are the recording's, not its mix."""
    file: str | None = None
    """Its path, None if it is not a file."""
    seconds: float = 0.0
    """Audio that was read so far."""

    def __iter__(self) -> Iterator[Samples]:
        """Yield blocks of (samples, channels) at 16 kHz.

        Raises:
            TranscriptionError: The audio is damaged, empty or has non-finite samples.
        """
        resampler = soxr.ResampleStream(
            self.rate, SAMPLE_RATE, self.channels, dtype="float32", quality=RESAMPLING_QUALITY
        )
        for block in self.blocks:
            if not np.isfinite(block).all():
                raise TranscriptionError(
                    f"{self.name}: a sample after {self.seconds:.0f} s is NaN or infinite; "
                    "make the file again from its source"
                )
            self.seconds += len(block) / self.rate
            samples = _mixed(block) if block.shape[1] > self.channels else block
            yield samples if self.rate == SAMPLE_RATE else resampler.resample_chunk(samples)
        if self.rate != SAMPLE_RATE:
            yield resampler.resample_chunk(np.empty((0, self.channels), np.float32), last=True)
        if not self.seconds:
            raise TranscriptionError(f"{self.name}: no samples; record or copy it again")
        if self.total is not None and self.seconds < self.total - _SLACK:
            raise TranscriptionError(
                f"{self.name}: ends at {self.seconds:.1f} s, but its header says "
                f"{self.total:.1f} s; the file is truncated: copy or convert it again"
            )


@contextmanager
def open_sound(
    audio: Audio, *, rate: int | None = None, channels: Channels = "mix"
) -> Iterator[Sound]:
    """Open a file, an encoded file in memory, or an array with its ``rate``.

    An array is (samples,) or (samples, channels), floats in [-1, 1] or integers of full scale.
    ``mix`` gives the mean of all channels (where they cancel each other the loudest), ``split``
    each of them.

    Raises:
        TranscriptionError: It is missing or not audio, or an argument does not fit.
        SourceError: The file cannot be read, or needs the extra ``media``.
    """
    if channels not in {"mix", "split"}:
        raise TranscriptionError(f"channels must be mix or split, but is '{channels}'")
    split = channels == "split"
    if isinstance(audio, np.ndarray):
        array, rate = _checked(audio, rate)
        count = array.shape[1] if split else 1
        seconds = len(array) / rate
        yield Sound(_blocks_of(array, rate), rate, "the array", seconds, count, split)
        return
    if not isinstance(audio, str | Path | bytes):
        raise TranscriptionError(
            f"expected a path, the bytes of a file, or a numpy array, found {type(audio).__name__}"
        )
    file, source = None, audio
    if not isinstance(source, bytes):
        # A name that is not UTF-8 could not be printed or written.
        file = os.fsencode(source).decode(errors="replace")
        source = Path(source).expanduser()
    name = file or "the audio"
    with _open(source, name) as decoder:
        rate = int(decoder.samplerate)
        count = int(decoder.channels) if split else 1
        total = None
        if decoder.frames < UNKNOWN_LENGTH:
            if fault := header_fault(decoder):
                raise TranscriptionError(f"{name}: {fault}; copy it again")
            total = decoder.frames / rate
        yield Sound(_decoded(decoder, name, total), rate, name, total, count, split, file)


def _open(source: Path | bytes, name: str) -> Decoder:
    try:
        return open_audio(source)
    except AudioError as error:
        fix = "; name one that exists" if "missing" in str(error) else ""
        raise TranscriptionError(f"{name}: {error}{fix}") from None
    except RuntimeError as error:  # of any decoder
        # Messages of libsndfile mislead: a text named .mp3 "does not exist or is a pipe".
        raise TranscriptionError(
            f"{name}: cannot be decoded as audio; convert it to WAV or MP3"
        ) from error


def _decoded(decoder: Decoder, name: str, total: float | None) -> Iterator[Samples]:
    rate, done = int(decoder.samplerate), 0
    while True:
        try:
            block = decoder.read(BLOCK_SECONDS * rate, dtype="float32", always_2d=True)
        except RuntimeError as error:  # of FLAC, MP4, ...
            expected = "" if total is None else f" of {total:.1f} s"
            raise TranscriptionError(
                f"{name}: cannot be decoded after {done / rate:.0f} s{expected} ({error}); the "
                "file is truncated or damaged: copy or convert it again"
            ) from error
        if not len(block):
            return
        done += len(block)
        yield block


def _blocks_of(array: NDArray[Any], rate: int) -> Iterator[Samples]:
    scale = 1.0 if array.dtype.kind == "f" else -float(np.iinfo(array.dtype).min)
    for start in range(0, len(array), BLOCK_SECONDS * rate):
        yield (array[start : start + BLOCK_SECONDS * rate] / scale).astype(np.float32)


def _mixed(block: Samples) -> Samples:
    """Return the mean of the channels, or the loudest of them where they cancel each other.

    Independent channels have a mean with the power of one of them over their number.
    """
    mean: Samples = block.mean(axis=1, keepdims=True)
    power = block.var(axis=0)  # without DC offset, which is no sound
    if mean.var() < 0.1 * power.mean() / len(power):
        return block[:, [power.argmax()]]
    return mean


def _checked(array: NDArray[Any], rate: int | None) -> tuple[NDArray[Any], int]:
    """Return an array as (samples, channels), and its rate."""
    two = array[:, None] if array.ndim == 1 else array
    if two.ndim != 2 or two.dtype.kind not in "fi" or two.shape[1] > max(len(two), 1):
        raise TranscriptionError(
            "expected an array (samples,) or (samples, channels) of floats or signed integers, "
            f"found {array.shape} of {array.dtype}"
        )
    if rate is None or rate <= 0 or rate % 1:
        raise TranscriptionError(
            f"an array needs rate=, its samples per second, a whole number; it is {rate}"
        )
    return two, int(rate)


def reading_error(error: Exception, name: str) -> DanishAsrError:
    """Return what a user reads of a recording that cannot be read."""
    if isinstance(error, DanishAsrError):
        return error
    reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    return TranscriptionError(f"{name}: cannot be read ({reason})")
