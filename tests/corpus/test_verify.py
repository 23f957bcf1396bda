import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from danish_asr.base.errors import DatasetError
from danish_asr.corpus.combine import combine
from danish_asr.corpus.verify import (
    COMPARED,
    Leak,
    contradictions_of,
    gaps_of_test,
    leaks_of,
    repeated_ids,
    repeats_of,
    shown_of,
    verify,
)
from danish_asr.decoding.ngram_build import build_language_model
from danish_asr.inference import run_facts
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.report.dataset import read_rows as report_rows
from danish_asr.scoring.predictions import read_references
from tests.foreign_code import NAME, ForeignCode
from tests.spoiled import (
    CARD,
    FIRST,
    LEDGER,
    SECOND,
    TEST,
    Spoil,
    card,
    content,
    faults_of,
    read_rows,
    row,
    text,
    write_rows,
)


def test_a_converted_dataset_has_no_faults(root: Path) -> None:
    result = verify(root)
    assert result.faults == []
    assert result.hours == {
        ("train", "Fynsk"): pytest.approx((0.5 * 8 + 0.1 * 13) / 3600),
        ("test", "Fynsk"): pytest.approx((0.5 * 3 + 0.1 * 3) / 3600),
    }


def bit_flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def same_audio(root: Path) -> None:
    train, test = (read_rows(root / place) for place in (FIRST, TEST))
    train[1] |= {key: test[0][key] for key in ("audio_bytes", "audio_size")}
    write_rows(root, train, FIRST)


def two_texts(root: Path, other: str = "nej") -> None:
    train = read_rows(root / FIRST)
    train[2] |= {key: train[1][key] for key in ("audio_bytes", "audio_size")}
    train[1]["text"], train[2]["text"] = "ja tak", other
    write_rows(root, train, FIRST)


STRAY = TEST.replace("00000-of-00001", "copied")


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (content(SECOND, bit_flipped), f"{SECOND}: its sha256"),
        (lambda root: (root / SECOND).unlink(), f"{SECOND}: .*manifest.json"),
        (lambda root: shutil.copy(root / FIRST, root / STRAY), f"{STRAY}: not in manifest.json"),
        (text(LEDGER, "x"), f"{LEDGER}: its sha256"),
        (lambda root: (root / "suspects.parquet").unlink(), "suspects.parquet: cannot be read"),
        (row(id="rec_train_5"), "more than once: coral_read_aloud rec_train_5$"),
        (row(speaker_id="spe_test_0"), "train and test share 1 speakers, such as 'spe_test_0'"),
        (row(text="TEST sætning: nummer 2!"), "share 1 sentences, such as 'test sætning nummer to"),
        (two_texts, "train: coral_read_aloud rec_train_1 and .*rec_train_2 .*'ja tak' and 'nej'"),
        (same_audio, "train and test share 1 audio, such as 'rec_test_0' .1 rows in test"),
        (card(dataset_config={"data": "/elsewhere"}), "/elsewhere.*moved dataset"),
        (text(CARD, "{: ["), f"{CARD}: cannot be read"),
        (lambda root: (root / CARD).unlink(), f"{CARD}: cannot be read"),
    ],
)
def test_every_fault_is_found(root: Path, spoil: Spoil, fault: str) -> None:
    spoil(root)
    assert re.search(fault, faults_of(root), re.MULTILINE), faults_of(root)


def test_a_damaged_file_never_stops_the_check_with_another_error(root: Path) -> None:
    for name in (FIRST, LEDGER, "manifest.json", CARD):
        intact = (root / name).read_bytes()
        random = Random(name)
        for wrong in (b"", b"[]", b"null", b"\xff\xfe", b"PAR1PAR1", intact[:7], intact[:-9]):
            flipped = bytearray(intact)
            flipped[random.randrange(len(intact))] = random.randrange(256)
            for damaged in (wrong, bytes(flipped)):
                (root / name).write_bytes(damaged)
                try:
                    verify(root)
                except DatasetError as error:
                    assert "manifest.json" in str(error)  # noqa: PT017
        (root / name).write_bytes(intact)
    assert faults_of(root) == ""


def test_the_same_audio_may_be_twice_with_one_text_or_where_it_is_allowed(root: Path) -> None:
    two_texts(root)
    allowed = verify(root, allow_shared=["audio"])
    assert allowed.faults == []
    assert [note for note in allowed.notes if "'ja tak' and 'nej'" in note]
    two_texts(root, other="JA, tak!")
    assert faults_of(root) == ""


def test_rows_that_are_there_again_in_a_split_are_counted(root: Path) -> None:
    two_texts(root, other="ja tak")
    assert [note for note in verify(root).notes if "another row" in note] == [
        "train: 1 rows have the audio and the text of another row: rec_train_2"
    ]
    keys = [
        ("train", b"a", "ja", "1"),
        ("test", b"a", "ja", "2"),
        ("test", b"a", "nej", "3"),
        ("test", b"b", "ja", "4"),
    ]
    rows = [dict(zip(("split", "audio", "text", "id"), key, strict=True)) for key in keys]
    assert [*repeats_of(pa.Table.from_pylist(rows, COMPARED))] == []
    (note,) = repeats_of(pa.Table.from_pylist([*rows, *rows[2:], *rows[3:]], COMPARED))
    assert note.startswith("test: 3 rows")
    assert note.endswith(": 3, 4")


def test_names_of_speakers_that_differ_in_capitals_are_noted(root: Path) -> None:
    row(speaker_id="SPE_test_0")(root)
    assert [note for note in verify(root).notes if "SPE_test_0 and spe_test_0" in note]


