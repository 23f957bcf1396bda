"""Check one shard of a built dataset, and collect what only all shards together can tell."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile

from danish_asr.conversion.manifest import ShardEntry, seconds
from danish_asr.schema import ROW_GROUP_SIZE, SAMPLE_RATE, UTTERANCE_SCHEMA
from danish_asr.text import normalize

LEAST_WORDS: Final = 3
"""Shorter sentences ("ja tak") are said everywhere; that two splits share them tells nothing."""

_NAMED: Final = 3
"""Rows that a fault names; it counts the others."""


@dataclass(kw_only=True)
class ShardFindings:
    """What a shard holds.

    Attributes:
        path: Its path below the dataset's root.
        corpus: The corpus it belongs to.
        split: The split it belongs to.
        faults: What breaks the contract.
        ids: The id of every row.
        speakers: Who speaks in it.
        sentences: 64-bit digests of its longer sentences, as profile ``coral`` has them.
        samples: Samples per dialect.
    """

    path: str
    corpus: str
    split: str
    faults: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    speakers: set[str] = field(default_factory=set)
    sentences: set[int] = field(default_factory=set)
    samples: Counter[str | None] = field(default_factory=Counter)


def check_shard(root: Path, entry: ShardEntry, decoded: int) -> ShardFindings:
    """Check a shard against its entry in the manifest.

    Args:
        root: The dataset.
        entry: The shard's entry.
        decoded: Rows whose audio is decoded to its end; of all others the header is read.
    """
    keys = dict(part.split("=", 1) for part in PurePosixPath(entry.path).parts if "=" in part)
    found = ShardFindings(
        path=entry.path, corpus=keys.get("corpus", ""), split=keys.get("split", "")
    )
    path = root / entry.path
    if not path.is_file():
        found.faults.append(f"{entry.path}: is missing")
        return found
    if _digest(path) != entry.sha256:
        found.faults.append(f"{entry.path}: its sha256 is not that of the manifest")
    try:
        with pq.ParquetFile(path) as parquet:
            _check_table(parquet, entry, found)
            if parquet.schema_arrow.equals(UTTERANCE_SCHEMA):
                _check_rows(parquet, entry, decoded, found)
    except (pa.ArrowException, OSError) as error:
        found.faults.append(f"{entry.path}: cannot be read ({error})")
    return found


def _check_table(parquet: pq.ParquetFile, entry: ShardEntry, found: ShardFindings) -> None:
    footer = parquet.metadata
    if not parquet.schema_arrow.equals(UTTERANCE_SCHEMA):
        found.faults.append(
            f"{entry.path}: its columns are not those of the contract: {_differences(parquet)}"
        )
    if footer.num_rows != entry.rows:
        found.faults.append(
            f"{entry.path}: has {footer.num_rows} rows, and {entry.rows} in the manifest"
        )
    sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    if sizes and max(sizes) > ROW_GROUP_SIZE:
        found.faults.append(
            f"{entry.path}: has a row group of {max(sizes)} rows; {ROW_GROUP_SIZE} is the most"
        )


def _differences(parquet: pq.ParquetFile) -> str:
    theirs = {field.name: str(field) for field in parquet.schema_arrow}
    ours = {field.name: str(field) for field in UTTERANCE_SCHEMA}
    lines = [f"no {name}" for name in ours if name not in theirs]
    lines += [f"unknown {name}" for name in theirs if name not in ours]
    lines += [
        f"'{theirs[name]}' for '{ours[name]}'"
        for name in ours
        if name in theirs and theirs[name] != ours[name]
    ]
    return ", ".join(lines) or "another order"


def _check_rows(
    parquet: pq.ParquetFile, entry: ShardEntry, decoded: int, found: ShardFindings
) -> None:
    rows = parquet.metadata.num_rows
    chosen = set(np.linspace(0, rows - 1, min(decoded, rows)).round().astype(int).tolist())
    faulty: dict[str, list[str]] = {}
    for number, row in enumerate(_rows(parquet)):
        for fault in _check_row(row, decode=number in chosen):
            faulty.setdefault(fault, []).append(row["id"])
        found.ids.append(row["id"])
        found.samples[row["dialect"]] += row["audio_size"]
        if row["speaker_id"] is not None:
            found.speakers.add(row["speaker_id"])
        sentence = normalize(row["text"], "coral")
        if len(sentence.split()) >= LEAST_WORDS:
            found.sentences.add(_hash(sentence))
    for fault, ids in faulty.items():
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        found.faults.append(f"{entry.path}: {fault}: {', '.join(ids[:_NAMED])}{more}")
    if abs(seconds(found.samples.total()) - entry.seconds) > 1e-6:
        found.faults.append(
            f"{entry.path}: holds {seconds(found.samples.total()):.3f} s of audio, and "
            f"{entry.seconds:.3f} s in the manifest"
        )


def _rows(parquet: pq.ParquetFile) -> Iterator[dict[str, Any]]:
    for batch in parquet.iter_batches(batch_size=ROW_GROUP_SIZE, use_threads=False):
        yield from batch.to_pylist()


def _check_row(row: dict[str, Any], *, decode: bool) -> Iterator[str]:
    if not row["text"].strip():
        yield "empty text"
    try:
        with soundfile.SoundFile(io.BytesIO(row["audio_bytes"])) as audio:
            if (audio.format, audio.channels, audio.samplerate) != ("FLAC", 1, SAMPLE_RATE):
                yield f"{audio.format} of {audio.channels} channels at {audio.samplerate} Hz"
            length = len(audio.read(dtype="int16", always_2d=True)) if decode else audio.frames
    except (soundfile.LibsndfileError, RuntimeError):
        yield "undecodable audio"
        return
    if length != row["audio_size"]:
        yield "audio_size is not the number of samples"


def _hash(sentence: str) -> int:
    return int.from_bytes(hashlib.blake2b(sentence.encode(), digest_size=8).digest(), "big")


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
