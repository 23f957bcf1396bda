"""CoRal's files as the `datasets` library writes them: both subsets, all versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from danish_asr.errors import SourceError
from danish_asr.sources import open_source
from danish_asr.sources.base import Source, Utterance
from tests.builders import build_source, conversation_row, coral_row, write_parquet
from tests.datasets_files import FLOAT, write_with_datasets


def read_all(source: Source) -> list[Utterance]:
    return [row for file in source.files for row in source.read(file, 0, file.rows)]


READ_ALOUD_EXTRA: dict[str, dict[str, Any]] = {
    "v1": {"noise_level": "12.5", "asr_wer": 0.1, "source_url": "x"},
    "v2": {"noise_level": 12.5, "asr_wer": None, "id_validator": "val_1"},
    "v3": {"education": "gymnasium", "occupation": "bager", "asr_label": None},
}


@pytest.mark.parametrize("version", READ_ALOUD_EXTRA)
def test_read_aloud_of_every_version_is_read(tmp_path: Path, version: str) -> None:
    extra = READ_ALOUD_EXTRA[version]
    rows = [coral_row(number) | extra for number in range(5)]
    floats = {name: FLOAT for name, value in extra.items() if isinstance(value, float)}
    path = tmp_path / "read_aloud" / "train-00000-of-00001.parquet"
    write_with_datasets(path, rows, **floats)
    (file,) = open_source(str(tmp_path)).files
    assert (file.corpus, file.split, file.rows) == ("coral_read_aloud", "train", 5)
    found = read_all(open_source(str(tmp_path)))
    assert [row.id for row in found] == [row["id_recording"] for row in rows]
    assert [row.text for row in found] == [row["text"] for row in rows]
    assert [row.audio for row in found] == [row["audio"]["bytes"] for row in rows]
    assert found[1].speaker.dialect == "Sjællandsk"
    assert found[1].speaker.speaker_id == "spe_train_1"


@pytest.mark.parametrize(("folder", "name"), [("conversation", "val"), ("conversational", "test")])
def test_the_id_of_a_conversation_row_is_its_conversation_and_segment(
    tmp_path: Path, folder: str, name: str
) -> None:
    rows = [conversation_row(number) for number in range(12)]
    write_with_datasets(tmp_path / folder / f"{name}-00000-of-00001.parquet", rows)
    source = open_source(f"coral:{tmp_path}")
    assert source.files[0].corpus == "coral_conversation"
    assert [row.id for row in read_all(source)][9:11] == ["con_train_0_9", "con_train_1_0"]
    assert source.ids(source.files[0]).to_pylist() == [row.id for row in read_all(source)]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train-00000-of-00002.parquet", "train"),
        ("val-00000-of-00001.parquet", "dev"),
        ("validation-00000-of-00001.parquet", "dev"),
        ("test.parquet", "test"),
        ("train/0000.parquet", "train"),
    ],
)
def test_the_split_is_inferred_from_the_file_name(tmp_path: Path, name: str, split: str) -> None:
    write_parquet(tmp_path / name, [coral_row(0)])
    assert open_source(str(tmp_path)).files[0].split == split


@pytest.mark.parametrize("validated", ["rejected", "maybe", "validated", None])
def test_only_a_rejected_row_is_dropped(tmp_path: Path, validated: str | None) -> None:
    write_parquet(tmp_path / "train.parquet", [coral_row(0, validated=validated)])
    (row,) = read_all(open_source(str(tmp_path)))
    assert row.refused == ("rejected" if validated == "rejected" else None)


def test_null_values_stay_null(tmp_path: Path) -> None:
    rows = [coral_row(0, text=None, audio_struct=None, age=None, dialect=None, id_recording=None)]
    write_parquet(tmp_path / "train.parquet", [{**rows[0], "audio": None}])
    (row,) = read_all(open_source(str(tmp_path)))
    assert (row.text, row.audio, row.speaker.age, row.speaker.dialect) == (None, None, None, None)
    assert row.id == "train.parquet:0"


def test_external_audio_is_found_by_its_path(tmp_path: Path) -> None:
    write_parquet(
        tmp_path / "train.parquet",
        [coral_row(0, audio_struct={"bytes": None, "path": "a.wav"})],
    )
    (row,) = read_all(open_source(str(tmp_path)))
    assert row.audio == tmp_path / "a.wav"


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 30), (0, 1), (9, 11), (17, 30), (10, 20), (29, 30)]
)
def test_a_range_of_rows_is_read_wherever_row_groups_end(
    tmp_path: Path, start: int, stop: int
) -> None:
    build_source(tmp_path, train=30, dev=0, test=0, conversation=False, row_group_size=10)
    source = open_source(str(tmp_path))
    file = next(file for file in source.files if file.split == "train")
    assert file.row_groups == (10, 10, 10)
    assert [row.row for row in source.read(file, start, stop)] == list(range(start, stop))
    assert [row.id for row in source.read(file, start, stop)] == [
        f"rec_train_{number}" for number in range(start, stop)
    ]


def write_row(folder: Path, name: str = "train.parquet", *, drop: tuple[str, ...] = ()) -> Path:
    write_parquet(folder / name, [coral_row(0)])
    pq.write_table(pq.read_table(folder / name).drop_columns(list(drop)), folder / name)
    return folder / name


def write_half_a_file(folder: Path) -> None:
    path = write_row(folder)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda _: None, "no such folder"),
        (lambda folder: folder.mkdir(), "it has no Parquet files"),
        (lambda folder: write_parquet(folder / "train.parquet", []), "it has no rows"),
        (lambda folder: write_row(folder, drop=("text",)), "no column text; .* id_recording, "),
        (lambda folder: write_row(folder, drop=("id_recording",)), "not a file of CoRal.* text"),
        (lambda folder: write_row(folder, "all.parquet"), r"all\.parquet: cannot infer the split"),
        (write_half_a_file, "not a complete Parquet file .*; download it again"),
    ],
)
def test_an_unusable_source_is_refused(tmp_path: Path, write: Any, message: str) -> None:
    write(tmp_path / "source")
    with pytest.raises(SourceError, match=message):
        open_source(str(tmp_path / "source"))


def test_a_damaged_page_is_reported_with_the_file(tmp_path: Path) -> None:
    build_source(tmp_path, dev=0, test=0, conversation=False)
    path = tmp_path / "read_aloud" / "train-00000-of-00001.parquet"
    content = bytearray(path.read_bytes())
    content[200:400] = b"\xff" * 200
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"train-00000.*: not a complete Parquet file"):
        read_all(open_source(str(tmp_path)))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("radio:/data", "unknown kind of source 'radio'; expected one of coral, hf-parquet, "),
        ("no_such_module.open:/data", r"no_such_module\.open: cannot be imported"),
    ],
)
def test_an_unknown_kind_is_refused(spec: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        open_source(spec)
