"""Upstream's partition and row filters as subsets of a split.

Upstream applies them to training only and without a word scores the whole split elsewhere. Here
they hold for every split, and what cannot be obeyed is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig

from danish_asr.errors import ConfigError, DatasetError
from danish_asr.reading.index import RowFilter, Shard

# isort: split
from fairseq2.data.parquet.fragment_streaming.primitives import process_filter

_SECTION = "dataset.mixture_parquet_storage_config"


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
