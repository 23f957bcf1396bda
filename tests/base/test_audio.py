from __future__ import annotations

import contextlib
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.base.audio import Recording, decode, encode_flac, to_flac
from danish_asr.base.errors import AudioError, SourceError
from tests.builders import encode, tone


def read(flac: bytes) -> Any:
    samples, rate = soundfile.read(io.BytesIO(flac), dtype="float32")
    assert rate == 16_000
    return samples


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_any_rate_and_channels_become_mono_flac_of_16_khz(rate: int, channels: int) -> None:
    flac, samples = to_flac(tone(0.5, rate=rate, channels=channels))
    info = soundfile.info(io.BytesIO(flac))
    assert (info.format, info.subtype, info.channels) == ("FLAC", "PCM_16", 1)
    assert info.frames == len(read(flac)) == samples == pytest.approx(8_000, abs=1)


FORMATS = {
    "WAV": ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT"),
    "FLAC": ("PCM_S8", "PCM_16", "PCM_24"),
    "OGG": ("VORBIS", "OPUS"),
    "MP3": ("MPEG_LAYER_III",),
}


@pytest.mark.parametrize(
    ("container", "subtype"),
    [(name, own) for name, subtypes in FORMATS.items() for own in subtypes],
)
def test_every_format_keeps_the_tone(container: str, subtype: str) -> None:
    flac, _ = to_flac(tone(1.0, rate=48_000, hertz=440.0, format=container, subtype=subtype))
    wave = read(flac)
    spectrum = np.abs(np.fft.rfft(wave))
    loudest = float(np.fft.rfftfreq(len(wave), 1 / 16_000)[spectrum.argmax()])
    assert loudest == pytest.approx(440.0, abs=3.0)
    assert np.abs(wave).max() == pytest.approx(0.3, abs=0.06)


@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
def test_flac_in_memory_and_in_a_file_is_decoded_to_the_same_samples(
    tmp_path: Path, subtype: str
) -> None:
    flac = tone(0.5, rate=48_000, format="FLAC", subtype=subtype)
    (tmp_path / "tone.flac").write_bytes(flac)
    in_memory, rate = decode(flac)
    by_libsndfile, _ = decode(tmp_path / "tone.flac")
    assert rate == 48_000
    assert np.array_equal(in_memory, by_libsndfile)


def test_a_flipped_bit_in_flac_is_detected() -> None:
    flac = tone(0.05, format="FLAC")
    samples, rate = decode(flac)
    rate_and_length = range(18, 26)  # of the header; these have no redundancy
    for place in set(range(len(flac))) - set(rate_and_length):
        for bit in range(8):
            flipped = bytearray(flac)
            flipped[place] ^= 1 << bit
            with contextlib.suppress(AudioError):
                found = decode(bytes(flipped), max_seconds=600)
                assert found[1] == rate
                assert np.array_equal(found[0], samples)


def test_a_start_and_a_length_cut_the_utterance_out(tmp_path: Path) -> None:
    ramp = encode(np.linspace(0, 0.9, 32_000)[:, None], 16_000)
    flac, samples = to_flac(ramp, start=0.5, seconds=1.0)
    assert samples == 16_000
    assert read(flac)[0] == pytest.approx(0.9 * 8_000 / 32_000, abs=1e-3)
    (tmp_path / "ramp.wav").write_bytes(ramp)
    assert to_flac(tmp_path / "ramp.wav", start=0.5, seconds=1.0) == (flac, samples)
    with pytest.raises(AudioError, match="zero samples"):
        to_flac(ramp, start=3.0)


@pytest.mark.parametrize("known", [True, False])
def test_a_part_that_ends_after_its_audio_is_refused_and_a_rounded_one_is_cut(
    *, known: bool
) -> None:
    audio = tone(2.0, rate=16_000, format="FLAC")
    audio = audio if known else unknown_length(audio)
    assert to_flac(audio, start=1.75, seconds=0.34)[1] == 4_000
    for start, seconds in ((1.75, 0.36), (1.5, 5.0)):
        with pytest.raises(AudioError, match=r"^past the end of its audio$"):
            to_flac(audio, start=start, seconds=seconds)


@pytest.mark.parametrize("container", ["WAV", "FLAC"])
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
def test_samples_of_16_khz_stay_as_they_are(container: str, subtype: str) -> None:
    samples = np.random.default_rng(1).integers(-32768, 32768, 4000, dtype=np.int16)
    samples[:2] = -32768, 32767
    whole = samples.astype(np.int32)[:, None] << 16  # what libsndfile makes of integers: 32 bits
    audio = encode(whole, 16_000, format=container, subtype=subtype)
    found, _ = soundfile.read(io.BytesIO(to_flac(audio)[0]), dtype="int16")
    assert np.array_equal(found, samples)


