"""The reader beside upstream's, and the index of millions of rows.

    python benchmarks/reading.py [HOURS]
    python benchmarks/reading.py index [ROWS]

The first writes HOURS (default 6) of tones in 16 kHz FLAC to a temporary directory, utterances of
1 to 20 s and of 2 s, and reads them several times over with each reader, in processes of their own;
ours once more with each built-in transform, on every utterance. ``x real time`` is seconds of
audio per second of processor time (all threads), from opening the reader on; only the ratio of two
lines of one run says something. Padding is the share of padded samples.

The second writes a dataset of ROWS rows (default 5,200,000; lengths of 1 to 20 s, audio of one
byte) and measures index, batches and filters in a process of its own: seconds of each stage, the
highest memory of the process until then, and how much of its present memory is its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
import torch
from omnilingual_asr.datasets.impl.mixture_parquet_asr_dataset import MixtureParquetAsrDataset
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.base import native  # noqa: F401 - libsndfile before fairseq2's native half
from danish_asr.base.audio import encode_flac
from danish_asr.base.schema import (
    ROW_GROUP_SIZE,
    SAMPLE_RATE,
    VERSION_DIR,
    partition_dir,
)
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.corpus.rows import UTTERANCE_SCHEMA
from danish_asr.recipe.config.schema import AsrConfig, CommonSection, DatasetSection, TaskSection
from danish_asr.recipe.data import sampler
from danish_asr.recipe.data.index import DanishAsrDataset, Index
from danish_asr.recipe.data.reader import ReaderSetup, open_reader
from danish_asr.recipe.data.targets import (
    FrameCount,
    Targets,
    count_unknown,
    frames_needed,
    select_rows,
)

# isort: split
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.data.tokenizers.char import load_char_tokenizer
from fairseq2.datasets import DataReader, Seq2SeqBatch
from fairseq2.gang import FakeGang, Gangs

ROUNDS = 3
EPOCHS = 4
# Of upstream's ctc-finetune.yaml.
MAX_ELEMENTS = 960_000
MAX_LENGTH = 960_000
LENGTHS = {"2 s": (2.0, 2.0), "1 to 20 s": (1.0, 20.0)}
TRANSFORMS: dict[str, dict[str, object]] = {
    "noise": {"folder": "noise"},
    "reverb": {"folder": "rooms"},
    "spec_augment": {"probability": 1.0},
}
READERS = ("ours", "upstream", "speed", *TRANSFORMS)

ROWS_PER_SHARD = 50_000
CHARACTERS_PER_SECOND = 14
SENTENCE = (
    "det er en god dag og vi går ned til søen for at se på bådene når solen skinner over øen "
)
DIALECTS = ("Østjysk", "Sjællandsk", "Nordjysk", "Københavnsk", "Vestjysk", "Fynsk", "Bornholmsk")

Result = TypeVar("Result")


def main() -> None:
    """Build the data, measure on it in processes of their own, print a table."""
    what, *arguments = sys.argv[1:] or ["6"]
    if what == "--read":
        measure(arguments[0], Path(arguments[1]))
    elif what == "--index":
        measure_index(Path(arguments[0]))
    elif what == "index":
        with tempfile.TemporaryDirectory() as folder:
            write_rows(Path(folder), int(arguments[0]) if arguments else 5_200_000)
            subprocess.run([sys.executable, __file__, "--index", folder], check=True)  # noqa: S603
    else:
        compare_readers(float(what))


def compare_readers(hours: float) -> None:
    """Print a table for each kind of lengths."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (shortest, longest) in LENGTHS.items():
            root = Path(folder, name.replace(" ", "_"))
            write_dataset(root, hours, shortest, longest)
            write_recordings(root)
            rounds = [{reader: run(reader, root) for reader in READERS} for _ in range(ROUNDS)]
            results = {reader: [one[reader] for one in rounds] for reader in READERS}
            report(name, results)


def write_dataset(root: Path, hours: float, shortest: float, longest: float) -> None:
    """One partition of vowel-like tones over soft noise, about as compressible as speech."""
    rng = np.random.default_rng(0)
    folder = partition_dir(root, "noise", "train", "dan_Latn")
    folder.mkdir(parents=True)
    left = hours * 3600
    rows: list[dict[str, object]] = []
    while left > 0:
        seconds = rng.uniform(shortest, longest)
        rows.append(make_row(len(rows), seconds, rng))
        left -= seconds
    for number in range(2):
        pq.write_table(
            pa.Table.from_pylist(rows[number::2], UTTERANCE_SCHEMA),
            folder / f"part-{number:05}-of-00002.parquet",
            row_group_size=ROW_GROUP_SIZE,
            compression=dict.fromkeys(UTTERANCE_SCHEMA.names, "zstd") | {"audio_bytes": "none"},
            use_dictionary=["speaker_id", "dialect"],
        )


