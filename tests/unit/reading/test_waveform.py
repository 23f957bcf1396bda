from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
import torch

from danish_asr.reading.waveform import SpecAugment, WaveformDecoder
from tests.shards import flac, waveform

EVERY = SpecAugment(probability=1.0)


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_a_waveform_is_decoded_as_it_was_encoded() -> None:
    decoded = WaveformDecoder(normalize=False)(flac(12_345, 3))

    assert decoded.dtype == torch.float32
    # FLAC holds 16 bits.
    np.testing.assert_allclose(decoded.numpy(), waveform(12_345, 3), atol=1 / 32_768)


def test_normalising_gives_mean_zero_and_variance_one() -> None:
    decoded = WaveformDecoder(normalize=True)(flac(12_345, 3))

    assert abs(float(decoded.mean())) < 1e-5
    assert float(decoded.std()) == pytest.approx(1, abs=1e-3)


def test_channels_are_averaged() -> None:
    file, left, right = io.BytesIO(), waveform(9_000, 1), waveform(9_000, 2)
    soundfile.write(file, np.stack([left, right], axis=1), 16_000, format="WAV", subtype="FLOAT")

    decoded = WaveformDecoder(normalize=False)(file.getvalue())

    np.testing.assert_allclose(decoded.numpy(), (left + right) / 2, atol=1e-6)


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (b"no audio", "cannot be decoded"),
        (flac(12_345, 3)[:2_000], "cannot be decoded"),
        # Trains silently wrong upstream (TRAPS).
        (flac(12_345, 3, 48_000), "expected audio at 16000 Hz, found 48000 Hz"),
    ],
)
def test_what_is_no_audio_at_16_khz_is_refused(encoded: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WaveformDecoder(normalize=False)(encoded)


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
