import gzip
import json
import unicodedata
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq
import pytest

from danish_asr.base.audio import decode
from danish_asr.base.errors import DatasetError, SourceError
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source
from tests.builders import encode, tone
from tests.corpora import options, read_rows, rows_of, write_lines

RADIO = ConvertOptions(name="radio")
Form = Literal["NFC", "NFD"]
GOOD = '{"audio_filepath": "a.wav", "text": "ja"}'


def test_nemos_keys_are_read(tmp_path: Path) -> None:
    row = {"audio_filepath": "wav/a.wav", "text": "på Ærø", "duration": 1.5, "offset": 3}
    path = write_lines(tmp_path / "train_manifest.json", [row, row | {"audio_filepath": "/b.wav"}])
    found, absolute = read_rows(open_source(str(path), RADIO))
    assert found["audio"] == tmp_path / "wav" / "a.wav"
    assert absolute["audio"] == Path("/b.wav")
    assert (found["text"], found["start"], found["seconds"]) == ("på Ærø", 3.0, 1.5)
    assert found["id"] == "train_manifest.json:0"
    assert (found["corpus"], found["split"]) == ("radio", "train")


def test_a_csv_file_is_read_with_quotes_and_line_ends_in_texts(tmp_path: Path) -> None:
    (tmp_path / "dev.csv").write_text(
        '\ufeffaudio_filepath,text,speaker_id,age\na.wav,"ja, ""to""\nlinjer",s1,34\n'
        "b.wav,nej,,ukendt\n\nc.wav,for,mange,felter,her\n"
    )
    found = read_rows(open_source(str(tmp_path / "dev.csv"), RADIO))
    assert [row["text"] for row in found] == ['ja, "to"\nlinjer', "nej", None]
    assert [row["speaker_id"] for row in found] == ["s1", None, None]
    assert [row["age"] for row in found] == [34, None, None]
    assert [row["refused"] for row in found] == [None, None, "malformed row"]


TABLE = (
    ("path", "sentence", "client_id", "accents", "sex", "age"),
    ("a.mp3", "ja", "s1", "fynsk", "f", "29"),
)
NAMED = (("Filename", "Transcription", "Speaker", "Accent", "gender", "Age"), TABLE[1])
DANISH = (("lydfil", "tekst", "taler", "dialekt", "Køn", "alder"), TABLE[1])


@pytest.mark.parametrize(
    "rows", [TABLE, NAMED, DANISH], ids=["lower case", "capitals", "in Danish"]
)
@pytest.mark.parametrize(
    ("suffix", "between"),
    [*(("csv", between) for between in (",", ";", "\t", "|")), ("tsv", "\t"), ("CSV", ",")],
)
def test_usual_names_of_columns_and_delimiters_are_found(
    tmp_path: Path, rows: tuple[tuple[str, ...], ...], suffix: str, between: str
) -> None:
    path = tmp_path / f"test.{suffix}"
    path.write_text("\n".join(between.join(row) for row in rows))
    (found,) = read_rows(open_source(str(path), RADIO))
    assert (found["audio"], found["text"]) == (tmp_path / "a.mp3", "ja")
    assert (found["speaker_id"], found["dialect"], found["gender"]) == ("s1", "Fynsk", "female")
    assert (found["age"], found["age_group"]) == (29, "25-49")


@pytest.mark.parametrize(
    ("times", "start", "seconds"),
    [
        ({"start": 1.5, "end": 4}, 1.5, 2.5),
        ({"end": "2"}, 0.0, 2.0),
        ({"start_time": "1", "end_time": "3.5", "duration": 2.45}, 1.0, 2.45),
        ({"offset": 2, "start": 7, "duration": 1}, 2.0, 1.0),
        ({"offset": "", "duration": None}, 0.0, None),
        ({"start": "1:02:03,5", "end": "01:02:04.0"}, 3723.5, 0.5),
        ({"start_ms": 1500, "end_ms": "4000"}, 1.5, 2.5),
        ({"Start": "1,5", "Slut": "4"}, 1.5, 2.5),
        ({"start": 1.5, "duration": float("nan")}, 1.5, None),
    ],
)
def test_an_end_gives_the_length(
    tmp_path: Path, times: dict[str, Any], start: float, seconds: float | None
) -> None:
    path = write_lines(tmp_path / "train.jsonl", [{"audio": "a", "text": "ja"} | times])
    (found,) = read_rows(open_source(str(path), RADIO))
    assert (found["start"], found["seconds"]) == (start, seconds)


