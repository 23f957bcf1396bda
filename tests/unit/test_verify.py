import re
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.base.errors import DatasetError
from danish_asr.cli import main
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.corpus.command import verify_command
from danish_asr.corpus.verify import spread, verify
from tests.builders import encode, tone
from tests.spoiled import (
    CARD,
    FIRST,
    LEDGER,
    MODEL,
    SECOND,
    TEST,
    TOKENIZER,
    TRAIN,
    TSV,
    Spoil,
    build,
    card,
    content,
    copy,
    faults_of,
    manifest,
    read_rows,
    row,
    shard,
    text,
    write_rows,
    write_shard,
)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("sample", [None, 0, 2])
def test_a_converted_dataset_has_no_faults(root: Path, workers: int, sample: int | None) -> None:
    result = verify(root, sample=sample, workers=workers)
    assert result.faults == []
    assert result.hours == {
        ("train", "Fynsk"): pytest.approx((0.5 * 8 + 0.1 * 13) / 3600),
        ("test", "Fynsk"): pytest.approx((0.5 * 3 + 0.1 * 3) / 3600),
    }


def bit_flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def without_dialect(root: Path) -> None:
    write_shard(root, pq.ParquetFile(root / FIRST).read().drop_columns(["dialect"]))


def same_audio(root: Path) -> None:
    train, test = (read_rows(root / place) for place in (FIRST, TEST))
    train[1] |= {key: test[0][key] for key in ("audio_bytes", "audio_size")}
    write_rows(root, train, FIRST)


FLAC = tone(0.6, rate=16_000, format="FLAC")
CUT = FLAC[:-2000]
SILENCE = encode(np.zeros((9600, 1)), 16_000, format="FLAC")


def language(code: str) -> Spoil:
    """Put the first shard below another language."""

    def spoil(root: Path) -> None:
        place = FIRST.replace("dan_Latn", code)
        (root / place).parent.mkdir(parents=True)
        (root / FIRST).rename(root / place)
        shard(path=place)(root)

    return spoil


FILES = (FIRST, TEST, LEDGER, "suspects.parquet", TSV, "manifest.json", CARD, TOKENIZER, MODEL)
FAULTS: list[tuple[Spoil, str]] = [
    # files
    (text("cards/other.yaml", "name: other"), "cards/other.yaml: is not a card of this dataset"),
    (text("notes.txt", "x"), "notes.txt: is not part of the dataset"),
    # shards
    (content(SECOND, bit_flipped), f"{SECOND}: its sha256"),
    (copy(FIRST, f"{TRAIN}/extra.parquet"), "extra.parquet: is not in manifest.json"),
    (copy("manifest.json", f"{TRAIN}/notes.txt"), "notes.txt: is not in manifest.json"),
    (shard(rows=7), f"{LEDGER}: 14 rows written and 1 in the ledger"),
    (without_dialect, f"{FIRST}: its columns"),
    (shard(seconds=50.0), f"{FIRST}: has 4 rows and 2.6 s; .* says 4 and 50"),
    (language("danish"), "expected one language, such as dan_Latn; found dan_Latn, danish"),
    # audio
    (row(audio_bytes=SILENCE), f"{FIRST}: digital silence: rec_train_1$"),
    (row(audio_bytes=CUT), f"{FIRST}: undecodable audio: rec_train_1$"),
    (row(audio_bytes=tone(0.6, rate=8000, format="FLAC")), "8000, .*: rec_train_1$"),
    (row(audio_bytes=tone(0.6, rate=16_000, channels=2, format="FLAC")), "16000, 2.*expected"),
    (row(audio_bytes=tone(0.6, rate=16_000)), "WAV.*expected .*FLAC"),
    (row(audio_bytes=FLAC[:30] + b"wrong" + FLAC[35:]), "the MD5 in .* samples: rec_train_1$"),
    (row(audio_size=9599), "audio_size is not the number of samples: rec_train_1$"),
    # ids, texts and leaks
    (row(id=" "), f"{FIRST}: empty id: row 1$"),
    (row(text="\t"), f"{FIRST}: empty text: rec_train_1$"),
    (same_audio, "train and test share 1 audio, such as 'rec_test_0' .1 rows in train, 1 in test"),
    (row(age_group="50+"), f"{FIRST}: age_group is not that of the age: rec_train_1$"),
    (row(id="rec_train_5"), "more than once: rec_train_5$"),
    (row(id="rec_train_0"), "more than once: rec_train_0$"),
    (row(speaker_id="spe_test_0"), "train and test share 1 speakers, such as 'spe_test_0'"),
    (row(text="TEST sætning: nummer 2!"), "share 1 sentences, such as 'test sætning nummer to'"),
    # ledger and statistics
    (manifest(source_rows=17), "11 rows written and 1 in the ledger .* 17 rows"),
    (content(TSV, lambda old: old.replace(b"0.001472", b"7")), f"{TSV}: .*0.001472"),
    (content(TSV, lambda old: old + b"\xe6\n"), f"{TSV}: cannot be read"),
    # cards and tokenizer
    (content("README.md", lambda old: old.replace(b"split: train", b"split: test")), "train.*test"),
    (text(CARD, "- name: tiny"), rf"{CARD}: expected .*tiny.*, found \["),
    (text(CARD, "{: ["), f"{CARD}: cannot be read"),
    (card(dataset_config={"data": "/elsewhere"}), "/elsewhere.*moved dataset"),
    (card(name="huge"), f"{CARD}: expected .*'tiny'.*found .*'huge'"),
    (card(TOKENIZER, tokenizer="x.model"), "expected .*tiny_char.model.*, found .*x.model"),
    (text(MODEL, "x"), f"{MODEL}: cannot be read"),
    (content(MODEL, lambda old: old.replace(b"<pad>", b"<PAD>")), f"{MODEL}: lacks .*<pad>"),
    (content(MODEL, lambda _: build_char_tokenizer("abeginst")), f"{MODEL}: lacks symbols .*: 0, "),
    (content(MODEL, lambda _: build_char_tokenizer("qx")), f"{MODEL}: has symbols .*: q, x"),
]


