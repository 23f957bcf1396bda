"""What the header of a WAV file says about its length.

libsndfile derives the length of a truncated file from what is left of it.
"""

import io
import struct
from pathlib import Path
from typing import Final

_STREAMED: Final = 0x7FFF0000
"""A program that writes to a pipe does not know the size: it writes 0 or more than this."""


def promised(audio: bytes | Path) -> float:
    """Return how much audio a WAV file should have, as a multiple of what it has; else 1."""
    with io.BytesIO(audio) if isinstance(audio, bytes) else audio.open("rb") as file:
        head = file.read(12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            return 1.0
        size = 0
        while len(chunk := file.read(8)) == 8:
            name, size = struct.unpack("<4sI", chunk)
            if name == b"data":
                break
            file.seek(size + size % 2, io.SEEK_CUR)
        else:
            return 1.0
        begin = file.tell()
        left = file.seek(0, io.SEEK_END) - begin
    return size / left if 0 < left < size < _STREAMED else 1.0
