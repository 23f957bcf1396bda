from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.base.errors import DatasetError
from danish_asr.recipe.data.dataset import DanishAsrDataset
from tests.shards import utterance, write_shard

FORMATS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain, pages of version 2": {"data_page_version": "2.0"},
    "compressed": {"compression": "zstd"},
    "dictionary": {"use_dictionary": True},
}


@pytest.mark.parametrize("options", FORMATS.values(), ids=list(FORMATS))
def test_every_row_is_read_in_any_order_however_the_column_is_stored(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    rows = [utterance(number) for number in range(23)]
    write_shard(tmp_path, rows, **options)
    index = DanishAsrDataset(tmp_path).read_index("train")

    for row in np.random.default_rng(0).permutation(23).tolist():
        assert index.audio.read(row) == rows[row]["audio_bytes"]


def test_a_nullable_column_is_read_and_a_null_is_named(tmp_path: Path) -> None:
    path = write_shard(tmp_path, [utterance(0), utterance(1)])
    table = pq.read_table(path, partitioning=None)
    column = table.column_names.index("audio_bytes")
    values = pa.array([None, utterance(1)["audio_bytes"]], pa.binary())
    pq.write_table(table.set_column(column, "audio_bytes", values), path, compression="none")

    index = DanishAsrDataset(tmp_path).read_index("train")

    assert index.audio.read(1) == values[1].as_py()
    with pytest.raises(DatasetError, match=r"row group 0, row 0: .*null"):
        index.audio.read(0)


def test_threads_read_from_more_files_than_may_be_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danish_asr.recipe.data.audio_source._OPEN_FILES", 2)
    rows = [utterance(number) for number in range(12)]
    for number, row in enumerate(rows):
        write_shard(tmp_path, [row], name=f"part-{number:02}.parquet")
    index = DanishAsrDataset(tmp_path).read_index("train")

    def wrong(seed: int) -> list[int]:
        order = np.random.default_rng(seed).integers(0, 12, 200).tolist()
        return [row for row in order if index.audio.read(row) != rows[row]["audio_bytes"]]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(wrong, range(4))) == [[]] * 4
    open_files = [link for link in Path("/proc/self/fd").iterdir() if leads_below(tmp_path, link)]
    assert len(open_files) <= 2


def leads_below(folder: Path, link: Path) -> bool:
    try:
        return link.readlink().is_relative_to(folder)
    except FileNotFoundError:  # the descriptor of the listing itself
        return False
