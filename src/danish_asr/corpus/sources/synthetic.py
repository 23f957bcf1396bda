"""Make a synthetic corpus with CoRal's columns, so that the code for CoRal converts it.

Speech synthesiser and invented speakers: enough to try every step within minutes, and no basis for
statements about people. Speakers and sentences are disjoint between splits. A seed fixes each byte.
"""

import hashlib
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, repeat
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
import soxr
from numpy.typing import NDArray
from rich.console import Console

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import SourceError
from danish_asr.base.files import publish, publish_text, sweep
from danish_asr.base.workers import run_in_processes
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.rows import Source
from danish_asr.corpus.sources import voices
from danish_asr.corpus.sources.parquet import open_parquet
from danish_asr.text.numerals import spell_numerals

OPENERS: Final = ("ja", "nej", "så", "øh", "men", "og så")
"""The first words of utterances in conversations; "øh" is a filler, which scoring removes."""

_NAMES = "Anna", "Bo", "Freja", "Søren", "Kåre", "Mette", "Åse", "Jonas", "Ida", "Lærke"
_NUMERALS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 20, 21, 25, 50, 75, 100)
_WORDS: Final = {
    "opener": OPENERS,
    "name": _NAMES,
    "other": _NAMES,
    "verb": ("køber", "sælger", "finder", "henter", "tæller", "maler", "vasker", "låner"),
    "numeral": _NUMERALS,
    "price": _NUMERALS,
    "adjective": ("røde", "små", "gamle", "nye", "blå", "grønne", "store", "pæne"),
    "noun": ("æbler", "biler", "bøger", "både", "heste", "køer", "pærer", "stole", "kager", "får"),
    "place": ("i Aarhus", "på Fyn", "i Ribe", "på Møn", "i Skagen", "i Køge", "på Ærø", "i Odense"),
}

_READ_ALOUD: Final = (
    "{name} {verb} {numeral} {adjective} {noun}",
    "{name} {verb} {adjective} {noun} {place}",
    "{numeral} % af alle {noun} {place} er {adjective}",
    "{name} og {other} {verb} {numeral} {noun}",
    "{numeral} {adjective} {noun} koster {price} kroner",
)
_CONVERSATION: Final = (
    "{opener} jeg {verb} {numeral} {noun} {place}",
    "{opener} {name} {verb} {adjective} {noun}",
    "{opener} {name} og {other} bor {place}",
    "{opener} {adjective} {noun} koster {price} kroner",
)


def draw_sentence(random: Random, split: str, *, conversation: bool) -> str:
    """Draw a sentence of a split, as it is written; some have digits and ``%``."""
    # The order of the draws fixes the bytes of the corpus: these words, the template, the others.
    kinds = "opener noun place" if conversation else "name noun place numeral adjective"
    choices: Mapping[str, Sequence[str | int]] = _WORDS
    templates: Sequence[str] = _CONVERSATION if conversation else _READ_ALOUD
    while True:
        words = {kind: random.choice(choices[kind]) for kind in kinds.split()}
        template = random.choice(templates)
        for kind in re.findall(r"\w+(?=})", template):
            if kind not in words:
                words[kind] = random.choice(choices[kind])
        written = template.format(**words)
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
_SUBSETS: Final = {"read_aloud": 0.75, "conversation": 0.25}
"""The share of each subset in every split."""

_SPLITS: Final = {"train": "train", "val": "dev", "test": "test"}
"""CoRal's names for our splits."""

_SILENCE: Final = (-0.25, 0.25)
"""Seconds before and after the speech; below 0 there is none."""

_ROWS_PER_FILE: Final = 500
_ROWS_PER_SPEAKER: Final = {"train": 30, "dev": 8, "test": 8}
_SPEAKER: Final = ("age", "gender", "dialect", "country_birth")
_PLACE: Final = ("location", "location_roomdim", "noise_level", "noise_type")
_CHECKS: Final = ("asr_prediction", "asr_validation_model", "asr_wer", "asr_cer")
_IDS: Final = ("id_recording", "id_sentence", "id_speaker")
_COLUMNS: Final = {
    "read_aloud": (*_IDS, "text", *_PLACE, "source_url", *_SPEAKER, "validated", "audio", *_CHECKS),
    "conversation": (
        *("id_conversation", "id_segment", "id_speaker", *_SPEAKER, "education", "occupation"),
        *(*_PLACE, "text", "audio"),
    ),
}
"""CoRal's columns; those without a value here are null."""