@pytest.mark.parametrize(("spoil", "fault"), FAULTS)
def test_every_fault_is_found(root: Path, spoil: Spoil, fault: str) -> None:
    spoil(root)
    assert re.search(fault, faults_of(root), re.MULTILINE), faults_of(root)


def test_all_faults_are_in_one_list_with_status_1(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [SECOND, *(name for name in FILES if name != "manifest.json")]
    for name in files:
        (root / name).write_bytes(b"\xff\x00")
    with pytest.raises(SystemExit) as stop:
        main(lambda: verify_command(root, sample=None, workers=1, allow_shared=()))
    assert stop.value.code == 1
    output = capsys.readouterr().err
    assert f"{root}: faults: {len(files)}" in output
    assert [name for name in files if f"  - {name}: " not in output] == []


def test_a_sample_decodes_as_many_rows_as_it_says(root: Path) -> None:
    for place in (FIRST, SECOND, TEST):
        write_rows(root, [row | {"audio_size": 1} for row in read_rows(root / place)], place)
    for sample in (0, 1, 5, 11, 99):
        found = faults_of(root, sample=sample)
        more = map(int, re.findall(r"and (\d+) more", found))
        assert found.count("rec_") + sum(more) == min(sample, 11)


@given(st.lists(st.integers(0, 2000)), st.none() | st.integers(0, 10_000))
def test_a_sample_is_spread_evenly_over_the_shards(rows: list[int], sample: int | None) -> None:
    decoded = spread(rows, sample)
    share = sum(rows) if sample is None else min(sample, sum(rows))
    assert sum(decoded) == share
    for own, count in zip(rows, decoded, strict=True):
        assert abs(count - own * share / max(1, sum(rows))) <= 1


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that lacks a shard: whatever else is damaged, that must still be reported."""
    root = build(tmp_path_factory.mktemp("damaged") / "ds")
    (root / SECOND).unlink()
    return root


def faults_but_one(root: Path) -> list[str]:
    try:
        faults = list(verify(root).faults)
    except DatasetError as error:
        return [f"manifest.json: {error}"] if "manifest.json" in str(error) else []
    faults.remove(f"{SECOND}: is missing")
    return faults


def test_damaged_files_are_named(lacking: Path) -> None:
    """Flipped bytes need not be found, but must not stop the check with another error."""
    for name in FILES:
        whole = (lacking / name).read_bytes()
        for wrong in (b"", b"[]", b"null", b"\xff\xfe", b"PAR1PAR1", whole[:7], whole[:-9]):
            (lacking / name).write_bytes(wrong)
            assert any(fault.startswith(f"{name}: ") for fault in faults_but_one(lacking)), wrong
        random = Random(name)
        for _ in range(5):
            flipped = bytearray(whole)
            flipped[random.randrange(len(whole))] = random.randrange(256)
            (lacking / name).write_bytes(flipped)
            with suppress(DatasetError):
                verify(lacking)
        (lacking / name).write_bytes(whole)
        assert faults_but_one(lacking) == []


def test_rows_with_digits_are_counted(root: Path) -> None:
    row(TEST, text="det var i nittenhundrede og syvogfirs")(root)
    result = verify(root)
    assert result.faults == []
    assert "coral_read_aloud: 10 of 11 rows have digits" in result.notes


def test_repeated_audio_and_missing_speakers_are_notes(root: Path) -> None:
    for place in (FIRST, SECOND, TEST):
        write_rows(root, [row | {"speaker_id": None} for row in read_rows(root / place)], place)
    rows = read_rows(root / FIRST)
    rows[1] |= {key: rows[0][key] for key in ("audio_bytes", "audio_size")}
    write_rows(root, rows, FIRST)
    notes = "\n".join(verify(root, sample=0).notes)
    assert "coral_read_aloud: no row has a speaker" in notes
    assert "train: 2 rows have the audio of another row: rec_train_0, rec_train_1" in notes


@pytest.mark.parametrize(
    ("spoil", "advice"),
    [
        (content(SECOND, bit_flipped), ["restore dama"]),
        (row(speaker_id="spe_test_0"), ["shared rows ", "`danish-asr ", "--split-by-s"]),
        (row(text="test sætning nummer 1"), ["shared rows ", "`danish-asr "]),
        (copy(FIRST, f"{TRAIN}/extra.parquet"), []),
    ],
)
def test_the_advice_fits_the_faults(root: Path, spoil: Spoil, advice: list[str]) -> None:
    spoil(root)
    assert [line[:12] for line in verify(root).advice] == advice
