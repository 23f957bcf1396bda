"""Does a header say how long the audio is? A half of a file is found, and so is half a header.

Comes in: an audio file that libsndfile reads. Goes out: what is wrong with its length.
"""

import io
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
    if file.format == "OGG":
        return "" if _ends_with_a_page(audio) else "truncated audio"
    if file.format in {"WAV", "WAVEX"}:
        data = _data_of(audio)
        if data is None or data.is_streamed:
            return ""
        if data.left < -data.slack:
            return "truncated audio"
        return "more audio than its header says" if data.left > data.slack else ""
    return "truncated audio" if "(should be" in file.extra_info else ""


def with_lengths(audio: bytes | Path, head: bytes) -> bytes | Path:
    """The file; a WAV that was streamed gets the lengths that its writer did not know."""
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        return audio
    data = _data_of(audio)
    if data is None or not data.is_streamed:
        return audio
    content = audio if isinstance(audio, bytes) else audio.read_bytes()
    size = len(content) - data.begin
    lengths = ((len(content) - 8).to_bytes(4, "little"), size.to_bytes(4, "little"))
    return b"".join(
        (content[:4], lengths[0], content[8 : data.begin - 4], lengths[1], content[data.begin :])
    )


class _Data(NamedTuple):
    """The samples of a WAV."""

    begin: int  # where they begin
    is_streamed: bool  # their length was not known
    left: int  # bytes behind them that belong to nothing, or below 0: that are missing
    slack: float  # bytes of 0.1 s


def _data_of(audio: bytes | Path) -> _Data | None:
    """Find the samples of a WAV; None if they are not announced."""
    if isinstance(audio, bytes):
        return _find_data(io.BytesIO(audio), len(audio))
    with audio.open("rb") as stream:
        return _find_data(stream, audio.stat().st_size)


def _find_data(stream: BinaryIO, size: int) -> _Data | None:
    place, slack = 12, 0.0
    while (chunk := _chunk(stream, place)) is not None:
        name, length = chunk
        if name == b"fmt ":
            slack = int.from_bytes(stream.read(12)[8:12], "little") / 10
        if name == b"data":
            begin = place + 8
            is_streamed = size > begin and (not length or length >= _STREAMED > size - begin)
            left = size - begin - length
            return _Data(
                begin, is_streamed, _left(stream, begin + length, size) if left > 0 else left, slack
            )
        place += 8 + length + length % 2
    return None


def _left(stream: BinaryIO, place: int, size: int) -> int:
    """The bytes from a place on that are no chunks."""
    place += place % 2
    while place + 8 <= size and (chunk := _chunk(stream, place)) is not None:
        name, length = chunk
        if not name.isascii() or not name.decode().isprintable() or place + 8 + length > size:
            break
        place += 8 + length + length % 2
    return max(0, size - place)


def _chunk(stream: BinaryIO, place: int) -> tuple[bytes, int] | None:
    stream.seek(place)
    head = stream.read(8)
    return (head[:4], int.from_bytes(head[4:], "little")) if len(head) == 8 else None


def _ends_with_a_page(audio: bytes | Path) -> bool:
    if isinstance(audio, bytes):
        end = audio[-_LAST_PAGES:]
    else:
        with audio.open("rb") as stream:
            stream.seek(max(0, audio.stat().st_size - _LAST_PAGES))
            end = stream.read()
    page = end[end.rfind(b"OggS") :]
    if not page.startswith(b"OggS") or len(page) < 27 or len(page) < 27 + page[26]:
        return False
    return len(page) == 27 + page[26] + sum(page[27 : 27 + page[26]])
