"""Recordings with a text file beside each."""

import unicodedata
from pathlib import Path
from typing import Literal

import pytest

from danish_asr.base.errors import SourceError
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source, resolve_source
from tests.builders import tone
from tests.corpora import options, read_rows, rows_of

Form = Literal["NFC", "NFD"]


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def pair(folder: Path, name: str, text: str = "på Ærø\n", suffix: str = ".txt") -> None:
    write(folder / f"{name}.wav", tone(0.2))
    write(folder / f"{name}{suffix}", text)


def test_a_folder_of_pairs_is_recognised_and_converted(tmp_path: Path) -> None:
    for name in ("train/s1/a", "train/s2/a", "test/b"):
        pair(tmp_path / "in", name)
    assert resolve_source(str(tmp_path / "in"))[:2] == ("pairs", str(tmp_path / "in"))
    inventory = convert(tmp_path / "in", tmp_path / "ds", options())
    assert {shard.partition("split"): shard.rows for shard in inventory.shards} == {
        "train": 2,
        "test": 1,
    }


def test_folders_of_recordings_are_speakers_only_if_requested(tmp_path: Path) -> None:
    for name in ("train/s1/a", "train/s2/a"):
        pair(tmp_path / "in", name)
    found = rows_of(tmp_path / "in")
    assert [row["id"] for row in found] == ["in/train/s1/a", "in/train/s2/a"]
    assert {row["speaker_id"] for row in found} == {None}
    found = rows_of(tmp_path / "in", columns={"speaker_id": "folder"})
    assert [row["speaker_id"] for row in found] == ["s1", "s2"]


@pytest.mark.parametrize("text", ["0 32000 hun cykler\n", "0.7\t2.3\thun cykler\n"])
def test_labels_with_times_are_refused_with_the_way_out(tmp_path: Path, text: str) -> None:
    """As Audacity and TIMIT write them."""
    pair(tmp_path, "train/a", text)
    with pytest.raises(SourceError, match=r"Audacity.*path,start,end,text"):
        rows_of(tmp_path)
    pair(tmp_path, "train/a", "3 biler og 7 både")
    assert len(rows_of(tmp_path)) == 1


@pytest.mark.parametrize(
    ("column", "speakers"), [("folder_above", {"anna", "bo"}), ("folder", {"day1"})]
)
def test_folders_of_one_name_below_several_are_no_speakers_until_that_is_said(
    tmp_path: Path, column: str, speakers: set[str]
) -> None:
    for name in ("anna/day1/1", "bo/day1/1"):
        pair(tmp_path / "in", name, "ja")
    with pytest.raises(SourceError, match="folder_above"):
        open_source(str(tmp_path / "in"), options(split_by_speaker="80/10/10"))
    chosen = options(split_by_speaker="80/10/10", columns={"speaker_id": column})
    assert {
        row["speaker_id"] for row in read_rows(open_source(str(tmp_path / "in"), chosen))
    } == speakers


def test_recordings_and_text_files_without_the_other_are_counted(tmp_path: Path) -> None:
    for name in ("a.wav", "b.WAV", "c.wav", "orphan.txt"):
        write(tmp_path / "train" / name, b"")
    write(tmp_path / "train/a.txt", "\ufeffjeg\r\ner \n".encode())
    write(tmp_path / "train/b.TXT", b"ja")
    source = open_source(str(tmp_path), options())
    assert [(row["text"], row["refused"]) for row in read_rows(source)] == [
        ("jeg\ner", None),
        ("ja", None),
        (None, "no text file"),
    ]
    assert source.counts == {"text files without a recording": 1}
    write(tmp_path / "train/c.txt", "nej\ntå".encode("latin-1"))
    with pytest.raises(SourceError, match=r"/c\.txt:2: .*iconv"):
        rows_of(tmp_path)


def test_a_link_to_a_folder_above_it_adds_no_recordings(tmp_path: Path) -> None:
    outside = tmp_path / "disk" / "s2"
    for folder in (tmp_path / "in" / "train" / "s1", outside):
        pair(folder, "a", "ja")
    (tmp_path / "in" / "train" / "s1" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "train" / "s2").symlink_to(outside)
    (outside / "again").symlink_to(outside)
    assert [row["id"] for row in rows_of(tmp_path / "in")] == ["in/train/s1/a", "in/train/s2/a"]


def test_texts_of_the_montreal_forced_aligner_are_read(tmp_path: Path) -> None:
    for name in ("0", "1"):
        pair(tmp_path / "in" / "anna", name, f"på Ærø {name}\n", ".lab")
    rows = read_rows(open_source(str(tmp_path / "in"), options(split_by_speaker="80/10/10")))
    assert [(row["text"], row["speaker_id"]) for row in rows] == [
        ("på Ærø 0", "anna"),
        ("på Ærø 1", "anna"),
    ]


@pytest.mark.parametrize(("audio", "text"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_a_text_in_another_unicode_form_is_that_of_the_recording(
    tmp_path: Path, audio: Form, text: Form
) -> None:
    write(tmp_path / unicodedata.normalize(audio, "åse.wav"), tone(0.2))
    write(tmp_path / unicodedata.normalize(text, "åse.txt"), "ja")
    assert [(row["text"], row["refused"]) for row in rows_of(tmp_path)] == [("ja", None)]
