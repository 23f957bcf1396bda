"""Make a synthetic corpus with CoRal's columns, so that the code for CoRal converts it.

Speech synthesiser and invented speakers: enough to try every step within minutes, and no basis for
statements about people. Speakers and sentences are disjoint between splits. A seed fixes each byte.
"""

import hashlib
import io
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
import soxr

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.files import publish, sweep
from danish_asr.base.folders import Listing
from danish_asr.base.progress import track
from danish_asr.base.workers import run_in_processes
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.rows import Source
from danish_asr.corpus.sources.parquet import open_parquet
from danish_asr.corpus.sources.voices import (
    AGE_GROUPS,
    DIALECT_VOICES,
    Espeak,
    SyntheticSpeaker,
    draw_speaker,
    find_espeak,
)
from danish_asr.text.numerals import spell_numerals

_SENTENCES: Final[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8")
)
OPENERS: Final[list[str]] = _SENTENCES["words"]["opener"]
"""The first words of utterances in conversations."""


def draw_sentence(random: Random, split: str, *, conversation: bool) -> str:
    """Draw a sentence of a split, as it is written; some have digits and ``%``."""
    words_of = _SENTENCES["words"]
    form = _SENTENCES["conversation" if conversation else "read_aloud"]
    while True:
        # The order of the draws fixes the bytes of the corpus.
        words = {kind: random.choice(words_of[kind]) for kind in form["first"]}
        template = random.choice(form["templates"])
        for kind in re.findall(r"\w+(?=})", template):
            if kind not in words:
                words[kind] = random.choice(words_of[kind])
        written = str(template.format(**words))
        if split_of_sentence(written) == split:
            return written


def speak(written: str) -> str:
    """The sentence as it is spoken: in words only."""
    return spell_numerals(written).replace(" %", " procent")


def split_of_sentence(written: str) -> str:
    """The only split that a sentence can be in: 20 % are in test, 10 % in dev."""
    # Without the opener, so that "ja Bo bor i Ribe" and "Bo bor i Ribe" are in one split.
    for opener in OPENERS:
        written = written.removeprefix(f"{opener} ")
    percent = hashlib.sha256(written.lower().encode()).digest()[0] * 100 // 256
    return "test" if percent < 20 else "dev" if percent < 30 else "train"


_SAMPLE_RATE: Final = 48_000  # Hz, as in CoRal
_SUBSETS: Final = {"read_aloud": 0.75, "conversation": 0.25}  # shares of every split
_SPLITS: Final = {"train": "train", "val": "dev", "test": "test"}  # ours by CoRal's names
_ROWS_PER_FILE: Final = 500
_ROWS_PER_SPEAKER: Final = {"train": 30, "dev": 8, "test": 8}

SIZES: Final = {"train": 4000, "dev": 160, "test": 400}
"""About how many utterances each split has: what the demo's model needs."""


class _File(NamedTuple):
    """One file of the corpus, made in a process of its own, because eSpeak NG has state."""

    path: Path
    subset: str
    split: str
    utterances: list[tuple[int, SyntheticSpeaker]]


def synthesise(folder: Path, *, sizes: Mapping[str, int] = SIZES, workers: int = 1) -> None:
    """Make the files of the corpus that are missing; another size needs another folder."""
    find_espeak()
    files = [file for file in _plan(folder, sizes) if not file.path.is_file()]
    made = run_in_processes(_write_file, files, workers, fresh=True)
    for _ in track(made, "synthesising files", len(files)):
        pass
    sweep(folder)


def open_synthetic(location: str, options: ConvertOptions, listing: Listing) -> Source:
    """Open a synthetic corpus; its speech is made first if it is missing."""
    synthesise(Path(location), workers=usable_cpus())
    return open_parquet(location, options, listing)


def _plan(folder: Path, sizes: Mapping[str, int]) -> Iterator[_File]:
    for subset, share in _SUBSETS.items():
        for name, split in _SPLITS.items():
            random = Random(f"1/{subset}/{split}")  # noqa: S311 - not for cryptography
            speakers = _draw_speakers(random, subset, split, sizes[split] * share)
            utterances = list(enumerate(speakers))
            parts = max(1, math.ceil(len(utterances) / _ROWS_PER_FILE))
            for part in range(parts):
                path = folder / subset / f"{name}-{part:05d}-of-{parts:05d}.parquet"
                yield _File(path, subset, split, utterances[part::parts])


def _draw_speakers(random: Random, subset: str, split: str, rows: float) -> list[SyntheticSpeaker]:
    """The speaker of each utterance; in dev and test, every dialect has 3 % of the rows."""
    is_train = split == "train"
    total = sum(voice.share for voice in DIALECT_VOICES.values())
    drawn: list[SyntheticSpeaker] = []
    for number, (dialect, voice) in enumerate(DIALECT_VOICES.items()):
        share = max(voice.share / total, 0.0 if is_train else 0.03)
        own = max(1, round(rows * share))
        count = max(1 if is_train else len(AGE_GROUPS), round(own / _ROWS_PER_SPEAKER[split]))
        speakers = []
        for index in range(count):
            # Every age group is in dev and test.
            age_group = None if is_train or index >= len(AGE_GROUPS) else index
            id_ = f"spe_{subset}_{split}_{number}{index:03d}"
            speakers.append(draw_speaker(random, id_, dialect, age_group))
        drawn += [speakers[index % count] for index in range(own)]
    random.shuffle(drawn)
    return drawn


def _write_file(file: _File) -> None:
    espeak = Espeak()
    rows = [_row(espeak, file, number, speaker) for number, speaker in file.utterances]
    with publish(file.path) as stream:
        pq.write_table(pa.Table.from_pylist(rows), stream, row_group_size=100)


def _row(espeak: Espeak, file: _File, number: int, speaker: SyntheticSpeaker) -> dict[str, Any]:
    random = Random(f"1/{file.subset}/{file.split}/{number}")  # noqa: S311 - not for cryptography
    conversation = file.subset == "conversation"
    text = draw_sentence(random, file.split, conversation=conversation)
    speech = espeak.speak(speak(text), speaker)
    # As the speaker's device records it: with white noise, at its own level.
    noise = np.random.default_rng(random.getrandbits(64))
    # Up to a quarter of a second of silence before half of the utterances, and after half.
    silence = [max(0, round(random.uniform(-0.25, 0.25) * espeak.sample_rate)) for _ in range(2)]
    level = float(np.sqrt(np.mean(speech**2))) * 10 ** (-speaker.noise_db / 20)
    padded = np.pad(speech, silence)
    mixed = padded + level * noise.standard_normal(len(padded), np.float32)
    gain = 10 ** (-speaker.gain_db / 20) / max(1e-6, float(np.abs(mixed).max()))
    recorded = (mixed * np.float32(0.95 * gain)).astype(np.float32)
    audio = io.BytesIO()
    resampled = soxr.resample(recorded, espeak.sample_rate, _SAMPLE_RATE, quality="HQ")
    soundfile.write(audio, resampled, _SAMPLE_RATE, format="FLAC", subtype="PCM_16")
    ids: dict[str, Any] = {"id_recording": f"rec_{file.split}_{number:06d}"}
    if conversation:
        conversation_id = f"con_{file.split}_{number // 20:05d}"
        ids = {"id_conversation": conversation_id, "id_segment": number % 20}
    name = f"{file.subset}_{file.split}_{number:06d}.flac"
    return ids | speaker.row | {"text": text, "audio": {"bytes": audio.getvalue(), "path": name}}
