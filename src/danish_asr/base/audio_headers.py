"""Does a header say how long the audio is? A half of a file is found, and so is half a header.

Comes in: an audio file that libsndfile reads. Goes out: what is wrong with its length.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

_STREAMED: Final = 0x7FFF_0000
"""Programs that write into a pipe state at least this many bytes, or none."""

_LAST_PAGES: Final = 1 << 17  # bytes: more than a page of OGG


def header_fault(file: Any, audio: bytes | Path) -> str:
    """What is wrong with the length of an open `soundfile.SoundFile`; empty if nothing is.

    libsndfile notes in its log that W64, RF64, AIFF and AU end too early. Of OGG it reads a half
    in silence, so the last page has to end the file; of WAV it ignores what a header leaves out.
    """
    container = getattr(file, "format", None)  # other decoders have none
    if container is None:
        return ""
    if container == "OGG":
        return "" if _ends_with_a_page(audio) else "truncated audio"
    if container not in {"WAV", "WAVEX"}:
        return "truncated audio" if "(should be" in file.extra_info else ""
    data = _data_of(audio)
    if data is None or data.is_streamed:
        return ""
    if data.left < -data.slack:
        return "truncated audio"
    return "more audio than its header says" if data.left > data.slack else ""


def with_lengths(audio: bytes | Path, head: bytes) -> bytes | Path:
    """The file; a WAV that was streamed gets the lengths that its writer did not know."""
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        return audio
    data = _data_of(audio)
    if data is None or not data.is_streamed:
        return audio
    content = audio if isinstance(audio, bytes) else audio.read_bytes()
    of_file = (len(content) - 8).to_bytes(4, "little")
    of_data = (len(content) - data.begin).to_bytes(4, "little")
    head, body = content[8 : data.begin - 4], content[data.begin :]
    return b"".join((content[:4], of_file, head, of_data, body))


class _Data(NamedTuple):
    """The samples of a WAV."""

    begin: int  # where they begin
    is_streamed: bool  # their length was not known
    left: int  # bytes behind them that belong to nothing, or below 0: that are missing
    slack: float  # bytes of 0.1 s


def _data_of(audio: bytes | Path) -> _Data | None:
    """Find the samples of a WAV; None if they are not announced."""
    with io.BytesIO(audio) if isinstance(audio, bytes) else audio.open("rb") as stream:
        size = stream.seek(0, io.SEEK_END)
        slack = 0.0
        for name, begin, length in _chunks(stream, 12, size):
            if name == b"fmt ":
                stream.seek(begin + 8)
                slack = int.from_bytes(stream.read(4), "little") / 10
            if name == b"data":
                is_streamed = size > begin and (not length or length >= _STREAMED > size - begin)
                return _Data(begin, is_streamed, _left(stream, begin + length, size), slack)
    return None


def _left(stream: BinaryIO, end: int, size: int) -> int:
    """The bytes behind the samples that are no chunks."""
    for name, begin, length in _chunks(stream, end, size):
        if not name.isascii() or not name.decode().isprintable() or begin + length > size:
            break
        end = begin + length
    return size - end


def _chunks(stream: BinaryIO, place: int, size: int) -> Iterator[tuple[bytes, int, int]]:
    """The name of each chunk from a place on, where its content begins, and its length."""
    place += place % 2
    while place + 8 <= size:
        stream.seek(place)
        head = stream.read(8)
        begin, length = place + 8, int.from_bytes(head[4:], "little")
        yield head[:4], begin, length
        place = begin + length + length % 2


def _ends_with_a_page(audio: bytes | Path) -> bool:
    if isinstance(audio, bytes):
        end = audio[-_LAST_PAGES:]
    else:
        with audio.open("rb") as stream:
            stream.seek(max(0, audio.stat().st_size - _LAST_PAGES))
            end = stream.read()
    page = end[end.rfind(b"OggS") :]
    return len(page) >= 27 and len(page) == 27 + page[26] + sum(page[27 : 27 + page[26]])