def test_spaces_in_and_around_names_of_columns_and_around_paths_do_not_matter(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.csv").write_text("Audio Path ; Text ; Speaker ID\n a b.wav ; ja ; s1\n")
    (found,) = read_rows(open_source(str(tmp_path), RADIO))
    assert (found["audio"], found["speaker_id"]) == (tmp_path / "a b.wav", "s1")


@pytest.mark.parametrize("whole_folder", [True, False])
def test_a_packed_table_is_told_to_need_unpacking(tmp_path: Path, *, whole_folder: bool) -> None:
    path = tmp_path / "train.csv.gz"
    path.write_bytes(gzip.compress(HEADER))
    with pytest.raises(SourceError, match="decompress it"):
        open_source(str(tmp_path if whole_folder else path), RADIO)


def test_a_column_split_divides_the_rows(tmp_path: Path) -> None:
    splits = ("train", "valid", "train", "test")
    lines = [f"{number}.wav;nr. {number};{split}" for number, split in enumerate(splits)]
    lines.insert(2, "for;mange;felter;her")
    path = tmp_path / "all.csv"
    path.write_text("\n".join(["file;text;split", *lines]))
    found = read_rows(open_source(str(path), RADIO))
    assert [row["split"] for row in found] == ["train", "dev", "dev", "train", "test"]
    assert [row["refused"] for row in found] == [None, None, "malformed row", None, None]
    assert {row["split"] for row in rows_of(path, split="test")} == {"test"}
    path.write_text("file;text;split\na;ja;dev\n\na;ja;eval\n")
    with pytest.raises(SourceError, match=r"all.csv: 1 rows have the split 'eval' \(line 4\)"):
        open_source(str(path), RADIO)


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as the name's ending says; a missing key is an empty cell."""
    names = list({name: None for row in rows for name in row})
    lines = [",".join(str(row.get(name, "")) for name in names) for row in rows]
    text = "\n".join([",".join(names), *lines])
    if path.suffix == ".jsonl":
        text = "\n".join(map(json.dumps, rows))
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_rows_with_an_empty_split_are_in_the_split_of_their_file(tmp_path: Path, name: str) -> None:
    splits = ("test", "", "dev", "train", "")
    rows = [
        {"path": f"{number}.wav", "text": f"nr {number}"} | ({"split": split} if split else {})
        for number, split in enumerate(splits)
    ]
    path = write_table(tmp_path / f"train.{name}", rows)
    found = [row["split"] for row in read_rows(open_source(str(path), RADIO))]
    assert found == ["test", "train", "dev", "train", "train"]


def test_rows_without_a_split_are_refused_where_others_have_one_and_the_file_says_none(
    tmp_path: Path,
) -> None:
    rows = [{"path": "a.wav", "text": "ja", "split": split} for split in ("dev", "", "", "")]
    path = write_table(tmp_path / "all.csv", rows)
    with pytest.raises(SourceError, match=r"all\.csv: 3 rows have no split \(line 3\)"):
        open_source(str(path), RADIO)


BAD_LINES = [
    (b'{"audio_filepath": "a.w', "malformed row"),
    ('{"audio_filepath": "a.wav", "text": "æøå"}'.encode("latin-1"), "malformed row"),
    (b'{"audio_filepath": "a.wav", "text": ["ja"]}', "malformed text"),
    (b'{"audio_filepath": "a.wav", "text": "ja", "id": ["a"]}', "malformed id"),
    (b'{"audio_filepath": "a", "text": "a", "start": "x"}', "malformed start"),
    (b'{"audio_filepath": "a", "text": "a", "start": 1, "end": 0.5}', "end before its start"),
    (
        b'{"audio_filepath": "a", "text": "a", "start": 1, "end": 2, "duration": 2}',
        "end and duration differ",
    ),
    *(
        (
            f'{{"audio_filepath": "a", "text": "a", "duration": {value}}}'.encode(),
            "malformed seconds",
        )
        for value in ("Infinity", "-1", '"1,5,5"', "[1]")
    ),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
def test_a_line_that_cannot_be_read_goes_to_the_ledger(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"\n".join([GOOD.encode(), b"", line, GOOD.encode()]))
    assert [row["refused"] for row in rows_of(path)] == [None, reason, None]
    (tmp_path / "a.wav").write_bytes(tone(0.2))
    with pytest.raises(DatasetError, match=rf"The first: train\.jsonl, line 3.* \({reason}\)"):
        convert(path, tmp_path / "ds", options(split="train"))
    convert(path, tmp_path / "ds", options(split="train", max_drop=0.5))
    (entry,) = pq.read_table(tmp_path / "ds" / "ledger.parquet").to_pylist()
    assert list(entry.values()) == ["train.jsonl", 1, "own", "train.jsonl:1", None, reason]


HEADER = b"audio_filepath,text\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train.csv", HEADER + b"a,ja, tak\n", "none of its 1 rows .* line 2: expected 2 fields"),
        ("train.csv", HEADER + b'a,et\nb,"nej\n', r"train\.csv:[23]: .*quotes"),
        ("train.csv", HEADER + b"a,\xe6t\n", r"train\.csv:2: .*iconv -f LATIN1 "),
        ("train.csv", b"text,audio_filepath,text", "csv:1: .* text"),
        ("train.csv", (HEADER + b"a,ja\n").replace(b"\n", b"\r"), r"train\.csv: .*carriage"),
        ("all.jsonl", GOOD.encode(), r"all\.jsonl: .*--split"),
    ],
)
def test_an_unusable_manifest_is_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message):
        open_source(f"table:{tmp_path / name}", RADIO)


