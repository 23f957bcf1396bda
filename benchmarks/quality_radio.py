"""The data of `benchmarks/quality_harvest.py`: programmes of synthetic radio with loose subtitles.

A programme of ten minutes has items of a few sentences by one of its speakers, pauses, jingles, and
music under a third of the items. Half of the sentences are the demo's, half are words at random.
Subtitles have a sentence per cue. All are some seconds late or early, and of the cues a tenth is of
another sentence and a tenth is missing. The truth has every word with its times.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from benchmarks.quality_word_times import ReportingEspeak
from danish_asr.base.files import publish_text
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.sources.synthetic import draw_sentence, speak
from danish_asr.corpus.sources.voices import DIALECT_VOICES, SyntheticSpeaker, draw_speaker

Wave = NDArray[np.float32]

PROGRAMME: Final = 600.0
"""Seconds, about."""

WRONG: Final = 0.1
MISSING: Final = 0.1
SHIFT: Final = 5.0
"""Seconds by which the subtitles of a programme are late or early, at most."""

_MUSIC_DB: Final = 15.0
"""Of speech over the music under it."""

_WORDS: Final = (
    "regeringen ministeren kommunen skolen sygehuset politiet retten banken fabrikken havnen "
    "vejret sommeren vinteren foråret morgenen aftenen ugen måneden timen minuttet vejen "
    "broen toget bussen cyklen bilen flyet skibet huset taget vinduet døren haven marken "
    "skoven søen stranden bjerget floden byen landet verden folk barnet moderen faderen "
    "broderen søsteren lægen læreren bageren fiskeren smeden siger mener håber tror ved "
    "glemmer husker venter arbejder spiller synger danser løber svømmer rejser flytter bygger "
    "lukker åbner begynder slutter vinder taber falder stiger dyrt billigt hurtigt langsomt "
    "koldt varmt tørt vådt stærkt svagt tidligt sent ofte sjældent måske alligevel derfor "
    "fordi selvom mens inden efter under over mellem bagved foran udenfor hjemme ude oppe "
    "nede her der altid aldrig"
)


class Spoken(NamedTuple):
    """A word of the truth, as models write it; times in seconds."""

    text: str
    start: float
    end: float


class _Cue(NamedTuple):
    start: float
    end: float
    text: str


def make_radio(folder: Path, programmes: int) -> None:
    """Write ``programme-00.flac``, ``.srt`` and ``.truth.jsonl``, and so on."""
    espeak = ReportingEspeak()
    for number in range(programmes):
        random = Random(f"radio/{number}")  # noqa: S311 - not for cryptography
        stem = folder / f"programme-{number:02}"
        waves, cues, words = _programme(espeak, random, number)
        folder.mkdir(parents=True, exist_ok=True)
        soundfile.write(stem.with_suffix(".flac"), waves, SAMPLE_RATE)
        publish_text(stem.with_suffix(".srt"), _srt(_spoiled(cues, random)))
        truth = "".join(f"{json.dumps(word._asdict(), ensure_ascii=False)}\n" for word in words)
        publish_text(stem.with_suffix(".truth.jsonl"), truth)


def make_utterances(folder: Path, speakers: int, split: str) -> None:
    """Write utterances of other speakers in the same sound, and a table ``SPLIT.jsonl``."""
    espeak, random = ReportingEspeak(), Random(f"radio/{split}")  # noqa: S311
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(6 * speakers):
        name = f"radio-{split}-{number // 6:02}"
        speaker = _speaker(Random(name), name)  # noqa: S311
        text = _sentence(random, split)
        wave = _recorded(espeak, speak(text), speaker, random)
        soundfile.write(folder / f"{split}-{number}.flac", wave, SAMPLE_RATE)
        rows.append(
            {
                "audio_filepath": f"{split}-{number}.flac",
                "text": text,
                "speaker_id": name,
                "dialect": speaker.row["dialect"],
            }
        )
    lines = [f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows]
    publish_text(folder / f"{split}.jsonl", "".join(lines))


def read_truth(audio: Path) -> list[Spoken]:
    """Return the words of a programme."""
    lines = audio.with_suffix(".truth.jsonl").read_text("utf-8").splitlines()
    return [Spoken(**json.loads(line)) for line in lines]


def _programme(
    espeak: ReportingEspeak, random: Random, number: int
) -> tuple[Wave, list[_Cue], list[Spoken]]:
    speakers = [_speaker(random, f"radio-{number}-{index}") for index in range(4)]
    waves: list[Wave] = []
    cues: list[_Cue] = []
    words: list[Spoken] = []
    samples = 0

    def add(wave: Wave) -> None:
        nonlocal samples
        waves.append(wave)
        samples += len(wave)

    while samples < PROGRAMME * SAMPLE_RATE:
        speaker, under = random.choice(speakers), random.random() < 1 / 3
        if random.random() < 0.2:
            add(_music(random, random.uniform(3, 8)))
        for _ in range(random.randint(3, 7)):
            text = _sentence(random, "train")
            wave = _recorded(espeak, speak(text), speaker, random, under=under)
            start = samples / SAMPLE_RATE
            words += [
                Spoken(word, start + begin, start + end)
                for word, begin, end in espeak.words(speak(text))
            ]
            add(wave)
            cues.append(_Cue(start, samples / SAMPLE_RATE, text))
            add(_noise(random, random.uniform(0.1, 1.2)))
    return np.concatenate(waves), cues, words


def _sentence(random: Random, split: str) -> str:
    if random.random() < 0.5:
        return draw_sentence(random, split, conversation=random.random() < 0.25)
    return " ".join(random.sample(_WORDS.split(), random.randint(4, 9)))


def _speaker(random: Random, name: str) -> SyntheticSpeaker:
    shares = {dialect: voice.share for dialect, voice in DIALECT_VOICES.items()}
    (dialect,) = random.choices(list(shares), list(shares.values()))
    return draw_speaker(random, name, dialect, None)


def _recorded(
    espeak: ReportingEspeak,
    text: str,
    speaker: SyntheticSpeaker,
    random: Random,
    *,
    under: bool | None = None,
) -> Wave:
    """Speak with noise 20 to 30 dB below, and perhaps with music under it."""
    speech = espeak.speak(text, speaker)
    wave = soxr.resample(speech, espeak.sample_rate, SAMPLE_RATE).astype(np.float32)
    level = _level(wave)
    noise = _noise(random, len(wave) / SAMPLE_RATE)[: len(wave)]
    wave += noise * level / _level(noise) * 10 ** (-random.uniform(20, 30) / 20)
    if random.random() < 1 / 3 if under is None else under:
        music = _music(random, len(wave) / SAMPLE_RATE)[: len(wave)]
        wave += music * level / _level(music) * 10 ** (-_MUSIC_DB / 20)
    peak = np.float32(np.abs(wave).max())
    recorded: Wave = 0.5 * wave / peak
    return recorded


def _level(wave: Wave) -> np.float32:
    return np.float32(np.sqrt(np.mean(np.square(wave))))


def _noise(random: Random, seconds: float) -> Wave:
    numbers = np.random.default_rng(random.getrandbits(64))
    return 0.003 * numbers.standard_normal(1 + int(seconds * SAMPLE_RATE), np.float32)


def _music(random: Random, seconds: float) -> Wave:
    """Chords of three tones with overtones, which change twice a second."""
    time = np.arange(1 + int(seconds * SAMPLE_RATE), dtype=np.float32) / SAMPLE_RATE
    wave = np.zeros_like(time)
    for beat in range(int(2 * seconds) + 1):
        own = (time >= beat / 2) & (time < (beat + 1) / 2)
        root = 110 * 2 ** (random.randint(0, 12) / 12)
        for interval in (0, random.choice((3, 4)), 7):
            for overtone in (1, 2, 3):
                tone = np.sin(2 * np.pi * root * 2 ** (interval / 12) * overtone * time[own])
                wave[own] += tone * np.exp(-3 * (time[own] - beat / 2)) / overtone
    return np.float32(0.15) * wave / np.float32(max(np.abs(wave).max(), 1e-6))


def _spoiled(cues: list[_Cue], random: Random) -> Iterator[_Cue]:
    shift = random.uniform(-SHIFT, SHIFT)
    for cue in cues:
        fate = random.random()
        if fate < MISSING:
            continue
        text = _sentence(random, "train") if fate < MISSING + WRONG else cue.text
        moved = shift + random.uniform(-0.5, 0.5)
        yield _Cue(max(0.0, cue.start + moved), max(0.1, cue.end + moved), text)


def _srt(cues: Iterator[_Cue]) -> str:
    blocks = (
        f"{number}\n{_clock(cue.start)} --> {_clock(cue.end)}\n{cue.text}\n"
        for number, cue in enumerate(cues, start=1)
    )
    return "\n".join(blocks)


def _clock(seconds: float) -> str:
    milliseconds: Any = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    return (
        f"{minutes // 60:02}:{minutes % 60:02}:{milliseconds // 1000:02},{milliseconds % 1000:03}"
    )
