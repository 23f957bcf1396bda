"""Bring audio to the one form that a built dataset holds: FLAC, 16 bits, mono, 16 kHz."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from danish_asr.base.audio_beyond_libsndfile import (
    HEAD,
    UNKNOWN_LENGTH,
    ForwardDecoder,
    Media,
    Mp3,
    decode_flac,
    is_media,
)
from danish_asr.base.errors import SourceError
from danish_asr.base.folders import version_of
from danish_asr.base.schema import SAMPLE_RATE

RESAMPLING_QUALITY: Final = "HQ"
"""soxr's recipe: 20 bits of precision, more than the 16 that are kept."""

FLAC_COMPRESSION: Final = 0.25
"""libsndfile's scale, FLAC's level 2: short predictors, which are decoded a quarter faster than
those of its default, level 5, and encoded a tenth faster, for 3 to 5 % more bytes."""

SLACK: Final = 0.1
"""Seconds by which a file may be shorter than its header says, as some MP3s are, or than a part.
As much sound may be left behind a part."""

_BLOCK: Final = 1 << 20
"""Samples of all channels that are processed at a time."""


class AudioError(Exception):
    """An utterance's audio cannot be used; the message is its reason in the ledger."""


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


def decode(
    audio: bytes | Path,
    *,
    start: float = 0.0,
    seconds: float | None = None,
    max_seconds: float = 7200.0,
    channel: int | None = None,
    last: LastRecording | None = None,
    out: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.float32], int]:
    """Return the mean of all channels and its rate in Hz: ``seconds`` (None for all) of a file.

    ``channel`` (from 1) takes one of them. ``last`` keeps a file open of which parts are read.
    ``out`` may be filled and returned, if it is as long as the audio. Channels are averaged block
    by block, so memory stays bounded.

    Raises:
        AudioError: The audio is missing, undecodable, empty or too long, or it ends 0.1 s or more
            before the length in its header or the end of the part. Not noticed is the missing end
            of OGG and of what PyAV reads, and of an MP3 without a length tag.
        SourceError: The file exists and cannot be read.
    """
    is_part = bool(start) or seconds is not None
    if isinstance(audio, bytes) and not is_part and channel in {None, 1}:
        # In half of libsndfile's time. Faults are left to it.
        decoded = decode_flac(audio, max_seconds, out)
        if decoded is not None:
            return decoded
    try:
        with _opened(audio, last if is_part else None) as file:
            if not 1 <= (channel or 1) <= file.channels:
                raise AudioError(f"no channel {channel}")
            if seconds is None and (fault := header_fault(file)):
                raise AudioError(fault)
            mono = _decode_part(file, start, seconds, max_seconds, channel)
            return mono, int(file.samplerate)
    except (soundfile.LibsndfileError, RuntimeError):
        raise AudioError("undecodable audio") from None


def decode_from(
    audio: bytes | Path, start: float, *, channel: int | None, last: LastRecording
) -> Iterator[tuple[NDArray[np.float32], int]]:
    """Yield blocks of what a file has after ``start``, in seconds, and the rate in Hz.

    The other arguments are those of `decode`, which has read the part before. It ends where the
    audio is damaged.
    """
    with suppress(soundfile.LibsndfileError, RuntimeError), _opened(audio, last) as file:
        rate = int(file.samplerate)
        file.seek(round(min(start * rate, file.frames)))
        for block in _mono_blocks(file, file.frames, channel):
            yield block, rate


def _opened(audio: bytes | Path, last: LastRecording | None) -> AbstractContextManager[Decoder]:
    return open_audio(audio) if last is None or isinstance(audio, bytes) else last.opened(audio)


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
    if start or seconds is not None:
        file.seek(first)  # also to 0: the decoder may have been used before
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


