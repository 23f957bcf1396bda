"""Targets: frames, the rows that the filters keep, and unknown symbols."""

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danish_asr.recipe.data.index import DanishAsrDataset, Index
from danish_asr.recipe.data.targets import (
    FrameCount,
    Targets,
    count_unknown,
    count_without_loss,
    ctc_frames,
    frames_needed,
    has_loss,
    select_rows,
)
from tests.shards import char_tokenizer, task, utterance, write_shard


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Targets:
    return Targets(char_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    root = tmp_path_factory.mktemp("dataset")
    write_shard(root, [utterance(0, audio_size=16_000)])
    return DanishAsrDataset(root).read_index("train")


def with_rows(index: Index, texts: list[str], samples: int) -> Index:
    """The index with rows of other texts; filters read no audio."""
    rows = index.take(np.zeros(len(texts), np.int64))
    frame = rows.rows.with_columns(
        pl.Series("text", texts, pl.String), _samples=pl.lit(samples, pl.Int32)
    )
    return dataclasses.replace(rows, rows=frame).with_targets("raw")


@pytest.mark.parametrize(
    ("tokens", "frames", "expected"),
    [([], 9, False), ([5], 1, True), ([5, 5], 2, False), ([5, 5], 3, True), ([5, 6], 2, True)],
)
def test_a_target_has_a_loss_if_it_is_not_empty_and_its_repeats_fit_the_frames(
    tokens: list[int], frames: int, *, expected: bool
) -> None:
    assert has_loss(np.array(tokens, np.int64), frames) == expected


def test_rows_without_a_loss_are_counted_by_reason(index: Index, targets: Targets) -> None:
    rows = with_rows(index, ["", "hej", "hej hej"], samples=4 * 320)  # three frames
    assert count_without_loss(rows, targets, FrameCount()) == (1, 1)
    shortest = with_rows(index, ["h", "he"], samples=1)  # padded to one frame
    assert count_without_loss(shortest, targets, FrameCount()) == (0, 1)


def select(index: Index, targets: Targets, **limits: Any) -> tuple[list[int], str]:
    """The rows that are kept, and the table of the others."""
    wide = {"min_audio_len": 1, "max_audio_len": 10**6, "min_samples_per_char": 0}
    frames = FrameCount()(index.lengths)
    needed = frames_needed(index, targets, frames)
    rows, table = select_rows(index, task(**wide | limits), needed, frames)
    return rows.tolist(), table


@pytest.mark.parametrize(
    ("limits", "text", "reason"),
    [
        ({"min_audio_len": 16_001}, "hej", "shorter than min_audio_len"),
        ({"max_audio_len": 15_999}, "hej", "longer than max_audio_len"),
        ({}, "", "empty text"),
        ({"min_samples_per_char": 3_201}, "dagen", "fewer samples per character"),
        # 16,000 samples are 49 frames. Upstream hides such rows with a loss of 0 (TRAPS).
        ({}, "ab" * 25, "fewer frames than CTC needs"),
        # A row at the limits stays.
        ({"min_audio_len": 16_000, "min_samples_per_char": 320}, "ab" * 24 + "a", None),
        ({"max_audio_len": 16_000}, "hej", None),
    ],
)
def test_a_filter_removes_what_it_says_and_says_so(
    index: Index, targets: Targets, limits: dict[str, Any], text: str, reason: str | None
) -> None:
    kept, table = select(with_rows(index, [text], 16_000), targets, **limits)

    lines = table.splitlines()[1:]
    assert (kept, len(lines)) == (([], 1) if reason else ([0], 0))
    assert all(line.strip().startswith(str(reason)) for line in lines)


def test_a_table_has_the_rows_and_hours_that_stay_and_of_others_those_of_the_first_reason(
    index: Index, targets: Targets
) -> None:
    texts = ["hej", "", " ", "hej", "ja", "ja"]
    rows = with_rows(index, texts, 2_073_600_000).rows.with_columns(  # 36 hours
        pl.Series("dialect", ["Fynsk", "Fynsk", None, None, "Fynsk", None]),
        _samples=pl.Series([2_073_600_000] * 4 + [9, 9], dtype=pl.Int32),
    )
    limits = {"min_audio_len": 10, "max_audio_len": 2_073_600_000, "min_samples_per_char": 5}
    kept, table = select(dataclasses.replace(index, rows=rows), targets, **limits)

    assert kept == [0, 3]
    title, *lines = table.splitlines()
    assert title == "2 utterances (72.00 h) for training, 4 filtered out"
    assert [line.split()[-5:] for line in lines] == [
        ["Fynsk", "1", "rows", "0.00", "h"],
        ["unknown", "1", "rows", "0.00", "h"],
        ["Fynsk", "1", "rows", "36.00", "h"],
        ["unknown", "1", "rows", "36.00", "h"],
    ]


@settings(max_examples=100)
@given(
    texts=st.lists(
        st.text(st.sampled_from("aabæø?½漢 "), min_size=1, max_size=60), min_size=1, max_size=8
    ),
    samples=st.integers(400, 40_000),
)
def test_bounding_tokens_first_changes_no_decision(
    index: Index, targets: Targets, texts: list[str], samples: int
) -> None:
    kept, _ = select(with_rows(index, texts, samples), targets)

    def stays(text: str) -> bool:
        return bool(text.strip()) and ctc_frames(targets(text)) <= FrameCount()(samples)

    assert kept == [number for number, text in enumerate(texts) if stays(text)]


def test_unknown_symbols_are_counted_by_name_and_share(index: Index, targets: Targets) -> None:
    # Version 1 tokenizers map capitals to the unknown symbol, and nothing checks it (TRAPS).
    unknown = count_unknown(with_rows(index, ["Hej HEJ", "ÆH", "æh ja"], 16_000), targets)

    assert (targets.pad, targets.unknown) == (1, 3)
    assert unknown.symbols == [("H", 3), ("E", 1), ("J", 1), ("Æ", 1)]
    assert unknown.share == pytest.approx(6 / 14)
    assert count_unknown(with_rows(index, ["H"], 16_000), targets).share == 1
    assert count_unknown(with_rows(index, [""], 16_000), targets) == (0, [])


@pytest.mark.parametrize("samples", [1, 399, 400, 401, 719, 720, 16_000, 123_457])
def test_a_frame_comes_of_each_320_samples_and_the_first_of_400(samples: int) -> None:
    frames = FrameCount()(np.array([samples], np.int32))
    assert frames.tolist() == [max(0, (samples - 400) // 320 + 1)]
    assert FrameCount().shortest_input() == 400
