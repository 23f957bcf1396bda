from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from danish_asr.conversion import shard
from danish_asr.conversion.convert import convert
from danish_asr.sources import open_source
from tests.builders import coral_row, tone, write_parquet


@pytest.mark.parametrize(
    ("limit", "sizes"), [(1 << 30, [100, 30]), (1, [1] * 130)], ids=["rows", "bytes"]
)
def test_a_row_group_ends_with_its_rows_or_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(shard, "ROW_GROUP_BYTES", limit)
    rows = [coral_row(number, audio=tone(0.1)) for number in range(130)]
    write_parquet(tmp_path / "in" / "train.parquet", rows)
    convert(open_source(str(tmp_path / "in")), tmp_path / "ds", name="x")
    (path,) = (tmp_path / "ds").rglob("part-*.parquet")
    with pq.ParquetFile(path) as parquet:
        footer = parquet.metadata
        found = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        assert parquet.read(["id"])["id"].to_pylist() == [row["id_recording"] for row in rows]
    assert found == sizes
