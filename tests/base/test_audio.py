"""Audio of any form becomes FLAC of 16 kHz, or has a reason."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.base import audio as package
from danish_asr.base.audio import Recording, decode, encode_flac, resampled
from danish_asr.base.errors import AudioError, SourceError
from tests.builders import encode, tone


@pytest.mark.parametrize(
    ("container", "subtype", "rate"),
    [
        *(("WAV", subtype, 48_000) for subtype in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32")),
        *(("WAV", "FLOAT", rate) for rate in (8_000, 11_025, 16_000, 22_050, 44_100)),
        *(("FLAC", subtype, 48_000) for subtype in ("PCM_S8", "PCM_16", "PCM_24")),
        *(("OGG", subtype, 48_000) for subtype in ("VORBIS", "OPUS")),
        ("MP3", "MPEG_LAYER_III", 44_100),
    ],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_every_form_becomes_mono_flac_of_16_khz_with_the_same_sound(
    tmp_path: Path, container: str, subtype: str, rate: int, channels: int
) -> None:
    form: dict[str, Any] = {"format": container, "subtype": subtype}
    audio = tone(1.0, rate=rate, channels=channels, hertz=440.0, **form)
    mono = resampled(*decode(audio))
    flac = encode_flac(mono)
    info = soundfile.info(io.BytesIO(flac))
    assert (info.format, info.subtype, info.channels) == ("FLAC", "PCM_16", 1)
    assert info.samplerate == 16_000
    # FFmpeg leaves 2.7 ms of Vorbis out.
    assert info.frames == len(mono) == pytest.approx(16_000, abs=50 if subtype == "VORBIS" else 1)
    wave, _ = soundfile.read(io.BytesIO(flac), dtype="float32")
    spectrum = np.abs(np.fft.rfft(wave))
    assert np.fft.rfftfreq(len(wave), 1 / 16_000)[spectrum.argmax()] == pytest.approx(440, abs=3)
    assert np.abs(wave).max() == pytest.approx(0.3, abs=0.06)
    (tmp_path / "audio").write_bytes(audio)
    assert np.array_equal(decode(tmp_path / "audio")[0], decode(audio)[0])


@pytest.mark.parametrize("container", ["WAV", "FLAC"])
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
def test_samples_of_16_khz_stay_as_they_are(container: str, subtype: str) -> None:
    samples = np.random.default_rng(1).integers(-32768, 32768, 4000, dtype=np.int16)
    samples[:2] = -32768, 32767
    whole = samples.astype(np.int32)[:, None] << 16  # what libsndfile makes of integers: 32 bits
    audio = encode(whole, 16_000, format=container, subtype=subtype)
    found, _ = soundfile.read(io.BytesIO(encode_flac(decode(audio)[0])), dtype="int16")
    assert np.array_equal(found, samples)


@given(st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=50))
def test_encoding_loses_less_than_one_step_and_clips(values: list[float]) -> None:
    samples = np.array(values, dtype=np.float32)
    decoded, rate = decode(encode_flac(samples))
    assert rate == 16_000
    np.testing.assert_allclose(decoded, np.clip(samples, -1, 1), rtol=0, atol=2 / 32768)


def unknown_length(flac: bytes) -> bytes:
    """A FLAC file as a program writes it into a pipe: its header has no number of samples."""
    return flac[:21] + bytes([flac[21] & 0xF0]) + bytes(4) + flac[26:]


def header_of(audio: bytes, length: int) -> bytes:
    """A WAV whose header says that it has this many bytes of samples."""
    place = audio.index(b"data") + 4
    return audio[:place] + length.to_bytes(4, "little") + audio[place + 4 :]


TWO = tone(2.0, rate=16_000)
FLAC = tone(2.0, rate=16_000, format="FLAC")
audio_module: Any = package
PICTURE = bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("part", "found"),
    [
        ({}, 32_000),
        ({"max_seconds": 2.0}, 32_000),
        ({"max_seconds": 1.9}, "longer than 1.9 s"),
        ({"start": 1.5, "max_seconds": 1.0}, 8_000),
        ({"start": 1.5, "seconds": 0.25}, 4_000),
        ({"start": 1.75, "seconds": 0.34}, 4_000),  # a rounded end
        ({"start": 1.75, "seconds": 0.36}, "past the end of its audio"),
        ({"start": 1.5, "seconds": 5.0}, "past the end of its audio"),
        ({"channel": 1}, 32_000),
        ({"channel": 2}, "no channel 2"),
    ],
)
def test_a_part_is_cut_out_whether_the_header_has_the_length_or_not(
    part: dict[str, Any], found: int | str, *, known: bool
) -> None:
    assert samples_or_reason(FLAC if known else unknown_length(FLAC), **part) == found


def samples_or_reason(audio: bytes | Path, **part: Any) -> int | str:
    try:
        return len(resampled(*decode(audio, **part)))
    except AudioError as error:
        return str(error)


@pytest.mark.parametrize(
    ("audio", "found"),
    [
        (b"", "empty file"),
        (b"this is no audio", "undecodable audio"),
        (FLAC[:900], "undecodable audio"),
        (PICTURE, "no sound in the file"),
        (tone(0.0), "zero samples"),
        (encode(np.array([[0.1], [np.nan]]), 16_000, subtype="FLOAT"), "non-finite samples"),
        (tone(2.5), "longer than 2 s"),
        *(
            (Path(name), "audio file missing")
            for name in ("/no/such/file.wav", "", "a\0b", "/dev/null", "/", f"{__file__}/b.wav")
        ),
        (TWO[:32_000], "truncated audio"),
        (tone(2.0, channels=2, format="MP3")[:5_000], "truncated audio"),
        (header_of(TWO, 32_000), "more audio than its header says"),
        *((header_of(TWO, length), 32_000) for length in (0, 0xFFFFFFFF, 0x7FFFFFFF)),
        (TWO + b"LIST" + (100).to_bytes(4, "little") + bytes(100), 32_000),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_audio_has_samples_or_a_reason(audio: bytes | Path, found: int | str) -> None:
    assert samples_or_reason(audio, max_seconds=2.0) == found


@pytest.mark.parametrize("channel", [1, 2])
def test_a_channel_and_a_part_are_the_samples_that_are_there(tmp_path: Path, channel: int) -> None:
    ramp, noise = np.linspace(0, 0.5, 16_000), np.random.default_rng(1).uniform(-0.5, 0.5, 16_000)
    audio = encode(np.stack([ramp, noise], axis=1), 16_000, subtype="FLOAT")
    (tmp_path / "audio").write_bytes(audio)
    expected = (ramp, noise)[channel - 1]
    for source in (audio, tmp_path / "audio"):
        mono, _ = decode(source, channel=channel)
        np.testing.assert_allclose(mono, expected, atol=1e-6)
        part, _ = decode(source, channel=channel, start=0.25, seconds=0.5)
        np.testing.assert_allclose(part, expected[4_000:12_000], atol=1e-6)
    np.testing.assert_allclose(decode(audio)[0], (ramp + noise) / 2, atol=1e-6)


def test_of_channels_that_cancel_each_other_the_loudest_is_taken() -> None:
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 16_000)
    audio = encode(np.stack([-0.9 * noise, noise], axis=1), 16_000, subtype="FLOAT")
    np.testing.assert_allclose(decode(audio)[0], noise, atol=1e-6)


def test_a_file_that_exists_and_cannot_be_read_stops_the_conversion() -> None:
    with pytest.raises(SourceError, match=r"mem: cannot be read \(Input/output error\)"):
        decode(Path("/proc/self/mem"))


def test_a_flac_of_some_minutes_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.FLAC"
    path.write_bytes(FLAC)
    whole, _ = decode(path)
    monkeypatch.setattr(audio_module, "open_audio", lambda _: pytest.fail("opened"))
    assert np.array_equal(decode(path)[0], whole)
    monkeypatch.setattr(audio_module, "_SHORT", len(FLAC) - 1)
    with pytest.raises(pytest.fail.Exception, match="opened"):
        decode(path)


@pytest.mark.parametrize("container", ["WAV", "FLAC", "OGG", "MP3", "AIFF"])
def test_damaged_audio_raises_nothing_but_audio_errors(container: str, tmp_path: Path) -> None:
    chance = random.Random(container)
    whole = tone(0.2, rate=16_000, format=container)
    for number in range(100):
        damaged = bytearray(whole)
        for _ in range(chance.choice([1, 5, 20])):
            damaged[chance.randrange(min(len(whole), 120))] = chance.choice([0, 127, 128, 255])
        (tmp_path / "damaged").write_bytes(damaged)
        in_memory = number % 2 and container != "AIFF"  # of which soundfile prints tracebacks
        samples_or_reason(bytes(damaged) if in_memory else tmp_path / "damaged", max_seconds=600.0)


@pytest.mark.parametrize("container", ["WAV", "MP3", "FLAC", "OGG"])
def test_parts_of_one_recording_are_the_same_in_any_order(tmp_path: Path, container: str) -> None:
    path = tmp_path / "long"
    path.write_bytes(tone(4.0, rate=16_000, format=container))
    whole, _ = decode(path)
    with Recording(path) as recording:
        for start in (0.0, 0.25, 0.5, 2.25, 1.0, 3.0):
            part, _ = recording.part(start, 0.5)
            assert np.array_equal(part, whole[round(16_000 * start) :][:8_000])
        assert sum(len(block) for block, _ in recording.rest(3.5)) == len(whole) - 56_000
        assert np.array_equal(recording.part()[0], whole)
