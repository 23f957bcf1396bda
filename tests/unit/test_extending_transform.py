"""The transform of docs/howto/extend.md runs as the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer

from danish_asr.base.files import from_yaml
from tests.documented import blocks, script
from tests.shards import reader, utterance, write_shard

PAGE = "docs/howto/extend.md"


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The page's list of transforms, with its module on the path."""
    (config,) = ("\n".join(lines) for language, lines in blocks(PAGE) if language == "yaml")
    (tmp_path / "noise.py").write_text(script(PAGE, "noise.py"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    transforms: list[dict[str, Any]] = from_yaml(config)["dataset"]["transforms"]
    return transforms


def waves(root: Path, tokenizer: Tokenizer, **options: Any) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for step in reader(root, tokenizer, **options):
        for batch in step:
            example: Any = batch.example
            lengths = batch.source_seq_lens or []
            for name, wave, samples in zip(example["id"], batch.source_seqs, lengths, strict=True):
                found[name] = wave[:samples]
    return found


def test_the_transform_of_the_page_acts_and_repeats_itself(
    tmp_path: Path, tokenizer: Tokenizer, entries: list[dict[str, Any]]
) -> None:
    write_shard(tmp_path, [utterance(number) for number in range(20)])

    plain = waves(tmp_path, tokenizer)
    noisy = waves(tmp_path, tokenizer, transforms=entries)
    again = waves(tmp_path, tokenizer, transforms=entries)
    assert noisy.keys() == plain.keys()
    for name, wave in plain.items():
        assert torch.equal(noisy[name], again[name])
        # Noise at 10 to 40 dB below: correlated, not equal.
        correlation = torch.corrcoef(torch.stack([wave, noisy[name]]))[0, 1]
        assert 0.94 < correlation < 0.99999
