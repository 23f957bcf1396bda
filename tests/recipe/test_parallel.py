"""Precision, memory and processes change a run's speed, and not what it learns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipe.running import arguments, finish, losses, start, train, train_with_two

# Dropout is drawn per process; without it runs can be compared.
SMALL = "num_encoder_layers: 1, model_dim: 32, dropout_p: 0.0"
PLAIN = f"model.config_overrides={{encoder_config: {{{SMALL}}}}}"
TWICE = "trainer.grad_accumulation.num_batches=2"
SHARDED = "trainer.data_parallelism=fsdp"
LAYERWISE = "trainer.activation_checkpointing.mode=layerwise"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    """One process that accumulates two batches a step."""
    run = tmp_path_factory.mktemp("runs") / "plain"
    assert train(run, dataset, PLAIN, TWICE) == 0
    return run


@pytest.mark.parametrize(
    ("overrides", "tolerance"),
    [
        pytest.param([], 1e-6, id="ddp"),
        pytest.param([SHARDED, LAYERWISE], 1e-5, id="fsdp-checkpointed"),
        pytest.param([SHARDED, "trainer.mixed_precision.mode=static"], 1e-2, id="fsdp-bf16"),
    ],
)
def test_two_processes_learn_what_one_learns_with_twice_the_accumulation(
    tmp_path: Path, dataset: Path, plain: Path, overrides: list[str], tolerance: float
) -> None:
    train_with_two(tmp_path / "run", dataset, PLAIN, *overrides)
    assert losses(tmp_path / "run") == pytest.approx(losses(plain), rel=tolerance)


@pytest.mark.parametrize(
    ("override", "tolerance"), [(LAYERWISE, 1e-6), ("trainer.mixed_precision.mode=auto", 1e-2)]
)
def test_saving_memory_does_not_change_the_losses(
    tmp_path: Path, dataset: Path, plain: Path, override: str, tolerance: float
) -> None:
    assert train(tmp_path / "run", dataset, PLAIN, TWICE, override) == 0
    assert losses(tmp_path / "run") == pytest.approx(losses(plain), rel=tolerance)


SIXTEEN_BATCHES = (
    # 32 of the 38 rows that the filters leave, without a remainder for one process or two.
    *("dataset.asr_task_config.batching_strategy=STATIC", "dataset.asr_task_config.batch_size=2"),
    *("dataset.asr_task_config.max_num_batches=16", "dataset.valid_split=null"),
    # A schedule of its own would end with each stage.
    *("dataset.asr_task_config.example_shuffle_window=0", "lr_scheduler={name: passthrough}"),
)


def train_in_stages(
    run: Path, dataset: Path, *stages: tuple[int, int]
) -> tuple[list[str], list[str]]:
    """Train with some processes up to some step, then with others.

    The accumulation changes with the processes, so that a step takes two batches throughout.
    Returns the ids of all batches, and what each stage printed.
    """
    noted, printed = run.with_name(f"{run.name}.ids"), []
    noted.mkdir()
    for processes, steps in stages:
        accumulate = f"trainer.grad_accumulation.num_batches={2 // processes}"
        own = [*SIXTEEN_BATCHES, accumulate, f"regime.num_steps={steps}"]
        command = [str(noted), *arguments(run, dataset, PLAIN, *own)]
        printed.append(finish(start("tests.recipe.noting_ids", command, processes=processes)))
    return [name for file in noted.iterdir() for name in file.read_text().split()], printed


def test_another_number_of_processes_trains_on_the_rest_of_the_epochs_rows_each_once(
    tmp_path: Path, dataset: Path
) -> None:
    """TRAPS, data reading: a resumed run does not continue with the data it would have had."""
    constant = tmp_path / "one"
    undisturbed, _ = train_in_stages(constant, dataset, (1, 8))
    assert len(undisturbed) == len(set(undisturbed)) == 32
    for name, stages in {"more": [(1, 4), (2, 8)], "fewer": [(2, 4), (1, 8)]}.items():
        ids, (_, second) = train_in_stages(tmp_path / name, dataset, *stages)
        assert sorted(ids) == sorted(undisturbed)
        assert losses(tmp_path / name) == pytest.approx(losses(constant), rel=1e-4)
        (before, _), (after, _) = stages
        assert f"note: the run was saved by {before} processes and continues with {after}" in second
