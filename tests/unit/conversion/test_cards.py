import os
import subprocess
import sys
from pathlib import Path

from danish_asr.conversion.convert import convert
from danish_asr.data.dataset import DanishAsrDataset
from danish_asr.data.mixture import hours_of
from danish_asr.schema import STATISTICS_FILE
from danish_asr.sources import open_source
from tests.builders import build_dataset

LOAD = """
import danish_asr
from fairseq2 import init_fairseq2
init_fairseq2()
from fairseq2.assets import get_asset_store
from fairseq2.data.tokenizers import load_tokenizer
card = get_asset_store().retrieve_card("tiny")
tokenizer = load_tokenizer(card.metadata["tokenizer_ref"], progress=False)
print(card.metadata["dataset_config"]["data"])
print(tokenizer.create_decoder()(tokenizer.create_encoder()("Åse drikker 3 kopper te")))
"""


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
    assert (tmp_path / "less" / STATISTICS_FILE).read_text() == (
        "corpus\tlanguage\thours\ncoral_read_aloud\tdan_Latn\t0.002250\n"
    )
    index = DanishAsrDataset(tmp_path / "less").read_index("train")
    hours = hours_of(
        tmp_path / "less" / STATISTICS_FILE, needed=index.partitions, known=index.known_partitions
    )
    assert [partition.corpus for partition in hours] == ["coral_read_aloud"]
