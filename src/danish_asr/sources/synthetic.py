"""Make a synthetic corpus with CoRal's columns, so that the code for CoRal converts it.

The audio is that of a speech synthesiser, the speakers are invented: enough to try every step
within minutes, and no basis for statements about people. Speakers and sentences are disjoint
between the splits. A seed fixes every byte::

    danish-asr synthesize data/synthetic --train 4000 --seed 1
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
import soxr
from numpy.typing import NDArray
from rich.console import Console

from danish_asr.errors import ConfigError, SourceError
from danish_asr.files import publish, publish_first, sweep
from danish_asr.sources.sentences import draw_sentence
from danish_asr.sources.voices import (
    AGES,
    DIALECT_VOICES,
    Espeak,
    SyntheticSpeaker,
    draw_speaker,
    find_espeak,
)
from danish_asr.workers import run_in_processes

SAMPLE_RATE: Final = 48_000
"""Hz, as in CoRal."""

MARKER_FILE: Final = "synthetic.json"
"""Seed and size of the corpus in a folder."""

SUBSETS: Final = {"read_aloud": 0.75, "conversation": 0.25}
"""The subsets, and the share of each in every split."""

_SPLITS: Final = {"train": "train", "val": "dev", "test": "test"}
"""CoRal's names for our splits."""

_ROWS_PER_FILE: Final = 500
_ROWS_PER_SPEAKER: Final = {"train": 30, "dev": 8, "test": 8}
_MIN_SHARE: Final = 0.03
"""In dev and test, every dialect has at least this share of the rows."""

_SPEAKER: Final = ("age", "gender", "dialect", "country_birth")
_PLACE: Final = ("location", "location_roomdim", "noise_level", "noise_type")
_CHECKS: Final = ("asr_prediction", "asr_validation_model", "asr_wer", "asr_cer")
_COLUMNS: Final = {
    "read_aloud": (
        *("id_recording", "id_sentence", "id_speaker", "text", *_PLACE, "source_url", *_SPEAKER),
        *("validated", "audio", *_CHECKS),
    ),
    "conversation": (
        *("id_conversation", "id_segment", "id_speaker", *_SPEAKER, "education", "occupation"),
        *(*_PLACE, "text", "audio"),
    ),
}
"""CoRal's columns; those without a value here are null."""

