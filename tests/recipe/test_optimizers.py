"""The offloaded optimizer: it learns as AdamW does, also sharded."""

from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.recipe.train.learning import OffloadedAdamW
from tests.recipe.running import TWO_BATCHES, losses, small, train, train_with_two

MODEL = small(model_dim=96)
SETTINGS: dict[str, Any] = {"lr": 1e-2, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.1}


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


def test_sharded_it_learns_what_adamw_learns_in_one_process(tmp_path: Path, dataset: Path) -> None:
    assert train(tmp_path / "full", dataset, MODEL, TWO_BATCHES) == 0
    sharded = ("optimizer.name=adamw_offload", "trainer.data_parallelism=fsdp")
    train_with_two(tmp_path / "run", dataset, MODEL, *sharded)
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "full"), rel=1e-5)
