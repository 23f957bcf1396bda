"""Upstream's own reader and fairseq2's own asset store, on a dataset that we built."""

from collections import Counter
from itertools import takewhile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from danish_asr.base.schema import STATISTICS_FILE
from danish_asr.corpus.combine import combine
from tests.fairseq2_context import fairseq2_context
from tests.parts import build_part

import torch  # isort: skip
from fairseq2.data.tokenizers.char import load_char_tokenizer  # isort: skip
from fairseq2.datasets import SyncMode  # isort: skip
from fairseq2.device import CPU  # isort: skip
from fairseq2.gang import FakeGang, create_fsdp_gangs, create_parallel_gangs  # isort: skip
from omnilingual_asr.datasets.impl.mixture_parquet_asr_dataset import (  # isort: skip
    MixtureParquetAsrDataset,
)
from omnilingual_asr.datasets.storage.mixture_parquet_storage import (  # isort: skip
    MixtureParquetStorageConfig,
)
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig  # isort: skip


def read_texts(root: Path, split: str, most: int | None = None) -> Counter[str]:
    fairseq2_context()
    tokenizer = load_char_tokenizer(root / "cards" / "tiny_char.model", None)
    reader = MixtureParquetAsrDataset.from_path(root / "version=0").create_reader(
        split=split,
        tokenizer=tokenizer,
        gangs=create_fsdp_gangs(create_parallel_gangs(FakeGang(CPU))),
        dtype=torch.float32,
        num_accumulate=1,
        storage_config=MixtureParquetStorageConfig(
            sync_mode=SyncMode.UNTIL_LAST,
            dataset_summary_path=None if most is None else str(root / STATISTICS_FILE),
            beta_corpus=None if most is None else 0.5,
            beta_language=None if most is None else 0.5,
        ),
        task_config=AsrTaskConfig(
            max_audio_len=80_000, max_num_elements=160_000, example_shuffle_window=1
        ),
    )
    decode = tokenizer.create_decoder()
    texts: Counter[str] = Counter()
    for batches in takewhile(lambda _: most is None or texts.total() < most, reader):
        for batch in batches:
            for tokens, length in zip(batch.target_seqs, batch.target_seq_lens, strict=True):
                texts[decode(tokens[:length])] += 1
    return texts


def our_texts(root: Path, pattern: str) -> Counter[str]:
    shards = root.glob(f"version=0/{pattern}/**/*.parquet")
    return Counter(
        text for path in shards for text in pq.ParquetFile(path).read()["text"].to_pylist()
    )


@pytest.mark.parametrize(
    ("split", "pattern", "count"),
    [
        ("test", "corpus=*/split=test", 16),
        ("dev_coral_conversation", "corpus=coral_conversation/split=dev", 6),
    ],
)
def test_upstream_reads_the_same_texts(dataset: Path, split: str, pattern: str, count: int) -> None:
    texts = read_texts(dataset, split)
    assert texts == our_texts(dataset, pattern)
    assert texts.total() == count


def test_upstreams_reader_draws_all_rows_of_a_combined_dataset_by_its_hours(tmp_path: Path) -> None:
    parts = [build_part(tmp_path / name) for name in ("a", "b")]
    combine(parts, tmp_path / "tiny", name="tiny")
    weighted = read_texts(tmp_path / "tiny", "train", most=200)
    assert {*weighted} == {*our_texts(tmp_path / "tiny", "corpus=*/split=train")}
