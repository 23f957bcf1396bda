"""Who speaks in the synthetic corpus: ten groups of voices that stand in for dialects.

A synthesiser knows no Danish dialects. What a group shares is a set of settings of eSpeak NG: its
voice variants (their formants differ), how fast it speaks, how high, and how its melody moves. That
makes the groups sound different and the rare ones unfamiliar, and says nothing about how anyone in
Denmark speaks. Non-native speech is Danish text in a Norwegian or Swedish voice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from danish_asr.sources.espeak import Voice
from danish_asr.sources.metadata import NON_NATIVE, SUB_DIALECTS


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectVoice:
    """Settings of a dialect group; see `Voice` for units.

    Attributes:
        share: Per cent of the corpus, as in CoRal's read-aloud training split.
        women: eSpeak voices of its women.
        men: eSpeak voices of its men.
        rate: Words per minute of a speaker of middle age.
        pitch: Base pitch of a speaker of middle age.
        pitch_range: Liveliness of the pitch.
    """

    share: float
    women: tuple[str, ...]
    men: tuple[str, ...]
    rate: int
    pitch: int
    pitch_range: int


DIALECT_VOICES: Final[Mapping[str, DialectVoice]] = {
    "Østjysk": DialectVoice(
        share=26.6,
        women=("da+f1", "da+f2"),
        men=("da+m1", "da+m2"),
        rate=170,
        pitch=50,
        pitch_range=50,
    ),
    "Sjællandsk": DialectVoice(
        share=15.7,
        women=("da+f3", "da+Annie"),
        men=("da+m3", "da+m4"),
        rate=165,
        pitch=52,
        pitch_range=60,
    ),
    "Nordjysk": DialectVoice(
        share=14.7,
        women=("da+f4", "da+linda"),
        men=("da+m5", "da+Denis"),
        rate=180,
        pitch=48,
        pitch_range=40,
    ),
    "Københavnsk": DialectVoice(
        share=13.6,
        women=("da+Alicia", "da+steph"),
        men=("da+m6", "da+Andy"),
        rate=185,
        pitch=55,
        pitch_range=55,
    ),
    "Vestjysk": DialectVoice(
        share=11.7,
        women=("da+Andrea", "da+anika"),
        men=("da+m7", "da+Gene"),
        rate=160,
        pitch=45,
        pitch_range=30,
    ),
    "Sønderjysk": DialectVoice(
        share=4.9,
        women=("da+f5",),
        men=("da+m8",),
        rate=155,
        pitch=42,
        pitch_range=20,
    ),
    "Bornholmsk": DialectVoice(
        share=4.4,
        women=("da+steph2",),
        men=("da+Michael",),
        rate=150,
        pitch=60,
        pitch_range=90,
    ),
    "Fynsk": DialectVoice(
        share=4.4,
        women=("da+belinda",),
        men=("da+Lee",),
        rate=160,
        pitch=58,
        pitch_range=75,
    ),
    NON_NATIVE: DialectVoice(
        share=4.0,
        women=("nb+f2", "sv+f3"),
        men=("nb+m3", "sv+m1"),
        rate=140,
        pitch=50,
        pitch_range=50,
    ),
    "Sydømål": DialectVoice(
        share=0.2,
        women=("da+aunty",),
        men=("da+Jacky",),
        rate=145,
        pitch=40,
        pitch_range=25,
    ),
}

AGES: Final = ((18, 24), (25, 49), (50, 80))
"""Youngest and oldest of each age group."""

_AGE_SHARES: Final = (6.4, 37.2, 56.4)
_GENDER_SHARES: Final = {"female": 70.6, "male": 27.5, "nonbinary": 2.0}
_BIRTH_COUNTRIES: Final = ("NO", "SE")
_AGE_RATE: Final = (15, 0, -15)
_AGE_PITCH: Final = (8, 0, -6)
"""What an age group adds to rate and pitch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSpeaker:
    """A speaker with CoRal's metadata, a voice and a room.

    Attributes:
        noise_db: Level of the room's noise below the speech, in dB.
        gain_db: Level of the recording below full scale, in dB.
    """

    id: str
    dialect: str
    sub_dialect: str
    age: int
    gender: str
    country_birth: str
    voice: Voice
    noise_db: float
    gain_db: float


def draw_speaker(random: Random, id_: str, dialect: str, age_group: int | None) -> SyntheticSpeaker:
    """Draw a speaker of a dialect; ``age_group`` is an index into `AGES`, None for any."""
    settings = DIALECT_VOICES[dialect]
    if age_group is None:
        age_group = random.choices(range(len(AGES)), _AGE_SHARES)[0]
    gender = random.choices(list(_GENDER_SHARES), list(_GENDER_SHARES.values()))[0]
    voices = {"female": settings.women, "male": settings.men}.get(
        gender, settings.women + settings.men
    )
    native = dialect != NON_NATIVE
    return SyntheticSpeaker(
        id=id_,
        dialect=dialect,
        sub_dialect=random.choice(SUB_DIALECTS[dialect if native else "Sjællandsk"]),
        age=random.randint(*AGES[age_group]),
        gender=gender,
        country_birth="DK" if native else random.choice(_BIRTH_COUNTRIES),
        voice=Voice(
            name=random.choice(voices),
            rate=settings.rate + _AGE_RATE[age_group] + random.randint(-12, 12),
            pitch=settings.pitch + _AGE_PITCH[age_group] + random.randint(-8, 8),
            pitch_range=max(0, min(99, settings.pitch_range + random.randint(-8, 8))),
        ),
        noise_db=random.uniform(30, 45),
        gain_db=random.uniform(0, 12),
    )
