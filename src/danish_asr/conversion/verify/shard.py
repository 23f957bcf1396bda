"""Check one shard of a built dataset, and collect what only all shards together can tell."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from danish_asr.conversion.inventory import ShardEntry, seconds
from danish_asr.conversion.verify.damage import guarded
from danish_asr.conversion.verify.rows import row_faults, source_position
from danish_asr.regular_file import regular_file
from danish_asr.schema import (
    LANGUAGE,
    ROW_GROUP_BYTES,
    ROW_GROUP_SIZE,
    SPLITS,
    UTTERANCE_SCHEMA,
    VERSION_DIR,
)
from danish_asr.text.profiles import normalize

LEAST_WORDS: Final = 3
"""Shorter sentences ("ja tak") are said everywhere; that two splits share them tells nothing."""

_PATH: Final = re.compile(
    rf"{VERSION_DIR}/corpus=([^/]+)/split=({'|'.join(SPLITS)})/language={LANGUAGE}/"
    r"part-\d{5,}-of-\d{5,}\.parquet"
)
NAMED: Final = 3
"""Names that a fault tells; it counts the others."""

_FULL: Final = f"stands in a row group that has {ROW_GROUP_BYTES >> 20} MiB of audio without it"

_digests = partial(array, "Q")
_positions = partial(array, "q")


@dataclass(kw_only=True)
class ShardFindings:
    """What a shard holds, in about 32 bytes a row: a dataset of millions of rows fits in memory.

    Attributes:
        path: Its path below the dataset's root.
        corpus: The corpus it belongs to; empty where the path tells none.
        split: The split it belongs to; empty where the path tells none.
        faults: What breaks the contract.
        ids: The `digest` of every row's id, in order.
        speakers: The `digest` of every row's speaker, where it is known.
        sentences: The `digest` of its longer sentences, as profile ``coral`` has them.
        sources: For each source file, the rows of it that stand here.
        samples: Samples per dialect.
        characters: Those of its training text, as it is and as profile ``coral`` has it.
    """

    path: str
    corpus: str = ""
    split: str = ""
    faults: list[str] = field(default_factory=list)
    ids: array[int] = field(default_factory=_digests)
    speakers: array[int] = field(default_factory=_digests)
    sentences: array[int] = field(default_factory=_digests)
    sources: dict[str, array[int]] = field(default_factory=dict)
    samples: Counter[str | None] = field(default_factory=Counter)
    characters: set[str] = field(default_factory=set)


def check_shard(root: Path, shard: ShardEntry | str, decoded: int) -> ShardFindings:
    """Check a shard against the contract, and against its entry in the manifest.

    Args:
        root: The dataset.
        shard: The shard's entry; its path alone where there is no manifest.
        decoded: Rows whose audio is decoded to its end; of all others the header is read.
    """
    path = shard if isinstance(shard, str) else shard.path
    found = ShardFindings(path=path)
    place = _PATH.fullmatch(path)
    if place is None:
        found.faults.append(
            f"{path}: is no place for a shard; expected {VERSION_DIR}/corpus=CORPUS/"
            f"split=<{'|'.join(SPLITS)}>/language={LANGUAGE}/part-00000-of-00001.parquet"
        )
        return found
    found.corpus, found.split = place.groups()
    entry = None if isinstance(shard, str) else shard
    faulty: dict[str, list[str]] = {}
    found.faults += guarded(path, _check_file(root / path, entry, decoded, found, faulty))
    found.faults += [f"{path}: {fault}: {few(ids, len(ids))}" for fault, ids in faulty.items()]
    return found


def digest(text: str) -> int:
    """64 bits that stand for a text; two of five million texts share them once in a million."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def sha256_of(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def few(names: Iterable[str], count: int) -> str:
    """The first of ``count`` names, and how many more there are."""
    more = f" and {count - NAMED:,} more" if count > NAMED else ""
    return ", ".join(islice(names, NAMED)) + more


def _check_file(
    path: Path,
    entry: ShardEntry | None,
    decoded: int,
    found: ShardFindings,
    faulty: dict[str, list[str]],
) -> Iterator[str]:
    regular_file(path)
    if entry is not None and sha256_of(path) != entry.sha256:
        yield f"{found.path}: its sha256 is not that of the manifest"
    with pq.ParquetFile(path) as parquet:
        rows = parquet.metadata.num_rows
        if entry is not None and rows != entry.rows:
            yield f"{found.path}: has {rows} rows, and {entry.rows} in the manifest"
        if not parquet.schema_arrow.equals(UTTERANCE_SCHEMA):
            differences = _differences(parquet)
            yield f"{found.path}: its columns are not those of the contract: {differences}"
            return
        yield from _check_row_groups(parquet, found.path)
        _check_rows(parquet, decoded, found, faulty)
    if entry is not None and seconds(found.samples.total()) != entry.seconds:
        yield (
            f"{found.path}: holds {seconds(found.samples.total())!r} s of audio, and "
            f"{entry.seconds!r} s in the manifest"
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


def _check_row_groups(parquet: pq.ParquetFile, path: str) -> Iterator[str]:
    footer = parquet.metadata
    groups = (footer.row_group(number).num_rows for number in range(footer.num_row_groups))
    most = max(groups, default=0)
    if most > ROW_GROUP_SIZE:
        yield f"{path}: has a row group of {most} rows; {ROW_GROUP_SIZE} is the most"
    if not footer.num_rows:
        yield f"{path}: has no rows; a shard without any has no file"


def _check_rows(
    parquet: pq.ParquetFile, decoded: int, found: ShardFindings, faulty: dict[str, list[str]]
) -> None:
    """Collect what the rows hold, and add the ids of faulty rows to ``faulty``, by fault."""
    rows = parquet.metadata.num_rows
    times = min(decoded, rows)
    chosen = {(2 * time + 1) * rows // (2 * times) for time in range(times)}
    for number, (before, row) in enumerate(_rows(parquet)):
        for fault in row_faults(row, decode=number in chosen):
            faulty.setdefault(fault, []).append(row["id"])
        if before >= ROW_GROUP_BYTES:
            faulty.setdefault(_FULL, []).append(row["id"])
        _collect(row, found)


def _rows(parquet: pq.ParquetFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every row, and before it the bytes of audio that its row group holds until there."""
    for group in range(parquet.num_row_groups):
        held = 0
        for batch in parquet.iter_batches(ROW_GROUP_SIZE, row_groups=[group], use_threads=False):
            for row in batch.to_pylist():
                yield held, row
                held += len(row["audio_bytes"])


def _collect(row: Mapping[str, Any], found: ShardFindings) -> None:
    spoken = normalize(row["text"], "coral")
    found.ids.append(digest(row["id"]))
    found.samples[row["dialect"]] += row["audio_size"]
    if row["speaker_id"] is not None:
        found.speakers.append(digest(row["speaker_id"]))
    if len(spoken.split()) >= LEAST_WORDS:
        found.sentences.append(digest(spoken))
    if found.split == "train":
        found.characters.update(row["text"], spoken)
    if row["source_id"] is not None and (position := source_position(row["source_id"])):
        found.sources.setdefault(position[0], _positions()).append(position[1])
