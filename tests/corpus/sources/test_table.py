"""CSV, TSV and JSON lines: their columns, times, splits and paths, and rows that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import DatasetError, SourceError
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source, resolve_source
from tests.builders import tone
from tests.corpora import options, read_rows, record, rows_of, table_in, write_lines

GOOD = '{"audio_filepath": "a.wav", "text": "ja"}'


HEADER = b"audio_filepath,text\n"


def write_csv(path: Path, *lines: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def own_splits(path: Path, **values: Any) -> list[dict[str, Any]]:
    """The rows of a source in the splits that it has itself."""
    return read_rows(open_source(str(path), options(**values)))


def test_nemos_keys_are_read(tmp_path: Path) -> None:
    row = {"audio_filepath": "wav/a.wav", "text": "på Ærø", "duration": 1.5, "offset": 3}
    path = write_lines(tmp_path / "train_manifest.json", [row, row | {"audio_filepath": "/b.wav"}])
    first, absolute = own_splits(path, name="radio")
    assert (first["audio"], absolute["audio"]) == (tmp_path / "wav" / "a.wav", Path("/b.wav"))
    assert (first["text"], first["start"], first["seconds"]) == ("på Ærø", 3.0, 1.5)
    names = first["id"], first["corpus"], first["split"]
    assert names == ("train_manifest.json:0", "radio", "train")


def test_a_csv_file_is_read_with_quotes_and_line_ends_in_texts(tmp_path: Path) -> None:
    lines = (
        "\ufeffpath,text,age",
        'a.wav,"ja, ""to""\nlinjer",34',
        "b.wav,nej,ukendt",
        "",
        "c,for,m,e",
    )
    rows = rows_of(write_csv(tmp_path / "dev.csv", *lines))
    assert [row["text"] for row in rows] == ['ja, "to"\nlinjer', "nej", None]
    assert [row["age"] for row in rows] == [34, None, None]
    assert [row["refused"] for row in rows] == [None, None, "malformed row"]


ROW = ("a b.mp3", "ja", "s1", "fynsk", "f", "29")


@pytest.mark.parametrize(
    ("suffix", "between"),
    [("csv", ","), ("csv", ";"), ("csv", "\t"), ("tsv", "\t"), ("CSV", ",")],
)
def test_delimiters_are_found_and_spaces_around_names_left_out(
    tmp_path: Path, suffix: str, between: str
) -> None:
    names = ("Audio Path", "Transcription", " Speaker ", "Accent", "gender", "Age")
    path = tmp_path / f"test.{suffix}"
    (row,) = rows_of(write_csv(path, between.join(names), between.join(ROW)))
    assert (row["audio"], row["text"]) == (tmp_path / "a b.mp3", "ja")
    assert (row["speaker_id"], row["dialect"], row["gender"]) == ("s1", "Fynsk", "female")
    assert (row["age"], row["age_group"]) == (29, "25-49")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("BEGIN,END", "the time END"),
        ("onset,offset", "the time offset"),
        ("start,dur", "the time start"),
        ("startTime,duration", r"line 2 and train\.csv, line 3"),
        ("fra,til", r"line 2 and train\.csv, line 3"),
    ],
)
def test_a_time_of_which_only_one_end_is_known_is_refused(
    tmp_path: Path, names: str, message: str
) -> None:
    path = write_csv(tmp_path / "train.csv", f"path,text,{names}", "a,ja,0.7,1.2", "a,nej,1.3,2.4")
    with pytest.raises(SourceError, match=f"{message}.*--column start=.*--column end="):
        rows_of(path)
    start, end = names.split(",")
    rows = rows_of(path, columns={"start": start, "end": end, "seconds": ""})
    assert [row["start"] for row in rows] == [0.7, 1.3]
    assert [row["seconds"] for row in rows] == pytest.approx([0.5, 1.1])


@pytest.mark.parametrize("inside", [{"start": 1.0, "end": 2.0}, {"value": {"start": 1.0}}])
def test_times_inside_a_column_are_refused_unless_the_row_has_its_own(
    tmp_path: Path, inside: dict[str, Any]
) -> None:
    """Label Studio writes regions so: the recording would get the text of one of them."""
    row = {"audio": "a.wav", "text": "ja", "label": [inside]}
    path = write_lines(tmp_path / "train.jsonl", [row])
    with pytest.raises(SourceError, match=r"times inside its column label.*SRT"):
        rows_of(path)
    write_lines(path, [row | {"start": 1.0, "end": 2.0}])
    assert [row["start"] for row in rows_of(path)] == [1.0]


def test_a_column_split_divides_the_rows(tmp_path: Path) -> None:
    splits = ("Train", "valid", "", "test")
    lines = [f"{number}.wav;nr. {number};{split}" for number, split in enumerate(splits)]
    path = write_csv(tmp_path / "dev.csv", "file;text;split", *lines, "for;mange;felter;her")
    assert [row["split"] for row in own_splits(path)] == ["train", "dev", "dev", "test", "test"]
    assert {row["split"] for row in rows_of(path, split="test")} == {"test"}


BAD_LINES = [
    (b'{"audio_filepath": "a.w', "malformed row"),
    ('{"audio_filepath": "a.wav", "text": "æøå"}'.encode("latin-1"), "malformed row"),
    (b'{"audio_filepath": "a.wav", "text": ["ja"]}', "malformed text"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
def test_a_line_that_cannot_be_read_goes_to_the_ledger(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"\n".join([GOOD.encode(), b"", line, GOOD.encode()]))
    assert [row["refused"] for row in rows_of(path)] == [None, reason, None]
    (tmp_path / "a.wav").write_bytes(tone(0.2))
    with pytest.raises(DatasetError, match=rf"{reason}: 1, such as train\.jsonl, line 3"):
        convert(path, tmp_path / "ds", options(split="train"))
    convert(path, tmp_path / "ds", options(split="train", max_drop=0.5))
    (entry,) = table_in(tmp_path / "ds", "ledger")
    assert list(entry.values()) == ["train.jsonl", 1, "own", "train.jsonl:1", None, reason]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER + b'a,et\nb,"nej\n', r"train\.csv:[23]: .*quotes"),
    ],
)
def test_an_unusable_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "train.csv").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        rows_of(tmp_path)


def test_a_list_in_json_has_a_row_for_each_object(tmp_path: Path) -> None:
    last = {"audio": "b.wav", "text": "nej"}
    path = tmp_path / "train.json"
    path.write_text(json.dumps([json.loads(GOOD), 7, last], indent=1))
    for location in (path, tmp_path):
        assert [row["text"] for row in rows_of(location)] == ["ja", None, "nej"]
    assert rows_of(path)[2]["audio"] == tmp_path / "b.wav"


def test_a_chosen_id_of_several_columns_is_read(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "train.csv", "path,text,ID,part,duration", "a,ja,u,1,2", "a,ja,u,,")
    source = open_source(str(path), options(columns={"id": "ID,part"}))
    assert source.rows["id"].to_pylist() == ["u_1", "train.csv:1"]
    assert source.columns == {
        "audio": "path",
        "text": "text",
        "id": "ID,part",
        "seconds": "duration",
    }
    assert open_source(str(path), options()).ignored == ("part",)


@pytest.mark.parametrize(
    ("name", "content", "is_read"),
    [
        ("b.csv", "path,text\na,ja", True),
        ("b.CSV", "path,text\na,ja", True),
        ("b.tsv", "path\ttext\na\tja", True),
        ("b.tsv", "start\tend\ttext\n0\t900\tja", False),  # Whisper's
        ("b.json", '{"Text": "ja", "Audio": "a"}', True),
        ("b.txt", "path,text\na,ja", False),
        (".b.csv", "path,text\na,ja", False),
        ("sub/b.csv", "path,text\na,ja", False),
        ("sub/metadata.csv", "path,text\na,ja", True),
        ("sub/more/metadata.csv", "path,text\na,ja", True),
        ("b.csv/c.txt", "", False),
        *(
            ("b.json", content, False)
            for content in ("[1, 2]", "", '{"text": "ja"}', '{"audio": "a", "segments": []}')
        ),
    ],
)
def test_the_tables_of_a_folder_are_read(
    tmp_path: Path, name: str, content: str, *, is_read: bool
) -> None:
    (tmp_path / "a.jsonl").write_text(GOOD)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)
    assert [row["file"] for row in rows_of(tmp_path)] == ["a.jsonl"] + [name] * is_read


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("at_top", [True, False])
def test_an_audiofolder_has_its_splits_from_folders(
    tmp_path: Path, form: str, *, at_top: bool
) -> None:
    names = ["train/0.wav", "train/sub/1.wav", "validation/2.wav", "test/3.wav"]
    for name in names:
        record((tmp_path / name).parent, Path(name).name)
    for split in ("",) if at_top else ("train/", "validation/", "test/"):
        own = [name.removeprefix(split) for name in names if name.startswith(split)]
        rows = [{"file_name": name, "transcription": f"tekst {name}"} for name in own]
        path = tmp_path / split / f"metadata.{form}"
        if form == "jsonl":
            write_lines(path, rows)
        else:
            lines = [",".join(row.values()) for row in rows]
            path.write_text("\n".join(["file_name,transcription", *lines]))
    assert resolve_source(str(tmp_path))[0] == "table"
    found = read_rows(open_source(str(tmp_path), options()))
    assert sorted(row["split"] for row in found) == ["dev", "test", "train", "train"]
    assert sorted(row["audio"] for row in found) == sorted(tmp_path / name for name in names)


def test_common_voices_folder_is_read_by_its_columns(tmp_path: Path) -> None:
    head = "client_id\tpath\tsentence\tage\tgender\taccents"
    for split in ("train", "dev", "test"):
        record(tmp_path / "clips", f"{split}.wav")
        line = f"s1\t{split}.wav\tnr {split}\tfifties\tfemale_feminine\tfynsk"
        (tmp_path / f"{split}.tsv").write_text(f"{head}\n{line}\n")
    (tmp_path / "validated.tsv").write_text(f"{head}\ns1\ttrain.wav\tja\t\t\t\n")
    found = read_rows(open_source(str(tmp_path), options()))
    assert [row["split"] for row in found] == ["dev", "test", "train"]
    assert {row["audio"].parent for row in found} == {tmp_path / "clips"}
    assert {(row["dialect"], row["age_group"]) for row in found} == {("Fynsk", "50+")}
