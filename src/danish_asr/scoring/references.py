"""References and metadata of a built dataset, for hypotheses of any system."""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.base.errors import DatasetError
from danish_asr.base.files import AnyPath
from danish_asr.base.schema import METADATA_COLUMNS, SAMPLE_RATE, VERSION_DIR
from danish_asr.base.tables import Row

_COLUMNS: Final = ("id", "text", "audio_size", *METADATA_COLUMNS, "sub_dialect", "age")


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
    if not rows:
        found = (
            f"the dataset has: {', '.join(sorted(splits))}"
            if splits
            else ("no dataset there; expected the root of one that `danish-asr convert` built")
        )
        raise DatasetError(f"{dataset}: no row of split '{split}'; {found}")
    return rows


def _read_shard(shard: Path, keys: dict[str, str]) -> dict[str, Row]:
    try:
        with pq.ParquetFile(shard) as file:
            columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
            table = file.read(columns).to_pylist()
        return {
            row.pop("id"): {
                "reference": row.pop("text"),
                "duration": row.pop("audio_size") / SAMPLE_RATE,
            }
            | keys
            | row
            for row in table
        }
    except KeyError as error:
        raise DatasetError(f"{shard}: has no column {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(
            f"{shard}: cannot be read ({error}); `danish-asr verify` finds all such files"
        ) from None