def test_a_folder_is_read_with_a_column_that_some_file_has(tmp_path: Path) -> None:
    row = '{"audio_filepath": "a", "text": "a", "køn": "f"}'
    (tmp_path / "train.jsonl").write_text(row, encoding="utf-8-sig")
    (tmp_path / "dev.jsonl").write_text(GOOD)
    found = read_rows(open_source(f"table:{tmp_path}", options(columns={"gender": "køn"})))
    assert [(row["split"], row["gender"]) for row in found] == [("dev", None), ("train", "female")]
    with pytest.raises(SourceError, match="there is no sex; found"):
        open_source(f"table:{tmp_path}", options(columns={"gender": "sex"}))


def test_decimal_commas_capitals_and_empty_ids_of_spreadsheets_are_read(tmp_path: Path) -> None:
    lines = "Path;Text;Split;Start;id", "a.wav;ja;dev;0,5;", "a.wav;nej;dev;1,25;b"
    (tmp_path / "table.csv").write_text("\n".join(lines), encoding="utf-8")
    first, second = read_rows(open_source(str(tmp_path / "table.csv"), RADIO))
    assert (first["split"], first["start"], second["start"]) == ("dev", 0.5, 1.25)
    assert (first["id"], second["id"], first["refused"]) == ("table.csv:0", "b", None)


@pytest.mark.parametrize(
    "lines", [(",path,text", "7,a.wav,ja"), ("path;text;;speaker", "a.wav;ja;7;s1")]
)
def test_a_column_without_a_name_is_ignored_and_said_to_be(
    tmp_path: Path, lines: tuple[str, str]
) -> None:
    """pandas writes its index so; a channel has no usual name of a column either."""
    (tmp_path / "train.csv").write_text("\n".join(lines))
    source = open_source(str(tmp_path), RADIO)
    (found,) = read_rows(source)
    assert (found["text"], found["channel"], found["refused"]) == ("ja", None, None)
    assert source.ignored == ("a column without a name",)


