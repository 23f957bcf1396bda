"""Bring audio to the one form that a built dataset holds: FLAC, 16 bits, mono, 16 kHz."""

from __future__ import annotations

import errno
import io
import math
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from danish_asr.errors import SourceError
from danish_asr.flac import open_flac
from danish_asr.mp3 import is_mp3, with_all_frames
from danish_asr.schema import SAMPLE_RATE

RESAMPLING_QUALITY: Final = "HQ"
"""soxr's recipe: 20 bits of precision, more than the 16 that are kept."""

_SLACK: Final = 0.1
"""Seconds that a file may fall short of its header: an MP3's may be some MPEG frames off."""

_FULL_SCALE: Final = 32767
_BLOCK: Final = 1 << 20
"""Samples of all channels that are averaged at a time."""

_ENDLESS: Final = 1 << 62
"""Frames that libsndfile tells of a file whose header was written before its length was known."""

_LONGEST: Final = 7200.0
"""Seconds that are read at most of such a file, if no limit is given."""

_NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_STDERR: Final = 2


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
            tells their length by what is left. Nor does an MP3 without a tag of its length.
        SourceError: The file is there, and cannot be read.
    """
    if isinstance(audio, bytes) and not start and seconds is None:
        whole = _decode_whole_flac(audio, max_seconds)
        if whole is not None:
            return whole
    try:
        with _open(audio) as file:
            rate = int(file.samplerate)
            endless = file.endless
            longest = _LONGEST if endless else math.inf
            most = rate * (longest if max_seconds is None else max_seconds)
            first = round(min(start * rate, file.frames))
            # One frame more than is allowed shows that there is more.
            left = min(file.frames - first, most + 1)
            frames = round(left if seconds is None else min(left, seconds * rate))
            if frames <= 0:
                raise AudioError("zero samples")
            if frames > most and not endless:
                raise AudioError(f"longer than {most / rate:g} s")
            if first:
                file.seek(first)
            mono = _read_mono(file, frames)
    except (soundfile.LibsndfileError, RuntimeError):
        raise AudioError("undecodable audio") from None
    if not len(mono):
        raise AudioError("zero samples")
    if len(mono) > most:
        raise AudioError(f"longer than {most / rate:g} s")
    if len(mono) < frames - _SLACK * rate and not endless:
        raise AudioError("truncated audio")
    return mono, rate


def _decode_whole_flac(
    audio: bytes, max_seconds: float | None
) -> tuple[NDArray[np.float32], int] | None:
    """Decode in half of libsndfile's time; None: not FLAC, or something about it wants a reason."""
    with open_flac(audio) as flac:
        if flac is None or (max_seconds is not None and flac.samples > max_seconds * flac.rate):
            return None
        mono = np.empty(flac.samples, np.float32)
        return (mono, flac.rate) if flac.read(mono) == len(mono) else None


class _Sound(soundfile.SoundFile):  # type: ignore[misc]  # untyped
    """A sound file that may be endless: nothing can be sought behind an end that is not known."""

    @property
    def endless(self) -> bool:
        return bool(self.frames >= _ENDLESS)

    def seekable(self) -> bool:
        return bool(super().seekable()) and not self.endless


class _Steady(io.BufferedIOBase):
    """A stream that stays where it is when it is asked to go nowhere, as damaged audio asks."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        try:
            return super().seek(offset, whence)
        except (OSError, ValueError):
            return self.tell()


class _Bytes(_Steady, io.BytesIO):
    pass


class _File(_Steady, io.BufferedReader):
    pass


@contextmanager
def _open(audio: bytes | Path) -> Iterator[_Sound]:
    """Open audio for decoding; an MP3 is made to tell all of its frames first."""
    with ExitStack() as stack:
        stream: IO[bytes] = _Bytes(audio) if isinstance(audio, bytes) else _open_file(audio)
        stack.enter_context(stream)
        try:
            head = stream.read(3)
        except OSError as error:
            assert isinstance(audio, Path)
            raise _unreadable(audio, error) from error
        stream.seek(0)
        if is_mp3(head):
            stream = _Bytes(with_all_frames(stream.read()))
            stack.enter_context(_silence())
        yield stack.enter_context(_Sound(stream))


def _open_file(path: Path) -> IO[bytes]:
    try:
        if stat.S_ISREG(path.stat().st_mode):
            return _File(io.FileIO(path))
    except ValueError:
        pass  # no file can be called so
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise _unreadable(path, error) from error
    raise AudioError("audio file missing")


def _unreadable(path: Path, error: OSError) -> SourceError:
    """A disk that fails for a moment must not pass for a row that is lost."""
    return SourceError(
        f"{path}: cannot be read ({error.strerror}); mend that, and run the same command again to "
        "continue"
    )


@contextmanager
def _silence() -> Iterator[None]:
    """Keep what the MP3 decoder itself writes to the terminal off it; the ledger has the reason."""
    terminal, nothing = os.dup(_STDERR), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, _STDERR)
        yield
    finally:
        os.dup2(terminal, _STDERR)
        os.close(terminal)
        os.close(nothing)


def _read_mono(file: _Sound, frames: int) -> NDArray[np.float32]:
    """Read up to ``frames`` frames; a file may hold fewer than its header says."""
    mono = np.empty(frames, np.float32)
    if file.channels == 1:
        return mono[: len(file.read(frames, out=mono))]
    size = max(1, _BLOCK // file.channels)
    done = 0
    while len(block := file.read(min(size, frames - done), dtype="float32", always_2d=True)):
        block.mean(axis=1, out=mono[done : done + len(block)])
        done += len(block)
    return mono[:done]


def encode_flac(mono: NDArray[np.float32], rate: int) -> bytes:
    """Encode samples in [-1, 1] as FLAC of 16 bits; what lies outside is clipped."""
    whole = np.clip(mono, -1.0, 1.0)
    whole *= _FULL_SCALE
    np.rint(whole, out=whole)
    file = io.BytesIO()
    soundfile.write(file, whole.astype(np.int16), rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()
