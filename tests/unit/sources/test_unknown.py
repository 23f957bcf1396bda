"""Folders of no known kind: the message, and the script that writes a table of them."""

import csv
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources import SourceOptions, open_source
from tests.builders import tone

SCRIPT = Path(__file__).parents[3] / "docs" / "howto" / "table.py"
TRAIN = SourceOptions(corpus="own", split="train")


def audio(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tone(0.2, rate=16_000))


def libri_speech(folder: Path) -> list[list[str]]:
    for split, name in (("train-clean-100", "19-198-0000"), ("test-clean", "26-495-0001")):
        speaker, chapter, _ = name.split("-")
        audio(folder / split / speaker / chapter / f"{name}.wav")
        texts = folder / split / speaker / chapter / f"{speaker}-{chapter}.trans.txt"
        texts.write_text(f"{name} SÅ {speaker}\n")
    return [
        ["26-495-0001.wav", "SÅ 26", "26", "test-clean"],
        ["19-198-0000.wav", "SÅ 19", "19", "train-clean-100"],
    ]


def vctk(folder: Path) -> list[list[str]]:
    for microphone in (1, 2):
        audio(folder / "wav48" / "p225" / f"p225_001_mic{microphone}.wav")
    (folder / "txt" / "p225").mkdir(parents=True)
    (folder / "txt" / "p225" / "p225_001.txt").write_text("hej med dig\n")
    (folder / "speaker-info.txt").write_text("ID  AGE\n225  23\n")
    return [["p225_001_mic1.wav", "hej med dig", "p225", ""]]


def aishell(folder: Path) -> list[list[str]]:
    audio(folder / "wav" / "dev" / "S0724" / "BAC009S0724W0121.wav")
    (folder / "transcript").mkdir()
    (folder / "transcript" / "aishell.txt").write_text("BAC009S0724W0121 på en dag\n")
    return [["BAC009S0724W0121.wav", "på en dag", "S0724", "dev"]]


def unpacked(folder: Path) -> list[list[str]]:
    audio(folder / "train" / "0.wav")
    (folder / "train" / "0.json").write_text(json.dumps({"text": "ja"}))
    return [["0.wav", "ja", "train", "train"]]


@pytest.mark.parametrize(
    ("layout", "level"), [(libri_speech, 2), (vctk, 1), (aishell, 1), (unpacked, 1)]
)
def test_a_layout_that_is_not_read_is_refused_with_the_header_of_a_table_that_the_page_writes(
    tmp_path: Path, layout: Callable[[Path], list[list[str]]], level: int
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    expected = layout(folder)
    with pytest.raises(SourceError, match=r"path,text,speaker.*write-a-table\.md"):
        open_source(str(folder), TRAIN)
    command = [sys.executable, str(SCRIPT), str(folder), str(level)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (tmp_path / "table.csv").write_text(done.stdout, encoding="utf-8")
    _, *rows = csv.reader(io.StringIO(done.stdout))
    assert [[Path(path).name, *rest] for path, *rest in rows] == expected
    source = open_source(str(tmp_path / "table.csv"), TRAIN)
    found = [row for file in source.files for row in source.read(file, 0, file.rows)]
    assert [row.text for row in found] == [row[1] for row in expected]


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("liste.xlsx", "CSV in UTF-8"),
        ("0.docx", r"text in UTF-8, 0\.txt"),
        ("licence.pdf", "path,text,speaker and rows such as 0.wav,"),
        ("train.csv.gz", "gunzip"),
        ("all.zip", "unpack"),
        ("notes.md", "path,text,speaker and rows such as 0.wav,"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_way_to_read_it(
    tmp_path: Path, name: str, match: str
) -> None:
    audio(tmp_path / "0.wav")
    (tmp_path / name).write_bytes(b"\x00")
    with pytest.raises(SourceError, match=match):
        open_source(str(tmp_path), TRAIN)


def test_a_recording_alone_is_named_in_the_table_that_it_needs(tmp_path: Path) -> None:
    audio(tmp_path / "0.wav")
    with pytest.raises(SourceError, match=r"rows such as 0\.wav,"):
        open_source(str(tmp_path / "0.wav"), TRAIN)


def test_archives_are_to_be_unpacked(tmp_path: Path) -> None:
    audio(tmp_path / "u0.wav")
    with tarfile.open(tmp_path / "audio_0.tar", "w") as archive:
        archive.add(tmp_path / "u0.wav", "u0.wav")
    (tmp_path / "u0.wav").unlink()
    with pytest.raises(SourceError, match=r"of u0\.wav, .* tar -xf audio_0\.tar"):
        open_source(str(tmp_path), TRAIN)
    row = {"audio_filepath": "u0.wav", "text": "ja", "shard_id": 0}
    (tmp_path / "manifest.json").write_text(json.dumps(row) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(SourceError, match=r"tar -xf audio_0\.tar"):
        open_source(str(tmp_path), TRAIN)


@pytest.mark.parametrize("texts", [("i 1810", "i atten"), ("hej du", "hej du")])
def test_a_table_without_a_header_gets_one(tmp_path: Path, texts: tuple[str, str]) -> None:
    """LJ Speech's; the second text is the same where there is nothing to write out."""
    names = [f"LJ001-000{number}" for number in (1, 2)]
    for name in names:
        audio(tmp_path / "wavs" / f"{name}.wav")
    table = tmp_path / "metadata.csv"
    table.write_text("".join(f"{name}|{texts[0]}|{texts[1]}\n" for name in names))
    with pytest.raises(SourceError, match=r"write a header above it.*path\|raw\|text"):
        open_source(str(tmp_path), SourceOptions(corpus="own"))
    table.write_text("path|raw|text\n" + table.read_text())
    source = open_source(str(tmp_path), TRAIN)
    rows = [(row.audio, row.text) for row in source.read(source.files[0], 0, 2)]
    assert rows == [(tmp_path / "wavs" / f"{name}.wav", texts[1]) for name in names]
    assert "LJ001-0001 is LJ001-0001.wav" in source.notes[-1]


def test_a_name_of_two_recordings_is_none_of_them(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        audio(tmp_path / folder / "0.wav")
    (tmp_path / "list.csv").write_text("path,text\n0,ja\na/0,nej\n")
    source = open_source(str(tmp_path), TRAIN)
    first, second = source.read(source.files[0], 0, 2)
    assert (first.audio, second.audio) == (tmp_path / "0", tmp_path / "a" / "0.wav")
