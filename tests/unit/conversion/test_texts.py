"""Texts that are names, and one text everywhere."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.shards import Inventory
from danish_asr.corpus.sources import SourceOptions, open_source
from tests.builders import tone

NAME = "file name or id as text"
MARKUP = "markup or a missing value as text"


def converted(folder: Path, texts: dict[str, str]) -> Inventory:
    """Of recordings with these names and texts."""
    folder.mkdir()
    for name in texts:
        (folder / name).write_bytes(tone(0.5, rate=16_000))
    rows = [{"path": name, "text": text} for name, text in texts.items()]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source = open_source(str(folder / "train.jsonl"), SourceOptions(corpus="own"))
    options = ConvertOptions(max_drop=0.5)
    return convert(source, folder.parent / "out", name="x", options=options)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("spk_012.wav", "spk_012", NAME),
        ("0.wav", "spk_012", NAME),
        ("0.wav", "taler3", NAME),
        ("0.wav", "clips/0001.wav", NAME),
        ("0.wav", r"C:\data\clips\0001.mp3", NAME),
        ("0.wav", "0.wav", NAME),
        ("0001.wav", "0001", NAME),
        ("0.wav", "<p>hej du</p>", MARKUP),
        ("0.wav", "hej <unk> du", MARKUP),
        ("0.wav", "[støj]", MARKUP),
        ("0.wav", '{"text": "hej"}', MARKUP),
        ("0.wav", "nan", MARKUP),
        ("0.wav", "#N/A", MARKUP),
        ("0.wav", "na", None),
        ("0.wav", "3 < 5 og 7 > 2", None),
        ("hest.wav", "hest", None),
        ("0.wav", "1987", None),
        ("0.wav", "og/eller det", None),
        ("0.wav", "f.eks. Aarhus-banen", None),
    ],
)
def test_a_text_that_is_a_name_or_markup_is_a_suspect(
    tmp_path: Path, name: str, text: str, expected: str | None
) -> None:
    converted(tmp_path / "in", {name: text})
    found = pq.read_table(tmp_path / "out" / "suspects.parquet")["reason"].to_pylist()
    assert {NAME, MARKUP}.intersection(found) == ({expected} if expected else set())


def test_rtf_is_no_text(tmp_path: Path) -> None:
    inventory = converted(tmp_path / "in", {"0.wav": r"{\rtf1\ansi hej}", "1.wav": "hej"})
    assert [entry["reason"] for entry in inventory.dropped] == ["RTF, not plain text"]


@pytest.mark.parametrize(("same", "noted"), [(11, True), (10, False)])
def test_a_text_of_more_than_half_of_the_rows_is_noted(
    tmp_path: Path, same: int, *, noted: bool
) -> None:
    texts = {f"{n}.wav": "hej" if n < same else f"dag {n}" for n in range(20)}
    notes = converted(tmp_path / "in", texts).notes
    assert any("have the text 'hej'" in note for note in notes) == noted
