"""What is missing of a WAV or OGG file that was cut at its end.

libsndfile derives the length of such a file from what is left of it.
"""

import io
import struct
from math import inf
from pathlib import Path
from typing import IO, Final

_STREAMED: Final = 0x7FFF0000
"""A program that writes WAV to a pipe does not know the size: it writes 0 or more than this."""

_PAGE: Final = 27 + 255 + 255 * 255
"""Bytes of the longest page of OGG."""


def missing(audio: bytes | Path) -> float:
    """Return how much audio a file lacks, as a multiple of what it has.

    0 if nothing is missing or it cannot be seen, as where an OGG ends between two pages; infinite
    for an OGG that ends within a page.
    """
    with io.BytesIO(audio) if isinstance(audio, bytes) else audio.open("rb") as file:
        head = file.read(12)
        if head[:4] == b"RIFF" and head[8:] == b"WAVE":
            return _missing_of_wav(file)
        return inf if head[:4] == b"OggS" and _ends_within_page(file) else 0.0


def _missing_of_wav(file: IO[bytes]) -> float:
    size = 0
    while len(chunk := file.read(8)) == 8:
        name, size = struct.unpack("<4sI", chunk)
        if name == b"data":
            break
        file.seek(size + size % 2, io.SEEK_CUR)
    else:
        return 0.0
    begin = file.tell()
    left = file.seek(0, io.SEEK_END) - begin
    return size / left - 1 if 0 < left < size < _STREAMED else 0.0


def _ends_within_page(file: IO[bytes]) -> bool:
    file.seek(max(0, file.seek(0, io.SEEK_END) - _PAGE))
    tail = file.read()
    page = tail[tail.rfind(b"OggS") :]
    # The byte 26 counts segments; their sizes follow, then they.
    return len(page) < 27 or len(page) < 27 + page[26] + sum(page[27 : 27 + page[26]])
