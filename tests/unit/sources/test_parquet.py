"""CoRal's files, and others, as the `datasets` library writes them."""

from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.base.errors import SourceError
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import SourceOptions, open_source
from danish_asr.corpus.sources.base import Source, Utterance
from tests.builders import build_source, conversation_row, coral_row, tone, write_parquet
from tests.datasets_files import FLOAT, write_with_datasets


def read_all(source: Source) -> list[Utterance]:
    return [row for file in source.files for row in source.read(file, 0, file.rows)]


EXTRA: tuple[dict[str, Any], ...] = (
    {"noise_level": "12.5", "asr_wer": 0.1, "source_url": "x"},
    {"noise_level": 12.5, "asr_wer": None, "id_validator": "val_1"},
    {"education": "gymnasium", "occupation": "bager", "asr_label": None},
)


@pytest.mark.parametrize("extra", EXTRA, ids=["v1", "v2", "v3"])
def test_read_aloud_of_every_version_is_read(tmp_path: Path, extra: dict[str, Any]) -> None:
    rows = [coral_row(number) | extra for number in range(5)]
    floats = {name: FLOAT for name, value in extra.items() if isinstance(value, float)}
    write_with_datasets(tmp_path / "a" / "train-00000-of-00001.parquet", rows, **floats)
    source = open_source(str(tmp_path))
    (file,) = source.files
    assert (file.corpus, file.split, file.rows) == ("coral_read_aloud", "train", 5)
    found = read_all(source)
    assert [(row.id, row.text, row.audio) for row in found] == [
        (row["id_recording"], row["text"], row["audio"]["bytes"]) for row in rows
    ]
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
    found = [row.id for row in read_all(source)]
    assert found[9:11] == ["con_train_0_9", "con_train_1_0"]
    assert source.ids(source.files[0]).to_pylist() == found


def test_a_damaged_page_is_found_by_its_checksum(tmp_path: Path) -> None:
    rows = [coral_row(number, text=f"en lang tekst {number}") for number in range(3)]
    table = pa.Table.from_pylist(rows).drop_columns(["validated"])
    path = tmp_path / "train.parquet"
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    path.write_bytes(path.read_bytes().replace(b"en lang tekst 1", b"en land tekst 1", 1))
    with pytest.raises(SourceError, match=r"not a complete Parquet file .*CRC"):
        read_all(open_source(str(tmp_path)))


def test_only_a_rejected_row_is_dropped(tmp_path: Path) -> None:
    values = ("rejected", "maybe", "validated", None)
    rows = [coral_row(0, validated=value) for value in values]
    write_parquet(tmp_path / "train.parquet", rows)
    found = [row.refused for row in read_all(open_source(str(tmp_path)))]
    assert found == ["rejected", None, None, None]


def test_null_values_stay_null(tmp_path: Path) -> None:
    row = coral_row(0, text=None, age=None, dialect=None, id_recording=None)
    write_parquet(tmp_path / "train.parquet", [row | {"audio": None}])
    (found,) = read_all(open_source(str(tmp_path)))
    assert (found.text, found.audio, found.speaker.age, found.speaker.dialect) == (None,) * 4
    assert found.id == "train.parquet:0"


def test_another_country_name_is_abroad_in_coral_only(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train.parquet", [coral_row(0, country_birth="Sverige")])
    (in_coral,) = read_all(open_source(str(tmp_path)))
    (elsewhere,) = read_all(open_source(f"hf-parquet:{tmp_path}", SourceOptions(corpus="x")))
    assert in_coral.speaker.dialect == "Non-native"
    assert elsewhere.speaker.dialect != "Non-native"


@pytest.mark.parametrize("birth", ["Danmark", "da", "DNK", "?", "ukendt", "NA"])
def test_danish_or_unknown_birth_is_never_non_native_in_corals_columns(
    tmp_path: Path, birth: str
) -> None:
    write_parquet(tmp_path / "train.parquet", [coral_row(0, country_birth=birth, dialect="fynsk")])
    (found,) = read_all(open_source(str(tmp_path)))
    assert (found.speaker.dialect, found.speaker.country_birth) == ("Fynsk", birth)


def test_only_the_row_with_a_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train.parquet", [coral_row(number) for number in range(3)])
    table = pq.read_table(tmp_path / "train.parquet")
    latin = pa.array([b"ja", "nej, sørens".encode("latin-1"), b"jo"]).view(pa.string())
    table = table.set_column(table.schema.get_field_index("text"), "text", latin)
    pq.write_table(table, tmp_path / "train.parquet")
    found = read_all(open_source(str(tmp_path)))
    assert [row.text for row in found] == ["ja", None, "jo"]
    assert [row.refused for row in found] == [None, "malformed row", None]


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 30), (0, 1), (9, 11), (17, 30), (10, 20), (29, 30)]
)
def test_a_range_of_rows_is_read_wherever_row_groups_end(
    tmp_path: Path, start: int, stop: int
) -> None:
    build_source(tmp_path, dev=0, test=0, train=30, conversation=False, row_group_size=10)
    source = open_source(str(tmp_path))
    file = next(file for file in source.files if file.rows)
    assert file.row_groups == (10, 10, 10)
    assert [(row.row, row.id) for row in source.read(file, start, stop)] == [
        (number, f"rec_train_{number}") for number in range(start, stop)
    ]


