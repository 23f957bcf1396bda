from pathlib import Path

import numpy as np
import pytest
import torch

from danish_asr.recipe.data.index import DanishAsrDataset, Index
from danish_asr.recipe.data.targets import FrameCount, Targets, UnknownSymbols, count_unknown
from tests.shards import char_tokenizer, utterance, write_shard


def unknown_of(index: Index, tmp_path: Path, profile: str) -> UnknownSymbols:
    targets = Targets(char_tokenizer(tmp_path))
    return count_unknown(index.with_targets(profile), targets)


def test_unknown_symbols_are_counted_by_name_and_share(tmp_path: Path) -> None:
    # Version 1 tokenizers map capitals to the unknown symbol, and nothing checks it (TRAPS).
    texts = ["Hej HEJ", "ÆH", "æh ja"]
    write_shard(tmp_path, [utterance(n, text=text) for n, text in enumerate(texts)])
    index = DanishAsrDataset(tmp_path).read_index("train")

    unknown = unknown_of(index, tmp_path, "raw")

    assert unknown.symbols == (("H", 3), ("E", 1), ("J", 1), ("Æ", 1))
    assert (unknown.unknown, unknown.characters) == (6, 14)
    assert unknown.share == pytest.approx(6 / 14)
    assert unknown_of(index, tmp_path, "coral").symbols == ()


@pytest.mark.parametrize("samples", [1, 399, 400, 401, 719, 720, 16_000, 123_457])
def test_frames_are_those_of_the_convolutions(samples: int) -> None:
    length = samples
    for kernel, stride in FrameCount().layers:
        if length < kernel:
            length = 0
            break
        wave = torch.zeros(1, 1, length)
        length = torch.nn.functional.conv1d(wave, torch.ones(1, 1, kernel), stride=stride).shape[2]

    assert FrameCount()(samples) == length
    assert FrameCount()(np.array([samples], np.int32)).tolist() == [length]
