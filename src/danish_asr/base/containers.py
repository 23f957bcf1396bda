"""What the bytes of a file say before it is decoded: its kind, where files were joined, its end.

In come an encoded file, in memory or open, and its first bytes; out come places in bytes, seconds
and truth values, by which `base.decoders` chooses a decoder. Files that were joined (``cat a b``)
are of three kinds. FFmpeg reads on in MP3, AAC, AC3 and transport streams. Of two FLACs, OGGs,
AMRs, AVIs, Matroskas or FLVs each is decoded from where it begins, because the second one may have
other tracks. The rest state an end, behind which a decoder would lose the second one or hear its
header: they are refused. Of WAV, AIFF, AU and W64 libsndfile tells where the samples end.
"""

import io
import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from danish_asr.base.errors import AudioError, SourceError

MORE_AUDIO: Final = "more audio than its header says"

SLACK: Final = 0.1
"""Seconds by which a file may be shorter than its header says, as some MP3s are, or than a part.
As much sound may be left behind a part, and between two frames."""

UNKNOWN_LENGTH: Final = 1 << 62
"""The number of frames of a file whose header has none; libsndfile has at least as many."""

STREAMED: Final = 0x7F00_0000
"""Programs that write a WAV, AIFF or AU into a pipe state at least this many bytes, or none."""

Samples: TypeAlias = NDArray[np.float32]
"""In [-1, 1]: (frames,), or (frames, channels)."""

_OGG_PAGE: Final = 65_307  # bytes, at most
_OGG_FIRST_PAGE: Final = 282  # bytes, at most
_KBITS: Final = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0),
)
"""Of MP3, at rates from 32 kHz on and below, by four bits in a frame's third byte."""

_OF_LIBSNDFILE: Final = (b"RIFF", b"RF64", b"riff", b"FORM", b"caff", b".snd", b"fLaC")
"""How WAV (three kinds), AIFF, CAF, AU and FLAC begin."""
_OF_FFMPEG: Final = {b"AVI ", b"8SVX", b"16SV"}
"""Their kin: libsndfile reads no AVI, and the two channels of 8SVX as if they took turns."""
_CAF_SAMPLES: Final = {b"lpcm", b"ulaw", b"alaw"}
"""Codecs in a CAF that libsndfile refuses only if it is cut, which FFmpeg would not notice."""

