"""Make an MP3 say how long it is, so that all of its audio is decoded.

An MP3 has no length of its own. Encoders write the number of frames into a first, silent frame (its
tag is ``Xing`` or ``Info``); without one, libsndfile takes the bit rate of the first frame for that
of the file and reads no further than that makes it, however much audio is left. The same happens
to files that were joined: the tag of the first tells its own length only.

The layout of frames is that of ISO/IEC 11172-3 and 13818-3; the tag's is that of LAME.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_KBITS: Final = {
    True: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Bit rates of layer III by their index from 1, for MPEG 1 and for MPEG 2 and 2.5."""

_HERTZ: Final = (44_100, 48_000, 32_000)
_DIVISOR: Final = {3: 1, 2: 2, 0: 4}
"""Of the sampling rate, by the bits that name MPEG 1, 2 and 2.5."""

_SAME: Final = 0xFFFE0C00
"""Bits of a header that all frames of a file share: sync, version, layer, sampling rate."""

_FRAMES_KNOWN: Final = 1
"""The tag's flag that the number of frames follows."""


_SLACK: Final = 2
"""Frames that a tag may fall short of the file: encoders do not agree whether it counts itself."""


def is_mp3(head: bytes) -> bool:
    """Whether a file that begins like this may be an MP3."""
    return head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0)


def with_all_frames(data: bytes) -> bytes:
    """An MP3 that tells all of its frames; what does, or is no MP3, is returned as it is.

    A file that tells more frames than it has is left alone: it was cut, and the decoder shows it.
    """
    first = _next_frame(data, _after_id3(data), None)
    if first is None:
        return data
    header = _header(data, first)
    frames = _count_frames(data, first, header)
    told = _told_frames(data, first, header)
    if told is not None and told + _SLACK >= frames:
        return data
    return data[:first] + _tag_frame(header, frames) + data[first:]


def _told_frames(data: bytes, first: int, header: int) -> int | None:
    """The number of frames that the tag in the first one tells, or None."""
    tag = first + 4 + _side_info(header)
    if data[tag : tag + 4] not in (b"Xing", b"Info") or not _header(data, tag + 4) & _FRAMES_KNOWN:
        return None
    return _header(data, tag + 8)


def _after_id3(data: bytes) -> int:
    """Where the ID3v2 tags end that stand at the beginning."""
    begin = 0
    while data[begin : begin + 3] == b"ID3" and len(data) >= begin + 10:
        size = 0
        for byte in data[begin + 6 : begin + 10]:
            size = size << 7 | byte & 0x7F
        begin += 10 + size
    return begin


def _count_frames(data: bytes, first: int, header: int) -> int:
    """Frames from the first on; what lies between frames is stepped over, as a decoder does it."""
    lengths = _lengths(header >> 19 & 3)
    same = header & _SAME
    count, begin, end = 0, first, len(data)
    while begin + 4 <= end:
        here = int.from_bytes(data[begin : begin + 4], "big")
        length = lengths[here >> 9 & 0x7F] if here & _SAME == same else 0
        if length:
            count += begin + length <= end
            begin += length
            continue
        again = _next_frame(data, begin + 1, same)
        if again is None:
            break
        begin = again
    return count


def _next_frame(data: bytes, begin: int, same: int | None) -> int | None:
    """Where the next frame begins that another follows, for its sync alone may be chance."""
    while (begin := data.find(b"\xff", begin)) >= 0:
        here = _header(data, begin)
        expected = here & _SAME if same is None else same
        length = _frame_length(here) if here & _SAME == expected else 0
        after = begin + length
        if length and (after == len(data) or _header(data, after) & _SAME == expected):
            return begin
        begin += 1
    return None


def _header(data: bytes, begin: int) -> int:
    """Four bytes as a number, which is how headers are taken apart."""
    return int.from_bytes(data[begin : begin + 4].ljust(4, b"\0"), "big")


def _frame_length(header: int) -> int:
    """Bytes of a frame of layer III; 0 if this is no header of one."""
    if header >> 21 != 0x7FF or header >> 17 & 3 != 1:
        return 0
    return _lengths(header >> 19 & 3)[header >> 9 & 0x7F]


@lru_cache(maxsize=4)
def _lengths(version: int) -> tuple[int, ...]:
    """Bytes of a frame by the header's bits for bit rate, sampling rate and padding."""
    return tuple(
        _length(version, bits >> 3, bits >> 1 & 3, padding=bits & 1) for bits in range(1 << 7)
    )


def _length(version: int, rate: int, hertz: int, *, padding: int) -> int:
    if version not in _DIVISOR or not 1 <= rate <= len(_KBITS[True]) or hertz >= len(_HERTZ):
        return 0
    bits = _KBITS[version == 3][rate - 1] * 1000 * (144 if version == 3 else 72)
    return bits // (_HERTZ[hertz] // _DIVISOR[version]) + padding


def _side_info(header: int) -> int:
    """Bytes between a frame's header and its audio, where the tag lies."""
    mono = header >> 6 & 3 == 3
    if header >> 19 & 3 == 3:
        return 17 if mono else 32
    return 9 if mono else 17


def _tag_frame(header: int, frames: int) -> bytes:
    """A silent frame as those of a file that tells the number of its frames."""
    # The ninth bit rate leaves room for the tag at any sampling rate; no checksum, no padding.
    own = header & ~(0xF << 12 | 1 << 9) | 9 << 12 | 1 << 16
    tag = b"Xing" + _FRAMES_KNOWN.to_bytes(4, "big") + frames.to_bytes(4, "big")
    content = own.to_bytes(4, "big") + bytes(_side_info(own)) + tag
    return content.ljust(_frame_length(own), b"\0")
