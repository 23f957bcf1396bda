"""The page about a dataset: its numbers, and the page in a real browser."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.verify import leaks_of
from danish_asr.report import dataset as numbers
from danish_asr.report.dataset import measure, read_rows
from danish_asr.report.dataset_page import compared
from tests.hostile import HOSTILE, _row
from tests.shards import flac, write_shard


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
    assert "speakers" not in [leak.what for leak in leaks_of(compared(tmp_path, rows_of_all))]


def test_leaks_are_speakers_sentences_and_audio_that_splits_share(dataset: Path) -> None:
    speakers, sentences, audio = leaks_of(compared(dataset, read_rows(dataset)))
    assert (speakers.one, speakers.other, speakers.examples) == ("train", "test", ["s1"])
    assert (sentences.rows, sentences.share, sentences.examples) == (1, 1 / 8, ["hej med dig"])
    assert (audio.shared, audio.rows) == (1, 1)


def test_identical_audio_is_found_without_a_common_speaker_or_text(tmp_path: Path) -> None:
    audio = flac(8_000, 7)
    for number, split in enumerate(("train", "test")):
        row = _row(number, split, text=f"tekst {split}", speaker_id=split, audio_bytes=audio)
        write_shard(tmp_path, [row], split=split)
    (leak,) = leaks_of(compared(tmp_path, read_rows(tmp_path)))
    assert (leak.what, leak.rows) == ("audio", 1)


def test_words_and_characters_are_counted(dataset: Path) -> None:
    rows = read_rows(dataset)
    train, test = numbers.vocabulary(rows)
    assert (train["words"], train["unseen"]) == (5 + len(re.findall(r"\w+", f"{HOSTILE} ž")), None)
    assert (test["words"], test["distinct"], test["unseen"]) == (17, 5, pytest.approx(14 / 17))
    found = {name: count for _, name, count in numbers.characters(rows.table["text"])}
    assert found["U+017E LATIN SMALL LETTER Z WITH CARON"] == 1


def _encoded(wave: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, wave, SAMPLE_RATE, format="FLAC")
    return file.getvalue()


def test_measures_of_a_known_signal() -> None:
    noise = np.random.default_rng(0).normal(0, 0.001, 3 * SAMPLE_RATE)  # -60 dB
    wave = noise.copy()
    tone = 0.5 * np.sqrt(2) * np.sin(2 * np.pi * 200 * np.arange(SAMPLE_RATE) / SAMPLE_RATE)
    wave[SAMPLE_RATE : 2 * SAMPLE_RATE] += tone  # -6 dB
    found = measure(_encoded(wave))
    assert found.loudness == pytest.approx(-6.02 - 10 * np.log10(3), abs=0.05)
    assert found.snr == pytest.approx(54, abs=1)
    assert found.silence == pytest.approx(2, abs=0.05)
    assert found.clipped == 0
    assert measure(_encoded(np.clip(4 * wave, -1, 1))).clipped == pytest.approx(0.25, abs=0.05)
    assert measure(_encoded(wave + 0.2)) == pytest.approx(found, abs=0.05)  # a DC offset
