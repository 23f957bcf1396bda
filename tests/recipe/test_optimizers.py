"""Optimizers: that they learn, also sharded, and with rates of their own."""

from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.recipe.train.learning import OffloadedAdamW
from tests.recipe.running import TWO_BATCHES, changed, losses, small, train, train_with_two, weights

# Large enough that half of most matrices has the 4096 elements from which 8 bits are used.
MODEL = small(model_dim=96)
EIGHT_BITS = "optimizer.name=adamw_8bit"
OFFLOADED = "optimizer.name=adamw_offload"
SETTINGS: dict[str, Any] = {"lr": 1e-2, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.1}
SHARDED = "trainer.data_parallelism=fsdp"


def test_offloaded_steps_are_those_of_pytorch() -> None:
    weights = [torch.randn(7, 5), torch.randn(3)]
    own, theirs = ([torch.nn.Parameter(w.clone()) for w in weights] for _ in range(2))
    optimizers = OffloadedAdamW(own, **SETTINGS), torch.optim.AdamW(theirs, fused=True, **SETTINGS)
    for step in range(5):
        for parameters, optimizer in zip((own, theirs), optimizers, strict=True):
            for number, parameter in enumerate(parameters):
                parameter.grad = torch.full_like(parameter, step - 2.0 + number)
            optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(own, theirs, strict=True))


# The blocks of 8 bits are others in a part than in the whole.
@pytest.mark.parametrize(("optimizer", "nearly"), [(EIGHT_BITS, 2e-3), (OFFLOADED, 1e-5)])
def test_sharded_it_learns_what_adamw_learns_in_one_process(
    tmp_path: Path, dataset: Path, optimizer: str, nearly: float
) -> None:
    assert train(tmp_path / "full", dataset, MODEL, TWO_BATCHES) == 0
    train_with_two(tmp_path / "run", dataset, MODEL, optimizer, SHARDED)
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "full"), rel=nearly)


def test_a_part_of_the_model_has_a_learning_rate_of_its_own(tmp_path: Path, dataset: Path) -> None:
    """TRAPS, training: in DDP, fairseq2 matches names that begin with ``module.``."""
    run, own = tmp_path / "run", 'optimizer.config.groups=[{params: "encoder.*", lr: 0.0}]'
    train_with_two(run, dataset, MODEL, EIGHT_BITS, own)
    assert changed(run, 2, 4) == {n for n in weights(run, 2) if not n.startswith("encoder")}
