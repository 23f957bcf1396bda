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

_FULL_SCALE: Final = 32767


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
        AudioError: The audio is undecodable, empty, too long or has non-finite samples.
    """
    samples, rate = decode(audio, start=start, seconds=seconds, max_seconds=max_seconds)
    mono = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1)
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
    """Return the samples, of shape ``(frames, channels)``, and their rate in Hz.

    The length limit is checked against the header, so that an overlong file costs no memory.

    Raises:
        AudioError: The audio is undecodable, too long or not there at all.
    """
    if isinstance(audio, Path) and not audio.is_file():
        raise AudioError("audio file missing")
    try:
        with soundfile.SoundFile(io.BytesIO(audio) if isinstance(audio, bytes) else audio) as file:
            first = round(start * file.samplerate)
            left = file.frames - first
            frames = left if seconds is None else min(left, round(seconds * file.samplerate))
            if frames <= 0:
                raise AudioError("zero samples")
            if max_seconds is not None and frames > max_seconds * file.samplerate:
                raise AudioError(f"longer than {max_seconds:g} s")
            if first:
                file.seek(first)
            samples = file.read(frames, dtype="float32", always_2d=True)
            rate = int(file.samplerate)
    except (soundfile.LibsndfileError, RuntimeError):
        raise AudioError("undecodable audio") from None
    if not len(samples):
        raise AudioError("zero samples")
    return samples, rate


def encode_flac(mono: NDArray[np.float32], rate: int) -> bytes:
    """Encode samples in [-1, 1] as FLAC of 16 bits; what lies outside is clipped."""
    whole = np.rint(np.clip(mono, -1.0, 1.0) * _FULL_SCALE).astype(np.int16)
    file = io.BytesIO()
    soundfile.write(file, whole, rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()
