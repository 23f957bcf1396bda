"""The shards of a split, and upstream's partition and row filters as subsets of a split.

Upstream applies the filters to training only and scores the whole split elsewhere. Here they hold
for every split, and a filter that cannot be applied is refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fairseq2.data.parquet.fragment_streaming.primitives import process_filter
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.schema import SPLITS, VERSION_DIR

_SECTION: Final = "dataset.mixture_parquet_storage_config"
_PARTITION_KEYS: Final = ("corpus", "split", "language")


@dataclass(frozen=True, order=True, slots=True)
class Partition:
    """A corpus in a language: the unit of weighted mixing."""

    corpus: str
    language: str

    def __str__(self) -> str:
        return f"{self.corpus}/{self.language}"


@dataclass(frozen=True, slots=True)
class Shard:
    """One Parquet file with the keys of its path."""

    path: Path
    keys: Mapping[str, str]

    @property
    def partition(self) -> Partition:
        """The corpus and language that the path names."""
        return Partition(self.keys["corpus"], self.keys["language"])


def find_shards(path: Path, *, split_key: str = "split") -> list[Shard]:
    """All shards below a dataset's ROOT or ``ROOT/version=0``, sorted by path.

    Raises:
        DatasetError: There is no such directory, or no shard in it.
    """
    root = path / VERSION_DIR if (path / VERSION_DIR).is_dir() else path
    if not root.is_dir():
        raise DatasetError(f"{path}: no such dataset directory; `danish-asr convert` writes one")
    shards = []
    for file in sorted(root.rglob("*.parquet")):
        keys = dict(part.split("=", 1) for part in file.relative_to(root).parts if "=" in part)
        if split_key in keys:
            keys["split"] = keys[split_key]
        if all(key in keys for key in _PARTITION_KEYS):
            shards.append(Shard(file, keys))
    if not shards:
        raise DatasetError(
            f"{root}: no Parquet shard found; expected corpus=<corpus>/split=<split>/"
            "language=<language>/*.parquet; `danish-asr convert` writes them"
        )
    return shards


def split_names(shards: Iterable[Shard]) -> list[str]:
    """Every name that :func:`chosen_shards` takes: splits, then ``<split>_<corpus>``."""
    pairs = {(shard.keys["split"], shard.keys["corpus"]) for shard in shards}
    return [*sorted({split for split, _ in pairs}), *sorted(f"{s}_{c}" for s, c in pairs)]


def splitting_hint(split: str, names: Iterable[str]) -> str:
    """How to get a split of a dataset that has only training rows; empty for other datasets."""
    if split in SPLITS and all(name.startswith("train") for name in names):
        return "; `danish-asr convert ... --split-by-speaker 80/10/10` makes dev and test too"
    return ""


def chosen_shards(
    path: Path, split: str, config: MixtureParquetStorageConfig
) -> tuple[list[Shard], list[Shard]]:
    """The shards of ``<split>`` or ``<split>_<corpus>``, and all shards of the dataset.

    The former without those that the partition filter leaves out. Reads no file, except for the
    schema of one shard if there is a filter over rows.

    Raises:
        DatasetError: There is no dataset, or it has no such split, or no shard passes.
        ConfigError: A filter cannot be applied.
    """
    every = find_shards(path, split_key=config.split_column)
    name, _, corpus = split.partition("_")
    chosen = [
        shard
        for shard in every
        if shard.keys["split"] == name and corpus in ("", shard.keys["corpus"])
    ]
    if not chosen:
        exist = ", ".join(split_names(every))
        hint = splitting_hint(split, split_names(every))
        raise DatasetError(f"split '{split}' has no rows; the dataset has: {exist}{hint}")
    text = config.fragment_streaming.partition_filters
    if text is not None:
        where = f"{_SECTION}.fragment_streaming.partition_filters"
        keys = pa.table({name: [s.keys[name] for s in chosen] for name in chosen[0].keys})
        exist = ", ".join(sorted({str(shard.partition) for shard in chosen}))
        chosen = [chosen[row] for row in passing_rows(keys, text, where)]
        if not chosen:
            raise DatasetError(
                f"{where} ({text}) leaves nothing of split '{split}', which has: {exist}; "
                "the filter holds for validation and evaluation too"
            )
    if config.fragment_loading.filters is not None:
        # Refuse a faulty filter before any shard is read.
        passing_rows(empty_table(chosen[0]), config.fragment_loading.filters)
    return chosen, every


def empty_table(shard: Shard) -> pa.Table:
    """What filters see of a shard, without rows: its columns, except for audio, and its keys."""
    try:
        schema = pq.read_schema(shard.path)
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{shard.path}: cannot be read as Parquet ({error})") from error
    columns = [field for field in schema if field.name != "audio_bytes"]
    keys = [(name, pa.string()) for name in shard.keys if name not in schema.names]
    return pa.schema([*columns, *keys]).empty_table()


def passing_rows(
    table: pa.Table, text: str, where: str = f"{_SECTION}.fragment_loading.filters"
) -> NDArray[np.int64]:
    """The numbers of the rows that pass a filter; a null passes no comparison.

    Raises:
        ConfigError: The filter is not an expression over the table's columns.
    """
    try:
        expression = process_filter(text)
        rows = table.append_column("__row", pa.array(np.arange(len(table))))
        return np.asarray(rows.filter(expression).column("__row").to_numpy())
    except Exception as error:  # the setting is Python source, which may raise anything
        message = f"{where}: expected an expression over {', '.join(table.column_names)}; found "
        raise ConfigError([f"{message}{text!r} ({error})"]) from error
