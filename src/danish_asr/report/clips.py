"""Audio of a few utterances, for a page that plays them without a network."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.errors import DatasetError
from danish_asr.schema import VERSION_DIR

CLIPS: Final = 10
MAX_BYTES: Final = 1_000_000
"""Per clip: a minute of speech or so. A longer one is left out, the page shall stay small."""


def audio_urls(dataset: Path, ids: Sequence[str]) -> dict[str, str]:
    """Return a ``data:`` URL with FLAC for each of ``ids`` that the dataset holds.

    Only the row groups that hold one of them are read.

    Raises:
        DatasetError: ``dataset`` is no built dataset, or a file of it is damaged.
    """
    shards = sorted((dataset / VERSION_DIR).rglob("*.parquet"))
    if not shards:
        raise DatasetError(
            f"{dataset}: no {VERSION_DIR}/**/*.parquet there; expected the root of a dataset that "
            "`danish-asr convert` built"
        )
    urls: dict[str, str] = {}
    for shard in shards:
        if missing := set(ids) - urls.keys():
            urls |= _from_shard(shard, missing)
    return urls


def _from_shard(shard: Path, ids: set[str]) -> dict[str, str]:
    try:
        with pq.ParquetFile(shard) as file:
            return dict(_clips(file, ids))
    except (OSError, ValueError, LookupError, MemoryError, pa.ArrowException) as error:
        # Arrow's own messages have several lines, of which the first says what is wrong.
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DatasetError(
            f"{shard}: cannot be read ({reason}); `danish-asr verify` finds all such files, "
            "convert them again or score without --dataset"
        ) from None


def _clips(file: pq.ParquetFile, ids: set[str]) -> Iterator[tuple[str, str]]:
    for group in range(file.num_row_groups):
        here = file.read_row_group(group, columns=["id"])["id"].to_pylist()
        if ids.isdisjoint(here):
            continue
        audio = file.read_row_group(group, columns=["audio_bytes"])["audio_bytes"]
        for name, clip in zip(here, audio.cast(pa.binary()), strict=True):
            flac = clip.as_py()
            if name in ids and flac and len(flac) <= MAX_BYTES:
                yield name, "data:audio/flac;base64," + base64.b64encode(flac).decode()