@pytest.mark.parametrize(
    ("audio", "reason"),
    [
        (b"", "empty file"),
        (b"this is no audio", "undecodable audio"),
        (tone(0.5, format="FLAC")[:900], "undecodable audio"),
        (tone(0.0), "zero samples"),
        (encode(np.array([[0.1], [np.nan]]), 16_000, subtype="FLOAT"), "non-finite samples"),
        (tone(2.5), "longer than 2 s"),
        (Path("/no/such/file.wav"), "audio file missing"),
        (Path(), "audio file missing"),
        (Path("a\0b"), "audio file missing"),
        (Path("/dev/null"), "audio file missing"),
        (Path(__file__, "b.wav"), "audio file missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unusable_audio_has_a_reason(audio: bytes | Path, reason: str) -> None:
    with pytest.raises(AudioError, match=f"^{reason}$"):
        to_flac(audio, max_seconds=2.0)


@given(st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=50))
def test_encoding_loses_less_than_one_step_and_clips(values: list[float]) -> None:
    samples = np.array(values, dtype=np.float32)
    decoded, rate = decode(encode_flac(samples))
    assert rate == 16_000
    assert decoded == pytest.approx(np.clip(samples, -1, 1), abs=2 / 32768)


def test_a_file_that_exists_and_cannot_be_read_stops_the_conversion() -> None:
    with pytest.raises(SourceError, match=r"mem: cannot be read \(Input/output error\)"):
        decode(Path("/proc/self/mem"))


def unknown_length(flac: bytes) -> bytes:
    """A FLAC file as a program writes it into a pipe: its header has no number of samples."""
    return flac[:21] + bytes([flac[21] & 0xF0]) + bytes(4) + flac[26:]


def test_a_file_of_unknown_length_is_read_to_its_end() -> None:
    audio = unknown_length(tone(2.0, rate=16_000, format="FLAC"))
    assert to_flac(audio) == to_flac(audio, max_seconds=2.0)
    assert to_flac(audio, max_seconds=2.0)[1] == 32_000
    assert to_flac(audio, start=1.5, max_seconds=1.0)[1] == 8_000
    assert to_flac(audio, start=1.5, seconds=0.25)[1] == 4_000
    with pytest.raises(AudioError, match=r"^longer than 1\.9 s$"):
        to_flac(audio, max_seconds=1.9)
    with pytest.raises(AudioError, match=r"^(zero samples|undecodable audio)$"):
        to_flac(audio, start=7.0)


@pytest.mark.parametrize("container", ["WAV", "FLAC", "OGG", "MP3", "AIFF"])
def test_damaged_audio_raises_nothing_but_audio_errors(container: str, tmp_path: Path) -> None:
    chance = random.Random(container)
    whole = tone(0.2, rate=16_000, format=container)
    for number in range(200):
        damaged = bytearray(whole)
        for _ in range(chance.choice([1, 5, 20])):
            damaged[chance.randrange(min(len(whole), 120))] = chance.choice([0, 127, 128, 255])
        (tmp_path / "damaged").write_bytes(damaged)
        in_memory = number % 2 and container != "AIFF"  # of which soundfile prints tracebacks
        with contextlib.suppress(AudioError):
            to_flac(bytes(damaged) if in_memory else tmp_path / "damaged", max_seconds=600.0)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("container", ["WAV", "MP3"])
def test_audio_that_ends_before_its_header_says_so_is_truncated(
    container: str, channels: int
) -> None:
    audio = tone(20.0, channels=channels, format=container)
    with pytest.raises(AudioError, match=r"^truncated audio$"):
        decode(audio[: len(audio) // 2])


@pytest.mark.parametrize("channel", [1, 2])
def test_a_channel_is_taken_as_it_is_and_a_missing_one_is_refused(channel: int) -> None:
    ramp, noise = np.linspace(0, 0.5, 16_000), np.random.default_rng(1).uniform(-0.5, 0.5, 16_000)
    audio = encode(np.stack([ramp, noise], axis=1), 16_000, subtype="FLOAT")
    mono, _ = decode(audio, channel=channel)
    np.testing.assert_allclose(mono, (ramp, noise)[channel - 1], atol=1e-6)
    with pytest.raises(AudioError, match=r"^no channel 3$"):
        decode(audio, channel=3)


def header_of(audio: bytes, length: int) -> bytes:
    """A WAV whose header says that it has this many bytes of samples."""
    place = audio.index(b"data") + 4
    return audio[:place] + length.to_bytes(4, "little") + audio[place + 4 :]


def test_a_header_that_leaves_half_of_the_samples_out_is_a_fault() -> None:
    with pytest.raises(AudioError, match=r"^more audio than its header says$"):
        decode(header_of(tone(2.0, rate=16_000), 32_000))


@pytest.mark.parametrize("length", [0, 0xFFFFFFFF, 0x7FFFFFFF])
def test_a_wav_that_was_written_into_a_pipe_is_read_to_its_end(length: int) -> None:
    samples, rate = decode(header_of(tone(2.0, rate=16_000), length))
    assert (len(samples), rate) == (32_000, 16_000)


def test_chunks_behind_the_samples_are_no_fault() -> None:
    listed = tone(1.0, rate=16_000) + b"LIST" + (100).to_bytes(4, "little") + bytes(100)
    assert len(decode(listed)[0]) == 16_000


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
