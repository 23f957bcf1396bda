"""Part of a split: the rows that fulfil an SQL condition over the dataset's columns.

``dialect in ('Bornholmsk', 'Sønderjysk') and age >= 60``, evaluated by polars. As in SQL, strings
are in single quotes, and a null fulfils no comparison.
"""

from collections.abc import Sequence
from typing import Final, cast

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from danish_asr.base.errors import ConfigError
from danish_asr.corpus.shards import Shard

_LISTED: Final = 20  # values in a message


def rows_where(table: pa.Table, condition: str) -> NDArray[np.int64]:
    """Return the numbers of the rows that fulfil a condition.

    Raises:
        ConfigError: It is not a condition over the table's columns.
    """
    frame = cast(pl.DataFrame, pl.from_arrow(table)).with_row_index("__row")
    try:
        return frame.filter(pl.sql_expr(condition))["__row"].to_numpy().astype(np.int64)
    except PolarsError as error:
        reason = str(error).partition("\n")[0].partition("; valid columns")[0]
        fault = (
            f'expected an SQL condition, found "{condition}" ({reason}); strings are in single '
            f"quotes, columns are {', '.join(table.column_names)}"
        )
        raise ConfigError([fault]) from error


def values_of(shards: Sequence[Shard], condition: str) -> str:
    """Return what the columns of a condition hold, to correct one that no row fulfils."""
    names = list(dict.fromkeys(pl.sql_expr(condition).meta.root_names()))
    paths = [shard.path for shard in shards]
    frame = pl.scan_parquet(paths, hive_partitioning=True).select(names).collect()
    return "; ".join(f"{column.name} has {_values(column.drop_nulls())}" for column in frame)


def _values(column: pl.Series) -> str:
    if column.is_empty():
        return "nulls only"
    if column.dtype.is_numeric():
        return f"{column.min()!r} to {column.max()!r}"
    values = column.value_counts(sort=True)[column.name].to_list()
    return ", ".join(map(str, values[:_LISTED])) + ", ..." * (len(values) > _LISTED)