_DECODED_ONE_BY_ONE: Final = {
    b"fLaC": re.compile(rb"fLaC[\x00\x80]\x00\x00\x22"),
    b"OggS": re.compile(rb"OggS\0\x02\0\0"),
    b"#!AM": re.compile(rb"#!AMR(?:-WB)?\n"),
    b"AVI ": re.compile(rb"RIFF.{4}AVI LIST", re.DOTALL),
    b"\x1aE\xdf\xa3": re.compile(rb"\x1aE\xdf\xa3.{1,60}?\x42\x82.(?:matroska|webm)", re.DOTALL),
    b"FLV\x01": re.compile(rb"FLV\x01[\x00\x01\x04\x05]\0\0\0\x09\0\0\0\0"),
}
"""By the first four bytes (of an AVI: the third four), how a file begins: a FLAC with a block of
34 bytes (RFC 9639, section 8), each stream of an OGG, all of them one behind the other (RFC 3533,
section 6), an AMR by its name (RFC 4867, section 5), Matroska and WebM by theirs (RFC 9559)."""
_REFUSED: Final = {
    b"caff": re.compile(rb"caff\0\x01\0\0desc"),
    b"0&\xb2u": re.compile(rb"0&\xb2u\x8ef\xcf\x11\xa6\xd9\x00\xaa\x00b\xcel"),  # ASF
    b"\xb7\xd8\x00 ": re.compile(rb"\xb7\xd8\x00 7I\xda\x11\xa6N\x00\x07\xe9\x5e\xad\x8d"),  # WTV
    b"TTA1": re.compile(rb"TTA1[\x01\x02]\0.\0.\0.{2}[\0-\x0f]\0", re.DOTALL),
    b"Crea": re.compile(rb"Creative Voice File\x1a"),
    b"NIST": re.compile(rb"NIST_1A\n +\d+\n"),
}
_BEGINNINGS: Final = _DECODED_ONE_BY_ONE | _REFUSED
_LONGEST_BEGINNING: Final = 80  # bytes, at most
_BOXES: Final = {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"}
"""With which an MP4 or a MOV begins (ISO 14496-12, section 4.2; QuickTime)."""


def stream_of(audio: bytes | Path) -> IO[bytes]:
    """An encoded file, open for reading."""
    return io.BytesIO(audio) if isinstance(audio, bytes) else audio.open("rb")


def head_of(audio: bytes | Path) -> bytes:
    """The first 1,024 bytes of a file. Raises `AudioError` or `SourceError` without them."""
    if isinstance(audio, bytes):
        head = audio[:1_024]
    else:
        try:
            if not audio.is_file():  # a pipe would never end
                raise AudioError("audio file missing")
            with audio.open("rb") as stream:
                head = stream.read(1_024)
        except OSError as error:
            # A disk that fails for a moment must not remove the row from the dataset.
            what = f"{audio}: cannot be read ({error.strerror})"
            raise SourceError(f"{what}; fix this and run the same command again") from error
    if not head:
        raise AudioError("empty file")
    return head


def is_of_libsndfile(head: bytes) -> bool:
    """Whether libsndfile reads a file that begins like this."""
    return head.startswith(_OF_LIBSNDFILE) and head[8:12] not in _OF_FFMPEG


def is_compressed_caf(head: bytes) -> bool:
    """Whether a CAF has ALAC, of which libsndfile refuses some, or another codec."""
    return head.startswith(b"caff") and head[28:32] not in _CAF_SAMPLES


def joints(audio: bytes | Path, head: bytes) -> list[int]:
    """Where each file of a joined one begins, 0 or behind a tag for the first; else nothing.

    Raises:
        AudioError: All but the first one would be lost.
    """
    is_mp4, is_form = head[4:8] in _BOXES, head.startswith(b"FORM")
    if is_mp4 or (is_form and not is_of_libsndfile(head)):
        is_joined = _is_joined_mp4 if is_mp4 else is_followed_by_another
        with stream_of(audio) as stream:
            if is_joined(stream):
                raise AudioError(MORE_AUDIO)
    if _kind(head) not in _BEGINNINGS and not head.startswith(b"ID3"):
        return []
    with stream_of(audio) as stream:
        place = stream.seek(behind_tag(stream))
        kind = _kind(stream.read(12))
        stream.seek(place)
        begins = _begins(stream, kind) if kind in _BEGINNINGS else []
    if len(begins) > 1 and kind in _REFUSED:
        raise AudioError(MORE_AUDIO)
    return begins if len(begins) > 1 else []


def _kind(head: bytes) -> bytes:
    return head[8:12] if head.startswith(b"RIFF") else head[:4]


def _begins(stream: IO[bytes], kind: bytes) -> list[int]:
    begins, before, place = [-_OGG_FIRST_PAGE - 1], b"", stream.tell()
    while block := stream.read(1 << 20):
        part = before + block
        found = _BEGINNINGS[kind].finditer(part)
        begins += [place - len(before) + match.start() for match in found]
        place, before = place + len(block), part[-_LONGEST_BEGINNING:]
    least = _OGG_FIRST_PAGE if kind == b"OggS" else 0  # and none is found twice
    return [begin for last, begin in pairwise(begins) if begin - last > least]


def _is_joined_mp4(stream: IO[bytes]) -> bool:
    """Whether there is a second table of the sound (``moov``) and more sound (``mdat``).

    Between fragments (``moof``) the same table may stand again. If their times begin again too,
    FFmpeg leaves some of them out.
    """
    samples, times, is_first = 0, list[int](), False
    for kind, size in _boxes(stream):
        samples += kind == b"mdat"
        if kind == b"moov":
            times.append(0)
            is_first = True
        elif kind == b"moof" and is_first:
            found = re.search(rb"tfdt(.)...(.{8})", stream.read(min(size, 1_024)), re.DOTALL)
            if found is not None:  # of 8 bytes in version 1 (ISO 14496-12, section 8.8.12)
                times[-1] = int.from_bytes(found[2] if found[1] > b"\0" else found[2][:4])
            is_first = False
    return samples > 1 and len(times) > 1 and min(times[1:]) <= times[0]


def _boxes(stream: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the kind and the size of each box; its content comes next."""
    end, place = stream.seek(0, os.SEEK_END), 0
    while place < end:
        stream.seek(place)
        head = stream.read(8)
        size, kind = int.from_bytes(head[:4]), head[4:]
        if size == 1:
            size = int.from_bytes(stream.read(8))
        if size < 8:  # 0: to the end
            break
        yield kind, size
        place += size


def is_followed_by_another(stream: IO[bytes]) -> bool:
    """Whether a WAV, an AIFF or an 8SVX ends where another one begins."""
    head = stream.read(8)
    stream.seek(_end_of_form(head))
    return stream.read(4) == head[:4]


def missing_share(stream: IO[bytes]) -> float:
    """How much of an 8SVX, AVI or ASF is missing, as a share of what is there; 0 if it is not said.

    An ASF says how long its header is, and its samples behind it (ASF specification, section 2.2).
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    head = stream.read(24)
    if head.startswith((b"FORM", b"RIFF")):
        end = _end_of_form(head)
        return max(0, end - size) / size if end < STREAMED else 0.0
    place = min(size, int.from_bytes(head[16:], "little"))
    stream.seek(place)
    end = place + int.from_bytes(stream.read(24)[16:], "little")
    return max(0, end - size) / size


def _end_of_form(head: bytes) -> int:
    return 8 + int.from_bytes(head[4:8], "big" if head.startswith(b"FORM") else "little")


def begins_late(audio: bytes | Path) -> bool:
    """Whether a FLAC was cut out of another one; libsndfile would seek by its frames' numbers."""
    with stream_of(audio) as stream:
        block = stream.read(4)
        while len(block) == 4 and not block[0] & 0x80:  # which the last block has
            block = stream.read(4)
            stream.seek(int.from_bytes(block[1:]), os.SEEK_CUR)
        return stream.read(5)[4:] > b"\0"  # the first frame's number (RFC 9639, section 9)


def behind_tag(stream: IO[bytes]) -> int:
    """Where a file begins behind an ID3 tag, whose size is four times 7 bits."""
    stream.seek(0)
    head = stream.read(10)
    size = sum(byte << 7 * place for place, byte in enumerate(reversed(head[6:])))
    return 10 + size if head.startswith(b"ID3") else 0


def stated_in_mp3(stream: IO[bytes], rate: int) -> float:
    """The seconds in an MP3's header less a codec's delay; FFmpeg does not tell them from a guess.

    They stand in the first frame: http://gabriel.mp3-tech.org/mp3infotag.html
    """
    stream.seek(behind_tag(stream))
    found = re.search(rb"(?:Xing|Info)\0\0\0[\1-\xff](.{4})", stream.read(200), re.DOTALL)
    frames = int.from_bytes(found[1]) if found else 0
    return max(0, frames - 3) * (1_152 if rate >= 32_000 else 576) / rate


def is_half_a_frame(packet: bytes, rate: int) -> bool:
    """Whether the last packet of an MP3 is shorter than it says (ISO 11172-3, 2.4.1.3)."""
    is_low = rate < 32_000
    size = (72_000 if is_low else 144_000) * _KBITS[is_low][packet[2] >> 4] // rate
    return len(packet) < size + (packet[2] >> 1 & 1)


def has_no_end(stream: IO[bytes]) -> bool:
    """Whether an OGG has no mark of its end, a bit of the last page (RFC 3533, section 6).

    Streams and recorders of Android leave it out too.
    """
    stream.seek(max(0, stream.seek(0, os.SEEK_END) - _OGG_PAGE))
    tail = stream.read()
    page = tail[tail.rfind(b"OggS") :]
    if len(page) < 27 or not page[5] & 4:
        return True
    return len(page) < 27 + page[26] + sum(page[27 : 27 + page[26]])
