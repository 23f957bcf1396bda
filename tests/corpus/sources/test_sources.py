"""What a folder is recognised as, what it is told to be, and rows of the user's own."""

import subprocess
import sys
from pathlib import Path

import pytest

from danish_asr.base.errors import ExtensionError, SourceError
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source, resolve_source
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
    ("train.csv.gz", "", "unpack"),
    ("0.json", WORDS, "export SRT"),
    ("0.tsv", "start\tend\ttext\n0\t900\tja\n", r"\.srt"),
    ("notes.md", "", "path,text,speaker"),
]


@pytest.mark.parametrize(("name", "content", "way"), FILES, ids=[name for name, _, _ in FILES])
def test_what_is_not_read_has_a_way_out(tmp_path: Path, name: str, content: str, way: str) -> None:
    audio(tmp_path / "0.wav")
    (tmp_path / name).write_text(content)
    with pytest.raises(SourceError, match=way):
        rows_of(tmp_path)


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
    assert len(rows_of(f"srt:{tmp_path}")) == 1
    assert len(rows_of(f"textgrid:{tmp_path}", tiers=("ord",))) == 2
    with pytest.raises(SourceError, match="--tier"):
        rows_of(f"srt:{tmp_path}", tiers=("ord",))


def test_a_place_is_on_the_hub_a_file_of_known_ending_or_refused(tmp_path: Path) -> None:
    assert resolve_source("hf:a/b:c@d") == ("parquet", "hf:a/b:c@d")
    (tmp_path / "a.TSV").touch()
    assert resolve_source(f"{tmp_path}/a.TSV") == ("table", f"{tmp_path}/a.TSV")
    (tmp_path / "a.xlsx").touch()
    for name, way in (("a.xlsx", "save it as CSV"), ("gone", "no such file or folder")):
        with pytest.raises(SourceError, match=way):
            resolve_source(f"{tmp_path}/{name}")


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


OWN = """
OWN = 1
def faulty(location, options):
    yield {"text": "ja", "audio": "a.wav"}
    raise ValueError("loud")

def no_arguments():
    pass

def unknown(location, options):
    yield {"text": "ja", "words": []}
"""


def test_a_fault_of_ones_own_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_rows.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    for name, error, message in (
        ("faulty", ExtensionError, r"faulty failed, reading .*ValueError: loud \(.*own_rows\.py"),
        ("no_arguments", ExtensionError, "no_arguments failed.*TypeError"),
        ("unknown", SourceError, "unknown keys of a row: words;"),
        ("nothing", SourceError, r"unknown kind of source 'own_rows\.nothing'"),
        ("OWN", SourceError, r"unknown kind of source 'own_rows\.OWN'.*no function"),
    ):
        with pytest.raises(error, match=message):
            open_source(f"own_rows.{name}:{tmp_path}", TRAIN)
