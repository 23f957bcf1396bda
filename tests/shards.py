"""Shards whose rows a test chooses: real FLAC of exact lengths in the dataset contract's layout."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.data.tokenizers.char import load_char_tokenizer
from fairseq2.gang import FakeGang, Gangs

from danish_asr.base.files import publish_json, sha256_of
from danish_asr.base.schema import SAMPLE_RATE, VERSION_DIR
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.corpus.inventory import Inventory, ListedShard, files_of
from danish_asr.corpus.rows import UTTERANCE_SCHEMA
from danish_asr.recipe.config.schema import (
    AsrConfig,
    CommonSection,
    DatasetSection,
    StorageSection,
    TaskSection,
)
from danish_asr.recipe.config.training_sections import AccumulationConfig, TrainerSection
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.recipe.data.reader import BatchReader, ReaderSetup, open_reader
from danish_asr.recipe.data.targets import FrameCount

CPU = torch.device("cpu")
DIALECTS = ("Østjysk", "Fynsk", None)


def waveform(samples: int, seed: int) -> np.ndarray[Any, Any]:
    """Noise that no other seed makes."""
    return np.random.default_rng(seed).normal(0, 0.1, samples).astype(np.float32)


@lru_cache(4096)
def flac(samples: int, seed: int, rate: int = SAMPLE_RATE) -> bytes:
    """A FLAC file of :func:`waveform`."""
    file = io.BytesIO()
    soundfile.write(file, waveform(samples, seed), rate, format="FLAC")
    return file.getvalue()


def utterance(
    number: int, *, corpus: str = "a", split: str = "train", **values: Any
) -> dict[str, Any]:
    """Row ``number`` of a partition; ``values`` replace columns."""
    samples = values.get("audio_size", 8_000 + (number * 1_237) % 16_000)
    return {
        "id": f"{corpus}-{split}-{number}",
        "text": ("hej med dig", "god dag", "vi ses i morgen")[number % 3],
        "audio_bytes": flac(samples, number),
        "audio_size": samples,
        "speaker_id": f"speaker{number % 5}",
        "dialect": DIALECTS[number % len(DIALECTS)],
        "age_group": ("0-24", "25-49", "50+")[number % 3],
        "gender": ("female", "male")[number % 2],
    } | values


def write_shard(
    root: Path,
    rows: Sequence[Mapping[str, Any]],
    *,
    corpus: str = "a",
    split: str = "train",
    name: str = "part-00000-of-00001.parquet",
    drop: Sequence[str] = (),
    **options: Any,
) -> Path:
    """Write one shard; ``options`` go to Parquet's writer."""
    folder = root / VERSION_DIR / f"corpus={corpus}" / f"split={split}" / "language=dan_Latn"
    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([field for field in UTTERANCE_SCHEMA if field.name not in drop])
    table = pa.Table.from_pylist(
        [{"encoded_size": len(row["audio_bytes"]), **row} for row in rows], schema
    )
    path = folder / name
    settings = {"row_group_size": 5, "compression": "none", "use_dictionary": False}
    pq.write_table(table, path, **settings | options)
    return path


def write_dataset(root: Path, counts: Mapping[tuple[str, str], int]) -> Path:
    """One shard of so many rows per (corpus, split)."""
    for (corpus, split), count in counts.items():
        rows = [utterance(number, corpus=corpus, split=split) for number in range(count)]
        write_shard(root, rows, corpus=corpus, split=split)
    return root


def char_tokenizer(folder: Path) -> Tokenizer:
    """A tokenizer of the lower-case Danish letters and the space."""
    path = folder / "characters.model"
    path.write_bytes(build_char_tokenizer("abcdefghijklmnopqrstuvwxyzæøå "))
    return load_char_tokenizer(path, None)


def gangs(rank: int = 0, world: int = 1) -> Gangs:
    """What a process of ``world`` data-parallel ones sees; nothing communicates."""
    dp, one = FakeGang(CPU, rank=rank, size=world), FakeGang(CPU)
    return Gangs(root=dp, dp=dp, rdp=dp, sdp=one, tp=one, pp=one)


def task(**values: Any) -> TaskSection:
    """Batches of a few rows, in upstream's section."""
    settings = {"max_audio_len": 64_000, "max_num_elements": 100_000, "num_seqs_multiple_of": 1}
    return TaskSection(**{"normalize_audio": True} | settings | values)


def reader(
    dataset: DanishAsrDataset | Path,
    tokenizer: Tokenizer,
    split: str = "train",
    *,
    rank: int = 0,
    world: int = 1,
    accumulate: int = 1,
    training: bool = True,
    task_config: TaskSection | None = None,
    beta_corpus: float | None = None,
    text_profile: str = "raw",
    **options: Any,
) -> BatchReader:
    """A reader with the settings of a test; ``options`` are keys of ``dataset``."""
    section = DatasetSection(
        mixture_parquet_storage_config=StorageSection(beta_corpus=beta_corpus),
        asr_task_config=task_config or task(),
        **options,
    )
    opened = DanishAsrDataset(dataset) if isinstance(dataset, Path) else dataset
    config = AsrConfig(
        dataset=section,
        common=CommonSection(seed=1),
        trainer=TrainerSection(grad_accumulation=AccumulationConfig(num_batches=accumulate)),
    )
    setup = ReaderSetup(tokenizer, gangs(rank, world), FrameCount())
    index = opened.read_index(split).with_targets(text_profile)
    return open_reader(setup, config, index, training=training)


def ids_of(batches: Any) -> list[str]:
    """The ids of all rows in lists of batches, in their order."""
    return [name for step in batches for batch in step for name in batch.example["id"]]


def write_inventory(root: Path, name: str = "data") -> None:
    """Write the ``manifest.json`` that lists the shards of a dataset."""
    shards = [
        ListedShard(path=place, rows=0, seconds=0, sha256=sha256_of(file))
        for place, file in files_of(root).items()
    ]
    digests = {f"{kind}_sha256": "" for kind in ("ledger", "suspects")}
    facts: dict[str, Any] = {"source": "", "key": "", "source_rows": 0, "summary": []}
    facts |= {"dropped": {}, "suspects": {}, **digests}
    publish_json(root / "manifest.json", asdict(Inventory(name=name, shards=shards, **facts)))
