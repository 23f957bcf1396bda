"""Upstream's partition and row filters as subsets of a split.

Upstream applies them to training only and without a word scores the whole split elsewhere. Here
they hold for every split, and what cannot be obeyed is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig

from danish_asr.data.index import RowFilter, Shard, find_shards, shards_of_split
from danish_asr.errors import ConfigError, DatasetError

# isort: split
from fairseq2.data.parquet.fragment_streaming.primitives import process_filter

_SECTION = "dataset.mixture_parquet_storage_config"


def chosen_shards(
    path: Path, split: str, config: MixtureParquetStorageConfig
) -> tuple[list[Shard], list[Shard]]:
    """The shards of a split that the filters over paths leave, and all shards of the dataset.

    No file is read but, if there is a filter over rows, the schema of one shard.

    Raises:
        DatasetError: There is no dataset, or it has no such split (the message names those it has).
        ConfigError: A filter cannot be applied.
    """
    every = find_shards(path, split_key=config.split_column)
    chosen = filter_shards(shards_of_split(every, split), split, config)
    row_filter = make_row_filter(config)
    if row_filter is not None:
        row_filter(_no_rows(chosen[0]))
    return chosen, every


def _no_rows(shard: Shard) -> pa.Table:
    """An empty table with the columns that a filter over rows may name."""
    try:
        schema = pq.read_schema(shard.path)
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{shard.path}: cannot be read as Parquet ({error})") from error
    keys = [pa.field(name, pa.string()) for name in shard.keys if name not in schema.names]
    columns = [field for field in schema if field.name != "audio_bytes"]
    return pa.schema([*columns, *keys]).empty_table()


def filter_shards(
    shards: Iterable[Shard], split: str, config: MixtureParquetStorageConfig
) -> list[Shard]:
    """The shards whose path's keys pass ``fragment_streaming.partition_filters``.

    Raises:
        ConfigError: The filter is no expression over corpus, split and language.
        DatasetError: No shard passes.
    """
    every = list(shards)
    text = config.fragment_streaming.partition_filters
    if text is None:
        return every
    where = f"{_SECTION}.fragment_streaming.partition_filters"
    names = list(every[0].keys)
    keys = pa.table({name: [shard.keys[name] for shard in every] for name in names})
    passed = _mask(keys, text, where)
    chosen = [shard for shard, keep in zip(every, passed.tolist(), strict=True) if keep]
    if not chosen:
        exist = ", ".join(sorted({str(shard.partition) for shard in every}))
        raise DatasetError(
            f"{where} ({text}) leaves nothing of split '{split}', which has: {exist}; "
            "the filter holds for validation and evaluation too"
        )
    return chosen


def make_row_filter(config: MixtureParquetStorageConfig) -> RowFilter | None:
    """The rows that pass ``fragment_loading.filters``; None if there is no such filter.

    Calling the result raises ConfigError if the filter is no expression over the columns.
    """
    text = config.fragment_loading.filters
    if text is None:
        return None
    return lambda table: _mask(table, text, f"{_SECTION}.fragment_loading.filters")


def _mask(table: pa.Table, text: Any, where: str) -> NDArray[np.bool_]:
    """Which rows pass; a null passes no comparison."""
    try:
        expression = process_filter(text)
        rows = table.append_column("__row", pa.array(np.arange(len(table))))
        passed = rows.filter(expression).column("__row").to_numpy()
    except Exception as error:  # the setting is Python source, which may raise anything
        message = f"{where}: expected an expression over {', '.join(table.column_names)}; found "
        raise ConfigError([f"{message}{text!r} ({error})"]) from error
    mask = np.zeros(len(table), np.bool_)
    mask[passed] = True
    return mask
