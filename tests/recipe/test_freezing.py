"""Frozen layers: their weights stay, and the optimizer has no state for them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tests.recipe.running import (
    RECIPE,
    arguments,
    losses,
    optimizer_state,
    start,
    train,
    weights,
)

# Dropout is drawn per process; without it runs can be compared.
SMALL = "num_encoder_layers: 3, model_dim: 32, dropout_p: 0.0"
MODEL = f"model.config_overrides={{encoder_config: {{{SMALL}}}}}"
STAGED = (
    MODEL,
    *("trainer.freeze_encoder_layers=2", "trainer.freeze_encoder_for_n_steps=2"),
    *("regime.validate_every_n_steps=1", "regime.checkpoint_every_n_steps=1"),
    "regime.keep_last_n_checkpoints=4",
)
HEAD = ("final_proj.",)
TOP = (*HEAD, "encoder.layer_norm.", "encoder.layers.2.")


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    """Two of three layers never learn; in the first two steps of four only the head does."""
    run = tmp_path_factory.mktemp("runs") / "staged"
    assert train(run, dataset, *STAGED, "trainer.grad_accumulation.num_batches=2") == 0
    return run


def changed_between(run: Path, one: int, other: int) -> set[str]:
    """The parameters that changed at all."""
    first, last = weights(run, one), weights(run, other)
    return {name for name in first if not torch.equal(first[name], last[name])}


def below(run: Path, *prefixes: str) -> set[str]:
    """The parameters whose names begin so."""
    return {name for name in weights(run, 4) if name.startswith(prefixes)}


def test_first_the_head_learns_then_the_layers_above_the_frozen_ones(staged: Path) -> None:
    assert changed_between(staged, 1, 2) == below(staged, *HEAD)
    assert changed_between(staged, 2, 4) == below(staged, *TOP)


def test_the_optimizer_keeps_nothing_of_what_never_learns(staged: Path) -> None:
    names = list(weights(staged, 4))
    assert {names[number] for number in optimizer_state(staged, 2)} == below(staged, *HEAD)
    assert {names[number] for number in optimizer_state(staged, 4)} == below(staged, *TOP)


def test_with_all_layers_frozen_the_head_and_the_final_norm_learn(
    tmp_path: Path, dataset: Path
) -> None:
    run = tmp_path / "run"
    assert train(run, dataset, MODEL, "trainer.freeze_encoder_layers=3") == 0
    assert changed_between(run, 2, 4) == below(run, "final_proj.", "encoder.layer_norm.")


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param([], id="ddp"),
        pytest.param(
            ["trainer.data_parallelism=fsdp", "trainer.activation_checkpointing.mode=layerwise"],
            id="fsdp-checkpointed",
        ),
    ],
)
def test_two_processes_freeze_what_one_does(
    tmp_path: Path, dataset: Path, staged: Path, overrides: list[str]
) -> None:
    """TRAPS, training: freezing after DDP wrapped the model, without find_unused_parameters."""
    run = tmp_path / "run"
    process = start(RECIPE, arguments(run, dataset, *STAGED, *overrides), processes=2)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    assert losses(run) == pytest.approx(losses(staged), rel=1e-5)
    assert optimizer_state(run, 4).keys() == optimizer_state(staged, 4).keys()


def test_ddp_waits_for_no_gradient_of_what_never_learns(tmp_path: Path, dataset: Path) -> None:
    """TRAPS, training: freezing after DDP wrapped the model, without find_unused_parameters."""
    run = tmp_path / "run"
    command = arguments(run, dataset, MODEL, "trainer.freeze_encoder_layers=2")
    process = start(RECIPE, command, processes=2)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    assert changed_between(run, 2, 4) == below(run, *TOP)


def test_a_run_continues_bit_for_bit_on_either_side_of_the_frozen_steps(
    tmp_path: Path, dataset: Path, staged: Path
) -> None:
    for last in (1, 3):
        run = tmp_path / f"from_{last}"
        shutil.copytree(staged, run)
        for step in range(last + 1, 5):
            shutil.rmtree(run / "checkpoints" / f"step_{step}")
        assert train(run, dataset, *STAGED, "trainer.grad_accumulation.num_batches=2") == 0
        continued, undisturbed = weights(run, 4), weights(staged, 4)
        assert all(torch.equal(continued[name], undisturbed[name]) for name in undisturbed)
