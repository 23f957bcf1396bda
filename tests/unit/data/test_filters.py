import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danish_asr.recipe.data.index import DanishAsrDataset, Index
from danish_asr.recipe.data.targets import (
    EMPTY,
    TOO_FEW_FRAMES,
    TOO_LONG,
    TOO_MANY_CHARS,
    TOO_SHORT,
    FilterStatistics,
    FrameCount,
    NeededFrames,
    Targets,
    ctc_frames,
    select_rows,
)
from tests.shards import char_tokenizer, task, utterance, write_shard

WIDE = {"min_audio_len": 1, "max_audio_len": 10**6, "min_samples_per_char": 0}


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Targets:
    return Targets(char_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    root = tmp_path_factory.mktemp("dataset")
    write_shard(root, [utterance(number, audio_size=16_000) for number in range(6)])
    return DanishAsrDataset(root).read_index("train")


def with_rows(index: Index, texts: list[str], lengths: list[int]) -> Index:
    """The index with other texts and lengths; filters read no audio."""
    rows = index.take(np.zeros(len(texts), np.int64))
    frame = rows.rows.with_columns(pl.Series("target", texts, pl.String))
    return dataclasses.replace(rows, rows=frame, lengths=np.array(lengths, np.int32))


def select(index: Index, targets: Targets, **limits: Any) -> tuple[list[int], FilterStatistics]:
    """The rows that are kept, and the statistics."""
    config = task(**WIDE | limits)
    rows, statistics = select_rows(index, NeededFrames(index, targets), config, FrameCount())
    return rows.tolist(), statistics


@pytest.mark.parametrize(
    ("limits", "text", "reason"),
    [
        ({"min_audio_len": 16_001}, "hej", TOO_SHORT),
        ({"max_audio_len": 15_999}, "hej", TOO_LONG),
        ({}, "", EMPTY),
        ({"min_samples_per_char": 3_201}, "dagen", TOO_MANY_CHARS),
        # 16,000 samples are 49 frames. Upstream hides such rows with a loss of 0 (TRAPS).
        ({}, "ab" * 25, TOO_FEW_FRAMES),
        ({}, "a?" * 25, TOO_FEW_FRAMES),
        # A row at the limit stays.
        ({"min_audio_len": 16_000, "max_audio_len": 16_000}, "hej", None),
        ({"min_samples_per_char": 3_200}, "dagen", None),
        ({}, "ab" * 24 + "a", None),
    ],
)
def test_a_filter_removes_what_it_says_and_says_so(
    index: Index, targets: Targets, limits: dict[str, Any], text: str, reason: str | None
) -> None:
    kept, statistics = select(with_rows(index, [text], [16_000]), targets, **limits)

    assert kept == ([] if reason else [0])
    found = [(part.reason, part.rows) for part in statistics.removed]
    assert found == ([(reason, 1)] if reason else [])


@settings(max_examples=200)
@given(
    texts=st.lists(
        st.text(st.sampled_from("aabæø?½漢 "), min_size=1, max_size=60), min_size=1, max_size=8
    ),
    samples=st.integers(400, 40_000),
)
def test_bounding_tokens_first_changes_no_decision(
    index: Index, targets: Targets, texts: list[str], samples: int
) -> None:
    rows = with_rows(index, texts, [samples] * len(texts))

    kept, _ = select(rows, targets)

    def stays(text: str) -> bool:
        return bool(text.strip()) and ctc_frames(targets(text)) <= FrameCount()(samples)

    assert kept == [number for number, text in enumerate(texts) if stays(text)]
