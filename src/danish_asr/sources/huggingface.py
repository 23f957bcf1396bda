"""Any folder of Hugging Face audio Parquet, with the columns that the user names."""

from __future__ import annotations

from danish_asr.sources.columns import Columns
from danish_asr.sources.location import locate
from danish_asr.sources.parquet import ParquetSource, open_parquet_files
from danish_asr.sources.parquet_file import find_parquet


def open_hf_parquet(
    where: str, *, corpus: str, columns: Columns, split: str | None
) -> ParquetSource:
    """Open the Parquet files of a folder or of a dataset on the hub.

    Args:
        where: A folder, or ``hf:OWNER/NAME[:SUBSET][@REVISION]``; a subset is a folder there.
        corpus: Name of the corpus in the built dataset.
        columns: Which columns hold what.
        split: The split of all files; None to tell it from their names.

    Raises:
        SourceError: There are no rows, or a file is unusable.
    """
    location = locate(where)
    below = f"{location.root}/{location.subset}/" if location.subset else ""
    paths = [path for path in find_parquet(location) if path.startswith(below)]
    return open_parquet_files(
        where,
        location,
        corpus_of=dict.fromkeys(paths, corpus),
        columns={corpus: columns},
        split=split,
    )