def test_columns_are_set_by_options(tmp_path: Path) -> None:
    rows = [{"lyd": {"bytes": tone(0.2), "path": "x"}, "sætning": f"nr. {n}"} for n in range(3)]
    table = pa.Table.from_pylist([row | {"nr": n, "køn": "f"} for n, row in enumerate(rows)])
    (tmp_path / "data").mkdir()
    dataset = datasets.Dataset(table).cast_column("lyd", datasets.Audio())
    dataset.to_parquet(str(tmp_path / "data" / "train-0.parquet"))
    options = SourceOptions(
        corpus="folketing", columns=("audio=lyd", "text=sætning", "id=nr", "gender=køn")
    )
    source = open_source(f"hf-parquet:{tmp_path}", options)
    (file,) = source.files
    assert (file.corpus, file.split, file.rows) == ("folketing", "train", 3)
    found = read_all(source)
    assert [row.text for row in found] == [row["sætning"] for row in rows]
    assert [row.id for row in found] == source.ids(file).to_pylist() == ["0", "1", "2"]
    assert found[0].speaker.gender == "female"
    assert found[0].audio == tone(0.2)


def hf_rows(folder: Path, *columns: str) -> list[Utterance]:
    options = SourceOptions(corpus="folketing", columns=columns)
    return read_all(open_source(f"hf-parquet:{folder}", options))


@pytest.mark.parametrize("kind", ["hf-parquet", "coral"])
def test_each_file_has_names_of_columns_of_its_own(tmp_path: Path, kind: str) -> None:
    rows = {
        "dev": {"speaker_id": "d", "text": "ja", "audio": "a.wav", "age": "30"},
        "test": {"taler": "t", "tekst": "tak", "path": "c.wav", "alder": "40"},
        "train": {"speaker": "s", "sentence": "nej", "path": "b.wav", "Age": "50"},
    }
    for split, row in rows.items():
        own = row | {"id_recording": split}
        pq.write_table(pa.Table.from_pylist([own]), tmp_path / f"{split}.parquet")
    found = read_all(
        open_source(f"{kind}:{tmp_path}", SourceOptions(corpus=kind if kind != "coral" else None))
    )
    assert [(row.speaker.speaker_id, row.text, row.audio, row.speaker.age) for row in found] == [
        ("d", "ja", tmp_path / "a.wav", 30),
        ("t", "tak", tmp_path / "c.wav", 40),
        ("s", "nej", tmp_path / "b.wav", 50),
    ]


SEGMENT = {"audio": "a.wav", "text": "ja", "start": 1.5, "end": 4.0}


@pytest.mark.parametrize(
    ("columns", "start", "seconds"),
    [
        (("start=start", "end=end"), 1.5, 2.5),
        (("start=start",), 1.5, None),
        (("start=",), 0.0, None),
    ],
)
def test_times_in_parquet_cut_the_audio_or_not_as_the_user_says(
    tmp_path: Path, columns: tuple[str, ...], start: float, seconds: float | None
) -> None:
    pq.write_table(pa.Table.from_pylist([SEGMENT]), tmp_path / "train.parquet")
    with pytest.raises(SourceError, match=r"found start, end;.*--column start="):
        hf_rows(tmp_path)
    (found,) = hf_rows(tmp_path, *columns)
    assert (found.start, found.seconds) == (start, seconds)


