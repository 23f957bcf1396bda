"""Stages of one run: each has rows and a learning rate of its own."""

from pathlib import Path

import pytest

from tests.recipe.running import (
    losses,
    metrics,
    train,
)

# Dropout is drawn per process; without it runs can be compared.
SMALL = "num_encoder_layers: 1, model_dim: 32, dropout_p: 0.0"
STAGED = (
    f"model.config_overrides={{encoder_config: {{{SMALL}}}}}",
    "trainer.stages={2: {where: gender = 'male', lr: 1e-4}, 3: {subset: 12}}",
    *("regime.num_steps=6", "regime.validate_every_n_steps=1"),
    *("regime.checkpoint_every_n_steps=1", "regime.keep_last_n_checkpoints=6"),
)
TWICE = "trainer.grad_accumulation.num_batches=2"
ONCE = "trainer.grad_accumulation.num_batches=1"


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    """A run of three stages: of 2 steps, of 1 step, and of 3."""
    run = tmp_path_factory.mktemp("runs") / "staged"
    assert train(run, dataset, *STAGED, TWICE) == 0
    return run


def test_a_stage_changes_the_rate_from_its_first_step_on(
    tmp_path: Path, dataset: Path, staged: Path
) -> None:
    plain = [part for part in STAGED if "stages" not in part]
    assert train(tmp_path / "run", dataset, *plain, TWICE) == 0
    rates = [row["Learning Rate"] for row in metrics(tmp_path / "run", "train")]
    rates[2] *= 1e-4 / 3e-3
    there = [row["Learning Rate"] for row in metrics(staged, "train")]
    assert there == pytest.approx(rates)
    assert losses(staged)[:2] == losses(tmp_path / "run")[:2]
