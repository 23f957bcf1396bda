"""The page about a dataset: its numbers, and the page in a real browser."""

import re
from base64 import b64decode
from pathlib import Path

import pytest

from danish_asr.base.audio import decode
from danish_asr.base.errors import DatasetError
from danish_asr.report import dataset as numbers
from danish_asr.report.components import audio_url
from danish_asr.report.dataset import Clips, read_rows
from tests.hostile import HOSTILE, _row
from tests.shards import write_shard


def test_a_row_is_found_by_corpus_and_id_and_by_the_id_alone_if_one_corpus_has_it(
    tmp_path: Path,
) -> None:
    for corpus, names in (("a", ("å", "x")), ("b", ("x",))):
        rows = [_row(0, "test", id=name) for name in names]
        write_shard(tmp_path, rows, corpus=corpus, split="test")
    write_shard(tmp_path, [_row(0, "train", id="t")])
    rows_of_all = read_rows(tmp_path)
    asked = [("a", "a\u030a"), (None, "å"), ("b", "x"), ("a", "x"), (None, "x"), ("b", "å")]
    assert [rows_of_all.find(*one) for one in asked] == [1, 1, 3, 2, None, None]
    assert [rows_of_all.entry(row)["id"] for row in range(4)] == ["t", "å", "x", "x"]
    assert read_rows(tmp_path, ["test"]).find("a", "å") == 0
    with pytest.raises(DatasetError, match="no rows of dev"):
        read_rows(tmp_path, ["dev"])


def test_a_clip_is_on_the_page_once_if_it_can_be_heard_until_the_page_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [_row(number, "train") for number in range(5)]
    rows[1]["audio_bytes"] = b"no audio"
    write_shard(tmp_path, rows)
    rows_of_all = read_rows(tmp_path)
    clips = Clips(rows_of_all)
    first, again, broken = clips.entry(0, "41"), clips.entry(0), clips.entry(1)
    assert first["url"] == audio_url(rows[0]["audio_bytes"])
    assert (first["value"], first["note"], first["above"]) == ("41", "", False)
    assert (again["url"], again["above"]) == ("", True)
    assert (broken["url"], broken["above"], broken["note"]) == ("", False, "undecodable audio")
    room = sum(len(rows[number]["audio_bytes"]) for number in (0, 2))
    monkeypatch.setattr(numbers, "MAX_PAGE_BYTES", room)
    assert [bool(clips.entry(row)["url"]) for row in (2, 3)] == [True, False]
    assert (clips.embedded, len(clips.left_out)) == (2, 2)
    monkeypatch.setattr(numbers, "MAX_CLIP_SECONDS", 0.25)
    long = Clips(rows_of_all).entry(4)
    assert long["note"] == "its first 0.25 s"
    assert len(decode(b64decode(long["url"].partition(",")[2]))[0]) == 4_000
    assert Clips(rows_of_all, audio=False).entry(0)["url"] == ""


def test_rejected_and_suspect_rows_are_counted_the_most_frequent_first(dataset: Path) -> None:
    assert numbers.reasons(dataset / "ledger.parquet") == [(HOSTILE, "unknown", 3)]
    found = numbers.suspects(dataset / "suspects.parquet", read_rows(dataset))
    assert found == {"seconds of silence": [(10, "4.57")] * 6}
    with pytest.raises(DatasetError, match="ledger"):
        numbers.suspects(dataset / "ledger.parquet", read_rows(dataset))


def test_groups_count_hours_rows_and_named_speakers(dataset: Path) -> None:
    table = read_rows(dataset).table
    (total,) = numbers.groups(table)
    assert total.hours == pytest.approx(11 * 0.5 / 3600)
    assert (total.rows, total.speakers) == (11, 9)
    by_split = {group.names: group[2:] for group in numbers.groups(table, "split")}
    assert by_split == {("train",): (3, 2), ("test",): (8, 8)}
    assert [*by_split] == [("train",), ("test",)]


def test_lines_have_only_groups_that_occur_and_name_what_each_lacks(dataset: Path) -> None:
    lines = {line.name: line for line in numbers.lines(read_rows(dataset).table, "dialect")}
    assert {name: line.lacks for name, line in lines.items()} == {
        "Fynsk": "fewer than 8 test speakers",
        HOSTILE: "no test data",
        "Østjysk": "no train data, fewer than 8 test speakers",
        "unknown": "",
    }
    assert (lines["Fynsk"].rows, lines["Fynsk"].test_speakers) == (8, 7)
    assert lines["Østjysk"].hours == {"test": pytest.approx(0.5 / 3600)}


def test_what_the_whole_dataset_lacks_is_not_said_of_each_group(tmp_path: Path) -> None:
    write_shard(tmp_path, [_row(0, "train", speaker_id="a")])
    write_shard(tmp_path, [_row(1, "test", speaker_id="b")], split="test")
    (line,) = numbers.lines(read_rows(tmp_path).table, "dialect")
    assert (line.name, line.lacks) == ("Fynsk", "")


def test_speakers_of_one_id_in_two_corpora_are_two_people(tmp_path: Path) -> None:
    for corpus, split in (("a", "train"), ("b", "test")):
        rows = [_row(number, split, speaker_id="1", text=f"tekst {split}") for number in range(2)]
        write_shard(tmp_path, rows, corpus=corpus, split=split)
    rows_of_all = read_rows(tmp_path)
    (line,) = numbers.lines(rows_of_all.table, "dialect")
    assert (line.speakers, line.test_speakers) == (2, 1)


def test_words_and_characters_are_counted(dataset: Path) -> None:
    rows = read_rows(dataset)
    train, test = numbers.vocabulary(rows)
    assert (train["words"], train["unseen"]) == (5 + len(re.findall(r"\w+", f"{HOSTILE} ž")), None)
    assert (test["words"], test["distinct"], test["unseen"]) == (17, 5, pytest.approx(14 / 17))
    found = {name: count for _, name, count in numbers.characters(rows.table["text"])}
    assert found["U+017E LATIN SMALL LETTER Z WITH CARON"] == 1
