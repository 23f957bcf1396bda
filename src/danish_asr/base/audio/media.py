"""Audio in MP4, WebM, Matroska and ADTS files (AAC, Opus, ...), through PyAV: the extra ``media``.

PyAV brings FFmpeg and is imported only for such a file.
"""

import io
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from danish_asr.base.errors import MissingExtraError, SourceError

HEAD: Final = 12
"""Bytes that `is_media` looks at."""


def is_media(head: bytes) -> bool:
    """Whether a file that begins like this is MP4, WebM or Matroska, or AAC frames (ADTS)."""
    adts = len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0
    return head[4:8] == b"ftyp" or head[:4] == b"\x1a\x45\xdf\xa3" or adts


class Media:
    """The first audio stream of a file, as a `soundfile.SoundFile`; raises `RuntimeError`.

    The number of frames is unknown until the end: what a header says is an estimate.
    """

    frames: Final = 1 << 62

    def __init__(self, audio: bytes | Path) -> None:
        try:
            self._av: Any = import_module("av")
        except ImportError as error:
            # Of one argument, as it crosses from a worker process.
            missing = MissingExtraError("audio in m4a, mp4, aac and webm files", "media")
            raise SourceError(str(missing)) from error
        self._av.logging.set_level(self._av.logging.PANIC)
        source = io.BytesIO(audio) if isinstance(audio, bytes) else str(audio)
        try:
            self._container = self._av.open(source)
        except self._av.FFmpegError as error:
            raise RuntimeError(error) from error
        if not self._container.streams.audio:
            self._container.close()
            raise RuntimeError("no audio track")
        self._left = np.empty((0, 1), np.float32)
        self._blocks = self._decode()
        self.samplerate, self.channels = 1, 1
        self._left = next(self._blocks, self._left)  # a header's rate may be half of HE-AAC's

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._container.close()

    def seek(self, frame: int) -> None:
        """Skip that many frames by decoding them: unlike FFmpeg's seeking, this is exact."""
        while frame > 0 and len(skipped := self.read(min(frame, 1 << 20))):
            frame -= len(skipped)

    def read(self, frames: int, **_: object) -> NDArray[np.float32]:
        """Decode up to ``frames`` frames to ``(frames, channels)`` in [-1, 1]."""
        blocks, count = [self._left], len(self._left)
        while count < frames and (block := next(self._blocks, None)) is not None:
            blocks.append(block)
            count += len(block)
        joined = np.concatenate(blocks)
        self._left = joined[frames:]
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