def write_recordings(root: Path) -> None:
    """Noise of 30 s and an impulse response of 0.5 s, for the transforms."""
    rng = np.random.default_rng(1)
    for name, seconds in (("noise", 30.0), ("rooms", 0.5)):
        wave = rng.normal(0, 0.1, int(seconds * SAMPLE_RATE))
        wave *= np.exp(-np.linspace(0, 7, len(wave))) if name == "rooms" else 1
        (root / name).mkdir()
        soundfile.write(root / name / "0.wav", wave, SAMPLE_RATE)


def make_row(number: int, seconds: float, rng: np.random.Generator) -> dict[str, object]:
    """An utterance with a text of 10 characters a second."""
    samples = int(seconds * SAMPLE_RATE)
    moment = np.arange(samples) / SAMPLE_RATE
    pitch = rng.uniform(80, 250) * (1 + 0.1 * np.sin(2 * np.pi * moment))
    wave = sum(np.sin(2 * np.pi * k * np.cumsum(pitch) / SAMPLE_RATE) / k for k in range(1, 4))
    wave = 0.1 * wave * np.sin(np.pi * 3 * moment) ** 2 + rng.normal(0, 0.002, samples)
    mono = wave.astype(np.float32)
    flac = encode_flac(mono)
    return {
        "id": f"noise-{number}",
        "text": ("hej med dig " * 20)[: int(seconds * 10)],
        "audio_bytes": flac,
        "audio_size": samples,
        "encoded_size": len(flac),
        "speaker_id": f"speaker{number % 50}",
        "dialect": "Fynsk",
    }


def run(reader: str, root: Path) -> dict[str, float]:
    """Measure one reader in a process of its own."""
    command = [sys.executable, __file__, "--read", reader, str(root)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    measured: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return measured


def report(name: str, results: dict[str, list[dict[str, float]]]) -> None:
    """Print the medians of all rounds, a line per reader."""
    print(f"utterances of {name}, median of {ROUNDS} rounds")
    best = {}
    for reader, rounds in results.items():
        middle = {key: float(np.median([one[key] for one in rounds])) for key in rounds[0]}
        best[reader] = middle["per_core"]
        print(
            f"  {reader:14} {middle['per_core']:8,.0f} x real time per core-second "
            f"{middle['wall']:8,.0f} x by the clock   padding {middle['padding']:6.2%}   "
            f"memory {middle['memory']:5.2f} GiB"
        )
    shares = (f"{name} {best[name] / best['ours']:.2f}" for name in ("speed", *TRANSFORMS))
    print(f"  ratio per core-second: {best['ours'] / best['upstream']:.2f}; of ours remain with")
    print(f"  {', '.join(shares)}")


def measure(reader: str, root: Path) -> None:
    """Read about one epoch and print a JSON object."""
    batches = iter(reader_of_kind(reader, root))
    next(batches)
    wanted = 0.9 * sum(
        pq.read_table(path, columns=["audio_size"], partitioning=None)["audio_size"]
        .to_numpy()
        .sum()
        for path in root.rglob("*.parquet")
    )
    clock, processor, samples, padded = time.perf_counter(), time.process_time(), 0, 0
    for step in batches:
        for batch in step:
            samples += sum(batch.source_seq_lens)
            padded += batch.source_seqs.numel()
        if samples >= wanted:
            break
    seconds = samples / SAMPLE_RATE
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    measured = {
        "per_core": seconds / (time.process_time() - processor),
        "wall": seconds / (time.perf_counter() - clock),
        "padding": 1 - samples / padded,
        "memory": memory,
    }
    print(json.dumps(measured), flush=True)
    # Upstream's stream never ends, and neither do its threads.
    os._exit(0)


def reader_of_kind(reader: str, root: Path) -> DataReader[Seq2SeqBatch]:
    """Either reader with the same settings, in training."""
    settings: dict[str, Any] = {
        "max_audio_len": MAX_LENGTH,
        "max_num_elements": MAX_ELEMENTS,
        "example_shuffle_window": 1,
        "batch_shuffle_window": 1,
        "normalize_audio": True,
    }
    one = FakeGang(torch.device("cpu"))
    gangs = Gangs(root=one, dp=one, rdp=one, sdp=one, tp=one, pp=one)
    tokenizer = tokenizer_of("hej med dig")
    if reader == "upstream":
        theirs: DataReader[Seq2SeqBatch] = MixtureParquetAsrDataset(
            root / VERSION_DIR
        ).create_reader(
            *("train", tokenizer, gangs, torch.float32, 1),
            *(MixtureParquetStorageConfig(), AsrTaskConfig(**settings)),
        )
        return theirs
    transforms: list[dict[str, object]] = []
    if reader in TRANSFORMS:
        transforms = [{"name": reader, **TRANSFORMS[reader]}]
        if folder := transforms[0].get("folder"):
            transforms[0]["folder"] = str(root / str(folder))
    section = DatasetSection(asr_task_config=TaskSection(**settings), transforms=transforms)
    if reader == "speed":
        section.speed_factors = [0.9, 1.0, 1.1]
    config = AsrConfig(dataset=section, common=CommonSection(seed=1))
    config.trainer.grad_accumulation.num_batches = 1
    index = DanishAsrDataset(root).read_index("train").with_targets("raw")
    return open_reader(ReaderSetup(tokenizer, gangs, FrameCount()), config, index, training=True)


def write_rows(root: Path, rows: int) -> None:
    """Shards of two corpora with the contract's columns; only the audio is a stand-in."""
    rng = np.random.default_rng(0)
    for number, begin in enumerate(range(0, rows, ROWS_PER_SHARD)):
        corpus = "read_aloud" if number % 4 else "conversation"
        table = index_rows(corpus, range(begin, min(begin + ROWS_PER_SHARD, rows)), rng)
        folder = partition_dir(root, corpus, "train", "dan_Latn")
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            table,
            folder / f"part-{number:05}.parquet",
            row_group_size=ROW_GROUP_SIZE,
            compression=dict.fromkeys(table.column_names, "zstd") | {"audio_bytes": "none"},
            use_dictionary=["speaker_id", "dialect", "age_group", "gender"],
        )


