import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from danish_asr.base import tables
from danish_asr.base.audio import decode
from danish_asr.base.errors import DatasetError, SourceError
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import SourceOptions, open_source
from danish_asr.corpus.sources.base import Source, Utterance
from tests.builders import encode, tone

RADIO = SourceOptions(corpus="radio")
GOOD = '{"audio_filepath": "a.wav", "text": "ja"}'


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def read_all(source: Source) -> list[Utterance]:
    return [row for file in source.files for row in source.read(file, 0, file.rows)]


@pytest.mark.parametrize("splits", [("",), ("train", "test")])
def test_shards_that_are_read_in_their_order_cost_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, splits: tuple[str, ...]
) -> None:
    rows = [json.loads(GOOD) | {"split": splits[n % len(splits)]} for n in range(40)]
    source = open_source(str(write_lines(tmp_path / "train.jsonl", rows)), RADIO)
    parse, parsed = tables._json_row, []

    def count(*line: Any) -> Any:
        parsed.append(line)
        return parse(*line)

    monkeypatch.setattr(tables, "_json_row", count)
    found = [
        row.row
        for file in source.files
        for start in range(0, file.rows, 5)
        for row in source.read(file, start, start + 5)
    ]
    assert found == [row for file in source.files for row in range(file.rows)]
    assert len(parsed) <= 40 * len(splits)


def test_nemos_keys_are_read(tmp_path: Path) -> None:
    row = {"audio_filepath": "wav/a.wav", "text": "på Ærø", "duration": 1.5, "offset": 3}
    path = write_lines(tmp_path / "train_manifest.json", [row, row | {"audio_filepath": "/b.wav"}])
    source = open_source(str(path), RADIO)
    found, absolute = read_all(source)
    assert found.audio == tmp_path / "wav" / "a.wav"
    assert absolute.audio == Path("/b.wav")
    assert (found.text, found.start, found.seconds) == ("på Ærø", 3.0, 1.5)
    assert found.id == "train_manifest.json:0"
    assert (source.files[0].corpus, source.files[0].split) == ("radio", "train")
    assert list(source.local_files(source.files[0])) == [path, found.audio, absolute.audio]


def test_a_csv_file_is_read_with_quotes_and_line_ends_in_texts(tmp_path: Path) -> None:
    (tmp_path / "dev.csv").write_text(
        '\ufeffaudio_filepath,text,speaker_id,age\na.wav,"ja, ""to""\nlinjer",s1,34\n'
        "b.wav,nej,,ukendt\n\nc.wav,for,mange,felter,her\n"
    )
    found = read_all(open_source(str(tmp_path / "dev.csv"), RADIO))
    assert [row.text for row in found] == ['ja, "to"\nlinjer', "nej", None]
    assert [row.speaker.speaker_id for row in found] == ["s1", None, None]
    assert [row.speaker.age for row in found] == [34, None, None]
    assert [row.refused for row in found] == [None, None, "malformed row"]


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
    (found,) = read_all(open_source(str(path), RADIO))
    speaker = found.speaker
    assert (found.audio, found.text) == (tmp_path / "a.mp3", "ja")
    assert (speaker.speaker_id, speaker.dialect, speaker.gender) == ("s1", "Fynsk", "female")
    assert (speaker.age, speaker.age_group) == (29, "25-49")


@pytest.mark.parametrize(
    ("times", "start", "seconds"),
    [
        ({"start": 1.5, "end": 4}, 1.5, 2.5),
        ({"end": "2"}, 0.0, 2.0),
        ({"start_time": "1", "end_time": "3.5", "duration": 2.45}, 1.0, 2.45),
        ({"offset": 2, "start": 7, "duration": 1}, 2.0, 1.0),
        ({"offset": "", "duration": None}, 0.0, None),
    ],
)
def test_an_end_gives_the_length(
    tmp_path: Path, times: dict[str, Any], start: float, seconds: float | None
) -> None:
    path = write_lines(tmp_path / "train.jsonl", [{"audio": "a", "text": "ja"} | times])
    (found,) = read_all(open_source(str(path), RADIO))
    assert (found.start, found.seconds) == (start, seconds)


