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
    pq.write_table(table, tmp_path / "everything.parquet")
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


def write_table(folder: Path, **columns: Any) -> Any:
    """Write one file, and open it as a source."""
    pq.write_table(pa.table(columns), folder / "train.parquet")
    return open_source(f"hf-parquet:{folder}", SourceOptions(corpus="folketing"))


def test_audio_may_be_a_path_beside_the_file(tmp_path: Path) -> None:
    source = write_table(tmp_path, audio=["lyd/a.wav", None, ""], text=["ja"] * 3)
    (file,) = source.files
    assert file.beside
    assert [row.audio for row in source.read(file, 0, 3)] == [tmp_path / "lyd/a.wav", None, None]
    assert list(source.audio_files(file, 0, 3)) == [tmp_path / "lyd/a.wav"]


@pytest.mark.parametrize(
    ("audio", "beside"),
    [
        ([{"bytes": b"a", "path": "x.wav"}] * 2, []),
        ([{"bytes": b"a", "path": "x.wav"}, {"bytes": None, "path": "y.wav"}], ["x.wav", "y.wav"]),
        ([{"bytes": b"a", "path": None}, None], []),
        ([{"bytes": b"a"}, {"bytes": None}], []),
        ([{"path": "x.wav"}, {"path": None}], ["x.wav"]),
        ([b"a", None], []),
    ],
)
def test_the_files_are_known_that_audio_may_lie_in(
    tmp_path: Path, audio: list[Any], beside: list[str]
) -> None:
    source = write_table(tmp_path, audio=audio, text=["ja"] * 2)
    found = list(source.audio_files(source.files[0], 0, 2))
    assert found == [tmp_path / name for name in beside]
    used = {row.audio for row in source.read(source.files[0], 0, 2) if isinstance(row.audio, Path)}
    assert used <= set(found)


def test_text_that_is_not_utf_8_makes_a_malformed_row(tmp_path: Path) -> None:
    texts = pa.array([b"ja", "næ".encode("latin-1"), b"jo"], pa.binary()).view(pa.string())
    source = write_table(tmp_path, audio=[b"a"] * 3, text=texts, id=["a", "b", "c"])
    found = list(source.read(source.files[0], 0, 3))
    assert [row.refused for row in found] == [None, "malformed row", None]
    assert [row.text for row in found] == ["ja", None, "jo"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"audio": [[0.1, 0.2]]}, "column audio holds list<.*>; expected encoded audio files"),
        ({"audio": [{"array": [0.1], "sampling_rate": 1}]}, "column audio holds struct<array"),
        ({"audio": [b"a"], "id": [1.5]}, "column id holds double, and an id is made of texts or"),
    ],
)
def test_a_column_of_a_kind_that_cannot_be_used_is_told(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        write_table(tmp_path, text=["ja"], **columns)


def test_a_named_column_must_be_in_some_file(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", rows())
    pq.write_table(
        pq.read_table(tmp_path / "train.parquet").drop_columns(["nr"]), tmp_path / "test.parquet"
    )
    mapped = ("audio=lyd", "text=sætning")
    options = SourceOptions(corpus="folketing", columns=(*mapped, "gender=kön", "id=nr,part"))
    told = "no file has a column kön or a column part; the columns are lyd, sætning, køn, nr"
    with pytest.raises(SourceError, match=told):
        open_source(f"hf-parquet:{tmp_path}", options)
    options = SourceOptions(corpus="folketing", columns=(*mapped, "id=nr"))
    assert open_source(f"hf-parquet:{tmp_path}", options).notes == (
        "column nr: 1 of 2 files lack it, such as test.parquet; it is null there",
    )


def test_very_large_row_groups_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert write_table(tmp_path, audio=[b"a" * 90_000], text=["ja"]).notes == ()
    monkeypatch.setattr("danish_asr.sources.parquet._LARGE", 80_000)
    (note,) = write_table(tmp_path, audio=[b"a" * 90_000], text=["ja"]).notes
    assert note.startswith("row groups: 1 of 1 files have very large ones, such as train.parquet")
