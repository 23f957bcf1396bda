from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from danish_asr import native  # noqa: F401 - libsndfile before fairseq2
from danish_asr.conversion.cards import statistics, write_cards
from danish_asr.conversion.convert import convert
from danish_asr.data.dataset import DanishAsrDataset
from danish_asr.data.mixture import hours_of
from danish_asr.schema import STATISTICS_FILE
from danish_asr.sources import open_source
from danish_asr.yaml_text import from_yaml
from tests.builders import build_dataset

LOAD = """
from danish_asr import native
from fairseq2 import init_fairseq2
init_fairseq2()
from fairseq2.assets import get_asset_store
from fairseq2.data.tokenizers import load_tokenizer
card = get_asset_store().retrieve_card("tiny")
tokenizer = load_tokenizer(card.metadata["tokenizer_ref"], progress=False)
print(card.metadata["dataset_config"]["data"])
print(tokenizer.create_decoder()(tokenizer.create_encoder()("Åse drikker 3 kopper te")))
"""


def test_there_is_one_row_per_corpus() -> None:
    assert statistics({"b": 1.5, "a": 2.0}) == (
        "corpus\tlanguage\thours\na\tdan_Latn\t2.000000\nb\tdan_Latn\t1.500000\n"
    )


def test_the_card_names_family_place_and_tokenizer(tmp_path: Path) -> None:
    write_cards(tmp_path, "tiny", set("abc"))
    card = from_yaml((tmp_path / "cards" / "tiny.yaml").read_text())
    assert card == {
        "name": "tiny",
        "dataset_family": "mixture_parquet_asr_dataset",
        "dataset_config": {"data": str(tmp_path.resolve() / "version=0")},
        "tokenizer_ref": "tiny_char",
    }


def test_fairseq2_finds_the_dataset_and_its_tokenizer_by_name(tmp_path: Path) -> None:
    build_dataset(tmp_path / "ds")
    found = subprocess.run(
        [sys.executable, "-c", LOAD],
        env=os.environ | {"DANISH_ASR_ASSETS": str(tmp_path / "ds" / "cards")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.splitlines() == [
        str((tmp_path / "ds" / "version=0").resolve()),
        "Åse drikker 3 kopper te",
    ]


def test_a_corpus_without_training_audio_is_no_hindrance_for_training(tmp_path: Path) -> None:
    build_dataset(tmp_path / "ds")
    for split in ("train", "val"):
        (tmp_path / "ds.source" / "conversation" / f"{split}-00000-of-00001.parquet").unlink()
    convert(open_source(str(tmp_path / "ds.source")), tmp_path / "less", name="less")
    index = DanishAsrDataset(tmp_path / "less").read_index("train")
    hours = hours_of(
        tmp_path / "less" / STATISTICS_FILE, needed=index.partitions, known=index.known_partitions
    )
    assert [partition.corpus for partition in hours] == ["coral_read_aloud"]