def test_spaces_in_and_around_names_of_columns_and_around_paths_do_not_matter(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.csv").write_text("Audio Path ; Text ; Speaker ID\n a b.wav ; ja ; s1\n")
    (found,) = read_all(open_source(str(tmp_path), RADIO))
    assert (found.audio, found.speaker.speaker_id) == (tmp_path / "a b.wav", "s1")


@pytest.mark.parametrize("whole_folder", [True, False])
def test_a_packed_table_is_told_to_need_unpacking(tmp_path: Path, *, whole_folder: bool) -> None:
    path = tmp_path / "train.csv.gz"
    path.write_bytes(gzip.compress(HEADER))
    with pytest.raises(SourceError, match="gunzip"):
        open_source(str(tmp_path if whole_folder else path), RADIO)


def test_a_column_split_makes_a_file_of_each_split(tmp_path: Path) -> None:
    splits = ("train", "valid", "train", "test-clean")
    lines = [f"{number}.wav;nr. {number};{split}" for number, split in enumerate(splits)]
    lines.insert(2, "for;mange;felter;her")
    path = tmp_path / "all.csv"
    path.write_text("\n".join(["file;text;split", *lines]))
    source = open_source(str(path), RADIO)
    assert [(file.name, file.split, file.rows) for file in source.files] == [
        ("all.csv#test-clean", "test", 1),
        ("all.csv#train", "train", 2),
        ("all.csv#valid", "dev", 2),
    ]
    train = source.files[1]
    assert [row.text for row in source.read(train, 0, 2)] == ["nr. 0", "nr. 2"]
    assert [(row.row, row.text) for row in source.read(train, 1, 2)] == [(1, "nr. 2")]
    assert list(source.local_files(source.files[2])) == [path, tmp_path / "1.wav"]
    one = open_source(str(path), SourceOptions(corpus="radio", split="test"))
    assert [(file.name, file.split, file.rows) for file in one.files] == [("all.csv", "test", 5)]
    path.write_text("file;text;split\na;ja;dev\n\na;ja;eval\n")
    with pytest.raises(SourceError, match=r"all.csv:4: 1 rows have the split 'eval'.*--split"):
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
def test_rows_with_an_empty_split_are_in_the_split_of_their_file_once(
    tmp_path: Path, name: str
) -> None:
    splits = ("test", "test", "dev", "train", "", "", "", "train") * 40
    rows = [
        {"path": f"{number}.wav", "text": f"nr {number}"} | ({"split": split} if split else {})
        for number, split in enumerate(splits)
    ]
    write_table(tmp_path / f"train.{name}", rows)
    write_table(tmp_path / f"dev.{name}", [{"path": "a.wav", "text": "nr x"}])
    source = open_source(f"manifest:{tmp_path}", RADIO)
    found: dict[str, list[str]] = {}
    for file in source.files:
        texts = [
            row.text or ""
            for start in range(0, file.rows, 7)
            for row in source.read(file, start, min(start + 7, file.rows))
        ]
        assert [row.text for row in source.read(file, 3, 5)] == texts[3:5]
        assert len(source.ids(file)) == len(texts) == file.rows
        found.setdefault(file.split, []).extend(texts)
    assert {split: sorted(texts) for split, texts in found.items()} == {
        own: sorted(
            [*(f"nr {n}" for n, split in enumerate(splits) if (split or "train") == own)]
            + ["nr x"] * (own == "dev")
        )
        for own in ("train", "dev", "test")
    }
    empty = next(file for file in source.files if file.name == f"train.{name}")
    assert source.place(empty, 1).endswith(f"line {7 if name == 'csv' else 6}")
    assert any("120 rows have no split" in note for note in source.notes)
    one = open_source(str(tmp_path / f"train.{name}"), SourceOptions(corpus="r", split="dev"))
    assert [row.text for row in read_all(one)] == [row["text"] for row in rows]


def test_rows_without_a_split_are_refused_where_others_have_one_and_the_file_says_none(
    tmp_path: Path,
) -> None:
    rows = [{"path": "a.wav", "text": "ja", "split": split} for split in ("dev", "", "", "")]
    path = write_table(tmp_path / "all.csv", rows)
    with pytest.raises(SourceError, match=r"all\.csv: 3 rows have no split \(lines 3, 4, 5\)"):
        open_source(str(path), RADIO)


BAD_LINES = [
    (b'{"audio_filepath": "a.w', "malformed row"),
    ('{"audio_filepath": "a.wav", "text": "æøå"}'.encode("latin-1"), "malformed row"),
    (b'{"audio_filepath": "a.wav", "text": ["ja"]}', "malformed text"),
    (b'{"audio_filepath": "a.wav", "text": "ja", "id": ["a"]}', "malformed id"),
    (b'{"audio_filepath": "a", "text": "a", "start": "x"}', "malformed start"),
    (b'{"audio_filepath": "a", "text": "a", "start": 1, "end": 0.5}', "malformed seconds"),
    (
        b'{"audio_filepath": "a", "text": "a", "start": 1, "end": 2, "duration": 2}',
        "end and duration differ",
    ),
    *(
        (
            f'{{"audio_filepath": "a", "text": "a", "duration": {value}}}'.encode(),
            "malformed seconds",
        )
        for value in ("Infinity", "NaN", "-1", '"1,5,5"', "[1]")
    ),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
def test_a_line_that_cannot_be_read_goes_to_the_ledger(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"\n".join([GOOD.encode(), b"", line, GOOD.encode()]))
    source = open_source(str(path), RADIO)
    assert [row.refused for row in read_all(source)] == [None, reason, None]
    (tmp_path / "a.wav").write_bytes(tone(0.2))
    with pytest.raises(DatasetError, match=rf"The first: train\.jsonl, line 3.* \({reason}\)"):
        convert(source, tmp_path / "ds", name="x")
    options = ConvertOptions(max_drop=0.5)
    convert(source, tmp_path / "ds", name="x", options=options)
    (entry,) = pq.read_table(tmp_path / "ds" / "ledger.parquet").to_pylist()
    assert list(entry.values()) == ["train.jsonl", 1, "train.jsonl:1", None, reason]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (999, 1001), (1500, 2500)])
