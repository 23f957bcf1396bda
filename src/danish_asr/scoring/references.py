"""References and metadata of a built dataset, for hypotheses of any system."""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.base.errors import DatasetError
from danish_asr.base.files import AnyPath
from danish_asr.base.schema import METADATA_COLUMNS, SAMPLE_RATE, VERSION_DIR
from danish_asr.base.tables import Row

_OF_DATASET: Final = ("id", "text", "audio_size", *METADATA_COLUMNS, "sub_dialect", "age")


def read_references(dataset: AnyPath, split: str = "test") -> dict[str, Row]:
    """Return the rows of ``<split>`` or ``<split>_<corpus>`` by id, without hypotheses.

    Raises:
        DatasetError: There is no such dataset or split, or a file cannot be read.
    """
    root = Path(dataset) / VERSION_DIR
    rows: dict[str, Row] = {}
    splits = set()
    for shard in sorted(root.rglob("*.parquet")):
        keys = dict(part.split("=", 1) for part in shard.relative_to(root).parts if "=" in part)
        of_shard = {key: keys.get(key, "") for key in ("corpus", "split")}
        splits.add(of_shard["split"])
        if split in (of_shard["split"], "{split}_{corpus}".format_map(of_shard)):
            rows |= _read_shard(shard, of_shard)
    if not splits:
        raise DatasetError(f"{dataset}: expected the root of a dataset of `danish-asr convert`")
    if not rows:
        names = ", ".join(sorted(splits))
        raise DatasetError(f"{dataset}: no row of split '{split}'; the dataset has: {names}")
    return rows


def _read_shard(shard: Path, keys: dict[str, str]) -> dict[str, Row]:
    references: dict[str, Row] = {}
    try:
        with pq.ParquetFile(shard) as file:
            columns = [name for name in _OF_DATASET if name in file.schema_arrow.names]
            table = file.read(columns).to_pylist()
        for row in table:
            seconds = row.pop("audio_size") / SAMPLE_RATE
            reference = {"reference": row.pop("text"), "duration": seconds}
            references[row.pop("id")] = reference | keys | row
    except KeyError as error:
        raise DatasetError(f"{shard}: has no column {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(
            f"{shard}: cannot be read ({error}); `danish-asr verify` finds all such files"
        ) from None
    return references
