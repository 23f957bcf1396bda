"""Whether an audio file is whole: how much its header announces, and what follows its end.

Decoders stop early at the end of a file that was cut, and at the end of the first of two joined
files, without a word.
"""

import io
import mmap
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from math import inf, prod
from pathlib import Path
from typing import Final, NamedTuple

Data = bytes | mmap.mmap

_STREAMED: Final = 0x7FFF0000
"""A program that writes WAV to a pipe does not know the size: it writes 0 or more than this."""

_MIRRORED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
"""Each byte with its bits in the other order."""

_LAST_PAGE: Final = 4
"""The flag of OGG's page that ends a stream."""

_FIRST_PAGE: Final = re.compile(rb"OggS\0[\x02\x03\x06\x07]")
"""A page that begins a stream."""

_FLAC: Final = b"fLaC\0\0\0\x22"
"""A file's beginning with its first block, of 34 bytes."""

_LENGTH_TAG: Final = re.compile(rb"(?:Xing|Info)\0\0\0[\x01-\x0f]")
"""The tag of an MP3's encoder with the length of the file, and flags for the fields in it."""

_SPHERE: Final = re.compile(rb"(\w+) -(?:i|s\d+) (\d+)")
_SPHERE_SIZES: Final = (b"sample_count", b"channel_count", b"sample_n_bytes")

_W64: Final = b"riff\x2e\x91\xcf\x11"


class _Samples(NamedTuple):
    """Where a header says that the encoded samples lie, in bytes."""

    begin: int
    size: int


def missing(audio: bytes | Path) -> float:
    """Return how much audio a file lacks, as a multiple of what it has.

    0 if nothing is missing or it cannot be seen, as where an OGG ends between two pages; infinite
    for an OGG with a damaged or incomplete page. Knows WAV, RF64, W64, AIFF, CAF, AU, SPHERE
    and AVI.
    """
    with _opened(audio) as data:
        if data[:4] == b"OggS":
            return inf if _has_damaged_page(data) else 0.0
        samples = _samples(data)
        left = 0 if samples is None else len(data) - samples.begin
        return samples.size / left - 1 if samples and 0 < left < samples.size else 0.0


def is_joined(audio: bytes | Path) -> bool:
    """Whether several files follow each other, of which decoders read the first.

    MP3 is told by its length tags, MP4 by a second ``ftyp``. Files of other formats are not
    looked at.
    """
    with _opened(audio) as data:
        head = data[:4]
        if head == b"fLaC":
            return data.find(_FLAC, 4) > 0
        if head == b"OggS":
            return _FIRST_PAGE.search(data, _after_first_pages(data)) is not None
        if data[4:8] == b"ftyp":
            return list(_boxes(data)).count(b"ftyp") > 1
        samples = _samples(data)
        if samples is not None:
            end = samples.begin + samples.size
            return head in data[end : end + 12]
        # No name holds the iterator: it would keep a mapped file open.
        return len([*islice(_LENGTH_TAG.finditer(data), 2)]) > 1


@contextmanager
def _opened(audio: bytes | Path) -> Iterator[Data]:
    if isinstance(audio, bytes):
        yield audio
        return
    with audio.open("rb") as file:
        if not file.seek(0, io.SEEK_END):
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            yield mapped


