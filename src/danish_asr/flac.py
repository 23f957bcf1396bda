"""FLAC in memory to samples in memory.

Decoding is most of the work of a conversion, and of a reader. miniaudio's decoder gives
libsndfile's samples in half the time; it is called through its low-level functions because the
others make an array per utterance, to be copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from miniaudio import ffi, lib
from numpy.typing import NDArray

_MAGIC: Final = b"fLaC"


class Flac:
    """A FLAC file of one channel that tells its length.

    Attributes:
        rate: Samples a second.
        samples: Its length, by its header.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.rate = int(handle.sampleRate)
        self.samples = int(handle.totalPCMFrameCount)

    def read(self, out: NDArray[np.float32]) -> int:
        """Decode into ``out``, ``(samples,)`` and contiguous, in [-1, 1].

        Returns:
            The number of samples; fewer than ``out`` takes where the file is damaged or ends.
        """
        place = ffi.from_buffer("float[]", out)
        return int(lib.ma_dr_flac_read_pcm_frames_f32(self._handle, len(out), place))


@contextmanager
def open_flac(encoded: bytes) -> Iterator[Flac | None]:
    """Open a file for reading; None if it is no FLAC, has channels to mix or tells no length."""
    handle = ffi.NULL
    if encoded.startswith(_MAGIC):
        handle = lib.ma_dr_flac_open_memory(encoded, len(encoded), ffi.NULL)
    if not handle:
        yield None
        return
    try:
        simple = handle.channels == 1 and handle.totalPCMFrameCount
        yield Flac(handle) if simple else None
    finally:
        lib.ma_dr_flac_close(handle)
