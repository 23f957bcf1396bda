"""Optimizers: their memory, that they learn, and that they continue exactly."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.recipe.config.optimizers import OPTIMIZERS
from danish_asr.recipe.train.learning import OffloadedAdamW
from tests.recipe.running import (
    changed,
    copy_until,
    evaluate,
    losses,
    optimizer_groups,
    optimizer_state,
    same_weights,
    train,
    train_with_two,
    weights,
)

# Large enough that half of most matrices has the 4096 elements from which 8 bits are used.
SMALL = "num_encoder_layers: 1, model_dim: 96, dropout_p: 0.0"
MODEL = f"model.config_overrides={{encoder_config: {{{SMALL}}}}}"
EIGHT_BITS = "optimizer.name=adamw_8bit"
OFFLOADED = "optimizer.name=adamw_offload"
FULL = "optimizer.name=adamw"
TWO_BATCHES = "trainer.grad_accumulation.num_batches=2"
SETTINGS: dict[str, Any] = {"lr": 1e-2, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.1}
SHARDED = "trainer.data_parallelism=fsdp"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> dict[str, Path]:
    """A run of four steps in one process with each optimizer."""
    folder = tmp_path_factory.mktemp("runs")
    runs = {name: folder / name for name in (EIGHT_BITS, OFFLOADED, FULL)}
    for name, run in runs.items():
        assert train(run, dataset, MODEL, name, TWO_BATCHES) == 0
    return runs


def bytes_kept(value: object) -> int:
    """The bytes of all tensors in a state, without counters and tables that all states share."""
    if isinstance(value, torch.Tensor):
        return value.nbytes if value.dim() else 0
    if isinstance(value, dict):
        return sum(bytes_kept(part) for key, part in value.items() if "qmap" not in str(key))
    return 0


def test_the_optimizers_states_have_the_size_that_is_planned(runs: dict[str, Path]) -> None:
    for name, run in runs.items():
        tensors = list(weights(run, 4).values())
        optimizer = OPTIMIZERS[name.removeprefix("optimizer.name=")]
        for number, state in optimizer_state(run, 4).items():
            assert bytes_kept(state) == optimizer.state_bytes(tensors[number])


def test_they_learn_what_adamw_learns(runs: dict[str, Path]) -> None:
    eight_bits, offloaded, full = (losses(run) for run in runs.values())
    assert eight_bits == pytest.approx(full, rel=2e-3)
    assert eight_bits != full
    assert offloaded == pytest.approx(full, rel=1e-6)


class Signum(torch.optim.Optimizer):
    """Bernstein et al. (2018), signSGD: Compressed Optimisation for Non-Convex Problems."""

    def __init__(
        self, params: Any, lr: float = 1e-4, momentum: float = 0.9, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @staticmethod
    def state_bytes(parameter: torch.Tensor) -> int:
        """One average in float32."""
        return 4 * parameter.numel()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override] # noqa: ARG002
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    average = self.state[p].setdefault("average", torch.zeros_like(p))
                    average.lerp_(p.grad, 1 - group["momentum"])
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.sub_(group["lr"] * average.sign())


def test_an_optimizer_of_ones_own_trains_and_continues_bit_for_bit(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = (
        *(MODEL, f"optimizer.name={__name__}:Signum", "optimizer.config.momentum=0.5"),
        *("optimizer.layer_decay=0.5", "optimizer.config.lr=4e-3"),
    )
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert train(whole, dataset, *own) == 0
    assert losses(whole)[-1] < losses(whole)[0]
    groups = optimizer_groups(whole, 4)
    assert {group["momentum"] for group in groups} == {0.5}
    assert [group["initial_lr"] for group in groups] == [2e-3, 1e-3, 4e-3]
    assert train(copy_until(2, whole, run), dataset, *own) == 0
    assert same_weights(run, whole)
    assert evaluate(run, dataset, config=run / "config.yaml") == 0
    capsys.readouterr()
    for name in ("adamv", f"{__name__}:Missing", "torch.nn:Linear"):
        assert train(tmp_path / "other", dataset, f"optimizer.name={name}") == 2
        assert "optimizer.name must be" in capsys.readouterr().err
    assert train(tmp_path / "other", dataset, *own, "optimizer.config.betas=1") == 2
    assert "optimizer.config.betas" in capsys.readouterr().err


@pytest.mark.parametrize("optimizer", [EIGHT_BITS, OFFLOADED])
def test_it_continues_bit_for_bit(
    tmp_path: Path, dataset: Path, runs: dict[str, Path], optimizer: str
) -> None:
    run = copy_until(2, runs[optimizer], tmp_path / "run")
    assert train(run, dataset, MODEL, optimizer, TWO_BATCHES) == 0
    assert same_weights(run, runs[optimizer])


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


def test_offloaded_moments_stay_as_they_are_when_they_are_loaded() -> None:
    """PyTorch would give them the parameter's type and device."""
    parameter = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = OffloadedAdamW([parameter], **SETTINGS)
    parameter.grad = torch.full_like(parameter, 0.3)
    optimizer.step()
    assert not torch.equal(parameter, torch.ones(4))
    moments = optimizer.state[parameter]["exp_avg"].clone()
    other = OffloadedAdamW([parameter], **SETTINGS)
    other.load_state_dict(optimizer.state_dict())
    assert other.state[parameter]["exp_avg"].dtype is torch.float32
    assert torch.equal(other.state[parameter]["exp_avg"], moments)


# The blocks of 8 bits are others in a part than in the whole.
@pytest.mark.parametrize(("optimizer", "nearly"), [(EIGHT_BITS, 1e-3), (OFFLOADED, 1e-5)])
def test_sharded_it_learns_the_same_and_continues_bit_for_bit(
    tmp_path: Path, dataset: Path, runs: dict[str, Path], optimizer: str, nearly: float
) -> None:
    run = tmp_path / "run"
    train_with_two(run, dataset, MODEL, optimizer, SHARDED)
    assert losses(run) == pytest.approx(losses(runs[FULL]), rel=nearly)
    continued = copy_until(2, run, tmp_path / "continued")
    train_with_two(continued, dataset, MODEL, optimizer, SHARDED)
    assert same_weights(continued, run)


def test_a_part_of_the_model_has_a_learning_rate_of_its_own(tmp_path: Path, dataset: Path) -> None:
    """TRAPS, training: in DDP, fairseq2 matches names that begin with ``module.``."""
    run, own = tmp_path / "run", 'optimizer.config.groups=[{params: "encoder.*", lr: 0.0}]'
    train_with_two(run, dataset, MODEL, EIGHT_BITS, own)
    assert changed(run, 2, 4) == {n for n in weights(run, 2) if not n.startswith("encoder")}


def test_without_its_library_training_is_refused_with_a_command_but_a_run_is_scored(
    tmp_path: Path,
    dataset: Path,
    runs: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    assert train(tmp_path / "run", dataset, MODEL, EIGHT_BITS) == 2
    assert "pip install 'danish-asr[bitsandbytes]'" in capsys.readouterr().err
    run = runs[EIGHT_BITS]
    assert evaluate(run, dataset, config=run / "config.yaml") == 0
