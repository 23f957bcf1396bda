"""Audio in MP4, WebM and ADTS files, through PyAV (the extra `media`)."""

from __future__ import annotations

import io
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from danish_asr.base.audio import AudioError, decode
from danish_asr.base.errors import SourceError

M4A_HEAD = b"\0\0\0\x1cftypM4A \0\0\2\0"


def encode(container: str, codec: str, rate: int, channels: int = 1, hertz: float = 220.0) -> bytes:
    """A second of a sine of amplitude 0.3, by PyAV's encoder."""
    av: Any = pytest.importorskip("av")
    layout = {1: "mono", 2: "stereo"}[channels]
    wave = 0.3 * np.sin(2 * np.pi * hertz * np.arange(rate) / rate).astype(np.float32)
    file = io.BytesIO()
    with av.open(file, "w", format=container) as out:
        stream = out.add_stream(codec, rate=rate, layout=layout)
        if codec == "wmav2":
            stream.bit_rate = 64_000
        frame = av.AudioFrame.from_ndarray(
            np.repeat(wave[None], channels, axis=0), format="fltp", layout=layout
        )
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        context = stream.codec_context
        context.open()
        size = context.frame_size or 4096
        resampler = av.AudioResampler(context.format, layout, rate, frame_size=size)
        for part in (*resampler.resample(frame), *resampler.resample(None), None):
            out.mux(stream.encode(part))
    return file.getvalue()


FORMATS = [
    ("ipod", "aac", 44_100, 1),
    ("mp4", "aac", 48_000, 2),
    ("webm", "libopus", 48_000, 1),
    ("matroska", "libopus", 48_000, 2),
    ("adts", "aac", 16_000, 1),
    ("avi", "pcm_s16le", 48_000, 1),
    ("ogg", "flac", 48_000, 2),
    ("asf", "wmav2", 44_100, 1),
]


@pytest.mark.parametrize("arguments", FORMATS, ids=lambda arguments: "-".join(map(str, arguments)))
def test_a_media_file_is_decoded_at_its_own_rate(tmp_path: Path, arguments: Any) -> None:
    content, rate = encode(*arguments), arguments[2]
    mono, found = decode(content)
    assert (found, mono.dtype.name, mono.ndim) == (rate, "float32", 1)
    assert len(mono) == pytest.approx(rate, abs=2 * 1024)  # frames of AAC and WMA
    assert np.abs(mono).max() == pytest.approx(0.3, abs=0.08)
    spectrum = np.abs(np.fft.rfft(mono))
    assert spectrum.argmax() == pytest.approx(220 * len(mono) / rate, abs=1)
    (tmp_path / "a").write_bytes(content)
    part, _ = decode(tmp_path / "a", start=0.25, seconds=0.5)
    np.testing.assert_array_equal(part, mono[rate // 4 : rate // 4 + rate // 2])


def test_amr_is_decoded() -> None:
    # 25 frames of 12.2 kbit/s; PyAV has no encoder of AMR.
    mono, rate = decode(b"#!AMR\n" + (b"\x3c" + bytes(31)) * 25)
    assert (rate, len(mono)) == (8_000, 25 * 160)


def test_a_damaged_or_long_media_file_is_refused_like_any_other(tmp_path: Path) -> None:
    content = encode("ipod", "aac", 44_100)
    (tmp_path / "half.m4a").write_bytes(content[: len(content) // 2])
    for broken in (content[:40], tmp_path / "half.m4a"):
        with pytest.raises(AudioError, match=r"^undecodable audio$"):
            decode(broken)
    with pytest.raises(AudioError, match=r"^longer than 0\.5 s$"):
        decode(content, max_seconds=0.5)
    with pytest.raises(AudioError, match="past the end"):
        decode(content, start=0.9, seconds=1.0)


def test_without_pyav_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(SourceError, match=r"pip install 'danish-asr\[media\]'"):
        decode(M4A_HEAD)
