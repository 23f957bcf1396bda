"""Make a synthetic corpus in CoRal's own shape, so that the code for CoRal converts it.

Real audio of a speech synthesiser with invented speakers: good for trying every step within
minutes, and for nothing that is said about people. Speakers and sentences are disjoint between the
splits. A seed fixes every byte::

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
from rich.progress import track

from danish_asr.errors import ConfigError, SourceError
from danish_asr.files import publish, publish_first, sweep
from danish_asr.sources.espeak import Espeak, find_espeak
from danish_asr.sources.sentences import draw_sentence
from danish_asr.sources.voices import AGES, DIALECT_VOICES, SyntheticSpeaker, draw_speaker
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
_LEAST_SHARE: Final = 0.03
"""Outside training every dialect has at least this share of the rows."""

_AUDIO: Final = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_COLUMNS: Final = {
    "read_aloud": [
        "id_recording",
        "id_sentence",
        "id_speaker",
        "text",
        "location",
        "location_roomdim",
        "noise_level",
        "noise_type",
        "source_url",
        "age",
        "gender",
        "dialect",
        "country_birth",
        "validated",
        "audio",
        "asr_prediction",
        "asr_validation_model",
        "asr_wer",
        "asr_cer",
    ],
    "conversation": [
        "id_conversation",
        "id_segment",
        "id_speaker",
        "age",
        "gender",
        "dialect",
        "country_birth",
        "education",
        "occupation",
        "location",
        "location_roomdim",
        "noise_level",
        "noise_type",
        "text",
        "audio",
    ],
}
_TYPES: Final = {
    "age": pa.int64(),
    "audio": _AUDIO,
    "id_segment": pa.int64(),
    "asr_wer": pa.float64(),
    "asr_cer": pa.float64(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSize:
    """Utterances of each split, both subsets together.

    They are met about: every dialect has a whole number of utterances, and at least some.
    """

    train: int = 4000
    dev: int = 160
    test: int = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """One file of the corpus. It is made in a process of its own, for eSpeak carries state."""

    path: Path
    subset: str
    split: str
    seed: str
    utterances: tuple[tuple[int, SyntheticSpeaker], ...] = field(repr=False)


def synthesise(
    folder: Path, *, size: SyntheticSize | None = None, seed: int = 1, workers: int = 1
) -> None:
    """Make the corpus, or what is missing of it.

    Args:
        folder: Where the Parquet files go: ``<subset>/<split>-00000-of-00001.parquet``.
        size: Utterances per split.
        seed: Fixes speakers, sentences and every byte of audio.
        workers: Processes to share the work; the bytes do not depend on them.

    Raises:
        SourceError: The folder holds a corpus of another seed or size.
        ConfigError: A number is out of its range; all that are, are told.
        MissingExtraError: eSpeak NG is not installed.
    """
    size = size or SyntheticSize()
    _check(size, workers)
    find_espeak()
    made = {"seed": seed, **asdict(size)}
    _claim(folder, made)
    files = [file for file in _plan(folder, made) if not file.path.is_file()]
    console = Console(stderr=True)
    written = run_in_processes(_write_file, files, min(workers, len(files)), fresh=True)
    for path in track(
        written,
        "synthesising speech",
        len(files),
        console=console,
        disable=not console.is_terminal,
    ):
        if not console.is_terminal:
            console.print(f"synthesised {path}", highlight=False, soft_wrap=True)
    sweep(folder)


def _check(size: SyntheticSize, workers: int) -> None:
    faults = [
        f"--{key}: at least 0; found {rows}" for key, rows in asdict(size).items() if rows < 0
    ]
    if workers < 1:
        faults.append(f"--workers: at least 1; found {workers}")
    if faults:
        raise ConfigError(faults, where="the command line")


def _claim(folder: Path, made: Mapping[str, int]) -> None:
    """Note seed and size before anything is made, so that two corpora are never mixed."""
    marker = folder / MARKER_FILE
    if not marker.is_file():
        publish_first(marker, json.dumps(made) + "\n")
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{marker}: cannot be read ({error}), so nobody knows what was begun here; delete "
            f"{folder}, or choose another folder"
        ) from error
    if found != made:
        raise SourceError(
            f"{folder}: holds a synthetic corpus of {_tell(found)}, not {_tell(made)}; "
            "choose another folder or delete it"
        )


def _tell(made: object) -> str:
    if not isinstance(made, dict):
        return str(made)
    return ", ".join(f"{key} {value}" for key, value in made.items())


def _plan(folder: Path, made: Mapping[str, int]) -> Iterator[_File]:
    for subset, share in SUBSETS.items():
        for name, split in _SPLITS.items():
            seed = f"{made['seed']}/{subset}/{split}"
            utterances = list(enumerate(_cast(_random(seed), subset, split, made[split] * share)))
            parts = max(1, math.ceil(len(utterances) / _ROWS_PER_FILE))
            for part in range(parts):
                yield _File(
                    path=folder / subset / f"{name}-{part:05d}-of-{parts:05d}.parquet",
                    subset=subset,
                    split=split,
                    seed=seed,
                    utterances=tuple(utterances[part::parts]),
                )


def _cast(random: Random, subset: str, split: str, rows: float) -> list[SyntheticSpeaker]:
    """Say who speaks each utterance of a split of a subset."""
    least = 0.0 if split == "train" else rows * _LEAST_SHARE
    total = sum(voice.share for voice in DIALECT_VOICES.values())
    cast: list[SyntheticSpeaker] = []
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
        cast += [speakers[index % count] for index in range(own)]
    random.shuffle(cast)
    return cast


def _random(seed: str) -> Random:
    return Random(seed)  # noqa: S311 - a corpus, no cryptography


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
    """One row of the file; the columns that are not named here are null."""
    random = _random(f"{file.seed}/{number}")
    conversation = file.subset == "conversation"
    sentence = draw_sentence(random, file.split, conversation=conversation)
    speech = espeak.say(sentence.spoken, speaker.voice)
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
    """The speech as the speaker's recorder has it: some white noise, and its own level."""
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
