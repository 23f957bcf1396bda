"""Throughput of the reader beside upstream's, on the same Parquet files, in one run.

    python benchmarks/loader.py [HOURS]

Writes HOURS (default 6) of tones in 16 kHz FLAC to a temporary directory, utterances of 1 to 20 s
and of 2 s, and reads them several times over with each reader, in processes of their own; ours once
more with each built-in transform, on every utterance. ``x real time`` is seconds of
audio per second of processor time (all threads), from opening the reader on; only the ratio of two
lines of one run says something. Padding is the share of padded samples. At last our reader's memory
over 100,000 small batches.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
import torch
from omnilingual_asr.datasets.impl.mixture_parquet_asr_dataset import MixtureParquetAsrDataset
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.base import native  # noqa: F401 - libsndfile before fairseq2's native half
from danish_asr.base.audio import encode_flac, peak_of
from danish_asr.base.schema import (
    ROW_GROUP_SIZE,
    SAMPLE_RATE,
    UTTERANCE_SCHEMA,
    VERSION_DIR,
    partition_dir,
)
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.recipe.config.schema import DatasetSection, TaskSection
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.recipe.data.reader import create_reader

# isort: split
from fairseq2.data.tokenizers.char import load_char_tokenizer
from fairseq2.datasets import DataReader, Seq2SeqBatch
from fairseq2.gang import FakeGang, Gangs

ROUNDS = 3
EPOCHS = 4
MEMORY_BATCHES = 100_000
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


def main() -> None:
    """Build the data, measure every reader on it, print the table."""
    if sys.argv[1:2] in (["--measure"], ["--memory"]):
        work = measure if sys.argv[1] == "--measure" else measure_memory
        work(sys.argv[2], Path(sys.argv[3]))
        return
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0
    with tempfile.TemporaryDirectory() as folder:
        for name, (shortest, longest) in LENGTHS.items():
            root = Path(folder, name.replace(" ", "_"))
            write_dataset(root, hours, shortest, longest)
            write_recordings(root)
            rounds = [{reader: run(reader, root) for reader in READERS} for _ in range(ROUNDS)]
            results = {reader: [one[reader] for one in rounds] for reader in READERS}
            report(name, results)
        root = Path(folder, "short")
        write_dataset(root, 0.5, 0.5, 0.5)
        subprocess.run([sys.executable, __file__, "--memory", "ours", str(root)], check=True)  # noqa: S603


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
    flac = encode_flac(mono, SAMPLE_RATE, peak_of(mono))
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
    command = [sys.executable, __file__, "--measure", reader, str(root)]
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
    batches = iter(open_reader(reader, root))
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


def measure_memory(reader: str, root: Path) -> None:
    """Read MEMORY_BATCHES batches of two short rows and print the resident memory on the way."""
    source = open_reader(reader, root, max_elements=SAMPLE_RATE)
    shown = []
    for number in range(1, MEMORY_BATCHES + 1):
        if next(source, None) is None:
            source.reset()
            next(source)
        if number % (MEMORY_BATCHES // 5) == 0:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            shown.append(f"{number:,}: {pages * resource.getpagesize() / 2**20:.0f}")
    print(f"resident MiB after batches: {', '.join(shown)}")


def open_reader(
    reader: str, root: Path, *, max_elements: int = MAX_ELEMENTS
) -> DataReader[Seq2SeqBatch]:
    """Either reader with the same settings, in training."""
    settings: dict[str, Any] = {
        "max_audio_len": MAX_LENGTH,
        "max_num_elements": max_elements,
        "example_shuffle_window": 1,
        "batch_shuffle_window": 1,
        "normalize_audio": True,
    }
    one = FakeGang(torch.device("cpu"))
    gangs = Gangs(root=one, dp=one, rdp=one, sdp=one, tp=one, pp=one)
    model = root / "characters.model"
    model.write_bytes(build_char_tokenizer("hej med dig"))
    tokenizer = load_char_tokenizer(model, None)
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
    return create_reader(
        DanishAsrDataset(root).read_index("train").with_targets("raw"),
        section,
        tokenizer=tokenizer,
        gangs=gangs,
        dtype=torch.float32,
        num_accumulate=1,
        training=True,
        seed=1,
    )


if __name__ == "__main__":
    main()