_TYPES: Final = {
    "audio": pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    **dict.fromkeys(("age", "id_segment"), pa.int64()),
    **dict.fromkeys(("asr_wer", "asr_cer"), pa.float64()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSize:
    """About how many utterances each split has; the default is what the demo's model needs."""

    train: int = 4000
    dev: int = 160
    test: int = 400


class _File(NamedTuple):
    """One file of the corpus, made in a process of its own, because eSpeak NG has state."""

    path: Path
    subset: str
    split: str
    seed: str
    utterances: list[tuple[int, voices.SyntheticSpeaker]]


def synthesise(folder: Path, *, size: SyntheticSize, seed: int = 1, workers: int = 1) -> None:
    """Make the files of the corpus that are missing.

    Raises:
        SourceError: The folder has a corpus of another seed or size.
    """
    sizes = asdict(size)
    voices.find_espeak()
    # Written before the first file, so that two corpora are never mixed.
    made, marker = json.dumps({"seed": seed, **sizes}), folder / "synthetic.json"
    if not marker.is_file():
        publish_text(marker, made + "\n")
    earlier = marker.read_text(encoding="utf-8").strip()
    if earlier != made:
        raise SourceError(
            f"{folder}: holds a synthetic corpus of {earlier}, not {made}; use another"
        )
    files = [file for file in _plan(folder, sizes, seed) if not file.path.is_file()]
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for path in run_in_processes(_write_file, files, workers, fresh=True):
        console.print(f"synthesised {path}")
    sweep(folder)


def open_synthetic(location: str, options: ConvertOptions) -> Source:
    """Open a synthetic corpus; its speech is made first if it is missing."""
    folder = Path(location)
    if not (folder / "synthetic.json").is_file():
        synthesise(folder, size=SyntheticSize(), workers=usable_cpus())
    return open_parquet(location, options)


def _plan(folder: Path, sizes: Mapping[str, int], seed: int) -> Iterator[_File]:
    for subset, share in _SUBSETS.items():
        for name, split in _SPLITS.items():
            own_seed = f"{seed}/{subset}/{split}"
            random = Random(own_seed)  # noqa: S311 - not for cryptography
            speakers = _draw_speakers(random, subset, split, sizes[split] * share)
            utterances = list(enumerate(speakers))
            parts = max(1, math.ceil(len(utterances) / _ROWS_PER_FILE))
            for part in range(parts):
                path = folder / subset / f"{name}-{part:05d}-of-{parts:05d}.parquet"
                yield _File(path, subset, split, own_seed, utterances[part::parts])


def _draw_speakers(
    random: Random, subset: str, split: str, rows: float
) -> list[voices.SyntheticSpeaker]:
    """The speaker of each utterance; in dev and test, every dialect has 3 % of the rows."""
    least = 0.0 if split == "train" else rows * 0.03
    own_voices = voices.DIALECT_VOICES
    total = sum(voice.share for voice in own_voices.values())
    # Every age group is in dev and test.
    groups = [] if split == "train" else list(range(len(voices.AGES)))
    drawn: list[voices.SyntheticSpeaker] = []
    for number, (dialect, voice) in enumerate(own_voices.items()):
        own = max(1, round(max(rows * voice.share / total, least)))
        count = max(1, len(groups), round(own / _ROWS_PER_SPEAKER[split]))
        speakers = [
            voices.draw_speaker(random, f"spe_{subset}_{split}_{number}{index:03d}", dialect, group)
            for index, group in zip(range(count), chain(groups, repeat(None)), strict=False)
        ]
        drawn += [speakers[index % count] for index in range(own)]
    random.shuffle(drawn)
    return drawn


def _write_file(file: _File) -> Path:
    espeak = voices.Espeak()
    rows = [_row(espeak, file, number, speaker) for number, speaker in file.utterances]
    schema = pa.schema([(name, _TYPES.get(name, pa.string())) for name in _COLUMNS[file.subset]])
    table = pa.Table.from_pylist(rows, schema)
    with publish(file.path) as stream:
        pq.write_table(table, stream, row_group_size=100, compression="snappy")
    return file.path


def record(
    speech: NDArray[np.float32],
    speaker: voices.SyntheticSpeaker,
    rng: np.random.Generator,
    silence: tuple[int, int] = (0, 0),
) -> NDArray[np.float32]:
    """Return speech as the speaker's device records it: with white noise, and at its own level.

    Args:
        speech: ``(samples,)`` in [-1, 1].
        speaker: Whose device it is.
        rng: Draws the noise.
        silence: Samples before and after the speech, which have the noise alone.
    """
    level = float(np.sqrt(np.mean(speech**2))) * 10 ** (-speaker.noise_db / 20)
    padded = np.pad(speech, silence)
    mixed = padded + level * rng.standard_normal(len(padded), np.float32)
    gain = 10 ** (-speaker.gain_db / 20) / max(1e-6, float(np.abs(mixed).max()))
    return (mixed * np.float32(0.95 * gain)).astype(np.float32)


def _row(
    espeak: voices.Espeak, file: _File, number: int, speaker: voices.SyntheticSpeaker
) -> dict[str, Any]:
    """One row of the file; columns that are missing here are null."""
    random = Random(f"{file.seed}/{number}")  # noqa: S311 - not for cryptography
    conversation = file.subset == "conversation"
    text = draw_sentence(random, file.split, conversation=conversation)
    speech = espeak.speak(speak(text), speaker)
    seed = random.getrandbits(64)
    before, after = (
        max(0, round(random.uniform(*_SILENCE) * espeak.sample_rate)) for _ in range(2)
    )
    recorded = record(speech, speaker, np.random.default_rng(seed), (before, after))
    audio = io.BytesIO()
    resampled = soxr.resample(recorded, espeak.sample_rate, _SAMPLE_RATE, quality="HQ")
    soundfile.write(audio, resampled, _SAMPLE_RATE, format="FLAC", subtype="PCM_16")
    name = f"{file.subset}_{file.split}_{number:06d}.flac"
    return {  # from_pylist leaves out what is not a column of the subset
        "id_conversation": f"con_{file.split}_{number // 20:05d}",
        "id_segment": number % 20,
        "id_recording": f"rec_{file.split}_{number:06d}",
        "validated": "validated",
        **speaker.row,
        "text": text,
        "noise_level": f"{-speaker.noise_db:.1f}",
        "noise_type": "synthetic white noise",
        "audio": {"bytes": audio.getvalue(), "path": name},
    }