def _samples(data: Data) -> _Samples | None:
    """The encoded samples of a file in chunks or of an AU; None if their size is not known."""
    found = None
    if data[:4] in {b"RIFF", b"RF64"} and data[8:12] == b"WAVE":
        found = _of_wave(data)
    elif data[:4] == b"FORM" and data[8:11] == b"AIF":
        chunks = _chunks(data, 12, struct.Struct(">4sI"), even=2)
        found = next((samples for name, samples in chunks if name == b"SSND"), None)
    elif data[:8] == _W64:
        chunks = _chunks(data, 40, struct.Struct("<4s12xQ"), even=8, with_head=True)
        found = next((samples for name, samples in chunks if name == b"data"), None)
    elif data[:4] == b"caff":
        chunks = _chunks(data, 8, struct.Struct(">4sQ"), even=1)
        found = next((samples for name, samples in chunks if name == b"data"), None)
    elif data[:4] == b".snd" and len(data) >= 12:
        begin, size = struct.unpack_from(">II", data, 4)
        found = _Samples(begin, size)
    elif data[:4] == b"RIFF" and data[8:12] == b"AVI ":
        found = _Samples(8, *struct.unpack_from("<I", data, 4))
    elif data[:7] == b"NIST_1A":
        found = _of_sphere(data[:1024])
    known = found is not None and (0 < found.size < _STREAMED or _is_long(data))
    return found if known else None


def _is_long(data: Data) -> bool:
    """Whether the format has sizes of 64 bits, so that a large one is no placeholder."""
    return data[:4] == b"RF64" or data[:8] == _W64


def _of_wave(data: Data) -> _Samples | None:
    long_size = None
    for name, samples in _chunks(data, 12, struct.Struct("<4sI"), even=2):
        if name == b"ds64" and len(data) >= samples.begin + 16:
            (long_size,) = struct.unpack_from("<Q", data, samples.begin + 8)
        elif name == b"data":
            return samples if long_size is None else _Samples(samples.begin, long_size)
    return None


def _of_sphere(header: bytes) -> _Samples | None:
    fields = dict(_SPHERE.findall(header))
    sizes = [fields.get(name) for name in _SPHERE_SIZES]
    if not header[8:16].strip().isdigit() or None in sizes:
        return None
    return _Samples(int(header[8:16]), prod(int(size) for size in sizes if size))


def _chunks(
    data: Data, place: int, head: struct.Struct, *, even: int, with_head: bool = False
) -> Iterator[tuple[bytes, _Samples]]:
    """Yield names and contents; ``even`` is the multiple of bytes at which the next one begins."""
    while place + head.size <= len(data):
        name, size = head.unpack_from(data, place)
        size -= head.size if with_head else 0
        if size < 0:
            return
        yield name, _Samples(place + head.size, size)
        place += head.size + size + -size % even


def _boxes(data: Data) -> Iterator[bytes]:
    """The names of an MP4's outer boxes."""
    place = 0
    while place + 8 <= len(data):
        size, name = struct.unpack_from(">I4s", data, place)
        if size == 1 and place + 16 <= len(data):
            (size,) = struct.unpack_from(">Q", data, place + 8)
        yield name
        if size < 8:  # 0: up to the end of the file
            return
        place += size


def _after_first_pages(data: Data) -> int:
    """Where the pages end that begin the streams of an OGG."""
    place = 0
    while _FIRST_PAGE.match(data, place) and len(data) > place + 27:
        segments = data[place + 26]
        place += 27 + segments + sum(data[place + 27 : place + 27 + segments])
    return place


def _has_damaged_page(data: Data) -> bool:
    """Whether an OGG has a page, or bytes instead of one, that decoders leave out."""
    place = end = 0
    while place == end:
        segments = data[place + 26 : place + 27]
        sizes = place + 27 + sum(segments)  # where the list of sizes ends
        end = sizes + sum(data[place + 27 : sizes])
        page = data[place:end]
        if not segments or len(page) < end - place or page[22:26] != _checksum(page):
            return True
        place = data.find(b"OggS", end)
    # Behind the page that ends the stream there may be a tag.
    return place >= 0 or (end < len(data) and not page[5] & _LAST_PAGE)


def _checksum(page: bytes) -> bytes:
    """CRC-32 of a page of OGG, from the first bit of each byte; zlib begins with the last one."""
    reflected = zlib.crc32((page[:22] + bytes(4) + page[26:]).translate(_MIRRORED), 0xFFFFFFFF)
    return (reflected ^ 0xFFFFFFFF).to_bytes(4, "big").translate(_MIRRORED)
