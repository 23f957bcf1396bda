"""What a file is that cannot be decoded as audio, and what to do about it."""

import re
from pathlib import Path
from typing import Final

from danish_asr.base.errors import TranscriptionError

_HEAD: Final = 4096
"""Bytes that are looked at."""

_CONVERT: Final = "convert it: `ffmpeg -i FILE FILE.wav`"

_SIGNS: Final = (
    (rb"version https://git-lfs", "a pointer of Git LFS; `git lfs pull` gets the file itself"),
    (rb"PK\x03\x04|Rar!|7z\xbc\xaf", "an archive; unpack it and name the recordings in it"),
    (rb"\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd", "compressed; decompress it first"),
    (rb"\s*(?i:<!doctype|<html|<\?xml|<error)", "a web page, as of a failed download; repeat it"),
    (rb"%PDF|\xff\xd8\xff|\x89PNG|GIF8", "a document or an image; name a recording"),
    (rb"MThd", "MIDI, which has notes and no sound; render it as WAV"),
    (rb"#EXTM3U|\[playlist\]", "a playlist; name the recordings that it lists"),
    (rb"....ftypaax|\x57\x90\x75\x36", "a protected audiobook of Audible; it cannot be decoded"),
    (
        rb"MAC |ajkg|DSD |FRM8|wvpk|MPCK|MP\+|\.RMF|Creative Voice|TTA1",
        f"in a format that is not read; {_CONVERT}",
    ),
    (
        rb"....ftyp|\x1a\x45\xdf\xa3",
        "damaged, such as a recording that was not ended; copy it again",
    ),
    (rb"RIFF|RIFX|FORM|OggS|fLaC|ID3", f"damaged, or in a codec that is not known; {_CONVERT}"),
)
"""How such files begin, and what a message says of them."""

_UNKNOWN: Final = (
    "in no known format; if it is audio, convert it: `ffmpeg -i FILE FILE.wav`, samples without a "
    "header with their format: `ffmpeg -f s16le -ar 16000 -ac 1 -i FILE FILE.wav`"
)


def what_it_is(audio: bytes | Path) -> str:
    """Return what a file is and how to fix that, to follow "is"."""
    head = _head(audio)
    if not head:
        return "empty; copy or record it again"
    for sign, text in _SIGNS:
        if re.match(sign, head, re.DOTALL):
            return text
    # The end may be within a letter.
    is_text = "\ufffd" not in head.decode(errors="replace")[:-1] and b"\0" not in head
    return "text; name a recording" if is_text else _UNKNOWN


def _head(audio: bytes | Path) -> bytes:
    if isinstance(audio, bytes):
        return audio[:_HEAD]
    with audio.open("rb") as stream:
        return stream.read(_HEAD)


def refuse_address(path: Path | str) -> None:
    """Raise TranscriptionError for an address of the web; a `Path` of it has one slash."""
    address = re.fullmatch(r"(https?|ftp):/+(.+)", str(path))
    if address:
        url = f"{address[1]}://{address[2]}"
        raise TranscriptionError(
            f"{url}: addresses are not read; download the recording and name its file: "
            f"`curl -L -o recording '{url}'`"
        )
