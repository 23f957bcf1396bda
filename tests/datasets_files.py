"""Parquet files as the library writes them that CoRal was made with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa

STRING = datasets.Value("string")
FLOAT = datasets.Value("float64")
INTEGER = datasets.Value("int64")


def write_with_datasets(path: Path, rows: Sequence[Mapping[str, Any]], **features: Any) -> None:
    """Write rows; ``features`` are the types of columns that are not text."""
    known = {"audio": datasets.Audio(sampling_rate=48_000), "age": INTEGER, "id_segment": INTEGER}
    types = {name: (known | features).get(name, STRING) for name in rows[0]}
    path.parent.mkdir(parents=True, exist_ok=True)
    dataset_of(rows, types).to_parquet(str(path))


def dataset_of(rows: Sequence[Mapping[str, Any]], types: Mapping[str, Any]) -> datasets.Dataset:
    """Rows as a dataset."""
    # Cast afterwards: making the feature from a dictionary would need torchcodec and FFmpeg.
    dataset = datasets.Dataset(pa.Table.from_pylist(list(rows)))
    return dataset.cast(datasets.Features(types))