def test_a_list_in_json_has_a_row_for_each_object(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text(json.dumps([json.loads(GOOD), 7, {"audio": "b.wav", "text": "nej"}], indent=1))
    for location in (path, tmp_path):
        assert [row["text"] for row in rows_of(location)] == ["ja", None, "nej"]


def test_a_table_without_a_header_is_told_to_need_one(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a.wav,ja\nb.wav,nej\n")
    with pytest.raises(SourceError, match=r"first line is a row, .* path,text"):
        open_source(str(tmp_path), RADIO)


def test_paths_of_windows_are_found(tmp_path: Path) -> None:
    (tmp_path / "wav").mkdir()
    for name in ("wav/a.wav", "b\\c.wav"):
        (tmp_path / name).write_bytes(tone(0.2))
    (tmp_path / "train.csv").write_text("path,text\nwav\\a.wav,ja\nb\\c.wav,nej\nd\\e.wav,x\n")
    found = [row["audio"] for row in read_rows(open_source(str(tmp_path), RADIO))]
    assert found == [tmp_path / "wav" / "a.wav", tmp_path / "b\\c.wav", tmp_path / "d" / "e.wav"]


@pytest.mark.parametrize("content", ['{"a": 1}', "{\n}", "[1, 2]", "", '{"text": "ja"}'])
def test_other_json_in_a_folder_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "train.jsonl").write_text(GOOD)
    (tmp_path / "notes.json").write_text(content)
    assert {row["file"] for row in rows_of(tmp_path)} == {"train.jsonl"}


@pytest.mark.parametrize(
    ("extra", "listed"), [({}, 0.4), ({"offset": 0.0}, None), ({"duration": 0.95}, None)]
)
def test_what_a_duration_leaves_of_a_file_is_counted(
    tmp_path: Path, extra: dict[str, float], listed: float | None
) -> None:
    (tmp_path / "a.wav").write_bytes(tone(1.0))
    write_lines(
        tmp_path / "train.jsonl",
        [{"audio": "a.wav", "text": "ja tak du", "duration": 0.6} | extra],
    )
    inventory = convert(tmp_path, tmp_path / "out", RADIO)
    assert inventory.suspects == ({} if listed is None else {"seconds after the given length": 1})
    if listed is not None:
        (row,) = pq.read_table(tmp_path / "out" / "suspects.parquet").to_pylist()
        assert row["value"] == pytest.approx(listed)


@pytest.mark.parametrize(("by", "lost"), [("file", "b.jsonl"), ("split", "the split dev")])
def test_a_whole_file_or_split_in_the_ledger_is_an_error_whatever_may_be_dropped(
    tmp_path: Path, by: str, lost: str
) -> None:
    (tmp_path / "x.wav").write_bytes(tone(0.5))
    good = {"audio": "x.wav", "text": "ja tak", "split": "train"}
    bad = good | {"text": ""} | ({"split": "dev"} if by == "split" else {})
    write_lines(tmp_path / "a.jsonl", [good] * 30)
    write_lines(tmp_path / "b.jsonl", [bad] * (10 if by == "file" else 1))
    with pytest.raises(DatasetError, match=f"nothing is left of {lost}.*empty text.*--max-drop"):
        convert(tmp_path, tmp_path / "out", options(max_drop=1.0))


@pytest.mark.parametrize("as_column", [True, False])
def test_a_channel_is_chosen_for_all_rows_or_by_a_column(
    tmp_path: Path, *, as_column: bool
) -> None:
    wave = np.sin(np.arange(8_000) / 5)
    (tmp_path / "a.wav").write_bytes(encode(np.stack([wave / 4, wave / 2], axis=1), 16_000))
    rows = [{"audio": "a.wav", "text": "ja", "side": 1.0 + number % 2} for number in range(4)]
    write_lines(tmp_path / "train.jsonl", [*rows, rows[0] | {"side": 3}])
    columns = {"channel": "side"} if as_column else {}
    convert(tmp_path, tmp_path / "out", options(channel=2, max_drop=0.5, columns=columns))
    written = pq.read_table(tmp_path / "out" / "version=0").to_pylist()
    peaks = [decode(row["audio_bytes"])[0].max() for row in written]
    assert peaks == pytest.approx([0.25, 0.5] * 2 if as_column else [0.5] * 5, abs=1e-2)
    ledger = pq.read_table(tmp_path / "out" / "ledger.parquet").to_pylist()
    assert [row["reason"] for row in ledger] == (["no channel 3"] if as_column else [])


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("BEGIN,END", "END.*BEGIN"),
        ("onset,offset", "offset.*onset"),
        ("beg,end", "end.*beg"),
        ("start,dur", "start.*dur"),
        ("startTime,duration", "duration.*startTime"),
        ("fra,til", r"line 2 and train\.csv, line 3"),
        ("tier,sender", r"line 2 and train\.csv, line 3"),
    ],
)
def test_a_time_of_which_only_one_end_is_known_is_refused(
    tmp_path: Path, names: str, found: str
) -> None:
    path = tmp_path / "train.csv"
    path.write_text(f"path,text,{names}\na.wav,ja,0.7,1.2\na.wav,nej,1.3,2.4\n")
    with pytest.raises(SourceError, match=f"{found}.*--column start=.*--column end="):
        open_source(str(path), RADIO)
    start, end = names.split(",")
    rows = rows_of(path, columns={"start": start, "end": end, "seconds": ""})
    assert [row["start"] for row in rows] == [0.7, 1.3]
    assert [row["seconds"] for row in rows] == pytest.approx([0.5, 1.1])


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        ("duration,gender_length", {}),
        ("duration,weekend", {}),
        ("duration,start_ms", {"start": ""}),
        ("duration,channel", {"channel": "channel"}),
    ],
)
def test_other_columns_and_a_single_time_are_no_reason_to_refuse(
    tmp_path: Path, names: str, columns: dict[str, str]
) -> None:
    path = tmp_path / "train.csv"
    audio = "a" if "channel" in columns else "b"
    path.write_text(f"path,text,{names}\na.wav,ja,0.7,1\n{audio}.wav,nej,0.8,2\na.wav,ja,0.7,1\n")
    rows = rows_of(path, columns=columns)
    assert [row["seconds"] for row in rows] == [0.7, 0.8, 0.7]


