"""Any audio is heard as the same samples of 16 kHz, or refused with the reason."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from danish_asr.base.errors import TranscriptionError
from danish_asr.inference.sound import Audio, Sound, open_sound
from tests.builders import encode, tone

RATE = 16_000


def heard(audio: Audio, **options: Any) -> tuple[NDArray[np.float32], Sound]:
    with open_sound(audio, **options) as sound:
        return np.concatenate([*sound]), sound


def noise(seed: int = 0, seconds: float = 1) -> NDArray[np.float32]:
    wave = 0.1 * np.random.default_rng(seed).normal(size=round(seconds * RATE))
    return wave.astype(np.float32)


def test_paths_bytes_and_arrays_give_the_same(tmp_path: Path) -> None:
    wave = noise(seconds=21)
    encoded = encode(wave, RATE, subtype="FLOAT")
    path = tmp_path / os.fsdecode(b"latin\xe6.wav")
    path.write_bytes(encoded)
    for audio, rate, file in (
        (path, None, str(tmp_path / "latin\ufffd.wav")),
        (str(path), None, str(tmp_path / "latin\ufffd.wav")),
        (encoded, None, None),
        (wave, RATE, None),
        (wave.astype(np.float64)[:, None], RATE, None),
    ):
        samples, sound = heard(audio, rate=rate)
        assert np.array_equal(samples, wave)
        assert (sound.seconds, sound.total, sound.channels, sound.file) == (21, 21, 1, file)
    with open_sound(path) as sound:
        assert [len(block) for block in sound] == [10 * RATE, 10 * RATE, RATE]
    integers = np.rint(wave * 32768).astype(np.int16)
    assert np.allclose(heard(integers, rate=RATE)[0], wave, atol=1 / 32768)


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_any_rate_becomes_16_khz_of_the_same_length(rate: int) -> None:
    samples, sound = heard(tone(12, rate=rate, hertz=440))
    assert (len(samples), sound.seconds) == (12 * RATE, 12)
    expected = 0.3 * np.sin(2 * np.pi * 440 * np.arange(12 * RATE) / RATE)
    assert np.allclose(samples[100:-100], expected[100:-100], atol=1e-3)


@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_channels_are_mixed_unless_they_cancel_each_other(offset: float) -> None:
    one, other = noise(0) + offset, noise(1) + offset
    both = np.stack([one, other], axis=1)
    assert np.allclose(heard(both, rate=RATE)[0], (one + other) / 2, atol=1e-6)
    for channel, expected in ((0, one), (1, other)):
        assert np.array_equal(heard(both, rate=RATE, channel=channel)[0], expected)
    opposite = np.stack([-0.9 * noise(0) + offset, one], axis=1).astype(np.float32)
    assert np.array_equal(heard(opposite, rate=RATE)[0], one)


def test_what_is_no_audio_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.wav"
    text.write_text("only text, no audio at all")
    truncated = tmp_path / "half.flac"
    truncated.write_bytes(tone(20, rate=RATE, format="FLAC")[:-1_000])
    (tmp_path / "gone.wav").symlink_to("nowhere.wav")
    cases: list[tuple[Any, int | None, str]] = [
        (text, None, "notes.wav: cannot be decoded"),
        (tmp_path / "none.wav", None, "none.wav: audio file missing"),
        (tmp_path / "gone.wav", None, "gone.wav: audio file missing"),
        (tmp_path, None, "audio file missing"),
        (truncated, None, "half.flac: cannot be decoded after 10 s"),
        (tone(20, format="MP3")[:80_000], None, "but its header says 20.0 s"),
        (b"no audio", None, "the audio: cannot be decoded"),
        (tone(0), None, "no samples"),
        (tone(1, rate=RATE)[:20_000], None, "truncated audio"),
        (np.zeros(0), RATE, "no samples"),
        (np.zeros(100), None, "rate"),
        (np.array([0, np.nan]), RATE, "NaN"),
    ]
    for audio, rate, message in cases:
        with pytest.raises(TranscriptionError, match=re.escape(message)):
            heard(audio, rate=rate)
