"""Check one shard of a built dataset, and collect what can only be judged over all shards."""

from __future__ import annotations

import hashlib
import io
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import soundfile

from danish_asr.conversion.inventory import ShardEntry
from danish_asr.schema import SAMPLE_RATE, UTTERANCE_SCHEMA
from danish_asr.text.profiles import normalize
from danish_asr.yaml_text import YAMLError

_LEAST_WORDS: Final = 3
"""Shorter sentences ("ja tak") occur everywhere; that two splits share them is not a leak."""

_FORM: Final = ("FLAC", "PCM_16", SAMPLE_RATE, 1)
_BLOCK: Final = 1 << 16
"""Samples that are decoded at a time: a damaged header may promise any number of them."""

_NAMED: Final = 3
_LONGEST_REASON: Final = 200
_DAMAGE: Final = (
    OSError,
    ValueError,  # not UTF-8, not a number, and most of Arrow's errors
    RuntimeError,  # libsndfile, SentencePiece
    MemoryError,  # a damaged length that asks for terabytes
    AssertionError,  # ruamel
    LookupError,  # ruamel
    pa.ArrowException,
    YAMLError,
)
"""What the libraries that read a dataset's files raise over wrong bytes."""

_digests = partial(array, "Q")


@dataclass(kw_only=True)
class ShardFindings:
    """What a shard holds, in about 24 bytes a row: a dataset of millions of rows fits in memory.

    Attributes:
        path: Its path below the dataset's root.
        split: Its split.
        rows: Its rows in the inventory.
        faults: What breaks the contract.
        ids: The `digest` of every row's id.
        speakers: The `digest` of every row's speaker, if known.
        sentences: The `digest` of its longer sentences in profile ``coral``.
        samples: Samples per dialect.
        characters: Those of its training text, raw and in profile ``coral``.
    """

    path: str
    split: str
    rows: int
    faults: list[str] = field(default_factory=list)
    ids: array[int] = field(default_factory=_digests)
    speakers: array[int] = field(default_factory=_digests)
    sentences: array[int] = field(default_factory=_digests)
    samples: Counter[str | None] = field(default_factory=Counter)
    characters: set[str] = field(default_factory=set)

    def measure(self) -> tuple[int, int]:
        """Rows and samples."""
        return self.rows, self.samples.total()


def check_shard(root: Path, entry: ShardEntry, decoded: int) -> ShardFindings:
    """Check a shard against its entry in the inventory, and its audio against the contract.

    Args:
        root: The dataset.
        entry: The shard.
        decoded: Rows whose audio is decoded, spread evenly over the shard.
    """
    found = ShardFindings(path=entry.path, split=entry.partition("split"), rows=entry.rows)
    found.faults += guarded(entry.path, _check(root / entry.path, entry, decoded, found))
    return found


def guarded(place: str, faults: Iterable[str]) -> Iterator[str]:
    """Yield the faults that the check of a file finds; an error that it raises is the last one."""
    try:
        yield from faults
    except FileNotFoundError:
        yield f"{place}: is missing"
    except _DAMAGE as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        words = " ".join(reason.split()) or type(error).__name__
        yield f"{place}: cannot be read ({words[:_LONGEST_REASON]})"


def digest(text: str) -> int:
    """64 bits of a text; two of five million texts share them once in a million datasets."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def sha256_of(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def few(names: Iterable[str], count: int) -> str:
    """The first names, and how many more there are."""
    more = f" and {count - _NAMED:,} more" if count > _NAMED else ""
    return ", ".join(islice(names, _NAMED)) + more


def _check(path: Path, entry: ShardEntry, decoded: int, found: ShardFindings) -> Iterator[str]:
    if sha256_of(path) != entry.sha256:
        yield f"{entry.path}: its sha256 differs from manifest.json"
        return
    faulty: dict[str, list[str]] = {}
    with pq.ParquetFile(path) as parquet:
        rows = parquet.metadata.num_rows
        if rows != entry.rows:
            yield f"{entry.path}: has {rows} rows; manifest.json has {entry.rows}"
        if not parquet.schema_arrow.equals(UTTERANCE_SCHEMA):
            columns = ", ".join(map(str, parquet.schema_arrow))
            yield f"{entry.path}: its columns differ from data/README.md; found {columns}"
            return
        times = min(decoded, rows)
        chosen = {(2 * time + 1) * rows // (2 * times) for time in range(times)}
        for number, row in enumerate(_rows(parquet, with_audio=times > 0)):
            _collect(row, found)
            for fault in _audio_faults(row) if number in chosen else ():
                faulty.setdefault(fault, []).append(row["id"])
    for fault, ids in faulty.items():
        yield f"{entry.path}: {fault}: {few(ids, len(ids))}"


def _rows(parquet: pq.ParquetFile, *, with_audio: bool) -> Iterator[dict[str, Any]]:
    columns = [name for name in UTTERANCE_SCHEMA.names if with_audio or name != "audio_bytes"]
    for group in range(parquet.num_row_groups):
        yield from parquet.read_row_group(group, columns, use_threads=False).to_pylist()


def _collect(row: dict[str, Any], found: ShardFindings) -> None:
    spoken = normalize(row["text"], "coral")
    found.ids.append(digest(row["id"]))
    found.samples[row["dialect"]] += row["audio_size"]
    if row["speaker_id"] is not None:
        found.speakers.append(digest(row["speaker_id"]))
    if len(spoken.split()) >= _LEAST_WORDS:
        found.sentences.append(digest(spoken))
    if found.split == "train":
        found.characters.update(row["text"], spoken)


def _audio_faults(row: dict[str, Any]) -> Iterator[str]:
    samples = 0
    try:
        with soundfile.SoundFile(io.BytesIO(row["audio_bytes"])) as file:
            form = (file.format, file.subtype, file.samplerate, file.channels)
            while block := len(file.read(_BLOCK, dtype="int16", always_2d=True)):
                samples += block
    except _DAMAGE:
        yield "undecodable audio"
        return
    if form != _FORM:
        yield "audio is {} {}, {} Hz, {} channels; expected {} {}, {} Hz, {} channel".format(
            *form, *_FORM
        )
    if samples != row["audio_size"]:
        yield "audio_size is not the number of samples"
