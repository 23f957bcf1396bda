"""Precision, memory and processes change a run's speed, and not what it learns."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.recipes.running import RECIPE, arguments, metrics, start, train
from workflows.recipes.wav2vec2.asr.run_directory import checkpoint_steps

# Dropout is drawn per process; without it runs can be compared.
SMALL = "num_encoder_layers: 1, model_dim: 32, dropout_p: 0.0"
PLAIN = f"model.config_overrides={{encoder_config: {{{SMALL}}}}}"


def losses(run: Path) -> list[float]:
    return [row["CTC Loss"] for row in metrics(run, "train")]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    """One process that accumulates two batches a step."""
    run = tmp_path_factory.mktemp("runs") / "plain"
    assert train(run, dataset, PLAIN, "trainer.grad_accumulation.num_batches=2") == 0
    return run


@pytest.mark.parametrize(
    ("overrides", "tolerance"),
    [
        pytest.param([], 1e-6, id="ddp"),
        pytest.param(
            ["trainer.data_parallelism=fsdp", "trainer.activation_checkpointing.mode=layerwise"],
            1e-5,
            id="fsdp-checkpointed",
        ),
        pytest.param(
            ["trainer.data_parallelism=fsdp", "trainer.mixed_precision.mode=static"],
            1e-2,
            id="fsdp-bf16",
        ),
    ],
)
def test_two_processes_learn_what_one_learns_with_twice_the_accumulation(
    tmp_path: Path, dataset: Path, plain: Path, overrides: list[str], tolerance: float
) -> None:
    run = tmp_path / "run"
    process = start(RECIPE, arguments(run, dataset, PLAIN, *overrides), processes=2)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    assert losses(run) == pytest.approx(losses(plain), rel=tolerance)


@pytest.mark.parametrize(
    ("override", "tolerance"),
    [
        ("trainer.activation_checkpointing.mode=layerwise", 1e-6),
        ("trainer.mixed_precision.mode=auto", 1e-2),
    ],
)
def test_saving_memory_does_not_change_what_is_learnt(
    tmp_path: Path, dataset: Path, plain: Path, override: str, tolerance: float
) -> None:
    twice = "trainer.grad_accumulation.num_batches=2"
    assert train(tmp_path / "run", dataset, PLAIN, twice, override) == 0
    assert losses(tmp_path / "run") == pytest.approx(losses(plain), rel=tolerance)


def test_the_encoder_is_frozen_and_freed_under_ddp(tmp_path: Path, dataset: Path) -> None:
    """TRAPS, training: freezing after DDP wrapped the model, without find_unused_parameters."""
    run = tmp_path / "run"
    frozen = "trainer.freeze_encoder_for_n_steps=2"
    process = start(RECIPE, arguments(run, dataset, PLAIN, frozen), processes=2)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    assert checkpoint_steps(run)[-1] == 4


def test_a_run_continues_with_more_processes(tmp_path: Path, dataset: Path, plain: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(plain, run)
    more = ["regime.num_steps=6", "trainer.grad_accumulation.num_batches=2"]
    process = start(RECIPE, arguments(run, dataset, PLAIN, *more), processes=2)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    assert [row["Step"] for row in metrics(run, "train")] == [1, 2, 3, 4, 5, 6]
