"""CSV, TSV and JSON lines: their columns, times, splits and paths, and rows that are refused."""

from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import SourceError
from danish_asr.corpus.division import divide
from danish_asr.corpus.sources import open_source, resolve_source
from tests.corpora import options, read_rows, record, rows_of, write_lines

GOOD = '{"audio_filepath": "a.wav", "text": "ja"}'


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
def test_a_time_with_one_end_is_refused(tmp_path: Path, names: str, message: str) -> None:
    path = write_csv(tmp_path / "train.csv", f"path,text,{names}", "a,ja,0.7,1.2", "a,nej,1.3,2.4")
    with pytest.raises(SourceError, match=f"{message}.*--column start=.*--column end="):
        rows_of(path)
    start, end = names.split(",")
    rows = rows_of(path, columns={"start": start, "end": end, "seconds": ""})
    assert [row["start"] for row in rows] == [0.7, 1.3]
    assert [row["seconds"] for row in rows] == pytest.approx([0.5, 1.1])


def test_columns_of_each_kind_of_row_are_named(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"path": "a.wav", "text": "ja"},
        {"path": "b.wav", "tekst": "nej", "note": 1},
    ]
    source = open_source(str(write_lines(tmp_path / "train.jsonl", rows)), options())
    assert source.rows["text"].to_pylist() == ["ja", "nej"]
    assert source.columns["text"] == "text or tekst"
    assert source.ignored == ("note",)


@pytest.mark.parametrize("inside", [{"start": 1.0, "end": 2.0}, {"value": {"start": 1.0}}])
def test_times_inside_a_column_alone_are_refused(tmp_path: Path, inside: dict[str, Any]) -> None:
    """Label Studio writes regions so: the recording would get the text of one of them."""
    row = {"audio": "a.wav", "text": "ja", "label": [inside]}
    path = write_lines(tmp_path / "train.jsonl", [row])
    with pytest.raises(SourceError, match=r"times inside its column label.*SRT"):
        rows_of(path)
    write_lines(path, [row | {"start": 1.0, "end": 2.0}])
    assert [row["start"] for row in rows_of(path)] == [1.0]
    words = [inside | {"word": "ja"}]  # as Whisper and manifests have them
    for name, value in (("words", [inside]), ("label", words)):
        write_lines(path, [{"audio": "a.wav", "text": "ja", name: value}])
        assert [row["text"] for row in rows_of(path)] == ["ja"]


def test_a_column_split_divides_the_rows(tmp_path: Path) -> None:
    splits = ("Train", "valid", "", "test")
    lines = [f"{number}.wav;nr. {number};{split}" for number, split in enumerate(splits)]
    path = write_csv(tmp_path / "dev.csv", "file;text;split", *lines, "4.wav;for;mange;felter")
    assert [row["split"] for row in own_splits(path)] == ["train", "dev", "dev", "test", "test"]
    assert {row["split"] for row in rows_of(path, split="test")} == {"test"}


def test_people_of_several_tables_in_a_folder_are_divided_once(tmp_path: Path) -> None:
    for name in ("read", "talk"):
        lines = [f"{name}{n}.wav,ja,s{n % 6}" for n in range(12)]
        write_csv(tmp_path / f"{name}.csv", "path,text,speaker", *lines)
    own = options(split_by_speaker="60/20/20")
    source = open_source(str(tmp_path), own)
    assert ["(read.csv, talk.csv)" in line for line in source.counts] == [True]
    rows = divide(source.rows, own)
    pairs = {*zip(rows["speaker_id"].to_pylist(), rows["split"].to_pylist(), strict=True)}
    assert len(pairs) == 6
    assert {split for _, split in pairs} == {"train", "dev", "test"}


