"""Decode FLAC straight into the memory of a batch.

Decoding is most of a reader's work. miniaudio's decoder gives libsndfile's samples in less time; it
is called through its low-level functions because the others make an array per utterance, to be
copied (``benchmarks/loader.py``).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from miniaudio import ffi, lib
from numpy.typing import NDArray

from danish_asr.schema import SAMPLE_RATE

_MAGIC: Final = b"fLaC"


def decode_flac(encoded: bytes, out: NDArray[np.float32]) -> bool:
    """Fill ``out``, ``(samples,)`` and contiguous, with a file of one channel; thread-safe.

    Returns:
        Whether it was one that this function decodes: FLAC, one channel, its length in its header.
        If not, ``out`` is as it was.

    Raises:
        ValueError: The audio is damaged, is not 16 kHz, or has another number of samples.
    """
    if not encoded.startswith(_MAGIC):
        return False
    flac = lib.ma_dr_flac_open_memory(encoded, len(encoded), ffi.NULL)
    if not flac:
        return False
    try:
        if flac.channels != 1 or not flac.totalPCMFrameCount:
            return False
        check_form(flac.sampleRate, flac.totalPCMFrameCount, len(out))
        place = ffi.from_buffer("float[]", out)
        read = lib.ma_dr_flac_read_pcm_frames_f32(flac, len(out), place)
    finally:
        lib.ma_dr_flac_close(flac)
    if read != len(out):
        raise ValueError(f"the audio is damaged: {read} of {len(out)} samples can be decoded")
    return True


def check_form(rate: float, samples: int, expected: int) -> None:
    """Raise ``ValueError`` for audio that is not at 16 kHz or not of the expected length."""
    if rate != SAMPLE_RATE:
        raise ValueError(f"expected audio at {SAMPLE_RATE} Hz, found {rate:g} Hz")
    if samples != expected:
        raise ValueError(f"audio_size is {expected}, the audio has {samples} samples")