def write_table(folder: Path, audio: Any) -> Source:
    """Write one file, and open it as a source."""
    table = pa.table({"audio": audio, "text": ["ja"] * len(audio)})
    pq.write_table(table, folder / "everything.parquet")
    return open_source(f"hf-parquet:{folder}", SourceOptions(corpus="folketing", split="test"))


@pytest.mark.parametrize("name", ["Train.parquet", "TRAIN-0.PARQUET", "train.pq", "val/x.pq"])
def test_a_file_is_read_whatever_its_suffix_and_case_and_alone(tmp_path: Path, name: str) -> None:
    for folder in ("", ".cache/", "a/.hidden/"):
        write_parquet(tmp_path / f"{folder}{name}", [coral_row(0)])
    (file,) = open_source(f"coral:{tmp_path}").files
    assert (file.name, file.split) == (name, "dev" if "val" in name else "train")
    if "/" not in name:
        alone = open_source(str(tmp_path / name))
        assert [file.name for file in alone.files] == [name]
        assert len(read_all(alone)) == 1


EMBEDDED = {"bytes": b"a", "path": "x.wav"}


@pytest.mark.parametrize(
    ("audio", "external"),
    [
        (["lyd/a.wav", None, ""], ["lyd/a.wav"]),
        ([EMBEDDED] * 2, []),
        ([{"bytes": None, "path": "y.wav"}, EMBEDDED], ["y.wav"]),
        ([{"bytes": b"a", "path": None}, None], []),
        ([{"bytes": b"a"}, {"bytes": None}], []),
        ([{"path": "x.wav"}, {"path": None}], ["x.wav"]),
        ([b"a", None], []),
    ],
)
def test_audio_may_be_in_files_of_its_own(
    tmp_path: Path, audio: list[Any], external: list[str]
) -> None:
    source = write_table(tmp_path, audio)
    assert source.files[0].split == "test"
    used = [row.audio for row in read_all(source) if isinstance(row.audio, Path)]
    assert used == [tmp_path / name for name in external]
    assert set(used) <= set(source.local_files(source.files[0]))


def test_encrypted_parquet_is_told_apart_from_a_damaged_one(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_bytes(b"PARE" + bytes(100) + b"PARE")
    with pytest.raises(SourceError, match="encrypted"):
        open_source(f"hf-parquet:{tmp_path}", SourceOptions(corpus="x"))


@pytest.mark.parametrize(
    "name", ["begin", "onset", "offset", "Start_Time", "tmin", "segment_start"]
)
def test_a_column_that_looks_like_a_place_in_a_recording_asks_for_a_decision(
    tmp_path: Path, name: str
) -> None:
    rows = [{"audio": {"bytes": tone(0.5), "path": None}, "text": "ja", name: 0.1}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")
    with pytest.raises(SourceError, match=rf"--column start={name}"):
        open_source(f"hf-parquet:{tmp_path}", SourceOptions(corpus="x"))
    whole = SourceOptions(corpus="x", columns=("start=",))
    assert [row.start for row in read_all(open_source(f"hf-parquet:{tmp_path}", whole))] == [0.0]


def test_two_columns_of_text_ask_for_a_choice(tmp_path: Path) -> None:
    row = {"audio": {"bytes": tone(0.5), "path": None}, "text": "en", "transcription": "to"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "train.parquet")
    with pytest.raises(SourceError, match="--column text=text"):
        open_source(f"hf-parquet:{tmp_path}", SourceOptions(corpus="x"))
    chosen = SourceOptions(corpus="x", columns=("text=transcription",))
    assert [row.text for row in read_all(open_source(f"hf-parquet:{tmp_path}", chosen))] == ["to"]


def test_several_texts_of_one_audio_are_suspects(tmp_path: Path) -> None:
    texts = ["en", "to", "en", "tre"]
    row = {"bytes": tone(0.5), "path": "a.wav"}
    rows = [{"audio": row, "text": text} for text in texts]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")
    source = open_source(f"hf-parquet:{tmp_path}", SourceOptions(corpus="x"))
    inventory = convert(source, tmp_path / "out", name="x")
    assert inventory.suspects["audio of an earlier row with another text"] == 3
