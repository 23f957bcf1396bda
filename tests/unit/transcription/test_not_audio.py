"""Each refusal of a file that is not audio says what it is and what to do."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from danish_asr.base.errors import TranscriptionError
from danish_asr.inference.recordings import find_recordings
from danish_asr.inference.sound import open_sound


def _wav(samples: object) -> bytes:
    soundfile.write(file := io.BytesIO(), samples, 16_000, format="WAV", subtype="FLOAT")
    return file.getvalue()


def _zip() -> bytes:
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("a.wav", b"x")
    return file.getvalue()


NOISE = np.random.default_rng(1).bytes(600)

FILES = [
    ("empty.wav", b"", "empty; copy or record"),
    ("none.wav", _wav(np.zeros(0, np.float32)), "no samples; record"),
    (
        "nan.wav",
        _wav(np.array([*np.zeros(1600), np.nan], "f")),
        "at 0.10 s is NaN or infinite; make",
    ),
    ("half.wav", _wav(np.zeros(9999, np.float32))[:9999], "truncated: copy"),
    ("lfs.flac", b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
    ("a.zip", _zip(), "an archive; unpack"),
    ("a.rar", b"Rar!\x1a\7\0" + NOISE, "an archive; unpack"),
    ("a.7z", b"7z\xbc\xaf\x27\x1c" + NOISE, "an archive; unpack"),
    ("a.wav.gz", gzip.compress(NOISE), "decompress"),
    ("a.wav.xz", b"\xfd7zXZ\0" + NOISE, "decompress"),
    ("page.wav", b"\n<!DOCTYPE html><html>404</html>", "a web page"),
    ("denied.mp3", b"<Error><Code>AccessDenied</Code></Error>", "a web page"),
    ("a.pdf", b"%PDF-1.7\n" + NOISE, "document or an image; name"),
    ("a.jpg", b"\xff\xd8\xff\xe0" + NOISE, "document or an image; name"),
    ("a.png", b"\x89PNG\r\n\x1a\n" + NOISE, "document or an image; name"),
    ("a.mid", b"MThd\0\0\0\6", "render it as WAV"),
    ("a.m3u8", b"#EXTM3U\nhttp://example.org/a.ts", "a playlist; name"),
    ("a.aax", b"\0\0\0\x1cftypaax " + NOISE, "Audible"),
    ("a.ape", b"MAC " + NOISE, "ffmpeg -i"),
    ("a.shn", b"ajkg" + NOISE, "ffmpeg -i"),
    ("a.wv", b"wvpk" + NOISE, "ffmpeg -i"),
    ("a.rm", b".RMF" + NOISE, "ffmpeg -i"),
    ("codec.wav", b"RIFF\x64\0\0\0WAVEfmt \x10\0\0\0\x34\x12" + NOISE, "ffmpeg -i"),
    ("cut.m4a", b"\0\0\0\x1cftypM4A " + NOISE, "not ended; copy"),
    ("text.mp3", "hej på dig\n".encode(), "text; name"),
    ("raw.pcm", b"\0\1" * 500, "-f s16le"),
]


@pytest.mark.parametrize(("name", "content", "fix"), FILES, ids=[file[0] for file in FILES])
def test_a_file_that_is_no_audio_is_refused_with_what_it_is(
    tmp_path: Path, name: str, content: bytes, fix: str
) -> None:
    if name.endswith((".m4a", ".aax")):
        pytest.importorskip("av")
    (tmp_path / name).write_bytes(content)
    with (
        pytest.raises(TranscriptionError, match=rf"{name}: .*{fix}"),
        open_sound(tmp_path / name) as sound,
    ):
        list(sound)


def test_an_address_is_refused_with_the_command_that_downloads_it() -> None:
    for refuse in (lambda path: find_recordings([path]), lambda path: open_sound(path).__enter__()):
        with pytest.raises(TranscriptionError, match=r"curl -L .* 'https://example\.org/a\.mp3'"):
            refuse(Path("https://example.org/a.mp3"))
