"""References and metadata that a predictions file lacks: those of a built dataset."""

from pathlib import Path

from danish_asr.base.errors import DatasetError
from danish_asr.base.files import AnyPath
from danish_asr.base.tables import Row


def read_references(dataset: AnyPath, split: str = "test") -> list[Row]:
    """Return the rows of ``<split>`` or ``<split>_<corpus>``, without hypotheses.

    Each has id, corpus, split, reference, duration in seconds, and the metadata of the dataset.

    Raises:
        DatasetError: There is no such dataset or split, or a file cannot be read.
    """
    from danish_asr.base.schema import VERSION_DIR  # noqa: PLC0415 - slow: pyarrow

    root = Path(dataset) / VERSION_DIR
    rows: list[Row] = []
    splits = set()
    for shard in sorted(root.rglob("*.parquet")):
        keys = dict(part.split("=", 1) for part in shard.relative_to(root).parts if "=" in part)
        of_shard = {key: keys.get(key, "") for key in ("corpus", "split")}
        splits.add(of_shard["split"])
        if split in (of_shard["split"], "{split}_{corpus}".format_map(of_shard)):
            rows += _read_shard(shard, of_shard)
    if not splits:
        raise DatasetError(f"{dataset}: expected the root of a dataset of `danish-asr convert`")
    if not rows:
        names = ", ".join(sorted(splits))
        raise DatasetError(f"{dataset}: no row of split '{split}'; the dataset has: {names}")
    return rows


def _read_shard(shard: Path, keys: dict[str, str]) -> list[Row]:
    import pyarrow as pa  # noqa: PLC0415 - slow, and most files need no dataset
    import pyarrow.parquet as pq  # noqa: PLC0415

    from danish_asr.base.schema import METADATA_COLUMNS, SAMPLE_RATE  # noqa: PLC0415

    try:
        with pq.ParquetFile(shard) as file:
            wanted = ("id", "text", "audio_size", *METADATA_COLUMNS, "sub_dialect", "age")
            columns = [name for name in wanted if name in file.schema_arrow.names]
            rows: list[Row] = file.read(columns).to_pylist()
        for row in rows:
            row["duration"] = row.pop("audio_size") / SAMPLE_RATE
            row["reference"] = row.pop("text")
            row.update(keys)
    except KeyError as error:
        raise DatasetError(f"{shard}: has no column {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(
            f"{shard}: cannot be read ({error}); `danish-asr verify` finds all such files"
        ) from None
    return rows
