"""CoRal's files, and others, as the `datasets` library writes them."""

from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources import open_source, resolve_source
from danish_asr.corpus.sources.parquet import source_of_dataset
from tests.builders import conversation_row, coral_row, write_parquet
from tests.corpora import options, read_rows
from tests.datasets_files import FLOAT, STRING, dataset_of, write_with_datasets


def rows_in(
    where: Path | str, columns: dict[str, str] | None = None, **values: Any
) -> list[dict[str, Any]]:
    """The rows of a source, with splits of its own."""
    return read_rows(open_source(str(where), options(columns=columns or {}, **values)))


def test_read_aloud_is_read_beside_columns_that_are_not(tmp_path: Path) -> None:
    extra = {"noise_level": 12.5, "asr_label": None, "education": "gymnasium"}
    rows = [coral_row(number) | extra for number in range(5)]
    path = tmp_path / "a" / "train-00000-of-00001.parquet"
    write_with_datasets(path, rows, noise_level=FLOAT)
    found = rows_in(tmp_path)
    assert {(row["corpus"], row["split"]) for row in found} == {("coral_read_aloud", "train")}
    assert [(row["id"], row["text"], row["audio"]) for row in found] == [
        (row["id_recording"], row["text"], row["audio"]["bytes"]) for row in rows
    ]
    assert (found[1]["dialect"], found[1]["speaker_id"]) == ("Sjællandsk", "spe_train_1")


def test_the_id_of_a_conversation_row_is_its_conversation_and_segment(tmp_path: Path) -> None:
    rows = [conversation_row(number) for number in range(12)]
    write_with_datasets(tmp_path / "val-00000-of-00001.parquet", rows)
    found = rows_in(tmp_path)
    assert found[0]["corpus"] == "coral_conversation"
    assert [row["id"] for row in found[9:11]] == ["con_train_0_9", "con_train_1_0"]


def test_a_damaged_page_is_found_by_its_checksum(tmp_path: Path) -> None:
    rows = [coral_row(number, text=f"en lang tekst {number}") for number in range(3)]
    table = pa.Table.from_pylist(rows).drop_columns(["validated"])
    path = tmp_path / "train.parquet"
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    path.write_bytes(path.read_bytes().replace(b"en lang tekst 1", b"en land tekst 1", 1))
    with pytest.raises(SourceError, match=r"not a complete Parquet file .*CRC"):
        rows_in(tmp_path)


def test_the_audio_of_any_rows_is_fetched_wherever_row_groups_end(tmp_path: Path) -> None:
    rows = [coral_row(number, audio=bytes([number + 1])) for number in range(30)]
    write_parquet(tmp_path / "train.parquet", rows, row_group_size=10)
    source = open_source(str(tmp_path), options())
    assert source.rows["group"].to_pylist() == [0] * 10 + [1] * 10 + [2] * 10
    for start, stop in ((0, 30), (0, 1), (9, 11), (17, 30), (10, 20), (29, 30)):
        wanted = [number for number in range(start, stop) if number != 18]
        audio = [*source.fetch(source.rows.take(wanted))]
        assert audio == [bytes([number + 1]) for number in wanted]


EMBEDDED = {"bytes": b"a", "path": "x.wav"}
OURS = ("speaker_id", "text", "audio", "age")


def test_each_file_has_names_of_columns_of_its_own(tmp_path: Path) -> None:
    rows: dict[str, dict[str, Any]] = {
        "test": {"taler": "t", "tekst": "tak", "file": EMBEDDED, "alder": "40"},
        "train": {"speaker": "s", "sentence": "nej", "lydfil": b"b", "Age": "50"},
    }
    for split, row in rows.items():
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / f"{split}.parquet")
    found = [tuple(row[name] for name in OURS) for row in rows_in(tmp_path)]
    assert found == [("t", "tak", b"a", 40), ("s", "nej", b"b", 50)]


def test_times_in_parquet_have_to_be_chosen(tmp_path: Path) -> None:
    row = {"audio": EMBEDDED, "text": "ja", "start": 1.5, "end": 4.0}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "train.parquet")
    chosen: list[dict[str, str]] = [{}, {"start": "start"}, {"start": "start", "end": "end"}]
    found = [own for columns in chosen for own in rows_in(tmp_path, columns)]
    times = [(own["start"], own["seconds"]) for own in found]
    assert times == [(0.0, None), (1.5, None), (1.5, 2.5)]


@pytest.mark.parametrize("name", ["Train.parquet", "TRAIN-0.PARQUET", "train.pq", "val/x.pq"])
def test_a_file_is_read_whatever_its_suffix_and_case_and_alone(tmp_path: Path, name: str) -> None:
    for folder in ("", ".cache/", "a/.hidden/"):
        write_parquet(tmp_path / f"{folder}{name}", [coral_row(0)])
    (row,) = rows_in(tmp_path)
    assert (row["file"], row["split"]) == (name, "dev" if "val" in name else "train")
    if "/" not in name:
        assert [row["file"] for row in rows_in(tmp_path / name)] == [name]


@pytest.mark.parametrize(
    "kind", [pa.large_binary(), pa.binary_view(), pa.struct([("bytes", pa.binary_view())])]
)
def test_encoded_audio_of_each_of_arrows_types_is_read(tmp_path: Path, kind: pa.DataType) -> None:
    audio = pa.array([b"audio" if kind.num_fields == 0 else {"bytes": b"audio"}], kind)
    text = pa.array(["ja"], pa.string_view())
    pq.write_table(pa.table({"audio": audio, "text": text}), tmp_path / "train.parquet")
    source = open_source(str(tmp_path), options())
    assert source.rows["text"].to_pylist() == ["ja"]
    assert [*source.fetch(source.rows)] == [b"audio"]


def test_a_column_without_encoded_audio_is_refused_with_the_way_out(tmp_path: Path) -> None:
    decoded = {"array": [0.1, 0.2], "sampling_rate": 16_000}
    for audio, way in ((decoded, "decode=False"), ("a.wav", "CSV of path")):
        pq.write_table(pa.table({"audio": [audio], "text": ["ja"]}), tmp_path / "train.parquet")
        with pytest.raises(SourceError, match=f"audio holds no encoded audio.*{way}"):
            rows_in(tmp_path)


def test_a_dataset_that_is_named_after_coral_is_of_its_repository() -> None:
    names = "coral_v2_danish", "coral_v3", "coral_v4"
    sources = ["hf:CoRal-project/coral-v2", "hf:CoRal-project/coral-v3", None]
    assert [*map(source_of_dataset, names)] == sources


def test_a_folder_without_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=f"{tmp_path}: found no Parquet"):
        rows_in(f"parquet:{tmp_path}")


def test_numbers_of_classes_have_their_names(tmp_path: Path) -> None:
    rows = [{"audio": EMBEDDED, "sentence": "ja", "gender": gender} for gender in (0, 1, -1)]
    genders = datasets.ClassLabel(names=["kvinde", "mand"])
    types = {"audio": datasets.Audio(), "sentence": STRING, "gender": genders}
    dataset_of(rows, types).to_parquet(str(tmp_path / "train.parquet"))
    assert resolve_source(str(tmp_path / "train.parquet")).kind == "parquet"
    assert [row["gender"] for row in rows_in(tmp_path)] == ["female", "male", None]