def index_rows(corpus: str, numbers: range, rng: np.random.Generator) -> pa.Table:
    """Rows whose texts are as long as their audio."""
    count = len(numbers)
    seconds = rng.uniform(1, 20, count)
    text = " ".join(rng.choice(SENTENCE.split(), 20_000))
    starts = rng.integers(0, len(text) - 20 * CHARACTERS_PER_SECOND, count)
    columns = {
        "id": [f"{corpus}_{number:08}" for number in numbers],
        "text": [
            text[start : start + int(duration * CHARACTERS_PER_SECOND)]
            for start, duration in zip(starts, seconds, strict=True)
        ],
        "audio_bytes": [b"x"] * count,
        "audio_size": (seconds * SAMPLE_RATE).astype(np.int64),
        "encoded_size": np.ones(count, np.int32),
        "speaker_id": [f"spe_{speaker:05}" for speaker in rng.integers(0, 3_000, count)],
        "dialect": rng.choice(DIALECTS, count).tolist(),
        "age_group": rng.choice(["0-24", "25-49", "50+"], count).tolist(),
        "gender": rng.choice(["female", "male"], count).tolist(),
    }
    return pa.table(
        {
            field.name: pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in UTTERANCE_SCHEMA
        },
        schema=UTTERANCE_SCHEMA,
    )


def measure_index(root: Path) -> None:
    """Index, batches of an epoch, then what looks at the texts."""
    index = timed("index", lambda: DanishAsrDataset(root).read_index("train"))
    section = DatasetSection(asr_task_config=TaskSection(max_num_elements=3_840_000))
    rows = np.arange(len(index), dtype=np.int32)
    batches = timed(
        "batches of one epoch",
        lambda: sampler.training_batches(
            index.lengths, index.rows["_group"].to_numpy(), rows, section, seed=1, epoch=0
        ),
    )
    hours = index.lengths.sum() / SAMPLE_RATE / 3600
    print(
        f"{len(index):,} rows, {hours:,.0f} h, {len(batches):,} batches, "
        f"padding {batches.padding(index.lengths):.1%}"
    )
    measure_texts(index)


def measure_texts(index: Index) -> None:
    """Filters, digest and the count of unknown symbols."""
    targets = Targets(tokenizer_of(SENTENCE.replace("ø", "")))
    index = index.with_targets("raw")
    frames = FrameCount()(index.lengths)
    needed = timed("bounds", lambda: frames_needed(index, targets, frames))
    kept, _ = timed("filters", lambda: select_rows(index, TaskSection(), needed, frames))
    timed("digest", lambda: index.digest(kept))
    unknown = timed("unknown symbols", lambda: count_unknown(index, targets))
    print(f"{len(kept):,} rows kept, {unknown.share:.1%} of the characters unknown")


def tokenizer_of(characters: str) -> Tokenizer:
    """A tokenizer of these characters."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "characters.model")
        path.write_bytes(build_char_tokenizer(characters))
        return load_char_tokenizer(path, None)


def timed(what: str, work: Callable[[], Result]) -> Result:
    """Run the stage and print its line."""
    begin, cpu = time.perf_counter(), time.process_time()
    result = work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (own,) = (int(line.split()[1]) / 2**20 for line in status if line.startswith("RssAnon"))
    seconds, processor = time.perf_counter() - begin, time.process_time() - cpu
    print(
        f"{what:30} {seconds:7.2f} s {processor:7.2f} s of CPU   peak {peak:5.2f} GiB   "
        f"own {own:5.2f} GiB",
        flush=True,
    )
    return result


if __name__ == "__main__":
    main()
