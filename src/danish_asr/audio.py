"""Bring audio to the one form that a built dataset holds: FLAC, 16 bits, mono, 16 kHz."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from danish_asr.schema import SAMPLE_RATE

RESAMPLING_QUALITY: Final = "HQ"
"""soxr's recipe: 20 bits of precision, more than the 16 that are kept."""

_SLACK: Final = 0.1
"""Seconds that a file may fall short of its header: an MP3's may be some MPEG frames off."""

_FULL_SCALE: Final = 32767
_BLOCK: Final = 1 << 20
"""Frames whose channels are averaged at a time."""


class AudioError(Exception):
    """An utterance's audio cannot be used; the message is its reason in the ledger."""


def to_flac(
    audio: bytes | Path,
    *,
    start: float = 0.0,
    seconds: float | None = None,
    max_seconds: float | None = None,
) -> tuple[bytes, int]:
    """Convert an audio file of any format that libsndfile reads (WAV, FLAC, MP3, OGG, ...).

    Args:
        audio: The whole file, or its path.
        start: Seconds to skip.
        seconds: Seconds to take after them; None for the rest.
        max_seconds: Longest utterance to accept.

    Returns:
        The FLAC file and its number of samples.

    Raises:
        AudioError: The audio is undecodable, truncated, empty, too long or has non-finite samples.
    """
    mono, rate = decode(audio, start=start, seconds=seconds, max_seconds=max_seconds)
    if not np.isfinite(mono).all():
        raise AudioError("non-finite samples")
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE, quality=RESAMPLING_QUALITY)
    if not len(mono):
        raise AudioError("zero samples")
    return encode_flac(mono, SAMPLE_RATE), len(mono)


def decode(
    audio: bytes | Path,
    *,
    start: float = 0.0,
    seconds: float | None = None,
    max_seconds: float | None = None,
) -> tuple[NDArray[np.float32], int]:
    """Return the mean of all channels and its rate in Hz.

    The length limit is checked against the header, and channels are averaged block by block, so
    that neither an overlong file nor many channels cost memory.

    Raises:
        AudioError: The audio is undecodable, too long or not there at all; or it ends before its
            header says so. A WAV or OGG file that was cut at its end does not show it: libsndfile
            tells their length by what is left.
    """
    if isinstance(audio, Path) and not audio.is_file():
        raise AudioError("audio file missing")
    try:
        with soundfile.SoundFile(io.BytesIO(audio) if isinstance(audio, bytes) else audio) as file:
            rate = int(file.samplerate)
            first = round(start * rate)
            left = file.frames - first
            frames = left if seconds is None else min(left, round(seconds * rate))
            if frames <= 0:
                raise AudioError("zero samples")
            if max_seconds is not None and frames > max_seconds * rate:
                raise AudioError(f"longer than {max_seconds:g} s")
            if first:
                file.seek(first)
            mono = _read_mono(file, frames)
    except (soundfile.LibsndfileError, RuntimeError):
        raise AudioError("undecodable audio") from None
    if not len(mono):
        raise AudioError("zero samples")
    if len(mono) < frames - _SLACK * rate:
        raise AudioError("truncated audio")
    return mono, rate


def _read_mono(file: soundfile.SoundFile, frames: int) -> NDArray[np.float32]:
    """Read up to ``frames`` frames; a compressed file may hold fewer than its header says."""
    if file.channels == 1:
        mono: NDArray[np.float32] = file.read(frames, dtype="float32")
        return mono
    mono = np.empty(frames, np.float32)
    done = 0
    while len(block := file.read(min(_BLOCK, frames - done), dtype="float32", always_2d=True)):
        block.mean(axis=1, out=mono[done : done + len(block)])
        done += len(block)
    return mono[:done]


def encode_flac(mono: NDArray[np.float32], rate: int) -> bytes:
    """Encode samples in [-1, 1] as FLAC of 16 bits; what lies outside is clipped."""
    whole = np.rint(np.clip(mono, -1.0, 1.0) * _FULL_SCALE).astype(np.int16)
    file = io.BytesIO()
    soundfile.write(file, whole, rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()
