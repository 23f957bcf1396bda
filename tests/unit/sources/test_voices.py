from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.errors import SourceError
from danish_asr.sources.metadata import DIALECTS, NON_NATIVE, age_group, map_dialect
from danish_asr.sources.voices import DIALECT_VOICES, Espeak, draw_speaker, find_espeak


def test_every_dialect_has_voices_and_together_they_are_the_corpus() -> None:
    assert set(DIALECT_VOICES) == set(DIALECTS)
    assert sum(voice.share for voice in DIALECT_VOICES.values()) == pytest.approx(100, abs=0.5)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_variant_exists(dialect: str) -> None:
    """eSpeak NG ignores an unknown variant without an error."""
    variants = Path(find_espeak().get_data_path()) / "voices" / "!v"
    for name in (*DIALECT_VOICES[dialect].women, *DIALECT_VOICES[dialect].men):
        assert (variants / name.split("+")[1]).is_file()


def test_no_two_dialects_share_a_voice() -> None:
    voices = [name for voice in DIALECT_VOICES.values() for name in voice.women + voice.men]
    assert len(voices) == len(set(voices))


@given(st.integers(), st.sampled_from(DIALECTS), st.sampled_from([None, 0, 1, 2]))
def test_a_speaker_has_the_metadata_of_the_dialect(
    seed: int, dialect: str, group: int | None
) -> None:
    speaker = draw_speaker(Random(seed), "s", dialect, group)
    assert map_dialect(speaker.sub_dialect, speaker.country_birth) == dialect
    assert (speaker.country_birth == "DK") == (dialect != NON_NATIVE)
    if group is not None:
        assert age_group(speaker.age) == ("0-24", "25-49", "50+")[group]
    assert 80 <= speaker.rate <= 450
    assert 0 <= speaker.pitch <= 99
    assert 0 <= speaker.pitch_range <= 99


def test_an_unknown_voice_is_an_error() -> None:
    speaker = replace(draw_speaker(Random(1), "s", "Fynsk", None), voice="xx-none")
    with pytest.raises(SourceError, match="eSpeak NG has no voice 'xx-none'"):
        Espeak().speak("hej", speaker)
