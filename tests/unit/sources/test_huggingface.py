from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.errors import SourceError
from danish_asr.sources import SourceOptions, open_source
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


def test_columns_are_set_by_options(tmp_path: Path) -> None:
    write(tmp_path / "data" / "train-00000-of-00001.parquet", rows())
    source = open_source(f"hf-parquet:{tmp_path}", OPTIONS)
    (file,) = source.files
    assert (file.corpus, file.split, file.rows) == ("folketing", "train", 3)
    found = list(source.read(file, 0, 3))
    assert [row.text for row in found] == ["sætning 0", "sætning 1", "sætning 2"]
    assert [row.id for row in found] == ["0", "1", "2"] == source.ids(file).to_pylist()
    assert found[0].speaker.gender == "f"
    assert found[0].audio == tone(0.2)


def test_the_id_of_a_row_without_one_is_its_position(tmp_path: Path) -> None:
    write(tmp_path / "test.parquet", rows())
    options = SourceOptions(corpus="folketing", columns=("audio=lyd", "text=sætning"))
    source = open_source(f"hf-parquet:{tmp_path}", options)
    found = [row.id for row in source.read(source.files[0], 0, 3)]
    assert found == ["test.parquet:0", "test.parquet:1", "test.parquet:2"]
    assert source.ids(source.files[0]).to_pylist() == found


def test_audio_may_be_plain_bytes(tmp_path: Path) -> None:
    table = pa.table({"audio": [tone(0.2)], "text": ["ja"]})
    pq.write_table(table, tmp_path / "everything.parquet")
    source = open_source(f"hf-parquet:{tmp_path}", SourceOptions(corpus="folketing", split="test"))
    (row,) = source.read(source.files[0], 0, 1)
    assert (row.audio, source.files[0].split) == (tone(0.2), "test")


def test_missing_columns_are_reported_with_those_that_exist(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", rows())
    with pytest.raises(
        SourceError, match="no column text and no column audio; found the columns lyd, sætning, nr"
    ):
        open_source(f"hf-parquet:{tmp_path}", SourceOptions(corpus="folketing"))


def test_coral_takes_no_columns(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="--corpus, --column and --split do not apply to CoRal"):
        open_source(f"coral:{tmp_path}", OPTIONS)


def write_table(folder: Path, **columns: Any) -> Any:
    """Write one file, and open it as a source."""
    pq.write_table(pa.table(columns), folder / "train.parquet")
    return open_source(f"hf-parquet:{folder}", SourceOptions(corpus="folketing"))


EMBEDDED = {"bytes": b"a", "path": "x.wav"}


@pytest.mark.parametrize(
    ("audio", "external"),
    [
        (["lyd/a.wav", None, ""], ["lyd/a.wav"]),
        ([EMBEDDED] * 2, []),
        ([EMBEDDED, {"bytes": None, "path": "y.wav"}], ["y.wav"]),
        ([{"bytes": b"a", "path": None}, None], []),
        ([{"bytes": b"a"}, {"bytes": None}], []),
        ([{"path": "x.wav"}, {"path": None}], ["x.wav"]),
        ([b"a", None], []),
    ],
)
def test_audio_may_be_in_files_of_its_own(
    tmp_path: Path, audio: list[Any], external: list[str]
) -> None:
    source = write_table(tmp_path, audio=audio, text=["ja"] * len(audio))
    (file,) = source.files
    rows = source.read(file, 0, file.rows)
    used = [row.audio for row in rows if isinstance(row.audio, Path)]
    assert used == [tmp_path / name for name in external]
    assert set(used) <= set(source.local_files(file))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"audio": [[0.1, 0.2]]}, "column audio holds list<.*>; expected encoded audio files"),
        ({"audio": [{"array": [0.1], "sampling_rate": 1}]}, "column audio holds struct<array"),
    ],
)
def test_a_column_of_an_unusable_type_is_refused(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        write_table(tmp_path, text=["ja"], **columns)
