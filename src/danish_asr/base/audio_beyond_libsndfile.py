"""Audio formats that libsndfile does not read well: FLAC, MP3, MP4, WebM and others.

Decoding FLAC is most of the work of a conversion and of a training reader: miniaudio gives
libsndfile's samples in half the time. Of an MP3 without a length tag libsndfile guesses the length
from the bit rate of the first frame, and can stop long before the end; miniaudio counts the frames.
PyAV, the extra ``media``, brings FFmpeg and is imported only for the formats of `is_media`.
"""

import io
from abc import abstractmethod
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from miniaudio import ffi, lib
from numpy.typing import NDArray
from typing_extensions import override

from danish_asr.base.errors import MissingExtraError, SourceError

UNKNOWN_LENGTH: Final = 1 << 62
"""The number of frames of a file whose header has none; libsndfile has at least as many."""

_BLOCK: Final = 1 << 16  # frames


def decode_flac(
    encoded: bytes, max_seconds: float, out: NDArray[np.float32] | None = None
) -> tuple[NDArray[np.float32], int] | None:
    """Return the samples in [-1, 1] and the rate of a FLAC file of one channel.

    They are in ``out``, if it has as many places. None if the file is something else, damaged, too
    long, or has no length in its header.
    """
    if not encoded.startswith(b"fLaC"):
        return None
    flac = lib.ma_dr_flac_open_memory(encoded, len(encoded), ffi.NULL)
    try:
        if not flac or flac.channels != 1:
            return None
        rate, samples = int(flac.sampleRate), int(flac.totalPCMFrameCount)
        if not 0 < samples <= rate * max_seconds:
            return None
        if out is None or len(out) != samples:
            out = np.empty(samples, np.float32)
        place = ffi.from_buffer("float[]", out)
        count = lib.ma_dr_flac_read_pcm_frames_f32(flac, samples, place)
        return (out, rate) if count == samples else None
    finally:
        lib.ma_dr_flac_close(flac)


class ForwardDecoder:
    """A file that is only decoded forwards, used as a `soundfile.SoundFile`.

    It seeks by decoding, because FFmpeg's and miniaudio's own ways are not exact. Opening, seeking
    and reading raise `RuntimeError` for a file that cannot be decoded.
    """

    def __init__(self, audio: bytes | Path) -> None:
        self._audio = audio
        self.samplerate, self.channels, self.frames = 1, 1, UNKNOWN_LENGTH
        self._open()

    def _open(self) -> None:
        self._blocks, self._place = self._decode(), 0
        self._left = next(self._blocks, np.empty((0, 1), np.float32))

    @abstractmethod
    def _decode(self) -> Iterator[NDArray[np.float32]]:
        """Yield blocks of ``(frames, channels)``; sets what the file is before the first one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._blocks.close()  # type: ignore[attr-defined]  # a generator

    def seek(self, frame: int) -> None:
        """Continue at a frame."""
        if frame < self._place:
            self.close()
            self._open()
        while self._place < frame and len(self.read(min(frame - self._place, 1 << 20))):
            pass

    def read(self, frames: int, **_: object) -> NDArray[np.float32]:
        """Decode up to ``frames`` frames to ``(frames, channels)`` in [-1, 1]."""
        blocks, count = [self._left], len(self._left)
        while count < frames and (block := next(self._blocks, None)) is not None:
            blocks.append(block)
            count += len(block)
        joined = np.concatenate(blocks)
        self._left = joined[frames:]
        self._place += len(joined[:frames])
        return joined[:frames]


class Mp3(ForwardDecoder):
    """An MP3, through miniaudio."""

    @override
    def _decode(self) -> Iterator[NDArray[np.float32]]:
        data = self._audio if isinstance(self._audio, bytes) else self._audio.read_bytes()
        decoder = ffi.new("ma_dr_mp3 *")
        if not lib.ma_dr_mp3_init_memory(decoder, data, len(data), ffi.NULL):
            raise RuntimeError("not an MP3")
        try:
            self.samplerate, self.channels = int(decoder.sampleRate), int(decoder.channels)
            self.frames = int(lib.ma_dr_mp3_get_pcm_frame_count(decoder))
            while True:
                block = np.empty((_BLOCK, self.channels), np.float32)
                place = ffi.from_buffer("float[]", block)
                count = int(lib.ma_dr_mp3_read_pcm_frames_f32(decoder, _BLOCK, place))
                if not count:
                    return
                yield block[:count]
        finally:
            lib.ma_dr_mp3_uninit(decoder)


HEAD: Final = 33
"""Bytes that `is_media` looks at."""

_MEDIA: Final = (b"\x1a\x45\xdf\xa3", b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", b"#!AMR")
"""How Matroska with WebM, WMA and AMR begin."""


def is_media(head: bytes) -> bool:
    """Whether a file begins like MP4, WebM, Matroska, ADTS (AAC), WMA, AMR, AVI or FLAC in OGG."""
    adts = len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0
    avi = head[:4] == b"RIFF" and head[8:12] == b"AVI "
    flac_in_ogg = head[:4] == b"OggS" and head[28:33] == b"\x7fFLAC"
    return head[4:8] == b"ftyp" or head.startswith(_MEDIA) or adts or avi or flac_in_ogg


class Media(ForwardDecoder):
    """The first audio stream of a file, through PyAV; its length is unknown until the end."""

    @override
    def _decode(self) -> Iterator[NDArray[np.float32]]:
        try:
            av: Any = import_module("av")
        except ImportError as error:
            what = "audio in m4a, mp4, aac, webm, wma, amr and avi files"
            raise SourceError(str(MissingExtraError(what, "media"))) from error
        av.logging.set_level(av.logging.PANIC)
        source = io.BytesIO(self._audio) if isinstance(self._audio, bytes) else str(self._audio)
        resampler = None
        try:
            with av.open(source) as container:
                for frame in container.decode(audio=0):
                    if resampler is None:  # a header's rate may be half of HE-AAC's
                        self.samplerate, self.channels = frame.sample_rate, frame.layout.nb_channels
                        resampler = av.AudioResampler("fltp", frame.layout, frame.sample_rate)
                    for samples in resampler.resample(frame):
                        yield samples.to_ndarray().T
        except (av.FFmpegError, ValueError, IndexError) as error:
            raise RuntimeError(error) from error  # damaged, without audio, or with another rate