@pytest.mark.parametrize("other", ["sentence", "Transcription"])
def test_of_two_columns_of_text_one_is_chosen(tmp_path: Path, other: str) -> None:
    path = tmp_path / "train.csv"
    path.write_text(f"path,text,{other}\na.wav,ja,nej\n")
    with pytest.raises(SourceError, match=f"text, {other}.*--column text="):
        open_source(str(path), RADIO)
    assert [row["text"] for row in rows_of(path, columns={"text": other})] == ["nej"]


def test_a_path_in_an_object_is_read(tmp_path: Path) -> None:
    row = {"audio": {"bytes": None, "path": "a.wav"}, "text": "ja"}
    path = write_lines(tmp_path / "train.jsonl", [row])
    assert [row["audio"] for row in read_rows(open_source(str(path), RADIO))] == [
        tmp_path / "a.wav"
    ]


QUOTED = ("ja", '"kan du', "nej", 'her"', 'en "god" dag', '"ja" og "nej"')


def test_quotes_are_text_where_fields_are_separated_by_a_bar(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    lines = [f"wav/{number}.wav|{text}" for number, text in enumerate(QUOTED)]
    path.write_text("\n".join(["path|text", *lines]))
    found = read_rows(open_source(str(path), RADIO))
    assert [row["text"] for row in found] == [*QUOTED]
    path.write_text('"path"|"text"\n"a.wav"|"ja | ""tak"""\n')
    assert [row["text"] for row in read_rows(open_source(str(path), RADIO))] == ['ja | "tak"']


@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_rows_that_quotes_join_are_refused(tmp_path: Path, between: str) -> None:
    path = tmp_path / "train.csv"
    lines = [f"wav/{number}.wav{between}{text}" for number, text in enumerate(QUOTED[:4])]
    path.write_text("\n".join([f"path{between}text", *lines]))
    with pytest.raises(SourceError, match=r"train\.csv:3: .*quotes"):
        open_source(str(path), RADIO)


def test_ids_in_a_column_of_capitals_are_unique(tmp_path: Path) -> None:
    rows = [{"path": f"{n}.wav", "text": f"nr {n}", "ID": f"u{n // 2}"} for n in range(4)]
    found = rows_of(write_table(tmp_path / "train.csv", rows))
    assert [row["id"] for row in found] == ["u0", "u0", "u1", "u1"]
    assert [row["refused"] for row in found] == [None, "duplicate id"] * 2


def test_the_ids_of_a_row_may_be_several_columns(tmp_path: Path) -> None:
    rows = [{"path": "a.wav", "text": "ja", "meeting": "m", "part": n} for n in (1, "")]
    found = rows_of(write_table(tmp_path / "train.csv", rows), columns={"id": "meeting,part"})
    assert [row["id"] for row in found] == ["m_1", "train.csv:1"]


@pytest.mark.parametrize("times", [{"start": 1.0, "end": 2.0}, {"value": {"start": 1.0}}])
def test_times_inside_a_column_are_refused_unless_the_row_has_its_own(
    tmp_path: Path, times: dict[str, Any]
) -> None:
    """Label Studio writes regions so: the recording would get the text of one of them."""
    row = {"audio": "a.wav", "text": "ja", "label": [times]}
    path = write_lines(tmp_path / "train.jsonl", [row])
    with pytest.raises(SourceError, match=r"times inside its column label.*SRT"):
        rows_of(path)
    write_lines(path, [row | {"start": 1.0, "end": 2.0}])
    assert [row["start"] for row in rows_of(path)] == [1.0]


@pytest.mark.parametrize(("there", "named"), [("NFD", "NFC"), ("NFC", "NFD")])
@pytest.mark.parametrize("folder", ["", "øre å/"])
def test_a_name_in_another_unicode_form_is_that_file(
    tmp_path: Path, there: Form, named: Form, folder: str
) -> None:
    name = f"{folder}blå bær.wav"
    audio = tmp_path / unicodedata.normalize(there, name)
    audio.parent.mkdir(exist_ok=True)
    audio.write_bytes(tone(0.2))
    row = {"path": unicodedata.normalize(named, name), "text": "ja"}
    (found,) = rows_of(write_table(tmp_path / "train.csv", [row]))
    assert found["audio"] == audio


def test_a_name_is_that_of_a_recording_in_some_folder_unless_there_are_two(tmp_path: Path) -> None:
    for name in ("audios/0.wav", "a/1.wav", "b/1.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(tone(0.2))
    names = ("0.wav", "0", "1", "a/1")
    rows = [{"path": name, "text": "ja"} for name in names]
    found = [row["audio"] for row in rows_of(write_table(tmp_path / "train.csv", rows))]
    zero = tmp_path / "audios" / "0.wav"
    assert found[:2] == [zero, zero]
    assert str(found[2]) == "several recordings of this name"
    assert found[3] == tmp_path / "a" / "1.wav"


def test_initials_are_speakers(tmp_path: Path) -> None:
    rows = [
        {"path": f"{n}.wav", "text": "ja", "speaker": who}
        for n, who in enumerate(("NA", "na", "n/a"))
    ]
    found = rows_of(write_table(tmp_path / "train.csv", rows))
    assert [row["speaker_id"] for row in found] == ["NA", "na", None]


def test_listed_rows_are_left_out(tmp_path: Path) -> None:
    rows = [{"path": "a.wav", "text": f"nr {n}", "id": n, "start": n / 10} for n in range(4)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.wav").write_bytes(tone(2))
    path = write_table(tmp_path / "in" / "train.csv", rows)
    (tmp_path / "wrong.csv").write_text("corpus,id\nown,1\nother,2\n")
    inventory = convert(path, tmp_path / "out", options(without=tmp_path / "wrong.csv", max_drop=0))
    assert inventory.dropped == [{"reason": "listed in wrong.csv", "dialect": None, "rows": 1}]
    (tmp_path / "wrong.csv").write_text("name\n1\n")
    with pytest.raises(SourceError, match=r"wrong\.csv:2: expected the columns corpus and id"):
        convert(path, tmp_path / "out", options(without=tmp_path / "wrong.csv"))
