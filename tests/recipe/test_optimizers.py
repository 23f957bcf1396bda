"""AdamW for little memory: what it keeps, that it learns, and that it continues exactly."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.recipe.optimizers import STATE_BYTES, OffloadedAdamW
from tests.recipe.running import (
    RECIPE,
    arguments,
    evaluate,
    losses,
    optimizer_state,
    start,
    train,
    weights,
)

# Large enough that half of most matrices has the 4096 elements from which 8 bits are used.
SMALL = "num_encoder_layers: 1, model_dim: 96, dropout_p: 0.0"
MODEL = f"model.config_overrides={{encoder_config: {{{SMALL}}}}}"
EIGHT_BITS = "optimizer.name=adamw_8bit"
OFFLOADED = "optimizer.name=adamw_offload"
TWO_BATCHES = "trainer.grad_accumulation.num_batches=2"
SETTINGS: dict[str, Any] = {"lr": 1e-2, "betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.1}
SHARDED = "trainer.data_parallelism=fsdp"


@pytest.fixture(scope="module")
def eight_bits(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    return four_steps(tmp_path_factory.mktemp("eight-bits"), dataset, EIGHT_BITS)


@pytest.fixture(scope="module")
def offloaded(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    return four_steps(tmp_path_factory.mktemp("offloaded"), dataset, OFFLOADED)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    return four_steps(tmp_path_factory.mktemp("adamw"), dataset)


def four_steps(folder: Path, dataset: Path, *optimizer: str) -> Path:
    """A run of one process."""
    assert train(folder / "run", dataset, MODEL, *optimizer, TWO_BATCHES) == 0
    return folder / "run"


def bytes_kept(value: object) -> int:
    """The bytes of all tensors in a state, without tables that all states share."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(bytes_kept(part) for key, part in value.items() if "qmap" not in str(key))
    return 0


def assert_same_weights(one: Path, other: Path) -> None:
    left, right = weights(one, 4), weights(other, 4)
    assert all(torch.equal(left[name], right[name]) for name in right)


def test_a_parameter_of_a_large_tensor_takes_two_bytes_and_its_blocks_scales(
    eight_bits: Path, full: Path
) -> None:
    sizes = [tensor.numel() for tensor in weights(eight_bits, 4).values()]
    for run, name in ((eight_bits, "adamw_8bit"), (full, "adamw")):
        state = optimizer_state(run, 4)
        large = [number for number in state if sizes[number] >= 4096]
        assert large
        kept = sum(bytes_kept(state[number]) for number in large)
        assert kept / sum(sizes[n] for n in large) == pytest.approx(STATE_BYTES[name], rel=1e-3)


def test_they_learn_what_adamw_learns(eight_bits: Path, offloaded: Path, full: Path) -> None:
    assert losses(eight_bits) == pytest.approx(losses(full), rel=2e-3)
    assert losses(eight_bits) != losses(full)
    assert losses(offloaded) == pytest.approx(losses(full), rel=1e-6)


@pytest.mark.parametrize("optimizer", [EIGHT_BITS, OFFLOADED])
def test_it_continues_bit_for_bit(
    tmp_path: Path, dataset: Path, eight_bits: Path, offloaded: Path, optimizer: str
) -> None:
    undisturbed = {EIGHT_BITS: eight_bits, OFFLOADED: offloaded}[optimizer]
    run = tmp_path / "run"
    shutil.copytree(undisturbed, run)
    shutil.rmtree(run / "checkpoints" / "step_4")
    assert train(run, dataset, MODEL, optimizer, TWO_BATCHES) == 0
    assert_same_weights(run, undisturbed)


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


def train_with_two(run: Path, dataset: Path, *overrides: str) -> None:
    command = arguments(run, dataset, MODEL, *overrides)
    process = start(RECIPE, command, processes=2)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output


# The blocks of 8 bits are others in a part than in the whole.
@pytest.mark.parametrize(("optimizer", "nearly"), [(EIGHT_BITS, 1e-3), (OFFLOADED, 1e-5)])
def test_sharded_it_learns_the_same_and_continues_bit_for_bit(
    tmp_path: Path, dataset: Path, full: Path, optimizer: str, nearly: float
) -> None:
    run, before = tmp_path / "run", tmp_path / "before"
    train_with_two(run, dataset, optimizer, SHARDED)
    assert losses(run) == pytest.approx(losses(full), rel=nearly)
    shutil.copytree(run, before)
    shutil.rmtree(run / "checkpoints" / "step_4")
    train_with_two(run, dataset, optimizer, SHARDED)
    assert_same_weights(run, before)


def test_a_part_of_the_model_has_a_learning_rate_of_its_own(tmp_path: Path, dataset: Path) -> None:
    own = [EIGHT_BITS, 'optimizer.config.groups=[{params: "encoder.*", lr: 0.0}]']
    assert train(tmp_path / "run", dataset, MODEL, *own) == 0
    first, last = weights(tmp_path / "run", 2), weights(tmp_path / "run", 4)
    changed = {name for name in first if not torch.equal(first[name], last[name])}
    assert changed == {name for name in first if not name.startswith("encoder")}


def test_without_its_library_it_is_refused_with_the_command_that_installs_it(
    tmp_path: Path,
    dataset: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    assert train(tmp_path / "run", dataset, MODEL, EIGHT_BITS) == 2
    assert (
        "optimizer.name: adamw_8bit needs the extra 'bitsandbytes': "
        "pip install 'danish-asr[bitsandbytes]'"
    ) in capsys.readouterr().err


def test_a_run_of_it_is_scored_without_its_library(
    tmp_path: Path, dataset: Path, eight_bits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(eight_bits, run)
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    assert evaluate(monkeypatch, run, dataset, config=run / "config.yaml") == 0
