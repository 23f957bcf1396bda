from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer

from danish_asr.base.errors import ConfigError, DatasetError
from tests.shards import (
    reader,
    task,
    utterance,
    waveform,
    write_dataset,
    write_shard,
)

COUNTS = {("a", "train"): 30, ("b", "train"): 10, ("a", "test"): 6, ("b", "test"): 5}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), COUNTS)


def batches_of(steps: Any) -> list[Any]:
    return [batch for step in steps for batch in step]


def test_a_batch_holds_what_the_shards_hold(root: Path, tokenizer: Tokenizer) -> None:
    # Upstream reads six fixed columns, so that no id and no dialect reaches a batch (TRAPS).
    encode = tokenizer.create_encoder()

    for batch in batches_of(reader(root, tokenizer, "test_b", training=False)):
        for place, name in enumerate(batch.example["id"]):
            row = utterance(int(name.rsplit("-", 1)[1]), corpus="b", split="test")
            expected = row | {"corpus": "b", "split": "test", "language": "dan_Latn"}
            del expected["audio_bytes"]
            expected["target_size"] = len(row["text"])
            assert {key: batch.example[key][place] for key in batch.example} == expected
            length = batch.source_seq_lens[place]
            assert length == row["audio_size"]
            wave = torch.from_numpy(waveform(length, int(name.rsplit("-", 1)[1])))
            wave = torch.nn.functional.layer_norm(wave, wave.shape)
            torch.testing.assert_close(batch.source_seqs[place, :length], wave, atol=1e-3, rtol=0)
            assert not batch.source_seqs[place, length:].any()
            tokens = batch.target_seqs[place, : batch.target_seq_lens[place]]
            assert tokens.tolist() == encode(row["text"]).tolist()
            rest = batch.target_seqs[place, batch.target_seq_lens[place] :]
            assert (rest == tokenizer.vocab_info.pad_idx).all()


def test_an_empty_reference_and_a_row_too_short_for_a_frame_are_evaluated(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    write_shard(tmp_path, [utterance(0, audio_size=100), utterance(1, audio_size=50, text="")])

    (batch,) = batches_of(reader(tmp_path, tokenizer, training=False))

    assert batch.example["text"] == ["hej med dig", ""]
    assert (batch.example["target_size"], batch.target_seq_lens) == ([11, 0], [11, 1])
    assert (batch.example["audio_size"], batch.source_seq_lens) == ([100, 50], [400, 400])
    with pytest.raises(DatasetError, match="the filters leave none of its 2 utterances"):
        reader(tmp_path, tokenizer)


def test_targets_follow_the_profile_and_references_stay_raw(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    write_shard(tmp_path, [utterance(0, text="Køb 2 Øl!")])

    def read(**options: Any) -> Any:
        (batch,) = batches_of(reader(tmp_path, tokenizer, **options))
        assert batch.example["text"] == ["Køb 2 Øl!"]
        return batch

    coral = read(text_profile="coral")
    assert tokenizer.create_decoder()(coral.target_seqs[0]) == "køb to øl"
    assert read().example["target_size"] == [9]


def test_augmentation_acts_in_training_only_and_sections_are_left_as_they_are(
    root: Path, tokenizer: Tokenizer
) -> None:
    # Upstream's validation reader changes the section that the training reader holds (TRAPS).
    plain, augmenting = task(), task(spec_aug_p=1.0)
    before = copy.deepcopy(augmenting)

    def waves(config: Any, *, training: bool) -> list[torch.Tensor]:
        source = reader(root, tokenizer, training=training, task_config=config)
        return [batch.source_seqs for batch in batches_of(source)]

    def equal(training: bool) -> list[bool]:
        pairs = zip(
            waves(plain, training=training), waves(augmenting, training=training), strict=True
        )
        return [torch.equal(left, right) for left, right in pairs]

    assert all(equal(training=False))
    assert not any(equal(training=True))
    assert augmenting == before


def test_a_limit_below_the_longest_utterance_is_a_config_error(
    root: Path, tokenizer: Tokenizer
) -> None:
    # Upstream rounds it down to 0 and fails elsewhere (TRAPS).
    with pytest.raises(ConfigError, match=r"max_num_elements must be at least 2\d{4}"):
        reader(root, tokenizer, task_config=task(max_num_elements=20_000))