_TYPES: Final = {
    "age": pa.int64(),
    "audio": pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    "id_segment": pa.int64(),
    "asr_wer": pa.float64(),
    "asr_cer": pa.float64(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSize:
    """Utterances of each split, both subsets together.

    The corpus has about as many: each dialect has a whole number of them, and at least some.
    """

    train: int = 4000
    dev: int = 160
    test: int = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """One file of the corpus, made in a process of its own, because eSpeak NG has state."""

    path: Path
    subset: str
    split: str
    seed: str
    utterances: tuple[tuple[int, SyntheticSpeaker], ...] = field(repr=False)


def synthesise(
    folder: Path, *, size: SyntheticSize | None = None, seed: int = 1, workers: int = 1
) -> None:
    """Make the corpus, or the files that are missing.

    Args:
        folder: Where the Parquet files go: ``<subset>/<split>-00000-of-00001.parquet``.
        size: Utterances per split.
        seed: Fixes speakers, sentences and every byte of audio.
        workers: Processes that share the work; the bytes do not depend on them.

    Raises:
        SourceError: The folder holds a corpus of another seed or size.
        ConfigError: Numbers are out of range; all of them are listed.
        MissingExtraError: eSpeak NG is not installed.
    """
    size = size or SyntheticSize()
    least = {f"--{key}": (rows, 0) for key, rows in asdict(size).items()}
    least["--workers"] = (workers, 1)
    if faults := [
        f"{key}: at least {low}; found {found}"
        for key, (found, low) in least.items()
        if found < low
    ]:
        raise ConfigError(faults, where="the command line")
    find_espeak()
    made = {"seed": seed, **asdict(size)}
    _claim(folder, json.dumps(made))
    files = [file for file in _plan(folder, made) if not file.path.is_file()]
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for path in run_in_processes(_write_file, files, min(workers, len(files)), fresh=True):
        console.print(f"synthesised {path}")
    sweep(folder)


def _claim(folder: Path, made: str) -> None:
    """Write seed and size before the first file, so that two corpora are never mixed."""
    marker = folder / MARKER_FILE
    if not marker.is_file():
        publish_first(marker, made + "\n")
    found = marker.read_text(encoding="utf-8").strip()
    if found != made:
        raise SourceError(
            f"{folder}: holds a synthetic corpus of {found}, not {made}; choose another folder or "
            "delete it"
        )


def _plan(folder: Path, made: Mapping[str, int]) -> Iterator[_File]:
    for subset, share in SUBSETS.items():
        for name, split in _SPLITS.items():
            seed = f"{made['seed']}/{subset}/{split}"
            speakers = _draw_speakers(_random(seed), subset, split, made[split] * share)
            utterances = list(enumerate(speakers))
            parts = max(1, math.ceil(len(utterances) / _ROWS_PER_FILE))
            for part in range(parts):
                yield _File(
                    path=folder / subset / f"{name}-{part:05d}-of-{parts:05d}.parquet",
                    subset=subset,
                    split=split,
                    seed=seed,
                    utterances=tuple(utterances[part::parts]),
                )


def _draw_speakers(random: Random, subset: str, split: str, rows: float) -> list[SyntheticSpeaker]:
    """The speaker of each utterance of a split of a subset."""
    least = 0.0 if split == "train" else rows * _MIN_SHARE
    total = sum(voice.share for voice in DIALECT_VOICES.values())
    drawn: list[SyntheticSpeaker] = []
    for number, (dialect, voice) in enumerate(DIALECT_VOICES.items()):
        own = max(1, round(max(rows * voice.share / total, least)))
        groups = [None] if split == "train" else list(range(len(AGES)))
        count = max(len(groups), round(own / _ROWS_PER_SPEAKER[split]))
        speakers = [
            draw_speaker(
                random,
                f"spe_{subset}_{split}_{number}{index:03d}",
                dialect,
                groups[index] if index < len(groups) else None,
            )
            for index in range(count)
        ]
        drawn += [speakers[index % count] for index in range(own)]
    random.shuffle(drawn)
    return drawn


def _random(seed: str) -> Random:
    return Random(seed)  # noqa: S311 - not for cryptography


def _write_file(file: _File) -> Path:
    espeak = Espeak()
    rows = [_row(espeak, file, number, speaker) for number, speaker in file.utterances]
    schema = pa.schema([(name, _TYPES.get(name, pa.string())) for name in _COLUMNS[file.subset]])
    with publish(file.path) as stream:
        pq.write_table(
            pa.Table.from_pylist(rows, schema), stream, row_group_size=100, compression="snappy"
        )
    return file.path


def _row(espeak: Espeak, file: _File, number: int, speaker: SyntheticSpeaker) -> dict[str, Any]:
    """One row of the file; columns that are missing here are null."""
    random = _random(f"{file.seed}/{number}")
    conversation = file.subset == "conversation"
    sentence = draw_sentence(random, file.split, conversation=conversation)
    speech = espeak.speak(sentence.spoken, speaker)
    audio = _encode(_record(speech, speaker, random), espeak.sample_rate)
    name = f"{file.subset}_{file.split}_{number:06d}"
    ids = (
        {"id_conversation": f"con_{file.split}_{number // 20:05d}", "id_segment": number % 20}
        if conversation
        else {"id_recording": f"rec_{file.split}_{number:06d}", "validated": "validated"}
    )
    return ids | {
        "id_speaker": speaker.id,
        "text": sentence.written,
        "age": speaker.age,
        "gender": speaker.gender,
        "dialect": speaker.sub_dialect,
        "country_birth": speaker.country_birth,
        "noise_level": f"{-speaker.noise_db:.1f}",
        "noise_type": "synthetic white noise",
        "audio": {"bytes": audio, "path": f"{name}.flac"},
    }


def _record(
    speech: NDArray[np.float32], speaker: SyntheticSpeaker, random: Random
) -> NDArray[np.float32]:
    """The speech as the speaker's device records it: with white noise, at its own level."""
    noise = np.random.default_rng(random.getrandbits(64)).standard_normal(len(speech), np.float32)
    level = float(np.sqrt(np.mean(speech**2))) * 10 ** (-speaker.noise_db / 20)
    mixed = speech + level * noise
    gain = 10 ** (-speaker.gain_db / 20) / max(1e-6, float(np.abs(mixed).max()))
    return (mixed * np.float32(0.95 * gain)).astype(np.float32)


def _encode(samples: NDArray[np.float32], rate: int) -> bytes:
    file = io.BytesIO()
    resampled = soxr.resample(samples, rate, SAMPLE_RATE, quality="HQ")
    soundfile.write(file, resampled, SAMPLE_RATE, format="FLAC", subtype="PCM_16")
    return file.getvalue()
