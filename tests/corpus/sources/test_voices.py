"""The voices and the speakers of the synthetic corpus."""

import sys
from dataclasses import astuple, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from danish_asr.base.errors import MissingExtraError
from danish_asr.corpus.people import DIALECTS
from danish_asr.corpus.sources.voices import DIALECT_VOICES, Espeak, draw_speaker, find_espeak


def test_every_dialect_has_voices_of_its_own_that_exist() -> None:
    """eSpeak NG ignores an unknown variant without an error."""
    assert set(DIALECT_VOICES) == set(DIALECTS)
    assert sum(voice.share for voice in DIALECT_VOICES.values()) == pytest.approx(100, abs=0.5)
    voices = [name for voice in DIALECT_VOICES.values() for name in voice.women + voice.men]
    assert len(voices) == len(set(voices))
    variants = Path(find_espeak().get_data_path()) / "voices" / "!v"
    assert [name for name in voices if not (variants / name.split("+")[1]).is_file()] == []


@pytest.mark.parametrize(
    ("seed", "dialect", "age_group", "row", "speech"),
    [
        (1, "Fynsk", None, ("fynsk", 33, "male", "DK"), ("da+Lee", 163, 64, 82, 39.77, 9.46)),
        (
            *(2, "Non-native", 2),
            ("nordsjællandsk", 52, "male", "NO"),
            ("sv+m1", 118, 45, 50, 39.09, 7.28),
        ),
    ],
)
def test_a_seed_draws_the_same_speaker_for_ever(
    seed: int, dialect: str, age_group: int | None, row: tuple[Any, ...], speech: tuple[Any, ...]
) -> None:
    """So that the corpus has the same bytes."""
    drawn_row, *drawn = astuple(draw_speaker(Random(seed), "7", dialect, age_group))
    assert (*drawn_row.values(),) == ("7", *row)
    assert (*drawn[:4], *(round(level, 2) for level in drawn[4:])) == speech


def test_speech_has_the_speed_the_pitch_and_the_melody_of_its_speaker() -> None:
    espeak, speaker = Espeak(), draw_speaker(Random(1), "7", "Fynsk", None)

    def spoken(**changes: Any) -> tuple[int, float, float]:
        """Samples, the pitch in hertz, and how steady it is."""
        speech = espeak.speak("æblerne er på øen nu", replace(speaker, **changes))
        assert 0.5 < abs(speech).max() <= 1
        power = np.abs(np.fft.rfft(speech, 2 * len(speech))) ** 2
        repeats = np.fft.irfft(power)[: espeak.sample_rate // 50]
        shortest = espeak.sample_rate // 400
        period = shortest + int(repeats[shortest:].argmax())
        return len(speech), espeak.sample_rate / period, repeats[period] / repeats[0]

    low, high = (spoken(pitch=pitch, pitch_range=0) for pitch in (20, 80))
    assert spoken(rate=80)[0] > 1.8 * spoken(rate=160)[0]
    assert high[1] > 1.8 * low[1]
    assert high[2] > spoken(pitch=80, pitch_range=99)[2] + 0.1
    assert spoken(voice="da+f1")[1] > 1.5 * spoken(voice="da+Lee")[1]


def test_speech_needs_the_package_of_the_synthesiser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(MissingExtraError, match="synthetic"):
        find_espeak()
