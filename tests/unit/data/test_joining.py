"""Joined utterances: audio, text and lengths of both, each row once, and exact resume."""

from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer

from danish_asr.recipe.data.reader import BatchReader
from tests.shards import ids_of, reader, task, write_dataset

COUNTS = {("a", "train"): 53, ("b", "train"): 20}
NAMES = [f"{corpus}-train-{n}" for (corpus, _), count in COUNTS.items() for n in range(count)]
"""The ids of the rows, in the order of the index."""
SPEED = {"name": "speed", "factors": [0.9, 1.1]}
JOIN = {"name": "join", "probability": 1.0, "max_pause": 0.3}


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


def test_a_pair_is_two_utterances_of_a_speaker_with_a_pause(
    root: Path, tokenizer: Tokenizer
) -> None:
    config = task(normalize_audio=False, max_audio_len=40_000)
    single = rows_of(reader(root, tokenizer, task_config=config, transforms=[SPEED]))
    source = reader(root, tokenizer, task_config=config, transforms=[SPEED, JOIN])
    joined, encode = rows_of(source), tokenizer.create_encoder()

    pairs = [name.split("+") for name in joined if "+" in name]
    assert sorted(name for names in joined for name in names.split("+")) == sorted(NAMES)
    assert len(pairs) > 25
    for first, second in pairs:
        wave, text, target = joined[f"{first}+{second}"]
        (one, said, _), (other, added, _) = single[first], single[second]
        pause = len(wave) - len(one) - len(other)
        assert 1_600 <= pause <= 4_800
        assert torch.equal(wave, torch.cat([one, torch.zeros(pause), other]))
        assert len(wave) <= 40_000
        assert text == f"{said} {added}"
        assert target == encode(text).tolist()
        corpora, numbers = zip(*(name.rsplit("-", 1) for name in (first, second)), strict=True)
        assert corpora[0] == corpora[1]
        assert int(numbers[0]) % 5 == int(numbers[1]) % 5, "the speaker"
    source.reset()
    assert joined.keys() != rows_of(source).keys()


def test_every_row_comes_once_and_a_resumed_reader_continues_with_the_same_pairs(
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