def test_any_range_of_rows_is_read(tmp_path: Path, suffix: str, start: int, stop: int) -> None:
    ids = [f"u{number}" for number in range(2500)]
    lines = [json.dumps({"id": own, "audio_filepath": "a.wav", "text": "ja"}) for own in ids]
    if suffix == "csv":
        lines = ["id,audio_filepath,text", *(f"{own},a.wav,ja" for own in ids)]
    (tmp_path / f"train.{suffix}").write_text("\n".join(lines))
    source = open_source(str(tmp_path / f"train.{suffix}"), RADIO)
    (file,) = source.files
    assert file.row_groups == (100,) * 25
    found = [(row.row, row.id) for row in source.read(file, start, stop)]
    assert found == list(enumerate(ids))[start:stop]
    assert source.ids(file).to_pylist() == ids


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
        open_source(f"manifest:{tmp_path / name}", RADIO)


def test_a_folder_is_read_with_a_column_that_some_file_has(tmp_path: Path) -> None:
    row = '{"audio_filepath": "a", "text": "a", "køn": "f"}'
    (tmp_path / "train.jsonl").write_text(row, encoding="utf-8-sig")
    (tmp_path / "dev.jsonl").write_text(GOOD)
    source = open_source(f"manifest:{tmp_path}", SourceOptions(corpus="a", columns=("gender=køn",)))
    assert [(file.split, file.rows) for file in source.files] == [("dev", 1), ("train", 1)]
    assert [row.speaker.gender for row in read_all(source)] == [None, "female"]


