"""Audio in MP4, WebM and ADTS files, through PyAV (the extra `media`)."""

from __future__ import annotations

import io
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

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
    *(("ipod", "aac", 44_100, 1), ("mp4", "aac", 48_000, 2), ("webm", "libopus", 48_000, 1)),
    *(("matroska", "libopus", 48_000, 2), ("adts", "aac", 16_000, 1), ("ogg", "flac", 48_000, 2)),
    *(("avi", "pcm_s16le", 48_000, 1), ("asf", "wmav2", 44_100, 1)),
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


SECONDS = 6.0


def mp3(rate: int, *, channels: int = 1, mode: str = "VARIABLE") -> bytes:
    """An MP3 of 2 s of noise and 4 s of silence."""
    wave = np.random.default_rng(1).standard_normal((round(SECONDS * rate), channels)) * 0.2
    wave[len(wave) // 3 :] = 0
    file = io.BytesIO()
    soundfile.write(file, wave, rate, format="MP3", bitrate_mode=mode, compression_level=0.3)
    return file.getvalue()


def without_tag(data: bytes) -> bytes:
    """The file without its first frame, which holds only the length tag."""
    return data[data.index(data[:2], 100) :]


@pytest.mark.parametrize(
    ("rate", "channels", "mode"),
    [(8_000, 1, "VARIABLE"), (16_000, 2, "CONSTANT"), (44_100, 1, "CONSTANT")],
)
def test_an_mp3_without_a_length_tag_is_decoded_to_its_end(
    rate: int, channels: int, mode: str
) -> None:
    wave, found = decode(without_tag(mp3(rate, channels=channels, mode=mode)))
    assert found == rate
    assert len(wave) / rate == pytest.approx(SECONDS, abs=0.3)


def test_a_tagged_mp3_has_libsndfiles_samples_within_one_step_of_16_bits() -> None:
    data = mp3(48_000)
    expected, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    wave, _ = decode(data)
    assert wave == pytest.approx(expected, abs=2 / 32768)
    part, _ = decode(data, start=1.0, seconds=0.5)
    assert part == pytest.approx(expected[48_000:72_000], abs=2 / 32768)


def test_a_file_with_a_damaged_beginning_is_decoded_by_its_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """libsndfile prints an error, and decodes 1.7 s."""
    (tmp_path / "a.mp3").write_bytes(bytes(500) + mp3(16_000)[500:])
    wave, rate = decode(tmp_path / "a.mp3")
    assert len(wave) / rate == pytest.approx(SECONDS, abs=0.3)
    (tmp_path / "b.mp3").write_bytes(b"<html>" * 500)
    with pytest.raises(AudioError, match="undecodable audio"):
        decode(tmp_path / "b.mp3")
    assert capfd.readouterr().err == ""
