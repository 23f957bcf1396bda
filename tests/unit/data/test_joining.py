"""Joined utterances: audio, text and lengths of both, each row once, and exact resume."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer

from danish_asr.recipe.data.reader import BatchReader
from danish_asr.recipe.data.targets import FrameCount
from tests.shards import ids_of, reader, task, write_dataset

COUNTS = {("a", "train"): 53, ("b", "train"): 20}
NAMES = [f"{corpus}-train-{n}" for (corpus, _), count in COUNTS.items() for n in range(count)]
"""The ids of the rows, in the order of the index."""
SPEED = {"name": "speed", "factors": [0.9, 1.1]}
JOIN = {"name": "join", "probability": 0.7, "max_pause": 0.3}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), COUNTS)


def rows_of(source: BatchReader) -> dict[str, tuple[torch.Tensor, str, list[int]]]:
    """The waveform, the text and the targets of each row or pair of an epoch, by its ids."""
    found = {}
    for batch in (batch for step in source for batch in step):
        example: Any = batch.example
        assert batch.source_seqs.numel() <= 100_000
        columns = (example["id"], batch.source_seqs, batch.source_seq_lens, example["text"])
        targets = zip(batch.target_seqs.tolist(), batch.target_seq_lens, strict=True)
        for (name, wave, size, text), (target, length) in zip(
            zip(*columns, strict=True), targets, strict=True
        ):
            found[name] = wave[:size], text, target[:length]
    return found


def test_joined_utterances_have_all_audio_and_texts_with_pauses_of_noise(
    root: Path, tokenizer: Tokenizer
) -> None:
    config = task(normalize_audio=False, max_audio_len=60_000)
    single = rows_of(reader(root, tokenizer, task_config=config, transforms=[SPEED]))
    source = reader(root, tokenizer, task_config=config, transforms=[SPEED, JOIN])
    found, encode = rows_of(source), tokenizer.create_encoder()

    joined = [name.split("+") for name in found if "+" in name]
    assert sorted(name for names in found for name in names.split("+")) == sorted(NAMES)
    assert {len(names) for names in joined} >= {2, 3}
    for names in joined:
        wave, text, target = found["+".join(names)]
        parts = [single[name][0] for name in names]
        assert len(wave) <= 60_000
        assert text == " ".join(single[name][1] for name in names)
        assert target == encode(text).tolist()
        assert len({name.partition("-")[0] for name in names}) == 1
        ends = pause_ends(wave.numpy(), [part.numpy() for part in parts])
        for (begin, end), around in zip(ends, itertools.pairwise(parts), strict=True):
            assert 320 <= end - begin <= 4_800
            levels = [float(part.unfold(0, 320, 320).square().mean(1).min()) for part in around]
            assert 0.4 * min(levels) < float(wave[begin:end].square().mean()) < 2 * max(levels)
    source.reset()
    assert found.keys() != rows_of(source).keys()


def pause_ends(wave: Any, parts: list[Any]) -> list[tuple[int, int]]:
    """Where the pauses between the parts begin and end in the wave, which must have them all."""
    ends, at = [], 0
    for part in parts:
        windows = np.lib.stride_tricks.sliding_window_view(wave[at : at + 4_801 + 320], 320)
        (begin,) = np.flatnonzero((windows == part[:320]).all(axis=1))[:1]
        assert np.array_equal(wave[at + begin : at + begin + len(part)], part)
        ends.append((at, at + int(begin)))
        at += int(begin) + len(part)
    assert at == len(wave)
    assert ends[0] == (0, 0)
    return ends[1:]


@pytest.mark.parametrize("wide", [False, True], ids=["omniASR", "demo"])
def test_the_shortest_pause_has_a_frame_for_the_space(*, wide: bool) -> None:
    frames = FrameCount([(912, 320)]) if wide else FrameCount()
    one, other = np.random.default_rng(0).integers(1_000, 5_000, (2, 10_000))
    assert (frames(one + 320 + other) > frames(one) + frames(other)).all()


def test_every_row_comes_once_and_a_resumed_reader_joins_the_same(
    root: Path, tokenizer: Tokenizer
) -> None:
    def ranks() -> list[BatchReader]:
        config = task(max_num_elements=64_000)
        options: Any = {"task_config": config, "transforms": [SPEED, {**JOIN, "probability": 0.5}]}
        return [reader(root, tokenizer, rank=rank, world=8, **options) for rank in range(8)]

    def epoch(sources: list[BatchReader]) -> list[str]:
        return [name for each in sources for name in ids_of(each)]

    read, carried = list[str](), 0
    sources = ranks()
    for count in range(1, 7):
        read += [name for names in epoch(sources) for name in names.split("+")]
        for each in sources:
            each.reset()
        left: Any = sources[0].state_dict()["carried"]
        assert sorted(read + [NAMES[row] for (row,) in left]) == sorted(NAMES * count)
        carried += len(left)
    assert carried, "fewer rows than processes are left for the next epoch"

    state = sources[3].state_dict()
    resumed = ranks()
    for each in resumed:
        each.load_state_dict(state)
    assert epoch(resumed) == epoch(sources)