def test_a_spreadsheet_is_read_as_excel_writes_it_in_danish(tmp_path: Path) -> None:
    lines = [
        "sep=;",
        "sti;text;Alder;Køn",
        "a.wav;ja;34,0;K",
        ";;;",
        "b.wav;nej;25 år",
        "c.wav;tak",
    ]
    path = write_csv(tmp_path / "train.csv", *lines, ";;;", "d.wav;så;30-39;k")
    source = open_source(str(path), options(columns={"audio": "sti"}))
    rows = source.rows.to_pylist()
    assert [(row["age"], row["age_group"], row["gender"]) for row in rows] == [
        *((34, "25-49", "female"), (25, "25-49", None), (None, None, None)),
        (None, "25-49", "female"),
    ]
    assert [(row["line"], row["row"], row["refused"]) for row in rows] == [
        *((3, 0, None), (5, 1, None), (6, 2, None), (8, 3, None)),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"audio_filepath": "a.w', "malformed row"),
        ('{"audio_filepath": "a.wav", "text": "æøå"}'.encode("latin-1"), "malformed row"),
        (b'{"audio_filepath": "a.wav", "text": ["ja"]}', "malformed text"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"\n".join([GOOD.encode(), b"", line, GOOD.encode()]))
    rows = rows_of(path)
    assert [row["refused"] for row in rows] == [None, reason, None]
    assert [rows[1][name] for name in ("file", "row", "line")] == ["train.jsonl", 1, 3]


def test_a_chosen_id_of_several_columns_is_read(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "train.csv", "path,text,ID,part,duration", "a,ja,u,1,2", "a,ja,u,,")
    source = open_source(str(path), options(columns={"id": "ID,part"}))
    assert source.rows["id"].to_pylist() == ["u_1", "train.csv:1"]
    read = {"audio": "path", "text": "text", "id": "ID,part", "seconds": "duration"}
    assert source.columns == read
    assert open_source(str(path), options()).ignored == ("part",)


@pytest.mark.parametrize(
    ("name", "content", "is_read"),
    [
        ("b.csv", "path,text\na,ja", True),
        ("b.CSV", "path,text\na,ja", True),
        ("b.tsv", "path\ttext\na\tja", True),
        ("b.tsv", "start\tend\ttext\n0\t900\tja", False),  # Whisper's
        ("b.json", '{"Text": "ja", "Audio": "a"}', True),
        ("b.csv", "path,text", False),
        ("b.txt", "path,text\na,ja", False),
        (".b.csv", "path,text\na,ja", False),
        ("sub/b.csv", "path,text\na,ja", False),
        ("sub/metadata.csv", "path,text\na,ja", True),
        ("sub/more/metadata.csv", "path,text\na,ja", True),
        ("b.csv/c.txt", "", False),
        *(("b.json", content, False) for content in ("[1, 2]", "", '{"text": "ja"}')),
        ("b.json", '{"audio": "a", "segments": []}', False),
    ],
)
def test_the_tables_of_a_folder_are_read(
    tmp_path: Path, name: str, content: str, *, is_read: bool
) -> None:
    (tmp_path / "a.jsonl").write_text(GOOD)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)
    assert [row["file"] for row in rows_of(tmp_path)] == ["a.jsonl"] + [name] * is_read


@pytest.mark.parametrize("parts", [("",), ("train/", "validation/", "test/")])
def test_an_audiofolder_has_its_splits_from_folders(tmp_path: Path, parts: tuple[str]) -> None:
    names = ["train/0.wav", "train/sub/1.wav", "validation/0.wav", "test/0.wav"]
    for name in names:
        record((tmp_path / name).parent, Path(name).name)
    for part in parts:
        own = [name.removeprefix(part) for name in names if name.startswith(part)]
        lines = [f"{name},tekst {name}" for name in own]
        write_csv(tmp_path / f"{part}metadata.csv", "file_name,transcription", *lines)
    assert resolve_source(str(tmp_path)).kind == "table"
    found = own_splits(tmp_path)
    assert sorted(row["split"] for row in found) == ["dev", "test", "train", "train"]
    assert sorted(row["audio"] for row in found) == sorted(tmp_path / name for name in names)


def test_common_voices_folder_is_read_by_its_columns(tmp_path: Path) -> None:
    head = "client_id\tpath\tsentence\tage\tgender\taccents"
    for split in ("train", "dev", "test"):
        record(tmp_path / "clips", f"{split}.wav")
        line = f"s1\t{split}.wav\tnr {split}\tfifties\tfemale_feminine\tfynsk"
        (tmp_path / f"{split}.tsv").write_text(f"{head}\n{line}\n")
    (tmp_path / "validated.tsv").write_text(f"{head}\ns1\ttrain.wav\tja\t\t\t\n")
    source = open_source(str(tmp_path), options())
    found = read_rows(source)
    assert [row["split"] for row in found] == ["dev", "test", "train"]
    elsewhere, unread, read = source.counts.items()
    assert ("clips/dev.wav" in elsewhere[0], elsewhere[1]) == (True, 3)
    assert ("(validated.tsv)" in unread[0], unread[1]) == (True, 1)
    assert ("(dev.tsv, test.tsv, train.tsv)" in read[0], read[1]) == (True, 3)
    assert {row["audio"].parent for row in found} == {tmp_path / "clips"}
    assert {(row["dialect"], row["age_group"]) for row in found} == {("Fynsk", "50+")}
