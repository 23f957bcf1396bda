"""Where a dataset and its cards are."""

from pathlib import Path

import pytest

from danish_asr.base.schema import card_directories, partition_dir, without_nested


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