def test_decimal_commas_capitals_and_empty_ids_of_spreadsheets_are_read(tmp_path: Path) -> None:
    lines = "Path;Text;Split;Start;id", "a.wav;ja;dev;0,5;", "a.wav;nej;dev;1,25;b"
    (tmp_path / "table.csv").write_text("\n".join(lines), encoding="utf-8")
    source = open_source(str(tmp_path / "table.csv"), RADIO)
    first, second = read_all(source)
    assert (source.files[0].split, first.start, second.start) == ("dev", 0.5, 1.25)
    assert (first.id, second.id, first.refused) == ("table.csv#dev:0", "b", None)


@pytest.mark.parametrize(
    "lines", [(",path,text", "7,a.wav,ja"), ("path;text;;speaker", "a.wav;ja;7;s1")]
)
def test_a_column_without_a_name_is_ignored_with_a_note(
    tmp_path: Path, lines: tuple[str, str]
) -> None:
    """pandas writes its index so; a channel has no usual name of a column either."""
    (tmp_path / "train.csv").write_text("\n".join(lines))
    source = open_source(str(tmp_path), RADIO)
    (found,) = read_all(source)
    assert (found.text, found.channel, found.refused) == ("ja", None, None)
    assert ["ignored a column without a name" in note for note in source.notes] == [True]


def test_a_list_in_json_has_a_row_for_each_object(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text(json.dumps([json.loads(GOOD), 7, {"audio": "b.wav", "text": "nej"}], indent=1))
    for location in (path, tmp_path):
        source = open_source(str(location), RADIO)
        assert [row.text for row in read_all(source)] == ["ja", None, "nej"]
        assert [row.text for row in source.read(source.files[0], 2, 3)] == ["nej"]


def test_a_table_without_a_header_is_told_to_need_one(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a.wav,ja\nb.wav,nej\n")
    with pytest.raises(SourceError, match=r"first line is a row, .* path,text"):
        open_source(str(tmp_path), RADIO)


def test_paths_of_windows_are_found(tmp_path: Path) -> None:
    (tmp_path / "wav").mkdir()
    for name in ("wav/a.wav", "b\\c.wav"):
        (tmp_path / name).write_bytes(tone(0.2))
    (tmp_path / "train.csv").write_text("path,text\nwav\\a.wav,ja\nb\\c.wav,nej\nd\\e.wav,x\n")
    found = [row.audio for row in read_all(open_source(str(tmp_path), RADIO))]
    assert found == [tmp_path / "wav" / "a.wav", tmp_path / "b\\c.wav", tmp_path / "d" / "e.wav"]


@pytest.mark.parametrize("content", ['{"a": 1}', "{\n}", "[1, 2]", "", '{"text": "ja"}'])
def test_other_json_in_a_folder_is_ignored_with_a_note(tmp_path: Path, content: str) -> None:
    (tmp_path / "train.jsonl").write_text(GOOD)
    (tmp_path / "notes.json").write_text(content)
    source = open_source(str(tmp_path), RADIO)
    assert [file.name for file in source.files] == ["train.jsonl"]
    assert "no manifest, ignored: notes.json" in source.notes


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
    inventory = convert(open_source(str(tmp_path), RADIO), tmp_path / "out", name="x")
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
    options = ConvertOptions(max_drop=1.0)
    with pytest.raises(DatasetError, match=f"nothing is left of {lost}.*empty text.*--max-drop"):
        convert(open_source(str(tmp_path), RADIO), tmp_path / "out", name="x", options=options)


@pytest.mark.parametrize("as_column", [True, False])
def test_a_channel_is_chosen_for_all_rows_or_by_a_column(
    tmp_path: Path, *, as_column: bool
) -> None:
    speech = np.stack([np.full(8_000, 0.25), np.full(8_000, -0.5)], axis=1)
    (tmp_path / "a.wav").write_bytes(encode(speech, 16_000))
    rows = [{"audio": "a.wav", "text": "ja", "side": 1 + number % 2} for number in range(4)]
    write_lines(tmp_path / "train.jsonl", [*rows, rows[0] | {"side": 3}])
    columns = ("channel=side",) if as_column else ()
    source = open_source(str(tmp_path), SourceOptions(corpus="radio", columns=columns))
    options = ConvertOptions(channel=2, max_drop=0.5)
    convert(source, tmp_path / "out", name="x", options=options)
    written = pq.read_table(tmp_path / "out" / "version=0").to_pylist()
    means = [decode(row["audio_bytes"])[0].mean() for row in written]
    assert means == pytest.approx([0.25, -0.5] * 2 if as_column else [-0.5] * 5, abs=1e-3)
    ledger = pq.read_table(tmp_path / "out" / "ledger.parquet").to_pylist()
    assert [row["reason"] for row in ledger] == (["no channel 3"] if as_column else [])


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("BEGIN,END", "END.*BEGIN"),
        ("onset,offset", "offset.*onset"),
        ("start,slut", "start.*slut"),
        ("start_ms,duration", "duration.*start_ms"),
        ("beg,end", "end.*beg"),
        ("start,dur", "start.*dur"),
        ("startTime,duration", "duration.*startTime"),
        ("fra,til", "lines 2 and 3"),
        ("tier,sender", "lines 2 and 3"),
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
    named = SourceOptions(corpus="radio", columns=(f"start={start}", f"end={end}", "seconds="))
    rows = read_all(open_source(str(path), named))
    assert [row.start for row in rows] == [0.7, 1.3]
    assert [row.seconds for row in rows] == pytest.approx([0.5, 1.1])


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        ("duration,gender_length", ()),
        ("duration,weekend", ()),
        ("duration,start_ms", ("start=",)),
        ("duration,channel", ("channel=channel",)),
    ],
)
def test_other_columns_and_a_single_time_are_no_reason_to_refuse(
    tmp_path: Path, names: str, columns: tuple[str, ...]
) -> None:
    path = tmp_path / "train.csv"
    audio = "a" if columns[-1:] == ("channel=channel",) else "b"
    path.write_text(f"path,text,{names}\na.wav,ja,0.7,1\n{audio}.wav,nej,0.8,2\na.wav,ja,0.7,1\n")
    rows = read_all(open_source(str(path), SourceOptions(corpus="radio", columns=columns)))
    assert [row.seconds for row in rows] == [0.7, 0.8, 0.7]


