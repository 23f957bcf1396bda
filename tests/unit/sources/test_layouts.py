"""Corpora in the folders in which they are published."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import pytest

from danish_asr.base.errors import SourceError
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import SourceOptions, open_source, resolve_source
from danish_asr.corpus.sources.base import Source, Utterance
from tests.builders import tone

RADIO = SourceOptions(corpus="radio")


def read_all(source: Source) -> list[Utterance]:
    return [row for file in source.files for row in source.read(file, 0, file.rows)]


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_tsv(path: Path, *rows: str) -> None:
    """Rows whose fields are separated by `` | ``."""
    write(path, "".join("\t".join(row.split(" | ")) + "\n" for row in rows))


def write_pairs(folder: Path) -> None:
    for name in ("train/s1/a", "train/s2/a", "test/b"):
        write(folder / f"{name}.wav", tone(0.2))
        write(folder / f"{name}.txt", "på Ærø\n")


LAYOUTS: dict[str, tuple[Callable[[Path], None], str, int]] = {
    "pairs": (write_pairs, "radio", 3),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_corpus_is_recognised_and_converted(tmp_path: Path, kind: str) -> None:
    build, corpus, written = LAYOUTS[kind]
    build(tmp_path / "in")
    assert resolve_source(str(tmp_path / "in"))[:2] == (kind, str(tmp_path / "in"))
    options = RADIO if corpus == "radio" else SourceOptions()
    source = open_source(str(tmp_path / "in"), options)
    assert {"train", "test"} <= {file.split for file in source.files}
    inventory = convert(source, tmp_path / "ds", name="x", options=ConvertOptions(max_drop=0.5))
    rows = pads.dataset(tmp_path / "ds" / "version=0", partitioning="hive").to_table().to_pylist()
    assert len(rows) == inventory.rows == written
    assert corpus in {row["corpus"] for row in rows}
    assert all(2000 < row["audio_size"] < 9000 for row in rows)
    assert len({row["id"] for row in rows}) == written
    for file in source.files:
        local = list(source.local_files(file))
        assert local
        assert all(path.is_file() for path in local)
        middle = list(source.read(file, 1, file.rows))
        assert middle == list(source.read(file, 0, file.rows))[1:]


def rows_of(folder: Path, kind: str, split: str = "test", **options: Any) -> list[Utterance]:
    LAYOUTS[kind][0](folder)
    source = open_source(f"{kind}:{folder}", SourceOptions(**({"corpus": "radio"} | options)))
    files = [file for file in source.files if file.split == split]
    return [row for file in files for row in source.read(file, 0, file.rows)]


def test_folders_of_recordings_are_speakers_only_if_requested(tmp_path: Path) -> None:
    found = rows_of(tmp_path / "in", "pairs", "train")
    assert [row.id for row in found] == ["in/train/s1/a", "in/train/s2/a"]
    assert {row.speaker.speaker_id for row in found} == {None}
    found = rows_of(tmp_path / "in", "pairs", "train", columns=("speaker_id=folder",))
    assert [row.speaker.speaker_id for row in found] == ["s1", "s2"]


@pytest.mark.parametrize(
    "text",
    [
        "0 32000 hun cykler\n",
        "0.7\t2.3\thun cykler\n",
        "00:00 hun cykler\n",
        "1\n00:00:00,700 --> 00:00:01,000\nhun cykler\n",
        "Line\tSpkr\tStTime\tContent\tEnTime\n",
    ],
)
def test_text_files_of_times_or_columns_are_refused_if_most_are(tmp_path: Path, text: str) -> None:
    for name, content in (("a", text), ("b", text), ("c", "3 7 9 1")):
        write(tmp_path / f"train/{name}.wav", tone(0.2))
        write(tmp_path / f"train/{name}.txt", content)
    with pytest.raises(SourceError, match="2 of 3 text files"):
        open_source(str(tmp_path), RADIO)
    write(tmp_path / "train/b.txt", "3 7 9 1")
    assert len(read_all(open_source(str(tmp_path), RADIO))) == 3


@pytest.mark.parametrize(
    ("column", "speakers"), [("folder_above", {"anna", "bo"}), ("folder", {"day1"})]
)
def test_folders_of_one_name_below_several_are_no_speakers_until_that_is_said(
    tmp_path: Path, column: str, speakers: set[str]
) -> None:
    for name in ("anna/day1/1", "bo/day1/1"):
        write(tmp_path / f"{name}.wav", tone(0.2))
        write(tmp_path / f"{name}.txt", "ja")
    with pytest.raises(SourceError, match="folder_above"):
        open_source(str(tmp_path), SourceOptions(corpus="x", by_speaker=True))
    options = SourceOptions(corpus="x", by_speaker=True, columns=(f"speaker_id={column}",))
    found = read_all(open_source(str(tmp_path), options))
    assert {row.speaker.speaker_id for row in found} == speakers


def test_recordings_and_text_files_without_the_other_are_named(tmp_path: Path) -> None:
    for name in ("a.wav", "b.WAV", "c.wav", "orphan.txt"):
        write(tmp_path / "train" / name, b"")
    write(tmp_path / "train/a.txt", "\ufeffjeg\r\ner \n".encode())
    write(tmp_path / "train/b.TXT", b"ja")
    source = open_source(str(tmp_path), SourceOptions(corpus="x"))
    assert [(row.text, row.refused) for row in read_all(source)] == [
        ("jeg\ner", None),
        ("ja", None),
        (None, "no text file"),
    ]
    assert source.notes == (
        f"text files without a recording: 1, such as {tmp_path.name}/train/orphan.txt",
    )
    write(tmp_path / "train/c.txt", "nej\ntå".encode("latin-1"))
    with pytest.raises(SourceError, match=r"/c\.txt:2: .*iconv"):
        read_all(source)


def test_a_link_to_a_folder_above_it_adds_no_recordings(tmp_path: Path) -> None:
    outside = tmp_path / "disk" / "s2"
    for folder in (tmp_path / "in" / "train" / "s1", outside):
        write(folder / "a.wav", b"")
        write(folder / "a.txt", b"ja")
    (tmp_path / "in" / "train" / "s1" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "train" / "s2").symlink_to(outside)
    (outside / "again").symlink_to(outside)
    assert resolve_source(str(tmp_path / "in")).kind == "pairs"
    source = open_source(str(tmp_path / "in"), RADIO)
    assert [row.id for row in read_all(source)] == ["in/train/s1/a", "in/train/s2/a"]


def test_texts_of_the_montreal_forced_aligner_are_read(tmp_path: Path) -> None:
    for name in ("0", "1"):
        write(tmp_path / "anna" / f"{name}.wav", tone(0.2))
        write(tmp_path / "anna" / f"{name}.lab", f"på Ærø {name}\n")
    source = open_source(str(tmp_path), SourceOptions(corpus="x", split="train", by_speaker=True))
    rows = [row for file in source.files for row in source.read(file, 0, file.rows)]
    assert [(row.text, row.speaker.speaker_id) for row in rows] == [
        ("på Ærø 0", "anna"),
        ("på Ærø 1", "anna"),
    ]
