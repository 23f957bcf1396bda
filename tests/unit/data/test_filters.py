from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danish_asr.data.dataset import DanishAsrDataset
from danish_asr.data.filters import (
    CROWDED,
    EMPTY,
    FAST,
    LONG,
    SHORT,
    UNKNOWN,
    WORDY,
    Limits,
    ctc_frames,
    select_rows,
)
from danish_asr.data.frames import frame_count
from danish_asr.data.index import Index
from danish_asr.data.packed_strings import PackedStrings
from danish_asr.data.targets import Targets
from tests.shards import char_tokenizer, utterance, write_shard

WIDE = Limits(
    min_audio_len=1,
    max_audio_len=10**6,
    min_samples_per_char=0,
    filter_long_text_threshold=None,
    remove_unknown=False,
)


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Targets:
    return Targets.of(char_tokenizer(tmp_path_factory.mktemp("tokenizer")), "raw")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    root = tmp_path_factory.mktemp("dataset")
    write_shard(root, [utterance(number, audio_size=16_000) for number in range(6)])
    return DanishAsrDataset(root).read_index("train")


def with_rows(index: Index, texts: list[str], lengths: list[int]) -> Index:
    """The index with other texts and lengths; filters read no audio."""
    rows = index.take(np.zeros(len(texts), np.int64))
    packed = PackedStrings.pack(pa.array(texts, pa.string()))
    return dataclasses.replace(rows, texts=packed, lengths=np.array(lengths, np.int32))


@pytest.mark.parametrize(
    ("limits", "text", "samples", "reason"),
    [
        ({"min_audio_len": 16_001}, "hej", 16_000, SHORT),
        ({"max_audio_len": 15_999}, "hej", 16_000, LONG),
        ({}, "", 16_000, EMPTY),
        ({}, " \t", 16_000, EMPTY),
        ({"min_samples_per_char": 3_201}, "dagen", 16_000, FAST),
        ({"filter_long_text_threshold": 4}, "dagen", 16_000, WORDY),
        ({"filter_long_text_threshold": 4, "remove_unknown": True}, "d?gen", 16_000, WORDY),
        ({}, "?!", 16_000, UNKNOWN),
        # 16,000 samples are 49 frames. Upstream hides such rows with a loss of 0 (TRAPS).
        ({}, "ab" * 25, 16_000, CROWDED),
        ({}, "aa" * 13, 16_000, CROWDED),
        ({}, "a?" * 25, 16_000, CROWDED),
    ],
)
def test_a_filter_removes_what_it_says_and_says_so(
    index: Index, targets: Targets, *, limits: dict[str, Any], text: str, samples: int, reason: str
) -> None:
    rows = with_rows(index, [text], [samples])

    kept, account = select_rows(rows, targets, dataclasses.replace(WIDE, **limits), frame_count())

    assert kept.tolist() == []
    assert [(removal.reason, removal.rows) for removal in account.removed] == [(reason, 1)]


@pytest.mark.parametrize(
    ("limits", "text", "samples"),
    [
        ({"min_audio_len": 16_000, "max_audio_len": 16_000}, "hej", 16_000),
        ({"min_samples_per_char": 3_200}, "dagen", 16_000),
        ({"filter_long_text_threshold": 5}, "dagen", 16_000),
        ({}, "ab" * 24 + "a", 16_000),
        ({}, "aa" * 12 + "b", 16_000),
        ({"remove_unknown": True}, "a?" * 25, 16_000),
    ],
)
def test_a_row_at_the_limit_stays(
    index: Index, targets: Targets, limits: dict[str, Any], text: str, samples: int
) -> None:
    rows = with_rows(index, [text], [samples])

    kept, account = select_rows(rows, targets, dataclasses.replace(WIDE, **limits), frame_count())

    assert (kept.tolist(), account.removed) == ([0], ())


@settings(max_examples=200)
@given(
    texts=st.lists(
        st.text(st.sampled_from("aabæø?½ﷺ漢 "), min_size=1, max_size=60), min_size=1, max_size=8
    ),
    samples=st.integers(400, 40_000),
    remove=st.booleans(),
)
def test_bounding_tokens_first_changes_no_decision(
    index: Index, targets: Targets, texts: list[str], samples: int, *, remove: bool
) -> None:
    rows = with_rows(index, texts, [samples] * len(texts))
    limits = dataclasses.replace(WIDE, remove_unknown=remove, filter_long_text_threshold=40)

    kept, _ = select_rows(rows, targets, limits, frame_count())

    def stays(text: str) -> bool:
        tokens = targets(text).numpy()
        known = tokens[tokens != targets.unknown]
        needed = ctc_frames(known if remove else tokens)
        fits = len(tokens) <= 40 and needed <= frame_count()(samples)
        return bool(text.strip()) and fits and len(known) > 0

    assert kept.tolist() == [number for number, text in enumerate(texts) if stays(text)]


def test_the_account_adds_up_by_reason_and_dialect(tmp_path: Path, targets: Targets) -> None:
    rows = [utterance(number, audio_size=8_000 + 2_000 * number) for number in range(6)]
    write_shard(tmp_path, rows)
    whole = DanishAsrDataset(tmp_path).read_index("train")

    kept, account = select_rows(
        whole,
        targets,
        dataclasses.replace(WIDE, min_audio_len=12_000, max_audio_len=16_000),
        frame_count(),
    )

    assert kept.tolist() == [2, 3, 4]
    assert (account.rows, account.seconds) == (3, 42_000 / 16_000)
    found = {(r.reason, r.dialect): (r.rows, r.seconds) for r in account.removed}
    assert found == {
        (SHORT, "Østjysk"): (1, 0.5),
        (SHORT, "Fynsk"): (1, 10_000 / 16_000),
        (LONG, "unknown"): (1, 18_000 / 16_000),
    }
    assert account.lines()[0] == "3 utterances (0.00 h) for training, 3 filtered out"
    assert len(account.lines()) == 4


def test_filters_look_at_the_text_that_is_trained_on(index: Index, tmp_path: Path) -> None:
    coral = Targets.of(char_tokenizer(tmp_path), "coral")
    rows = with_rows(index, ["øh", "Hej"], [16_000, 16_000])

    kept, account = select_rows(rows, coral, WIDE, frame_count())

    # The filler is all of the first text.
    assert kept.tolist() == [1]
    assert account.removed[0].reason == EMPTY
