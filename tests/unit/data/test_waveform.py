from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

from danish_asr.data.waveform import SpecAugment, WaveformDecoder
from tests.shards import flac, waveform

EVERY = SpecAugment(probability=1.0)


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def decode(encoded: bytes, samples: int, *, normalize: bool = False) -> NDArray[np.float32]:
    out = np.full(samples, np.nan, np.float32)
    WaveformDecoder(normalize=normalize)(encoded, out, samples=samples)
    return out


def encode(
    sound: NDArray[np.float32], form: str, subtype: str | None = None, rate: int = 16_000
) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, sound, rate, format=form, subtype=subtype)
    return file.getvalue()


@pytest.mark.parametrize(
    ("form", "subtype"),
    [("FLAC", "PCM_16"), ("FLAC", "PCM_24"), ("WAV", "PCM_16"), ("WAV", "FLOAT"), ("OGG", None)],
)
def test_a_waveform_is_what_libsndfile_makes_of_it(form: str, subtype: str | None) -> None:
    encoded = encode(waveform(12_345, 3), form, subtype)

    decoded = decode(encoded, 12_345)

    np.testing.assert_array_equal(decoded, soundfile.read(io.BytesIO(encoded), dtype="float32")[0])


def test_normalising_gives_mean_zero_and_variance_one() -> None:
    decoded = decode(flac(12_345, 3), 12_345, normalize=True)

    assert abs(float(decoded.mean())) < 1e-5
    assert float(decoded.std()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("form", "subtype"), [("FLAC", "PCM_24"), ("WAV", "FLOAT")])
def test_channels_are_averaged(form: str, subtype: str) -> None:
    left, right = waveform(9_000, 1), waveform(9_000, 2)

    decoded = decode(encode(np.stack([left, right], axis=1), form, subtype), 9_000)

    np.testing.assert_allclose(decoded, (left + right) / 2, atol=1e-6)


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (b"no audio", "cannot be decoded"),
        (b"fLaC but no more", "cannot be decoded"),
        (flac(12_345, 3)[:10_000], r"damaged: \d+ of 12345 samples can be decoded"),
        (flac(12_345, 3)[:10_000] + bytes(9_000), r"damaged: \d+ of 12345 samples"),
        (flac(12_344, 3), "audio_size is 12345, the audio has 12344 samples"),
        (encode(waveform(12_346, 3), "WAV"), "audio_size is 12345, the audio has 12346 samples"),
        # Trains silently wrong upstream (TRAPS).
        (flac(12_345, 3, 48_000), "expected audio at 16000 Hz, found 48000 Hz"),
        (encode(waveform(12_345, 3), "WAV", rate=8_000), "expected audio at 16000 Hz, found 8000"),
    ],
)
def test_what_is_not_the_audio_that_is_expected_is_refused(encoded: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(encoded, 12_345)


def spectrum(wave: torch.Tensor) -> torch.Tensor:
    window = torch.hann_window(400)
    return torch.stft(wave, 400, 200, window=window, return_complex=True).abs()


def test_augmentation_silences_a_band_and_keeps_length_and_input() -> None:
    wave = torch.from_numpy(waveform(16_000, 5))
    before = wave.clone()

    augmented = SpecAugment(probability=1.0, max_frequency=40, max_time=0)(wave, rng())

    quiet = spectrum(augmented).mean(dim=1) < 0.2 * spectrum(wave).mean(dim=1)
    assert 15 <= int(quiet.sum()) <= 42
    assert int(torch.diff(quiet.nonzero().squeeze()).max()) == 1
    assert augmented.shape == wave.shape
    assert torch.equal(wave, before)


def test_augmentation_silences_at_most_a_quarter_of_the_time() -> None:
    wave = torch.from_numpy(waveform(16_000, 5))
    shares = []
    for seed in range(30):
        generator = np.random.default_rng(seed)
        augmented = SpecAugment(probability=1.0, max_frequency=0)(wave, generator)
        shares.append(float((augmented.abs() < 1e-4).float().mean()))

    assert 0.1 < max(shares) <= 0.25


def test_augmentation_is_fixed_by_its_generator_and_its_probability() -> None:
    wave = torch.from_numpy(waveform(16_000, 5))

    assert torch.equal(EVERY(wave, rng()), EVERY(wave, rng()))
    assert SpecAugment(probability=0.0)(wave, rng()) is wave
    changed = [
        SpecAugment(probability=0.5)(wave, np.random.default_rng(s)) is not wave for s in range(40)
    ]
    assert 8 < sum(changed) < 32


def test_a_waveform_shorter_than_a_window_is_left_alone() -> None:
    wave = torch.ones(400)

    assert EVERY(wave, rng()) is wave
