"""References and metadata that a predictions file lacks: of a built dataset, or of a file."""

from collections.abc import Mapping
from pathlib import Path

from danish_asr.base.errors import DatasetError, PredictionsError
from danish_asr.base.files import AnyPath
from danish_asr.base.tables import TRN, Row, read_valid_rows, suffix_of
from danish_asr.scoring.predictions import rename_columns, require


def read_reference_file(path: AnyPath, columns: Mapping[str, str] | None = None) -> dict[str, Row]:
    """Return the rows of a table by id, without hypotheses; ``columns`` as in `read_predictions`.

    Raises:
        PredictionsError: The file cannot be read, or an id is missing or occurs twice.
    """
    rows: dict[str, Row] = {}
    names = {key: name for key, name in (columns or {}).items() if key != "hypothesis"}
    for number, row in read_valid_rows(Path(path), PredictionsError):
        location = f"{path}:{number}"
        if suffix_of(Path(path)) == TRN:
            row["reference"] = row.pop("text")
        rename_columns(row, location, {key: name for key, name in names.items() if name in row})
        if "text" in row:
            row.setdefault("reference", row["text"])
        require(row, ("id", "reference"), location)
        row.pop("hypothesis", None)
        row_id = str(row.pop("id"))
        if row_id in rows:
            raise PredictionsError(f"{location}: duplicate id {row_id!r:.80}")
        if not isinstance(row["reference"], str):
            raise PredictionsError(
                f"{location}: reference must be a string, found {row['reference']!r:.40}"
            )
        rows[row_id] = row
    return rows


def read_references(dataset: AnyPath, split: str = "test") -> dict[str, Row]:
    """Return the rows of ``<split>`` or ``<split>_<corpus>`` by id, without hypotheses.

    Raises:
        DatasetError: There is no such dataset or split, or a file cannot be read.
    """
    from danish_asr.base.schema import VERSION_DIR  # noqa: PLC0415 - slow: pyarrow

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
    import pyarrow as pa  # noqa: PLC0415 - slow, and most files need no dataset
    import pyarrow.parquet as pq  # noqa: PLC0415

    from danish_asr.base.schema import METADATA_COLUMNS, SAMPLE_RATE  # noqa: PLC0415

    references: dict[str, Row] = {}
    try:
        with pq.ParquetFile(shard) as file:
            wanted = ("id", "text", "audio_size", *METADATA_COLUMNS, "sub_dialect", "age")
            columns = [name for name in wanted if name in file.schema_arrow.names]
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
