"""The data contract, and where a dataset and its cards are."""

import hashlib
from pathlib import Path

import pytest

from danish_asr.base import schema
from danish_asr.base.audio import encode_flac
from danish_asr.base.schema import card_directories, partition_dir, without_nested
from tests.shards import waveform


def test_the_contract_has_its_numbers_and_the_columns_that_no_row_may_lack() -> None:
    assert (schema.SAMPLE_RATE, schema.ROW_GROUP_SIZE) == (16_000, 100)
    assert schema.ROW_GROUP_BYTES == 2**25
    assert (schema.MIN_SPEAKERS, schema.MIN_EFFECTIVE) == (8, 4)
    required = [
        {field.name for field in fields if not field.nullable}
        for fields in (schema.LEDGER_SCHEMA, schema.SUSPECTS_SCHEMA)
    ]
    assert required == [
        {"source", "row", "reason"},
        {"corpus", "split", "id", "reason", "value"},
    ]


def test_a_flac_file_has_the_md5_of_its_samples_at_its_place() -> None:
    wave = waveform(1_000, 0)
    digest = hashlib.md5((wave * 32768).round().astype("<i2").tobytes()).digest()  # noqa: S324
    assert encode_flac(wave)[schema.FLAC_MD5] == digest


def test_cards_are_looked_for_once_in_the_default_and_in_the_named_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    default, one, below = (tmp_path / name for name in ("data/parquet/cards", "one", "one/below"))
    monkeypatch.delenv("DANISH_ASR_ASSETS", raising=False)
    assert card_directories() == [default]
    monkeypatch.setenv("DANISH_ASR_ASSETS", f"one:{below}::{one}")
    assert card_directories() == [default, one]
    assert without_nested([one, below, default], searched=[one]) == [default]


def test_a_partition_has_hives_names() -> None:
    folder = partition_dir(Path("ds"), "coral", "dev", "dan_Latn")
    assert folder == Path("ds/version=0/corpus=coral/split=dev/language=dan_Latn")
