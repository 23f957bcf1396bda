"""Bring audio to the one form that a built dataset holds: FLAC, 16 bits, mono, 16 kHz."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile
import soxr

from danish_asr.base.containers import SLACK, Samples
from danish_asr.base.decoders import Decoder, decode_flac, open_audio
from danish_asr.base.errors import AudioError
from danish_asr.base.schema import SAMPLE_RATE

RESAMPLING_QUALITY: Final = "HQ"
"""soxr's recipe: 20 bits of precision, more than the 16 that are kept."""

FLAC_COMPRESSION: Final = 0.25
"""libsndfile's scale, FLAC's level 2: short predictors, which are decoded a quarter faster than
those of its default, level 5, and encoded a tenth faster, for 3 to 5 % more bytes."""

_SHORT: Final = 1 << 24
"""Bytes of a FLAC that is read at once."""

_BLOCK: Final = 1 << 20
"""Samples of all channels that are processed at a time."""


def resampled(mono: Samples, rate: int) -> Samples:
    """Samples at 16 kHz. Raises `AudioError` if there are none, or if they are not finite."""
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE, quality=RESAMPLING_QUALITY)
    if not len(mono):
        raise AudioError("zero samples")
    if not np.isfinite(mono).all():  # a filter spreads such values and removes none
        raise AudioError("non-finite samples")
    return mono


def decode(audio: bytes | Path, **part: Any) -> tuple[Samples, int]:
    """Return a file as one channel, and its rate in Hz; ``part`` and errors: `Recording.part`."""
    with Recording(audio) as recording:
        return recording.part(**part)


class Recording(AbstractContextManager["Recording"]):
    """An encoded file of which parts are read.

    A part is found soonest in the order of their starts: MP3, MP4 and others are only decoded
    forwards, and from the start again for a part that begins before the one before it.
    """

    def __init__(self, audio: bytes | Path) -> None:
        self._audio = audio
        self._file: Decoder | None = None
        self.filled = 0.0  # seconds of silence in the last part, for a gap in the file
        self.may_be_cut = False  # the last part is the whole file, which has no mark of its end
        self.streams = 1  # of sound in the file, of which the first is read

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the next part opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def part(
        self,
        start: float = 0.0,
        seconds: float | None = None,
        *,
        max_seconds: float = 7200.0,
        channel: int | None = None,
    ) -> tuple[Samples, int]:
        """Return the mix of all channels and its rate in Hz: ``seconds`` (None for all) of it.

        ``channel`` (from 1) takes one of them. Channels are mixed block by block, so memory stays
        bounded.

        Raises:
            AudioError: The audio is missing, refused (`base.decoders`), empty or too long, or it
                ends 0.1 s or more before the end of the part.
            SourceError: The file exists and cannot be read.
        """
        is_whole = not start and seconds is None
        if is_whole and channel in {None, 1}:
            # In half of libsndfile's time. Faults are left to it.
            decoded = decode_flac(self._in_memory(), max_seconds)
            if decoded is not None:
                return decoded
        file = self._opened()
        if not 1 <= (channel or 1) <= file.channels:
            raise AudioError(f"no channel {channel}")
        if seconds is None and file.header_fault:
            raise AudioError(file.header_fault)
        rate = int(file.samplerate)
        first, most = round(min(start * rate, file.frames)), round(max_seconds * rate)
        wanted = file.frames - first if seconds is None else round(seconds * rate)
        # One frame more than is allowed shows that there is more. The next part may begin in this.
        again = None if seconds is None else first
        mono, done = np.empty(min(wanted, most + 1), np.float32), 0  # memory is used as it fills
        for block in _mono_blocks(file, first, len(mono), channel, again):
            mono[done : done + len(block)] = block
            done += len(block)
        mono = mono[:done]
        if len(mono) > most:
            raise AudioError(f"longer than {max_seconds:g} s")
        if seconds is not None and len(mono) < (seconds - SLACK) * rate:
            raise AudioError("past the end of its audio")
        if not len(mono):
            raise AudioError("zero samples")
        inside = (min(s + n, first + len(mono)) - max(s, first) for s, n in file.filled)
        self.filled = sum(frames for frames in inside if frames > 0) / rate
        self.may_be_cut = seconds is None and file.may_be_cut
        self.streams = file.streams
        return mono, rate

    def rest(self, start: float, channel: int | None = None) -> Iterator[tuple[Samples, int]]:
        """Yield blocks of what there is after ``start``, in seconds, and the rate in Hz.

        It ends where the audio is damaged.
        """
        with suppress(AudioError):
            file = self._opened()
            rate = int(file.samplerate)
            first = round(min(start * rate, file.frames))
            for block in _mono_blocks(file, first, file.frames, channel):
                yield block, rate

    def _in_memory(self) -> bytes:
        """The file, if it is there already or is a FLAC of some minutes; else nothing."""
        if isinstance(self._audio, bytes):
            return self._audio
        is_flac = self._audio.suffix.lower() == ".flac" and self._audio.is_file()
        with suppress(OSError):  # which `open_audio` explains
            if is_flac and self._audio.stat().st_size <= _SHORT:
                return self._audio.read_bytes()
        return b""

    def _opened(self) -> Decoder:
        if self._file is None or self._file.closed:
            self._file = open_audio(self._audio)
        return self._file


def _mono_blocks(
    file: Decoder, first: int, frames: int, channel: int | None, again: int | None = None
) -> Iterator[Samples]:
    """Yield up to ``frames`` frames of a file from ``first`` on."""
    size = max(1, _BLOCK // file.channels)
    while len(block := file.read(first, min(size, frames), again=again)):
        first += len(block)
        frames -= len(block)
        if file.channels == 1 or channel is not None:
            yield block[:, (channel or 1) - 1]
        else:
            yield mixed(block)


def mixed(block: Samples) -> Samples:
    """Return the mean of the channels, (samples,), of a block, (samples, channels).

    Where they cancel each other it is the loudest of them. The power of a sum is that of its parts
    if these are independent.
    """
    with np.errstate(invalid="ignore", over="ignore"):  # samples that are not finite
        total = np.ones(len(block), block.dtype) @ block
        # Without DC offset, which is no sound. By products: `var` takes as long as decoding.
        covariance = block.T @ block - np.outer(total, total) / len(block)
        if covariance.sum() < 0.1 * covariance.trace():
            return block[:, covariance.diagonal().argmax()]
        mean: Samples = block.mean(axis=1)
    return mean


def encode_flac(mono: Samples) -> bytes:
    """Encode samples of 16 kHz in [-1, 1) as FLAC of 16 bits; values outside are clipped.

    The scale is that of decoders, so that samples of 16 bits stay as they are.
    """
    scaled = mono * np.float32(32768)
    np.rint(scaled, out=scaled)
    if max(scaled.max(), -scaled.min()) > 32767:  # rarely; clipping takes longer than looking
        np.clip(scaled, -32768, 32767, out=scaled)
    samples = scaled.astype(np.int16)
    file = io.BytesIO()
    soundfile.write(file, samples, SAMPLE_RATE, format="FLAC", compression_level=FLAC_COMPRESSION)
    return file.getvalue()
