from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from danish_asr.cli import run
from danish_asr.conversion.verify.command import verify, verify_command
from danish_asr.errors import DanishAsrError, DatasetError
from danish_asr.schema import UTTERANCE_SCHEMA
from tests.builders import tone
from tests.spoiled import (
    CARD,
    FIRST,
    LEDGER,
    MODEL,
    SECOND,
    TEST,
    TOKENIZER,
    TSV,
    Spoil,
    build,
    copy,
    every_row,
    faults_of,
    read_rows,
    remove,
    row,
    text,
    write_shard,
)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("sample", [None, 0, 2])
def test_a_converted_dataset_is_in_order(root: Path, workers: int, sample: int | None) -> None:
    result = verify(root, sample=sample, workers=workers)
    assert result.faults == ()
    assert result.hours == {
        ("train", "Fynsk"): pytest.approx((0.5 * 8 + 0.1 * 13) / 3600),
        ("test", "Fynsk"): pytest.approx((0.5 * 3 + 0.1 * 3) / 3600),
    }


LEAKS: list[tuple[Spoil, str]] = [
    (row(speaker_id="spe_test_0"), "train and test share 1 speaker, such as 'spe_test_0'"),
    (row(text="TEST sætning: nummer 2!"), "share 1 sentence, such as 'test sætning nummer 2'"),
    (row(id="rec_train_5"), f"{SECOND}: ids that stand in {FIRST} already: rec_train_5"),
    (row(id="rec_train_0"), f"{FIRST}: ids that stand in it twice: rec_train_0$"),
    (every_row(id="a"), "ids that stand in it twice: a, a, a$"),
    (copy(FIRST, SECOND), "already: rec_train_0, rec_train_1, rec_train_2 and 1 more$"),
]


@pytest.mark.parametrize(("spoil", "fault"), LEAKS)
def test_what_stands_in_two_places_is_found(root: Path, spoil: Spoil, fault: str) -> None:
    spoil(root)
    told = faults_of(root)
    assert re.search(fault, told, re.MULTILINE), told


def test_a_broken_file_hides_no_fault_of_the_others(root: Path) -> None:
    files = [FIRST, SECOND, TEST, LEDGER, TSV, "manifest.json", CARD, TOKENIZER, MODEL]
    for name in files:
        (root / name).write_bytes(b"\xff\x00")
    told = faults_of(root)
    assert [name for name in files if name not in told] == []
    assert len(told.splitlines()) == len(files)


def test_without_a_manifest_shards_are_checked_against_each_other(root: Path) -> None:
    row(id="rec_train_5", speaker_id="spe_test_0")(root)
    (root / "manifest.json").unlink()
    told = faults_of(root, sample=1)
    assert "manifest.json: is missing" in told
    assert "ids that stand in" in told
    assert "train and test share 1 speaker" in told
    assert len(told.splitlines()) == 3


def test_all_faults_are_told_in_one_list_with_status_1(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for spoil in (remove(SECOND), text(LEDGER, ""), text(TSV, "corpus"), remove(CARD)):
        spoil(root)
    with pytest.raises(SystemExit) as stop:
        run(lambda: verify_command(root, sample=None, workers=1, allow_shared=()))
    assert stop.value.code == 1
    told = capsys.readouterr().err
    assert f"{root} has 5 faults:" in told
    for name in (SECOND, LEDGER, TSV, CARD):
        assert f"  - {name}: " in told


def test_shared_speakers_and_sentences_can_be_allowed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row(speaker_id="spe_test_0", text="test sætning nummer 2")(root)
    assert len(verify(root).faults) == 2
    assert len(verify(root, allow_shared=["speakers"]).faults) == 1
    verify_command(root, sample=None, workers=1, allow_shared=["speakers", "sentences"])
    told = capsys.readouterr().out
    assert "allowed: train and test share 1 sentence" in told
    assert "in order" in told


def test_short_sentences_may_be_shared(root: Path) -> None:
    row(text="Ja tak!")(root)
    assert verify(build(root.parent / "two" / "ds", text="ja tak")).faults == ()


def test_a_sample_still_reads_every_header(root: Path) -> None:
    row(audio_bytes=tone(0.6, rate=8000, format="FLAC"))(root)
    assert "8000 Hz" in faults_of(root, sample=0)


def test_a_sample_decodes_as_many_rows_as_it_says(root: Path) -> None:
    # The header is whole, and the audio ends early.
    for place in (FIRST, SECOND, TEST):
        rows = [
            row | {"audio_bytes": row["audio_bytes"][:-2000]} for row in read_rows(root / place)
        ]
        write_shard(root, pa.Table.from_pylist(rows, UTTERANCE_SCHEMA), place)
    for sample in (0, 1, 5, 11, 99):
        told = faults_of(root, sample=sample)
        found = re.findall("(?<=undecodable audio: ).*", told)
        decoded = sum(len(re.findall("rec_", line)) + more_of(line) for line in found)
        assert decoded == min(sample, 11), told


def more_of(line: str) -> int:
    match = re.search(r"and (\d+) more", line)
    return int(match[1]) if match else 0


def test_names_that_are_no_plain_text_are_told_as_they_are(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row(speaker_id="[/b]\nspe", dialect="[/i]", sub_dialect="[/i]")(root)
    rows = [row | {"speaker_id": "[/b]\nspe"} for row in read_rows(root / TEST)]
    write_shard(root, pa.Table.from_pylist(rows, UTTERANCE_SCHEMA), TEST)
    verify_command(root, sample=None, workers=1, allow_shared=["speakers"])
    told = capsys.readouterr().out
    assert r"such as '[/b]\nspe'" in told
    assert "[/i]" in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no finished dataset, manifest.json is missing"),
        ({"allow_shared": ("ids",)}, "--allow-shared: expected one of speakers, sentences; found"),
        ({"sample": -5}, "--sample: a number of rows, at least 0; found -5"),
        ({"workers": 0}, "--workers: at least 1; found 0"),
    ],
)
def test_what_cannot_be_verified_is_told(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DanishAsrError, match=message):
        verify_command(tmp_path, **{"sample": None, "workers": 1, "allow_shared": ()} | options)


def test_an_unfinished_conversion_is_no_damaged_dataset(root: Path) -> None:
    (root / "manifest.json").unlink()
    (root / ".convert").mkdir()
    with pytest.raises(DatasetError, match="no finished dataset"):
        verify(root)
