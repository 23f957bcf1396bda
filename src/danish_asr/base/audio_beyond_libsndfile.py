"""Audio formats that libsndfile does not read well: FLAC, MP3, MP4, WebM and others.

Decoding FLAC is most of the work of a conversion and of a training reader: miniaudio gives
libsndfile's samples in half the time, and writes into the caller's array. Of an MP3 without a
length tag libsndfile guesses the length from the bit rate of the first frame, and can stop long
before the end; miniaudio counts the frames. PyAV, the extra ``media``, brings FFmpeg and is
imported only for MP4, WebM, Matroska, ADTS, WMA, AMR, AVI and FLAC within OGG.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from miniaudio import ffi, lib
from numpy.typing import NDArray

from danish_asr.base.errors import MissingExtraError, SourceError


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


def is_mp3(head: bytes) -> bool:
    """Whether a file that begins like this is an MP3: an ID3 tag, or a frame of layer III."""
    return head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2)


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
        self._place = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        lib.ma_dr_mp3_uninit(self._decoder)

    def seek(self, frame: int) -> None:
        """Continue at a frame: forwards by decoding, as miniaudio's own way gives wrong samples."""
        if frame < self._place:
            lib.ma_dr_mp3_seek_to_pcm_frame(self._decoder, 0)
            self._place = 0
        while self._place < frame and len(self.read(min(frame - self._place, 1 << 20))):
            pass

    def read(self, frames: int, **_: object) -> NDArray[np.float32]:
        """Decode up to ``frames`` frames to ``(frames, channels)`` in [-1, 1]."""
        out = np.empty((frames, self.channels), np.float32)
        place = ffi.from_buffer("float[]", out)
        count = int(lib.ma_dr_mp3_read_pcm_frames_f32(self._decoder, frames, place))
        self._place += count
        return out[:count]


HEAD: Final = 33
"""Bytes that `is_mp3` and `is_media` look at."""

_MEDIA: Final = (b"\x1a\x45\xdf\xa3", b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", b"#!AMR")
"""How Matroska with WebM, WMA and AMR begin."""


def is_media(head: bytes) -> bool:
    """Whether a file begins like MP4, WebM, Matroska, ADTS (AAC), WMA, AMR, AVI or FLAC in OGG."""
    adts = len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0
    avi = head[:4] == b"RIFF" and head[8:12] == b"AVI "
    flac_in_ogg = head[:4] == b"OggS" and head[28:33] == b"\x7fFLAC"
    return head[4:8] == b"ftyp" or head.startswith(_MEDIA) or adts or avi or flac_in_ogg


class Media:
    """The first audio stream of a file, as a `soundfile.SoundFile`; raises `RuntimeError`.

    The number of frames is unknown until the end: what a header says is an estimate.
    """

    frames: Final = 1 << 62

    def __init__(self, audio: bytes | Path) -> None:
        self._audio = audio
        try:
            self._av: Any = import_module("av")
        except ImportError as error:
            what = "audio in m4a, mp4, aac, webm, wma, amr and avi files"
            raise SourceError(str(MissingExtraError(what, "media"))) from error
        self._av.logging.set_level(self._av.logging.PANIC)
        source = io.BytesIO(audio) if isinstance(audio, bytes) else str(audio)
        try:
            self._container = self._av.open(source)
        except self._av.FFmpegError as error:
            raise RuntimeError(error) from error
        if not self._container.streams.audio:
            self._container.close()
            raise RuntimeError("no audio track")
        self._blocks, self._place = self._decode(), 0
        self.samplerate, self.channels = 1, 1
        # The first block sets them; a header's rate may be half of HE-AAC's.
        self._left = next(self._blocks, np.empty((0, 1), np.float32))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._container.close()

    @property
    def announced(self) -> float:
        """Seconds that the header says, 0 if it does not."""
        stream = self._container.streams.audio[0]
        if self._container.format.name == "aac":  # an estimate
            return 0.0
        if stream.duration is not None:
            return float(stream.duration * stream.time_base)
        # Matroska has one duration for all tracks.
        alone = len(self._container.streams) == 1
        return (self._container.duration or 0) / 1e6 if alone else 0.0

    def seek(self, frame: int) -> None:
        """Continue at a frame, by decoding all before it: FFmpeg's seeking is not exact."""
        if frame < self._place:
            self._container.close()
            self.__init__(self._audio)  # type: ignore[misc]  # from the start
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

    def _decode(self) -> Iterator[NDArray[np.float32]]:
        resampler = None
        try:
            for frame in self._container.decode(audio=0):
                if resampler is None:
                    self.samplerate, self.channels = frame.sample_rate, frame.layout.nb_channels
                    resampler = self._av.AudioResampler("fltp", frame.layout, frame.sample_rate)
                for samples in resampler.resample(frame):
                    yield samples.to_ndarray().T
        except (self._av.FFmpegError, ValueError, IndexError) as error:
            raise RuntimeError(error) from error  # damaged, or with a change of rate
