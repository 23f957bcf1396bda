import io
from pathlib import Path

import datasets
import pandas as pd
import pytest
import soundfile

from tests.builders import build_dataset

READ_ALOUD = {"train": 12, "dev": 4, "test": 6}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("readme") / "ds"
    build_dataset(root)
    return root


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def test_hugging_face_datasets_loads_the_splits_of_a_root(built: Path, tmp_path: Path) -> None:
    loaded = datasets.load_dataset(str(built), cache_dir=str(tmp_path))
    rows = {split: 2 * count for split, count in READ_ALOUD.items()}
    assert {split: len(dataset) for split, dataset in loaded.items()} == rows
    row = loaded["test"].cast_column("audio_bytes", datasets.Audio(decode=False))[0]
    samples, rate = soundfile.read(io.BytesIO(row["audio_bytes"]["bytes"]))
    assert (len(samples), rate) == (row["audio_size"], 16_000)


def test_pandas_reads_corpus_and_split_from_the_paths(built: Path) -> None:
    frame = pd.read_parquet(built / "version=0", columns=["id", "corpus", "split"])
    counts = frame.groupby("split", observed=True).size()
    assert dict(counts) == {split: 2 * count for split, count in READ_ALOUD.items()}
    assert set(frame["corpus"]) == {"coral_conversation", "coral_read_aloud"}