def test_not_all_rows_of_the_same_audio_are_listed() -> None:
    rows = [compared("train", audio=b"1", text=str(n), corpus="a", id=str(n)) for n in range(30)]
    others = [compared("test", audio=b"1", text="x"), *(compared("dev", text="ja") for _ in "ab")]
    found = [*contradictions_of(pa.Table.from_pylist([*rows, *others], COMPARED), "raw")]
    assert len(found) == 29
    assert shown_of(found[:20]) == found[:20]
    lines = shown_of(found)
    assert len(lines) == 21
    assert lines[19].startswith("train: a 0 and a 20 ")
    assert " 9 other rows" in lines[20]


def test_what_splits_share_can_be_allowed(root: Path) -> None:
    row(text="test sætning nummer 2")(root)
    allowed = verify(root, allow_shared=["sentences"])
    assert allowed.faults == []
    assert [note for note in allowed.notes if note.startswith("allowed: train and test share 1 ")]


@pytest.mark.parametrize(("profile", "shared"), [("coral", True), ("raw", False)])
def test_the_card_names_the_profile_of_sentences(root: Path, profile: str, shared: bool) -> None:
    row(text="TEST sætning: nummer 2!")(root)
    card(text_profile=profile)(root)
    assert ("sentences" in faults_of(root)) == shared


def test_a_card_that_names_code_stops_no_other_check(root: Path, foreign_code: ForeignCode) -> None:
    row(text="test sætning nummer 2", speaker_id="spe_test_0")(root)
    card(text_profile=NAME)(root)
    found = verify(root)
    assert not foreign_code.ran
    assert [leak.what for leak in found.leaks] == ["speakers"]
    (fault,) = found.unchecked
    assert CARD in fault
    assert NAME in fault


def compared(split: str, **values: Any) -> dict[str, Any]:
    return {"split": split, "audio_size": 1000} | values


def test_a_leak_counts_values_rows_and_their_share_of_the_split() -> None:
    rows = [
        *(compared("train", person=f"a {n}", speaker_id=f"{n}") for n in range(5)),
        *(compared("test", person=f"a {n // 2}", speaker_id=f"{n // 2}") for n in range(2, 10)),
        compared("test", person="b 1", speaker_id="1"),
        compared("test"),
        compared("dev", person="b 1", speaker_id="1", sentence="en to tre", audio=b"1", id="d"),
        compared("test", sentence="en to tre", audio=b"1", id="t"),
        compared("train", sentence="en to tre", audio=b"2"),
    ]
    assert leaks_of(pa.Table.from_pylist(rows, COMPARED)) == [
        Leak("speakers", "train", "test", 4, 8, 8 / 11, ["1", "2", "3"]),
        Leak("speakers", "dev", "test", 1, 1, 1 / 11, ["1"]),
        Leak("sentences", "train", "dev", 1, 1, 1.0, ["en to tre"]),
        Leak("sentences", "train", "test", 1, 1, 1 / 11, ["en to tre"]),
        Leak("sentences", "dev", "test", 1, 1, 1 / 11, ["en to tre"]),
        Leak("audio", "dev", "test", 1, 1, 1 / 11, ["t"]),
    ]


@pytest.mark.parametrize(
    ("tested", "others", "said"),
    [
        (8, 0, []),
        (7, 9, ["speakers in test: 7", "have 9:"]),
        (1, 1, ["speakers in test: 1"]),
        (0, 9, []),
        (0, 0, ["no row has a speaker"]),
    ],
)
def test_too_few_test_speakers_are_announced(tested: int, others: int, said: list[str]) -> None:
    rows = [compared("test", person=f"s{n}") for n in range(tested)]
    rows += [compared("train", person=f"s{n}") for n in range(others)] + [compared("test")]
    notes = [*gaps_of_test(pa.Table.from_pylist(rows, COMPARED))]
    assert len(notes) == bool(said)
    assert [text for text in said if text not in notes[0]] == []


def test_dialects_of_train_without_a_row_in_test_are_announced() -> None:
    train = [compared("train", dialect=name, person="s") for name in ("Fynsk", "Sydømål", None)]
    assert [*gaps_of_test(pa.Table.from_pylist(train, COMPARED))] == []
    test = [compared("test", dialect=name) for name in ("Sydømål", "Vestjysk")]
    notes = [*gaps_of_test(pa.Table.from_pylist([*train, *test], COMPARED))]
    assert [note.partition(",")[0] for note in notes] == ["test has no row of Fynsk"]


def test_ids_are_repeated_within_a_corpus() -> None:
    names = [("a", "1"), ("b", "1"), ("a", "2"), ("a", "1"), ("b", "3"), ("b", "3")]
    rows = pa.Table.from_pylist([{"corpus": corpus, "id": own} for corpus, own in names])
    assert repeated_ids(rows) == ["a 1", "b 3"]


READERS: dict[str, Callable[[Path], object]] = {
    "train": lambda root: DanishAsrDataset(root).read_index("train"),
    "train, by the path": lambda root: DanishAsrDataset(root / "version=0").read_index("train"),
    "score": lambda root: read_references(root, "test"),
    "lm build": lambda root: build_language_model(
        [], root.with_name("lm"), dataset=root, profile="coral"
    ),
    "page": report_rows,
    "export": lambda root: [*run_facts.read_rows(root, ["train"], 1)],
    "combine": lambda root: combine([root], root.with_name("all"), name="all"),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_shard_too_many_or_too_few_stops_every_reader(root: Path, reader: str) -> None:
    READERS[reader](root)
    shutil.rmtree(root.with_name("lm"), ignore_errors=True)
    (root / SECOND).rename(root / STRAY)
    with pytest.raises(DatasetError, match=f"(?s){STRAY}: .*{SECOND}: "):
        READERS[reader](root)
