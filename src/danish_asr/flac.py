"""FLAC in memory to samples in memory.

Decoding is most of the work of a conversion and of a training reader. miniaudio's decoder gives
libsndfile's samples in half the time; its low-level functions write into the caller's array.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
