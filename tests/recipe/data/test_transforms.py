"""Transforms: what they do to length, level, spectrum and time, and what is refused."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray
from scipy.signal import firwin

from danish_asr.base.errors import ConfigError, RunFailedError
from danish_asr.base.files import from_yaml
from danish_asr.recipe.config.schema import DatasetSection
from danish_asr.recipe.data.transforms import (
    Noise,
    Reverb,
    SpecAugment,
    Transform,
    _band_stop,
    _silence,
    at_speed,
    samples_at_speed,
    transforms_of_training,
)
from tests.documented import blocks, script
from tests.shards import waveform

RATE = 16_000


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize(
    ("factor", "samples"), [(0.5, 32_001), (1.1, 14_545), (1.0, 16_000), (2.0, 8_000)]
)
def test_a_speed_raises_the_pitch_and_shortens_the_waveform(factor: float, samples: int) -> None:
    lengths = np.array([16_000], np.int32)
    played = at_speed(tone(440, 16_000), factor, samples)
    assert abs(samples_at_speed(lengths, np.array([factor]))[0] - samples) <= 1
    expected = tone(440 * factor, samples)
    assert played[500:-500] == pytest.approx(expected[500:-500], abs=1e-3)
    assert len(played) == samples


@pytest.mark.parametrize(
    ("entry", "keys"),
    [
        ({"probability": 0.5}, ["transforms[0].name"]),
        ({"name": "no_such_module:Noise"}, ["transforms[0].name"]),
        ({"name": "spec_augment"}, ["transforms[0].probability"]),
        (
            {"name": "spec_augment", "probability": "x", "max_tim": 3},
            ["transforms[0].probability", "transforms[0].max_tim"],
        ),
        ({"name": "noise", "folder": "/nowhere", "least_db": 200}, ["transforms[0].least_db"]),
        ({"name": "noise", "folder": "/nowhere"}, ["transforms[0]"]),
        ({"name": "noise", "folder": ".", "least_db": 40}, ["transforms[0]"]),
    ],
)
def test_an_impossible_transform_is_refused_with_its_keys(
    entry: dict[str, object], keys: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        transforms_of_training(DatasetSection(transforms=[entry]))
    named = [fault.split()[0].removeprefix("dataset.") for fault in refused.value.faults]
    assert named == keys


def spectrum(wave: NDArray[np.float32]) -> torch.Tensor:
    window = torch.hann_window(400)
    return torch.stft(torch.from_numpy(wave), 400, 200, window=window, return_complex=True).abs()


def test_spec_augment_masks_a_band_of_frequencies_and_at_most_a_quarter_of_the_time() -> None:
    wave = waveform(16_000, 5)

    in_frequency = SpecAugment(probability=1.0, max_frequency=40, max_time=0)(wave.copy(), rng())
    in_time = SpecAugment(probability=1.0, max_frequency=0)
    masked = [in_time(wave.copy(), np.random.default_rng(seed)) for seed in range(30)]

    quiet = spectrum(in_frequency).mean(dim=1) < 0.2 * spectrum(wave).mean(dim=1)
    assert 15 <= int(quiet.sum()) <= 42
    assert int(torch.diff(quiet.nonzero().squeeze()).max()) == 1
    assert 0.21 < max(float((np.abs(wave) < 1e-4).mean()) for wave in masked) <= 0.25


def tone(hertz: float, samples: int) -> NDArray[np.float32]:
    return np.asarray(0.1 * np.sin(2 * np.pi * hertz * np.arange(samples) / RATE), np.float32)


def speech() -> NDArray[np.float32]:
    """Two seconds of a low, a middle and a high tone."""
    return tone(100, 2 * RATE) + tone(1_000, 2 * RATE) + tone(7_000, 2 * RATE)


@pytest.mark.parametrize(
    ("low", "high", "kind", "edges"),
    [(20, 60, "bandstop", (19.5, 59.5)), (0, 30, "highpass", 29.5), (150, 201, "lowpass", 149.5)],
)
def test_a_band_is_taken_out_by_the_ideal_filter_under_a_hann_window(
    low: int, high: int, kind: str, edges: Any
) -> None:
    wave = np.zeros(9_000, np.float32)
    wave[4_500] = 1
    filtered = _band_stop(low, high).applied(wave)
    expected = np.zeros(9_000)
    # A bin has 40 Hz.
    expected[4_100:4_901] = firwin(
        801, np.multiply(edges, 40), window="hann", pass_zero=kind, scale=False, fs=RATE
    )
    np.testing.assert_allclose(filtered, expected, atol=1e-6)


def test_a_stretch_is_silent_between_fades_of_half_a_window() -> None:
    wave = np.ones(1_200, np.float32)
    _silence(wave, 400, 700)
    assert not wave[400:700].any()
    assert np.all(wave[:200] == 1)
    assert np.all(np.diff(wave[199:401]) <= 0)
    assert wave[300] == pytest.approx(0.5, abs=0.01)
    np.testing.assert_array_equal(wave[700:900], wave[200:400][::-1])
    assert np.all(wave[900:] == 1)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise in stereo at another rate in a folder below, short noise, and a room with one echo."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "noise" / "free-sound").mkdir(parents=True)
    noise = np.random.default_rng(0).normal(0, 0.05, (44_100, 2))
    soundfile.write(folder / "noise" / "free-sound" / "a.WAV", noise, 44_100)
    (folder / "short").mkdir()
    soundfile.write(folder / "short" / "b.wav", noise[:10_000, 0], RATE, "FLOAT")
    (folder / "rooms").mkdir()
    room = np.zeros(4_000)
    room[200], room[1_800] = 0.8, 0.4
    soundfile.write(folder / "rooms" / "room.wav", room, RATE)
    return folder


@pytest.mark.parametrize("kind", [Noise, Reverb])
def test_a_recording_without_sound_changes_nothing_and_one_of_nan_is_named(
    tmp_path: Path, kind: type[Any]
) -> None:
    for name, sample in (("silent", 0.0), ("broken", np.nan)):
        (tmp_path / name).mkdir()
        soundfile.write(tmp_path / name / f"{name}.wav", np.full(1_000, sample), RATE, "FLOAT")
    silent = kind(folder=str(tmp_path / "silent"))
    np.testing.assert_allclose(silent(speech(), rng()), speech(), atol=1e-6)
    with pytest.raises(RunFailedError, match="broken"):
        kind(folder=str(tmp_path / "broken"))(speech(), rng())


@pytest.mark.parametrize("depth", ["PCM_U8", "PCM_24", "PCM_32", "DOUBLE"])
@pytest.mark.parametrize("kind", [Noise, Reverb])
def test_a_recording_of_any_depth_sounds_as_one_of_16_bits(
    tmp_path: Path, kind: type[Any], depth: str
) -> None:
    sound, changed = 0.4 * waveform(3_000, 4), []
    for subtype in ("PCM_16", depth):
        (tmp_path / subtype).mkdir()
        soundfile.write(tmp_path / subtype / "a.wav", sound, RATE, subtype)
        changed.append(kind(folder=str(tmp_path / subtype))(speech(), rng()) - speech())
    # 8 bits have noise of their own.
    limit = 0.1 if depth == "PCM_U8" else 1e-3
    assert np.abs(changed[0] - changed[1]).max() < limit * np.abs(changed[0]).max()


@pytest.mark.parametrize("content", [b"", b"RIFF", None])
def test_a_folder_with_a_file_without_sound_is_refused_with_its_name(
    tmp_path: Path, recordings: Path, content: bytes | None
) -> None:
    folder = shutil.copytree(recordings / "short", tmp_path / "folder")
    if content is None:
        soundfile.write(folder / "empty.wav", np.zeros(0), RATE)
    else:
        (folder / "empty.wav").write_bytes(content)
    for kind in (Noise, Reverb):
        with pytest.raises(ValueError, match=r"empty\.wav"):
            kind(folder=str(folder))


@pytest.mark.parametrize("folder", ["noise", "short", "rooms"])
def test_noise_has_the_ratio_that_was_drawn(folder: str, recordings: Path) -> None:
    clean = speech()
    transform = Noise(folder=str(recordings / folder), least_db=12, most_db=12)
    added = transform(clean.copy(), rng()) - clean
    ratio = 10 * np.log10(np.mean(clean**2) / np.mean(added**2))
    assert ratio == pytest.approx(12, abs=0.01)


@pytest.mark.parametrize(("place", "begin"), [(0.0, 0), (1 - 1e-9, 4_999)])
def test_noise_is_any_part_of_a_recording(recordings: Path, place: float, begin: int) -> None:
    drawn: Any = SimpleNamespace(
        random=lambda: place, integers=lambda _: 0, uniform=lambda least, most: least + most
    )
    clean = tone(200, 5_000)
    added = Noise(folder=str(recordings / "short"))(clean.copy(), drawn) - clean
    ratio = 10 * np.log10(np.mean(clean**2) / np.mean(added**2))
    assert ratio == pytest.approx(5 + 30, abs=0.1), "from 5 to 30 dB unless a key says otherwise"
    noise, _ = soundfile.read(recordings / "short" / "b.wav")
    assert np.corrcoef(added, noise[begin : begin + 5_000])[0, 1] > 0.999


@pytest.mark.parametrize("seconds", [0.05, 0.5, 3.7, 7.0])
def test_a_room_is_the_convolution_with_its_response_from_the_direct_sound_on(
    recordings: Path, seconds: float
) -> None:
    response, _ = soundfile.read(recordings / "rooms" / "room.wav")
    clean = np.random.default_rng(3).normal(0, 0.1, int(seconds * RATE)).astype(np.float32)
    expected = np.convolve(clean, response[200:])[: len(clean)]
    expected *= np.sqrt(np.mean(clean**2) / np.mean(expected**2))
    wet = Reverb(folder=str(recordings / "rooms"))(clean.copy(), rng())
    assert wet == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", [Noise, Reverb])
def test_a_transform_follows_from_the_generator_and_leaves_silence_alone(
    kind: type[Any], recordings: Path
) -> None:
    folder, wave, silence = str(recordings / "noise"), speech(), np.zeros(1_000, np.float32)
    always: Transform = kind(folder=folder)
    never: Transform = kind(folder=folder, probability=0.0)

    assert (always.after_normalization, SpecAugment.after_normalization) == (False, True)
    assert np.array_equal(always(wave.copy(), rng()), always(wave.copy(), rng()))
    assert not np.array_equal(always(wave.copy(), rng()), wave)
    assert np.array_equal(never(wave.copy(), rng()), wave)
    assert np.array_equal(always(silence.copy(), rng()), silence)


def test_the_transform_of_the_documentation_acts_and_repeats_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "docs/howto/extend.md"
    (config,) = ("\n".join(lines) for language, lines in blocks(page) if language == "yaml")
    (tmp_path / "noise.py").write_text(script(page, "noise.py"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    (transform,) = transforms_of_training(DatasetSection(**from_yaml(config)["dataset"]))
    wave = waveform(16_000, 1)
    noisy, again = (transform(wave.copy(), rng()) for _ in range(2))
    assert np.array_equal(noisy, again)
    # Noise at 10 to 40 dB below: correlated, not equal.
    assert 0.94 < np.corrcoef(wave, noisy)[0, 1] < 0.99999
