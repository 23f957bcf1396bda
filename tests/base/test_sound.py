"""Any audio is heard as the same samples of 16 kHz, or refused with the reason."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from danish_asr.base.errors import TranscriptionError
from danish_asr.base.sound import Audio, Sound, open_sound
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
        assert (sound.seconds, sound.expected, sound.channels, sound.file) == (21, 21, 1, file)
    with open_sound(path) as sound:
        assert [len(block) for block in sound] == [10 * RATE, 10 * RATE, RATE]


@pytest.mark.parametrize(
    "dtype", ["u1", "i1", "i2", "u2", "i4", "i8", "f2", "f4", "f8", ">f4", ">i2"]
)
def test_an_array_of_any_type_and_shape_is_heard_as_its_floats(dtype: str) -> None:
    both, kind = np.stack([noise(0), noise(1)]), np.dtype(dtype)
    array = both.astype(dtype)
    if kind.kind in "iu":
        half = 2.0 ** (8 * kind.itemsize - 1)
        array = np.rint(both * half + (half if kind.kind == "u" else 0)).astype(dtype)
    step = {1: 1 / 128, 2: 1 / 2_000}.get(kind.itemsize, 1e-4)
    tensors: list[Any] = [torch.from_numpy(array)] if dtype in {"i2", "f4"} else []
    for shaped in (array, array.T, *tensors):
        for channel in (0, 1):
            samples, sound = heard(shaped, rate=RATE, channel=channel)
            assert np.allclose(samples, both[channel], atol=step)
            assert (sound.channels, sound.seconds, sound.expected) == (2, 1, 1)
    assert np.allclose(heard(array[0], rate=RATE)[0], both[0], atol=step)


@pytest.mark.parametrize("container", ["MP3", "OGG", "FLAC"])
def test_the_length_is_expected_before_a_file_is_read(container: str) -> None:
    with open_sound(encode(noise(seconds=30), RATE, format=container)) as sound:
        assert sound.expected == pytest.approx(30, rel=0.1)


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
    cases: list[tuple[Any, Any, str]] = [
        (text, None, "notes.wav: undecodable audio"),
        (tmp_path / "none.wav", None, "none.wav: audio file missing"),
        (truncated, None, "half.flac: undecodable audio after 10 s"),
        (tone(20, format="MP3")[:80_000], None, "the audio: truncated audio"),
        (tone(0), None, "zero samples"),
        (tone(1, rate=RATE)[:20_000], None, "truncated audio"),
        (np.zeros(0), RATE, "zero samples"),
        (np.array([0, np.nan]), RATE, "non-finite"),
        *(
            (np.zeros(100), rate, "rate=")
            for rate in (None, 0, -8_000, 22_050.5, np.nan, True, "16000")
        ),
        (np.zeros(100, bool), RATE, "bool"),
        (np.zeros((1, 1, 100)), RATE, "(1, 1, 100)"),
        (np.zeros((40, 50)), RATE, "(50, 40)"),
        (np.float32(1), RATE, "()"),
        (torch.zeros(100, dtype=torch.bfloat16), RATE, "bfloat16"),
    ]
    for audio, rate, message in cases:
        with pytest.raises(TranscriptionError, match=re.escape(message)):
            heard(audio, rate=rate)
