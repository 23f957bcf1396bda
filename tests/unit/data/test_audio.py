from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.base.errors import DatasetError
from danish_asr.recipe.data.index import DanishAsrDataset, Index
from tests.shards import utterance, write_shard

ROWS = [utterance(number) for number in range(23)]


def index_of(root: Path) -> Index:
    return DanishAsrDataset(root).read_index("train")


def are_read(index: Index) -> bool:
    """Whether every row has its own audio, in any order."""
    order = np.random.default_rng(0).permutation(len(ROWS)).tolist()
    return all(index.audio.read(row) == ROWS[row]["audio_bytes"] for row in order)


@pytest.mark.parametrize(
    "options", [{}, {"data_page_version": "2.0"}, {"row_group_size": 100}], ids=str
)
def test_a_row_is_read_at_its_place_in_the_file(tmp_path: Path, options: dict[str, Any]) -> None:
    write_shard(tmp_path, ROWS, **options)

    index = index_of(tmp_path)

    assert index.audio.decoded_shards == 0
    assert are_read(index)


@pytest.mark.parametrize(
    "options",
    [{"drop": ["encoded_size"]}, {"compression": "zstd"}, {"use_dictionary": True}],
    ids=str,
)
def test_shards_without_the_size_or_in_another_layout_are_decoded(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    write_shard(tmp_path, ROWS, **options)

    index = index_of(tmp_path)

    assert index.audio.decoded_shards == 1
    assert are_read(index)


def rewrite(path: Path, values: pa.Array) -> None:
    """Replace the audio of a shard, and leave its bytes out, as upstream's tools write it."""
    table = pq.read_table(path, partitioning=None).drop_columns(["encoded_size"])
    place = table.column_names.index("audio_bytes")
    pq.write_table(table.set_column(place, "audio_bytes", values), path, row_group_size=10)


def test_lists_of_numbers_as_upstreams_tools_write_them_are_read(tmp_path: Path) -> None:
    audio = [np.frombuffer(row["audio_bytes"], np.int8) for row in ROWS]
    rewrite(write_shard(tmp_path, ROWS), pa.array(audio, pa.list_(pa.int8())))

    assert are_read(index_of(tmp_path))


def test_a_nullable_column_is_read_and_a_null_is_named(tmp_path: Path) -> None:
    audio = pa.array([None, *(row["audio_bytes"] for row in ROWS[1:])], pa.binary())
    rewrite(write_shard(tmp_path, ROWS), audio)

    index = index_of(tmp_path)

    assert index.audio.read(1) == ROWS[1]["audio_bytes"]
    with pytest.raises(DatasetError, match=r"part-00000-of-00001\.parquet, row group 0, row 0"):
        index.audio.read(0)


def test_audio_that_is_not_at_its_place_is_refused_with_the_file(tmp_path: Path) -> None:
    rows = [
        {**row, "encoded_size": len(row["audio_bytes"]) - (n == 7)} for n, row in enumerate(ROWS)
    ]
    write_shard(tmp_path, rows)
    index = index_of(tmp_path)

    with pytest.raises(DatasetError, match=r"part-00000-of-00001\.parquet, row group 1, row 2"):
        index.audio.read(7)
    assert index.audio.read(10) == ROWS[10]["audio_bytes"]


def test_threads_read_from_more_files_than_may_be_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danish_asr.recipe.data.audio._OPEN_FILES", 2)
    for number, row in enumerate(ROWS[:12]):
        write_shard(tmp_path, [row], name=f"part-{number:02}.parquet")
    index = index_of(tmp_path)

    def wrong(seed: int) -> list[int]:
        order = np.random.default_rng(seed).integers(0, 12, 200).tolist()
        return [row for row in order if index.audio.read(row) != ROWS[row]["audio_bytes"]]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(wrong, range(4))) == [[]] * 4
    open_files = [link for link in Path("/proc/self/fd").iterdir() if leads_below(tmp_path, link)]
    assert len(open_files) <= 2


def leads_below(folder: Path, link: Path) -> bool:
    try:
        return link.readlink().is_relative_to(folder)
    except FileNotFoundError:  # the descriptor of the listing itself
        return False