class LastRecording:
    """Keeps the decoder of a long recording open: its next utterance is a few frames further on.

    One that is opened again has to find its place, which of MP3 and M4A is decoding from the start.
    """

    def __init__(self) -> None:
        self._place: tuple[Path, str | None] | None = None  # its path and version
        self._file: Decoder | None = None

    @contextmanager
    def opened(self, path: Path) -> Iterator[Decoder]:
        """The open decoder of a file; the one before is closed."""
        # libsndfile 1.2.2 gives wrong samples if it goes forward in an OGG after it has read.
        is_ogg = getattr(self._file, "format", "") == "OGG"
        place = path, version_of(path)
        if self._file is None or place != self._place or is_ogg:
            self.close()
            self._place, self._file = place, open_audio(path)
        try:
            yield self._file
        except RuntimeError:
            self.close()  # its place is unknown
            raise

    def close(self) -> None:
        """Close what is open."""
        if self._file is not None:
            self._file.close()
        self._place = self._file = None


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


_OF_LIBSNDFILE: Final = (b"RIFF", b"RF64", b"riff", b"FORM", b"caff", b".snd", b"fLaC", b"OggS")
"""How WAV (three kinds), AIFF, CAF, AU, FLAC and OGG begin."""

_WAV: Final = {"WAV", "WAVEX"}
_STREAMED: Final = 0x7FFF_0000
"""Programs that write a WAV into a pipe state at least this many bytes, or none."""


class _SoundFile(soundfile.SoundFile):  # type: ignore[misc]  # untyped
    def seekable(self) -> bool:
        """False without a known length: soundfile would seek after each read, which fails."""
        return bool(super().seekable()) and self.frames < UNKNOWN_LENGTH


Decoder = _SoundFile | ForwardDecoder


def open_audio(audio: bytes | Path) -> Decoder:
    """Open a file for reading in blocks; raises `RuntimeError` if it cannot be decoded.

    Raises:
        AudioError: There is no such file, or it is empty.
        SourceError: The file exists and cannot be read.
    """
    head = _head_of(audio)
    if not head:
        raise AudioError("empty file")
    if is_media(head):
        return Media(audio)
    if not head.startswith(_OF_LIBSNDFILE):  # or an MP3 with anything before its first frame
        return Mp3(audio)
    file = _SoundFile(io.BytesIO(audio) if isinstance(audio, bytes) else os.fsencode(audio))
    if file.format in _WAV and not file.frames:
        # A program that wrote into a pipe left the length 0; libsndfile reads on if it is too long.
        file.close()
        content = audio if isinstance(audio, bytes) else audio.read_bytes()
        streamed = content.replace(b"data" + bytes(4), b"data" + b"\xff" * 4, 1)
        return _SoundFile(io.BytesIO(streamed))
    return file


def header_fault(file: Decoder) -> str:
    """What is wrong with the length in the header of a WAV; empty if nothing is.

    libsndfile reads the samples that are there. Its log has the length in the header, that which it
    should be, and where something begins behind the samples that is no chunk of a WAV.
    """
    if isinstance(file, ForwardDecoder) or file.format not in _WAV:
        return ""
    log = file.extra_info
    length, stated = _noted(log, "Length", 0), _noted(log, "data", 0)
    slack = SLACK * _noted(log, "Bytes/sec", 0)
    if _noted(log, "should be", stated) + slack < stated < _STREAMED:
        return "truncated audio"
    if _noted(log, "position", length) + slack < length:
        return "more audio than its header says"
    return ""


def _noted(log: str, name: str, default: int) -> int:
    """A number in libsndfile's log, such as those of ``data : 64000 (should be 32000)``."""
    match = re.search(rf"{name}\W+(\d+)", log)
    return int(match[1]) if match else default


def _head_of(audio: bytes | Path) -> bytes:
    if isinstance(audio, bytes):
        return audio[:HEAD]
    try:
        if not audio.is_file():  # a pipe would never end
            raise AudioError("audio file missing")
        with audio.open("rb") as stream:
            return stream.read(HEAD)
    except OSError as error:
        # A disk that fails for a moment must not remove the row from the dataset.
        raise SourceError(
            f"{audio}: cannot be read ({error.strerror}); fix this and run the same command again"
        ) from error


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
