from __future__ import annotations

import pytest
import torch
from torch import Tensor

from danish_asr.decoding import alignment
from danish_asr.decoding.alignment import token_times


def example(seed: int, frames: int, tokens: int) -> tuple[Tensor, Tensor]:
    """Random log-probabilities and tokens without repeats, which would need more frames."""
    generator = torch.Generator().manual_seed(seed)
    log_probs = (3 * torch.randn(frames, 5, generator=generator)).log_softmax(dim=-1)
    steps = torch.randint(1, 4, (tokens,), generator=generator)
    return log_probs, torch.cumsum(steps, 0) % 4 + 1


@pytest.mark.parametrize("seed", range(8))
def test_the_search_for_long_audio_finds_the_exact_path(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    log_probs, tokens = example(seed, frames=60, tokens=(1, 20, 59, 60)[seed % 4])
    exact = token_times(log_probs, tokens)
    monkeypatch.setattr(alignment, "_EXACT", 0)
    monkeypatch.setattr(alignment, "_BLOCK", 16)
    for found, expected in zip(token_times(log_probs, tokens), exact, strict=True):
        assert torch.equal(found, expected)


def test_the_search_reaches_the_end_of_a_text_that_was_not_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alignment, "_EXACT", 0)
    monkeypatch.setattr(alignment, "_BEAM", 1.0)
    silence = torch.tensor([[0.98, 0.01, 0.01]]).log().repeat(100, 1)
    tokens = torch.tensor([1, 2, 2, 1] * 10)
    first, last, _ = token_times(silence, tokens)
    assert torch.all(last[:-1] < first[1:])
