"""What a folder is recognised as, what it is told to be, and rows of the user's own."""

import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import DanishAsrError, ExtensionError, SourceError
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source, recordings, resolve_source
from danish_asr.corpus.sources.timed_files import read_timed
from tests.builders import tone
from tests.corpora import TRAIN, options, rows_of, srt
from tests.transcripts import GRID

SCRIPT = Path(__file__).parents[3] / "docs" / "howto" / "table.py"


def audio(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tone(0.2, rate=16_000))


def test_a_layout_becomes_a_table_by_the_script_of_the_page(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for split, name in (("train-clean-100", "19-198-0000"), ("test-clean", "26-495-0001")):
        speaker, chapter, _ = name.split("-")
        audio(folder / split / speaker / chapter / f"{name}.wav")
        texts = folder / split / speaker / chapter / f"{speaker}-{chapter}.trans.txt"
        texts.write_text(f"{name} SÅ {speaker}\n")
    with pytest.raises(SourceError, match="no known kind of source"):
        rows_of(folder)
    command = [sys.executable, str(SCRIPT), str(folder), "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (tmp_path / "table.csv").write_text(done.stdout, encoding="utf-8")
    rows = rows_of(tmp_path / "table.csv")
    assert [(row["speaker_id"], row["text"]) for row in rows] == [("26", "SÅ 26"), ("19", "SÅ 19")]
    assert [row["audio"].is_file() for row in rows] == [True, True]


WORDS = '{"results": [{"alternatives": [{"transcript": "ja"}]}]}'

FILES = [
    ("liste.xlsx", "", "CSV"),
    ("liste.txt", "path\ttext\n0.wav\tja", r"\.tsv"),
    ("train.csv.gz", "", "unpack"),
    ("0.json", WORDS, "export SRT"),
    ("0.tsv", "start\tend\ttext\n0\t900\tja\n", r"\.srt"),
    ("notes.md", "", "path,text,speaker"),
    ("notes.\udcf8", "", r"1 of \.\\udcf8"),
]


@pytest.mark.parametrize(("name", "content", "way"), FILES, ids=[name for name, _, _ in FILES])
def test_what_is_not_read_has_a_way_out(tmp_path: Path, name: str, content: str, way: str) -> None:
    audio(tmp_path / "0.wav")
    (tmp_path / name).write_text(content)
    with pytest.raises(SourceError, match=way):
        rows_of(tmp_path)
    if name == "liste.txt":
        with pytest.raises(SourceError, match=way):
            rows_of(tmp_path / name)


@pytest.mark.parametrize("out", ["data", "data/parquet"])
def test_what_was_converted_into_its_own_source_is_no_source(tmp_path: Path, out: str) -> None:
    audio(tmp_path / "in" / "a.wav")
    (tmp_path / "in" / "a.srt").write_text(srt((0, 0.2, "ja")))
    for _ in range(2):
        inventory = convert(tmp_path / "in", tmp_path / "in" / out, TRAIN)
        assert inventory.source_rows == 1
    with pytest.raises(SourceError, match="holds a dataset of `danish-asr convert`"):
        resolve_source(str(tmp_path / "in" / out))


def test_several_kinds_of_transcripts_ask_for_a_choice(tmp_path: Path) -> None:
    audio(tmp_path / "a.wav")
    for name, content in (("a.srt", srt((0, 1, "ja"))), ("a.TextGrid", GRID), ("a.txt", "ja")):
        (tmp_path / name).write_text(content)
    with pytest.raises(SourceError, match=r"textgrid:.* or srt:.* or pairs:"):
        resolve_source(str(tmp_path))
    tables = [tmp_path / "x" / "b.csv", tmp_path / "b.csv"]
    for count, path in enumerate(tables, start=1):
        path.parent.mkdir(exist_ok=True)
        path.write_text("lyd,ord\na.wav,ja\n")
        with pytest.raises(SourceError, match="several kinds") as error:
            resolve_source(str(tmp_path))
        assert str(error.value).count("table:") == count
    assert [row["alone"] for row in rows_of(f"srt:{tmp_path}")] == [True]
    assert len(rows_of(f"textgrid:{tmp_path}", tiers=("ord",))) == 2
    with pytest.raises(SourceError, match=r"--tier: .* is read as srt"):
        rows_of(f"srt:{tmp_path}", tiers=("ord",))


CORPORA = {
    "table": {
        "train.csv": "path,text\n1.wav,ja\nx/2.wav,nej\n2,tak\n",
        "speakers.csv": "taler\nbo\n",
    },
    "pairs": {"1.txt": "ja", "x/2.txt": "nej"},
    "srt": {"1.srt": srt((0, 0.1, "ja")), "x/2.da.srt": srt((0, 0.1, "nej"))},
    "json": dict.fromkeys(("1.json", "x/2.json", "x/3.json"), '{"segments": [], "audio": "1"}'),
}


@pytest.mark.parametrize("kind", CORPORA)
def test_each_folder_is_listed_once_and_each_transcript_parsed_once(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("1.wav", "x/2.wav"):
        audio(tmp_path / name)
    for name, content in CORPORA[kind].items():
        (tmp_path / name).write_text(content)
    listed, parsed = Counter[str](), Counter[str]()

    def counted(function: Any, counts: Counter[str]) -> Any:
        def call(path: Any, *rest: Any) -> Any:
            counts[Path(path).relative_to(tmp_path).as_posix()] += 1
            return function(path, *rest)

        return call

    for name in ("scandir", "listdir"):
        monkeypatch.setattr(os, name, counted(getattr(os, name), listed))
    monkeypatch.setattr(recordings, "read_timed", counted(read_timed, parsed))
    with suppress(SourceError):  # "no rows" of JSON
        source = open_source(resolve_source(str(tmp_path)), TRAIN)
        assert all(Path(str(path)).is_file() for path in source.fetch(source.rows))
        source.versions(source.rows)
    assert listed == {".": 1, "x": 1}
    assert parsed == ({} if kind == "table" else dict.fromkeys(CORPORA[kind], 1))


PEOPLE = "taler,alder,køn\nanna,30,kvinde\nbo,40,mand\n"


@pytest.mark.parametrize("kind", ["srt", "table"])
def test_a_table_of_people_is_named_and_not_read(tmp_path: Path, kind: str) -> None:
    audio(tmp_path / "a.wav")
    content = srt((0, 0.1, "ja")) if kind == "srt" else "path,text\na.wav,ja\n"
    named_file = tmp_path / ("a.srt" if kind == "srt" else "a.csv")
    named_file.write_text(content)
    (tmp_path / "speakers.csv").write_text(PEOPLE)
    source = open_source(str(tmp_path), TRAIN)
    assert source.rows["text"].to_pylist() == ["ja"]
    ((line, count),) = source.counts.items()
    assert "speakers.csv, a table of people that is not used" in line
    assert count == 2
    (tmp_path / "notes.csv").write_bytes("bemærkning\nblå\n".encode("latin-1"))
    named = f"srt:{tmp_path}" if kind == "srt" else tmp_path / "a.csv"
    assert len(rows_of(named)) == 1  # others do not matter then
    (tmp_path / "notes.csv").unlink()
    named_file.unlink()
    with pytest.raises(SourceError, match=r"speakers\.csv: no column of text; found taler"):
        open_source(str(tmp_path), TRAIN)
    (tmp_path / "lister").mkdir()
    (tmp_path / "lister" / "a.csv").write_text("lyd,ord\na.wav,ja\n")
    page, way = r"write-a-table\.md", rf"; or name table:{tmp_path}/lister/a\.csv"
    for place, end in (
        (tmp_path, way),
        (f"table:{tmp_path}", way),
        (tmp_path / "speakers.csv", ""),
    ):
        with pytest.raises(SourceError, match=f"{page}{end}$"):
            open_source(str(place), TRAIN)


@pytest.mark.parametrize("header", ["path\tsentence", "lyd\tord"])
def test_the_folder_below_that_has_the_tables_is_named(tmp_path: Path, header: str) -> None:
    """As of Common Voice, which has a folder for each language."""
    audio(tmp_path / "da" / "clips" / "a.wav")
    for name in ("train", "validated"):
        (tmp_path / "da" / f"{name}.tsv").write_text(f"{header}\na.wav\tja\n")
    with pytest.raises(SourceError, match=rf"{tmp_path}: .* {tmp_path}/da: "):
        resolve_source(str(tmp_path))


def test_a_table_of_other_things_does_not_hide_texts(tmp_path: Path) -> None:
    audio(tmp_path / "a.wav")
    (tmp_path / "a.srt").write_text(srt((0, 0.1, "ja")))
    (tmp_path / "notes.csv").write_text("ord,antal\nja,1\n")
    named = resolve_source(str(tmp_path))
    assert named.kind == "srt"
    assert open_source(named, TRAIN).counts == {
        ".csv files of which nothing was read (notes.csv)": 1
    }
    (tmp_path / "a.srt").unlink()
    with pytest.raises(SourceError, match=r"notes\.csv: no column of text"):
        rows_of(tmp_path)


def test_recordings_with_texts_in_several_files_are_counted(tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        audio(tmp_path / name)
    for name, rows in (("1", "a,0,1,ja\na,1,2,ja\nb,0,1,ja\n"), ("2", "a,2,3,nej\nb,2,1,nej\n")):
        (tmp_path / f"{name}.csv").write_text(f"path,start,end,text\n{rows}")
    counts = open_source(str(tmp_path), TRAIN).counts
    (line,) = (line for line in counts if line.startswith("recordings"))
    assert "such as a.wav (1.csv, 2.csv)" in line
    assert counts[line] == 1  # the row of b.wav is refused
    assert len(open_source(str(tmp_path / "1.csv"), TRAIN).counts) == 0


def test_recordings_that_no_row_of_a_table_names_are_counted(tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav", "below/c.wav"):
        audio(tmp_path / name)
    (tmp_path / "list.csv").write_text("path,text\na.wav,ja\nc.wav,nej\n")
    assert open_source(str(tmp_path), TRAIN).counts["recordings that no row names"] == 1


def test_names_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "S\udcf8ren"
    audio(folder / "a.wav")
    (folder / "a.srt").write_text(srt((0, 0.1, "ja")))
    for place in (tmp_path, folder, f"srt:{folder}"):
        with pytest.raises(DanishAsrError, match=r"S\\udcf8ren.*Søren"):
            open_source(str(place), TRAIN)


def test_a_place_is_on_the_hub_a_file_of_known_ending_or_refused(tmp_path: Path) -> None:
    assert resolve_source("hf:a/b:c@d")[:2] == ("parquet", "hf:a/b:c@d")
    (tmp_path / "a.TSV").touch()
    assert resolve_source(f"{tmp_path}/a.TSV")[:2] == ("table", f"{tmp_path}/a.TSV")
    (tmp_path / "b.json").write_text('{"segments": []}')
    assert resolve_source(f"{tmp_path}/b.json").kind == "json"
    (tmp_path / "c.PQ").touch()
    assert resolve_source(str(tmp_path)).kind == "parquet"
    (tmp_path / "a.xlsx").touch()
    gone = [(name, "gone: no such file or folder") for name in ("gone", "srt:gone", "table:gone")]
    for name, way in (("a.xlsx", "save it as CSV"), *gone):
        kind, colon, path = name.rpartition(":")
        with pytest.raises(SourceError, match=way):
            resolve_source(f"{kind}{colon}{tmp_path}/{path}")
    for nothing in ("", "table:", "hf:", "synthetic:"):  # not the current folder
        with pytest.raises(SourceError, match=f"'{nothing}' names no"):
            resolve_source(nothing)


def test_a_recording_that_has_come_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text(srt((0, 0.2, "ja")))
    for place in ("a.wav", "day/a.wav"):
        assert open_source(f"srt:{tmp_path}", TRAIN).rows["audio"].to_pylist() == [place]
        audio(tmp_path / "day" / "a.wav")


def test_a_source_has_rows_and_each_has_a_split(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    for content, reason in (("path,text", "no rows"), ("path,text\na.wav,ja", "no split")):
        table.write_text(content)
        with pytest.raises(SourceError, match=reason):
            open_source(str(table), options())


OURS = {"text": "sentence"}
OWN = """
OWN = 1
def faulty(location, options):
    yield {"text": "ja", "audio": "a.wav"}
    raise ValueError("loud")

def no_arguments():
    pass

def of_nothing(location, options):
    pass

def of_texts(location, options):
    return ["ja"]

def unknown(location, options):
    yield {"text": "ja", "words": [], "uncut": True}

def repeated(location, options):
    for row in (0, 1, 1):
        yield {"text": "ja", "file": "x", "row": row}

def elsewhere(location, options):
    yield {"text": "ja", "corpus": "../../x"}

def around(location, options):
    yield {"text": "ja", "audio": "a.wav"}

def mixed(location, options):
    for file, corpus in (("x", "p"), ("y", "q"), ("x", "p")):
        tiers = " ".join(options.tiers)
        yield {"text": f"ja {tiers}", "file": file, "corpus": corpus, "audio": "a"}
"""


def test_a_fault_of_ones_own_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_rows.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    for name, error, message in (
        ("faulty", ExtensionError, r"faulty failed, reading .*ValueError: loud \(.*own_rows\.py"),
        ("no_arguments", SourceError, "no_arguments: .*location and the options"),
        ("of_texts", SourceError, "of_texts: expected mappings, found 'ja'"),
        ("of_nothing", SourceError, "no rows"),
        ("unknown", SourceError, "unknown keys of a row: words, uncut;"),
        ("repeated", SourceError, "2 rows are row 1 of x;"),
        ("elsewhere", SourceError, r"elsewhere: a row's corpus.*'\.\./\.\./x'"),
        ("nothing", SourceError, r"unknown kind of source 'own_rows\.nothing'"),
        ("OWN", SourceError, r"unknown kind of source 'own_rows\.OWN'.*no function"),
    ):
        with pytest.raises(error, match=message):
            open_source(f"own_rows.{name}:{tmp_path}", TRAIN)
    audio(tmp_path / "a.wav")
    counts = open_source(f"own_rows.mixed:{tmp_path}", options(split="train", columns=OURS)).counts
    assert counts["columns of --column, which own_rows.mixed alone reads or leaves"] == 1
    rows = rows_of(f"own_rows.mixed:{tmp_path}", tiers=("ord",))
    assert {row["text"] for row in rows} == {"ja ord"}
    assert [(row["file"], row["row"]) for row in rows] == [("x", 0), ("x", 2), ("y", 1)]
    assert rows[0]["audio"] == tmp_path / "a.wav"
    (row,) = rows_of(f"own_rows.around:srt:{tmp_path}")  # which it may open
    assert row["audio"] == tmp_path / "a.wav"


@pytest.mark.parametrize("named", ["pairs", "./pairs/", "pairs:pairs"])
def test_a_folder_may_have_the_name_of_a_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    for folder in ("pairs", "beside"):
        audio(tmp_path / folder / "a.wav")
        (tmp_path / folder / "a.txt").write_text(folder)
    monkeypatch.chdir(tmp_path)
    assert [row["text"] for row in rows_of(named)] == ["pairs"]
