"""Kept log-probabilities: what they lose, and what a damaged file says."""

from pathlib import Path

import pytest
import torch

from danish_asr.base.errors import LogProbsError
from danish_asr.decoding.log_probs import LEAST, MOST, LogProbsFile, keep, to_batch, write_batches


def logits(frames: int, vocabulary: int, scale: float) -> torch.Tensor:
    """Small scales are a model that is sure of nothing."""
    return scale * torch.randn(2, frames, vocabulary, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("vocabulary", "scale"), [(40, 4.0), (40, 0.0), (9812, 6.0), (9812, 0.01)])
def test_what_is_kept_is_a_distribution_near_the_models(
    tmp_path: Path, vocabulary: int, scale: float
) -> None:
    exact = logits(30, vocabulary, scale).log_softmax(dim=-1)
    lengths, file = [30, 7], tmp_path / "kept.arrow"
    kept = keep(exact, lengths)
    write_batches(file, [to_batch(["a", "b"], kept, f'{{"vocabulary": {vocabulary}}}')])
    read = LogProbsFile(file)
    assert read.rows(0) == ["a", "b"]
    for (_, found), whole, length in zip(read.log_probs(0), exact, lengths, strict=True):
        expected = whole[:length]
        assert found.shape == expected.shape
        assert torch.allclose(found.exp().sum(-1), torch.ones(length), atol=2e-3)
        best, at = expected.topk(min(MOST, vocabulary), dim=-1)
        probable = best >= LEAST
        assert (found.gather(-1, at) - best)[probable].abs().max() < 0.005
        least = expected.gather(-1, at).masked_fill(~probable, 0).min(dim=-1, keepdim=True).values
        others = torch.ones_like(expected, dtype=torch.bool).scatter(-1, at, value=False)
        assert (found <= least + 0.005)[others].all()


def test_a_damaged_file_says_how_to_make_it_again(tmp_path: Path) -> None:
    file = tmp_path / "kept.arrow"
    kept = keep(logits(90, 40, 1)[:1], [90])
    write_batches(file, [to_batch(["a"], kept, '{"vocabulary": 40}')])
    file.write_bytes(file.read_bytes()[:-20])
    command = "danish-asr evaluate .* evaluator.keep_log_probs=true"
    with pytest.raises(LogProbsError, match=rf"kept\.arrow: is damaged.*{command}"):
        LogProbsFile(file)
