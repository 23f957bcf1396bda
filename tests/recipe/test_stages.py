"""Stages of one run: each has rows and a learning rate of its own."""

from pathlib import Path

import pytest

from tests.recipe.running import TWO_BATCHES, losses, metrics, small, train

PLAIN = (small(), TWO_BATCHES, "regime.num_steps=6", "dataset.valid_split=null")
STAGES = "trainer.stages={2: {where: gender = 'male', lr: 1e-4}, 3: {subset: 12}}"


def test_a_stage_changes_the_rate_from_its_first_step_on(tmp_path: Path, dataset: Path) -> None:
    plain, staged = tmp_path / "plain", tmp_path / "staged"
    assert train(plain, dataset, *PLAIN) == 0
    assert train(staged, dataset, *PLAIN, STAGES) == 0
    rates = [row["Learning Rate"] for row in metrics(plain, "train")]
    rates[2] *= 1e-4 / 3e-3
    assert [row["Learning Rate"] for row in metrics(staged, "train")] == pytest.approx(rates)
    assert losses(staged)[:2] == losses(plain)[:2]
