"""SQL conditions over a dataset's columns, such as ``dialect = 'Fynsk' and age >= 60``.

Polars evaluates them. As in SQL, strings are in single quotes, and a null fulfils no comparison.
Upstream's filters, which are Python expressions, become conditions.
"""

import ast
from collections.abc import Sequence
from typing import Final, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from polars.exceptions import PolarsError

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.corpus.shards import Shard

_LISTED: Final = 20  # values in a message
_COMPARISONS: Final = {
    ast.Eq: "=",
    ast.NotEq: "<>",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def fulfilling_rows(table: pa.Table, condition: str) -> NDArray[np.int64]:
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


def check_condition(shard: Shard, condition: str) -> None:
    """Refuse a faulty condition before shards are read; raises as :func:`fulfilling_rows`."""
    try:
        schema = pq.read_schema(shard.path)
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{shard.path}: cannot be read as Parquet ({error})") from error
    columns = [field for field in schema if field.name != "audio_bytes"]
    keys = [(name, pa.string()) for name in shard.keys if name not in schema.names]
    fulfilling_rows(pa.schema([*columns, *keys]).empty_table(), condition)


def values_of_columns(shards: Sequence[Shard], condition: str) -> str:
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


def condition_of(storage: MixtureParquetStorageConfig, where: str | None) -> str | None:
    """Join upstream's filters and an SQL condition; None: all rows.

    Raises:
        ConfigError: A filter of upstream's cannot be written in SQL.
    """
    filters = {
        "fragment_streaming.partition_filters": storage.fragment_streaming.partition_filters,
        "fragment_loading.filters": storage.fragment_loading.filters,
    }
    conditions = []
    for key, text in filters.items():
        if text is None:
            continue
        try:
            conditions.append(_sql(ast.parse(str(text), mode="eval").body))
        except (SyntaxError, ValueError):
            fault = (
                f"dataset.mixture_parquet_storage_config.{key}: expected comparisons of "
                f"pc.field(...) and pc.is_in, joined by &, | and ~, found {text!r}; write it in "
                "SQL as dataset.train_where and dataset.valid_where"
            )
            raise ConfigError([fault]) from None
    if where is not None:
        conditions.append(where)
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return " and ".join(f"({condition})" for condition in conditions)


def _sql(node: ast.expr) -> str:
    """Write an expression of pyarrow's in SQL; raises ``ValueError`` if that is impossible."""
    match node:
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr() as operator, right):
            word = "and" if isinstance(operator, ast.BitAnd) else "or"
            return f"({_sql(left)} {word} {_sql(right)})"
        case ast.UnaryOp(ast.Invert(), operand):
            return f"(not {_sql(operand)})"
        case ast.Compare(left, [comparison], [right]) if type(comparison) in _COMPARISONS:
            return f"{_operand(left)} {_COMPARISONS[type(comparison)]} {_operand(right)}"
        case ast.Call(ast.Attribute(attr="is_in"), [column, values]):
            return f"{_operand(column)} in ({_operand(values)})"
        case ast.Call(ast.Attribute(column, "isin"), [values]):
            return f"{_operand(column)} in ({_operand(values)})"
    raise ValueError(ast.unparse(node))


def _operand(node: ast.expr) -> str:
    match node:
        case ast.Call(ast.Attribute(attr="field"), [ast.Constant(value=str() as column)]):
            return column
        case ast.Call(ast.Attribute(attr="scalar" | "array"), [value]):
            return _operand(value)
        case ast.List(values):
            return ", ".join(map(_operand, values))
        case ast.Constant(value=str() as text):
            escaped = text.replace("'", "''")
            return f"'{escaped}'"
        case ast.Constant(value=int() | float() as number):
            return str(number)
    raise ValueError(ast.unparse(node))
