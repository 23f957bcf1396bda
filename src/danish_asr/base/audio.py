"""Bring audio to the one form that a built dataset holds: FLAC, 16 bits, mono, 16 kHz."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from danish_asr.base.decoders import (
    SLACK,
    UNKNOWN_LENGTH,
    Decoder,
    ForwardDecoder,
    decode_flac,
    header_fault,
    open_audio,
)
from danish_asr.base.errors import AudioError
from danish_asr.base.schema import SAMPLE_RATE

RESAMPLING_QUALITY: Final = "HQ"
"""soxr's recipe: 20 bits of precision, more than the 16 that are kept."""

FLAC_COMPRESSION: Final = 0.25
"""libsndfile's scale, FLAC's level 2: short predictors, which are decoded a quarter faster than
those of its default, level 5, and encoded a tenth faster, for 3 to 5 % more bytes."""

_BLOCK: Final = 1 << 20
"""Samples of all channels that are processed at a time."""


def to_flac(audio: bytes | Path, **part: Any) -> tuple[bytes, int]:
    """Return a file as FLAC, and its number of samples; ``part`` and errors as of `decode`."""
    mono = to_mono(audio, **part)
    return encode_flac(mono), len(mono)


def to_mono(audio: bytes | Path, **part: Any) -> NDArray[np.float32]:
    """Return an audio file as one channel of 16 kHz; ``part`` and errors are those of `decode`."""
    return resampled(*decode(audio, **part))


def resampled(mono: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """Samples at 16 kHz. Raises `AudioError` if there are none, or if they are not finite."""
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE, quality=RESAMPLING_QUALITY)
    if not len(mono):
        raise AudioError("zero samples")
    if not np.isfinite(mono).all():  # a filter spreads such values and removes none
        raise AudioError("non-finite samples")
    return mono


def decode(audio: bytes | Path, **part: Any) -> tuple[NDArray[np.float32], int]:
    """Return a file as one channel, and its rate in Hz; ``part`` and errors: `Recording.part`."""
    with Recording(audio) as recording:
        return recording.part(**part)


class Recording:
    """An encoded file of which parts are read.

    A part is found soonest in the order of their starts: MP3, MP4 and others are only decoded
    forwards, and from the start again for a part that begins before the one before it.
    """

    def __init__(self, audio: bytes | Path) -> None:
        self._audio = audio
        self._file: Decoder | None = None
        self.filled = 0.0  # seconds of silence in the last part, for a gap in the file

    def __enter__(self) -> Self:
        return self

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
        out: NDArray[np.float32] | None = None,
    ) -> tuple[NDArray[np.float32], int]:
        """Return the mean of all channels and its rate in Hz: ``seconds`` (None for all) of it.

        ``channel`` (from 1) takes one of them. ``out`` may be filled and returned, if it is as long
        as the audio. Channels are averaged block by block, so memory stays bounded.

        Raises:
            AudioError: The audio is missing, refused (`base.decoders`), empty or too long, or it
                ends 0.1 s or more before the end of the part.
            SourceError: The file exists and cannot be read.
        """
        audio, is_part = self._audio, bool(start) or seconds is not None
        if isinstance(audio, bytes) and not is_part and channel in {None, 1}:
            # In half of libsndfile's time. Faults are left to it.
            decoded = decode_flac(audio, max_seconds, out)
            if decoded is not None:
                return decoded
        with self._open() as file:
            if not 1 <= (channel or 1) <= file.channels:
                raise AudioError(f"no channel {channel}")
            if seconds is None and (fault := header_fault(file)):
                raise AudioError(fault)
            file.keeps = seconds is not None  # the next part may begin in this one
            mono = _decode_part(file, start, seconds, max_seconds, channel)
            rate = int(file.samplerate)
            first, last = round(start * rate), round(start * rate) + len(mono)
            inside = (min(s + n, last) - max(s, first) for s, n in file.filled)
            self.filled = sum(frames for frames in inside if frames > 0) / rate
            return mono, rate

    def rest(
        self, start: float, channel: int | None = None
    ) -> Iterator[tuple[NDArray[np.float32], int]]:
        """Yield blocks of what there is after ``start``, in seconds, and the rate in Hz.

        It ends where the audio is damaged.
        """
        with suppress(AudioError), self._open() as file:
            rate = int(file.samplerate)
            file.keeps = False
            file.seek(round(min(start * rate, file.frames)))
            for block in _mono_blocks(file, file.frames, channel):
                yield block, rate

    @contextmanager
    def _open(self) -> Iterator[Decoder]:
        try:
            if self._file is None:
                self._file = open_audio(self._audio)
            yield self._file
        except RuntimeError:
            if not isinstance(self._file, ForwardDecoder):
                self.close()  # libsndfile's place is unknown
            raise AudioError("undecodable audio") from None


def _decode_part(
    file: Decoder,
    start: float,
    seconds: float | None,
    max_seconds: float,
    channel: int | None,
) -> NDArray[np.float32]:
    rate = int(file.samplerate)
    has_length = file.frames < UNKNOWN_LENGTH
    first = round(min(start * rate, file.frames))
    left = file.frames - first
    wanted = left if seconds is None else min(left, round(seconds * rate))
    most = round(max_seconds * rate)
    if has_length and wanted > most:
        raise AudioError(f"longer than {max_seconds:g} s")
    if file.tell() != first:  # after a part before, or of one
        file.seek(first)
    # One frame more than is allowed shows that there is more.
    mono = _read_mono(file, min(wanted, most + 1), channel)
    if len(mono) > most:
        raise AudioError(f"longer than {max_seconds:g} s")
    if has_length and 0 < len(mono) < wanted - SLACK * rate:
        raise AudioError("truncated audio")
    if seconds is not None and len(mono) < (seconds - SLACK) * rate:
        raise AudioError("past the end of its audio")
    if not len(mono):
        raise AudioError("zero samples")
    return mono


def _read_mono(file: Decoder, frames: int, channel: int | None) -> NDArray[np.float32]:
    mono = np.empty(frames, np.float32)
    done = 0
    for block in _mono_blocks(file, frames, channel):
        mono[done : done + len(block)] = block
        done += len(block)
    return mono[:done]


def _mono_blocks(file: Decoder, frames: int, channel: int | None) -> Iterator[NDArray[np.float32]]:
    """Yield up to ``frames`` frames of a file from its place on."""
    size = max(1, _BLOCK // file.channels)
    while len(block := file.read(min(size, frames), dtype="float32", always_2d=True)):
        frames -= len(block)
        if file.channels == 1 or channel is not None:
            yield block[:, (channel or 1) - 1]
        else:
            yield block.mean(axis=1)


def encode_flac(mono: NDArray[np.float32]) -> bytes:
    """Encode samples of 16 kHz in [-1, 1) as FLAC of 16 bits; values outside are clipped.

    The scale is that of decoders, so that samples of 16 bits stay as they are.
    """
    scaled = mono * np.float32(32768)
    np.rint(scaled, out=scaled)
    if max(scaled.max(), -scaled.min()) > 32767:  # rarely; clipping takes longer than looking
        np.clip(scaled, -32768, 32767, out=scaled)
    samples = scaled.astype(np.int16)
    file, level = io.BytesIO(), FLAC_COMPRESSION
    soundfile.write(
        file, samples, SAMPLE_RATE, format="FLAC", subtype="PCM_16", compression_level=level
    )
    return file.getvalue()
