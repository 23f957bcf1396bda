"""Augmentations: what they do to level, spectrum and time, and what they refuse."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from danish_asr.recipe.data.settings import TRANSFORMS, make_transforms
from danish_asr.recipe.data.transforms import Noise, Reverb, Transform

RATE = 16_000


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def speech(seconds: float = 2.0) -> NDArray[np.float32]:
    """A low, a middle and a high tone."""
    moment = np.arange(int(seconds * RATE)) / RATE
    tones = sum(np.sin(2 * np.pi * f * moment) for f in (100, 1_000, 7_000))
    return np.asarray(0.1 * tones, np.float32)


def decibels(one: float, other: float) -> float:
    return float(10 * np.log10(one / other))


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
    soundfile.write(folder / "rooms" / "room.flac", room, RATE)
    return folder


@pytest.mark.parametrize("folder", ["noise", "short", "rooms"])
def test_noise_has_the_ratio_that_was_drawn(folder: str, recordings: Path) -> None:
    clean = speech()
    transform = Noise(folder=str(recordings / folder), least_db=12, most_db=12)
    added = transform(clean.copy(), rng()) - clean
    assert decibels(np.mean(clean**2), np.mean(added**2)) == pytest.approx(12, abs=0.01)


def test_a_room_adds_its_echo_after_the_direct_sound(recordings: Path) -> None:
    click = np.zeros(8_000, np.float32)
    click[1_000] = 0.5
    wet = Reverb(folder=str(recordings / "rooms"))(click.copy(), rng())
    assert np.flatnonzero(np.abs(wet) > 0.01).tolist() == [1_000, 2_600]
    assert wet[2_600] / wet[1_000] == pytest.approx(0.5, rel=1e-3)
    assert np.mean(wet**2) == pytest.approx(np.mean(click**2), rel=1e-3)


@pytest.mark.parametrize("seconds", [0.05, 0.5, 3.7])
def test_a_room_is_the_convolution_with_its_response_whatever_the_length(
    recordings: Path, seconds: float
) -> None:
    response, _ = soundfile.read(recordings / "rooms" / "room.flac")
    clean = np.random.default_rng(3).normal(0, 0.1, int(seconds * RATE)).astype(np.float32)
    expected = np.convolve(clean, response[200:])[: len(clean)]
    expected *= np.sqrt(np.mean(clean**2) / np.mean(expected**2))
    wet = Reverb(folder=str(recordings / "rooms"))(clean.copy(), rng())
    assert wet == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["noise", "reverb"])
def test_all_follow_from_the_generator_and_leave_silence_alone(name: str, recordings: Path) -> None:
    values = {"folder": str(recordings / {"noise": "noise", "reverb": "rooms"}[name])}
    (transform,) = make_transforms([{"name": name, **values}])
    (never,) = make_transforms([{"name": name, "probability": 0.0, **values}])
    assert isinstance(transform, Transform)
    assert isinstance(never, Transform)
    one, other = (transform(speech(), rng()) for _ in range(2))
    assert one.shape == speech().shape
    assert one.dtype == np.float32
    assert np.array_equal(one, other)
    assert not np.array_equal(one, speech())
    assert np.array_equal(never(speech(), rng()), speech())
    silence = np.zeros(1_000, np.float32)
    assert not transform(silence, rng()).any()
    assert name in TRANSFORMS
