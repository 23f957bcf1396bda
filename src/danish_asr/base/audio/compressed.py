"""FLAC and MP3 in memory to samples in memory, through miniaudio.

Decoding FLAC is most of the work of a conversion and of a training reader: miniaudio gives
libsndfile's samples in half the time, and writes into the caller's array. Of an MP3 without a
length tag libsndfile guesses the length from the bit rate of the first frame, and can stop long
before the end; miniaudio counts the frames.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

import numpy as np
from miniaudio import ffi, lib
from numpy.typing import NDArray


class Flac:
    """A FLAC file of one channel with a known length, in samples."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.rate = int(handle.sampleRate)
        self.samples = int(handle.totalPCMFrameCount)

    def read(self, out: NDArray[np.float32]) -> int:
        """Decode into ``out``, in [-1, 1]; returns fewer samples than it has for a damaged file."""
        place = ffi.from_buffer("float[]", out)
        return int(lib.ma_dr_flac_read_pcm_frames_f32(self._handle, len(out), place))

    def seek(self, sample: int) -> bool:
        """Continue at a sample; returns whether it was found."""
        return bool(lib.ma_dr_flac_seek_to_pcm_frame(self._handle, sample))


@contextmanager
def open_flac(encoded: bytes) -> Iterator[Flac | None]:
    """Open a file; None if it is not FLAC, has several channels or has no length in its header."""
    flac = encoded.startswith(b"fLaC")
    handle = flac and lib.ma_dr_flac_open_memory(encoded, len(encoded), ffi.NULL)
    try:
        simple = handle and handle.channels == 1 and handle.totalPCMFrameCount
        yield Flac(handle) if simple else None
    finally:
        lib.ma_dr_flac_close(handle or ffi.NULL)


_LENGTH_TAG: Final = re.compile(rb"(?:Xing|Info)\0\0\0[\x01-\x0f]")
"""The tag of an encoder with the length of the file, and flags for the fields in it."""


def is_mp3(head: bytes) -> bool:
    """Whether a file that begins like this is an MP3: an ID3 tag, or a frame of layer III."""
    return head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2)


def is_joined(data: bytes) -> bool:
    """Whether several tagged MP3s follow each other; decoders stop at the end of the first."""
    tags = _LENGTH_TAG.finditer(data)
    return next(tags, None) is not None and next(tags, None) is not None


class Mp3:
    """An MP3 with the attributes and methods of a `soundfile.SoundFile`; raises `RuntimeError`."""

    def __init__(self, data: bytes) -> None:
        self._data = data  # the decoder reads from it
        self._decoder = ffi.new("ma_dr_mp3 *")
        if not lib.ma_dr_mp3_init_memory(self._decoder, data, len(data), ffi.NULL):
            raise RuntimeError("not an MP3")
        self.samplerate = int(self._decoder.sampleRate)
        self.channels = int(self._decoder.channels)
        self.frames = int(lib.ma_dr_mp3_get_pcm_frame_count(self._decoder))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        lib.ma_dr_mp3_uninit(self._decoder)

    def seek(self, frame: int) -> None:
        """Continue at a frame."""
        lib.ma_dr_mp3_seek_to_pcm_frame(self._decoder, frame)

    def read(self, frames: int, **_: object) -> NDArray[np.float32]:
        """Decode up to ``frames`` frames to ``(frames, channels)`` in [-1, 1]."""
        out = np.empty((frames, self.channels), np.float32)
        place = ffi.from_buffer("float[]", out)
        return out[: int(lib.ma_dr_mp3_read_pcm_frames_f32(self._decoder, frames, place))]