@pytest.mark.parametrize("other", ["sentence", "Transcription"])
def test_of_two_columns_of_text_one_is_chosen(tmp_path: Path, other: str) -> None:
    path = tmp_path / "train.csv"
    path.write_text(f"path,text,{other}\na.wav,ja,nej\n")
    with pytest.raises(SourceError, match=f"text, {other}.*--column text="):
        open_source(str(path), RADIO)
    named = SourceOptions(corpus="radio", columns=(f"text={other}",))
    assert [row.text for row in read_all(open_source(str(path), named))] == ["nej"]


def test_a_path_in_an_object_is_read(tmp_path: Path) -> None:
    row = {"audio": {"bytes": None, "path": "a.wav"}, "text": "ja"}
    path = write_lines(tmp_path / "train.jsonl", [row])
    assert [row.audio for row in read_all(open_source(str(path), RADIO))] == [tmp_path / "a.wav"]


QUOTED = ("ja", '"kan du', "nej", 'her"', 'en "god" dag', '"ja" og "nej"')


def test_quotes_are_text_where_fields_are_separated_by_a_bar(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    lines = [f"wav/{number}.wav|{text}" for number, text in enumerate(QUOTED)]
    path.write_text("\n".join(["path|text", *lines]))
    found = read_all(open_source(str(path), RADIO))
    assert [row.text for row in found] == [*QUOTED]
    path.write_text('"path"|"text"\n"a.wav"|"ja | ""tak"""\n')
    assert [row.text for row in read_all(open_source(str(path), RADIO))] == ['ja | "tak"']


@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_rows_that_quotes_join_are_refused(tmp_path: Path, between: str) -> None:
    path = tmp_path / "train.csv"
    lines = [f"wav/{number}.wav{between}{text}" for number, text in enumerate(QUOTED[:4])]
    path.write_text("\n".join([f"path{between}text", *lines]))
    with pytest.raises(SourceError, match=r"train\.csv:3: .*quotes"):
        open_source(str(path), RADIO)
