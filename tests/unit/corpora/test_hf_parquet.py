from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pytest

from danish_asr.corpora import SourceOptions, open_source
from danish_asr.errors import SourceError
from tests.builders import tone


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows with the `datasets` library, the column `lyd` as audio."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = datasets.Dataset(pa.Table.from_pylist(rows))
    table.cast_column("lyd", datasets.Audio()).to_parquet(str(path))


def rows(count: int = 3) -> list[dict[str, Any]]:
    return [
        {"lyd": {"bytes": tone(0.2), "path": "x"}, "sætning": f"sætning {n}", "nr": n, "køn": "f"}
        for n in range(count)
    ]


OPTIONS = SourceOptions(
    corpus="folketing", columns=("audio=lyd", "text=sætning", "id=nr", "gender=køn")
)


def test_columns_are_mapped_by_options(tmp_path: Path) -> None:
    write(tmp_path / "data" / "train-00000-of-00001.parquet", rows())
    source = open_source(f"hf-parquet:{tmp_path}", OPTIONS)
    (file,) = source.files
    assert (file.corpus, file.split, file.rows) == ("folketing", "train", 3)
    found = list(source.read(file, 0, 3))
    assert [row.text for row in found] == ["sætning 0", "sætning 1", "sætning 2"]
    assert [row.id for row in found] == ["0", "1", "2"] == source.ids(file).to_pylist()
    assert found[0].speaker.gender == "f"
    assert found[0].audio == tone(0.2)


def test_a_row_without_an_id_column_is_called_after_its_place(tmp_path: Path) -> None:
    write(tmp_path / "test.parquet", rows())
    options = SourceOptions(corpus="folketing", columns=("audio=lyd", "text=sætning"))
    source = open_source(f"hf-parquet:{tmp_path}", options)
    found = [row.id for row in source.read(source.files[0], 0, 3)]
    assert found == ["test.parquet:0", "test.parquet:1", "test.parquet:2"]
    assert source.ids(source.files[0]).to_pylist() == found


def test_audio_may_be_plain_bytes(tmp_path: Path) -> None:
    table = pa.table({"audio": [tone(0.2)], "text": ["ja"]})
    pa.parquet.write_table(table, tmp_path / "everything.parquet")
    source = open_source(f"hf-parquet:{tmp_path}", SourceOptions(corpus="folketing", split="test"))
    (row,) = source.read(source.files[0], 0, 1)
    assert (row.audio, source.files[0].split) == (tone(0.2), "test")


def test_missing_columns_are_told_with_those_that_exist(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", rows())
    with pytest.raises(
        SourceError, match="no column text and no column audio; the columns are lyd, sætning, nr"
    ):
        open_source(f"hf-parquet:{tmp_path}", SourceOptions(corpus="folketing"))


def test_coral_takes_no_columns(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="CoRal says itself what --corpus"):
        open_source(f"coral:{tmp_path}", OPTIONS)
