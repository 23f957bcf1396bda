"""Frozen layers: their weights stay, and the optimizer has no state for them."""

from pathlib import Path

import pytest

from tests.recipe.running import (
    changed,
    copy_until,
    losses,
    optimizer_state,
    same_weights,
    train,
    train_with_two,
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
TWICE = "trainer.grad_accumulation.num_batches=2"
HEAD = ("final_proj.",)
TOP = (*HEAD, "encoder.layer_norm.", "encoder.layers.2.")


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    """Two of three layers never learn; in the first two steps of four only the head does."""
    run = tmp_path_factory.mktemp("runs") / "staged"
    assert train(run, dataset, *STAGED, TWICE) == 0
    return run


def below(run: Path, prefixes: tuple[str, ...]) -> set[str]:
    """The parameters whose names begin so."""
    return {name for name in weights(run, 4) if name.startswith(prefixes)}


def test_first_the_head_learns_then_the_layers_above_the_frozen_ones(staged: Path) -> None:
    names = list(weights(staged, 4))
    for first, last, learning in ((1, 2, HEAD), (2, 4, TOP)):
        assert changed(staged, first, last) == below(staged, learning)
        # The optimizer keeps nothing of what never learns.
        kept = {names[number] for number in optimizer_state(staged, last)}
        assert kept == below(staged, learning)


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
    train_with_two(run, dataset, *STAGED, *overrides)
    assert losses(run) == pytest.approx(losses(staged), rel=1e-5)
    assert optimizer_state(run, 4).keys() == optimizer_state(staged, 4).keys()


def test_ddp_waits_for_no_gradient_of_what_never_learns(tmp_path: Path, dataset: Path) -> None:
    run = tmp_path / "run"
    train_with_two(run, dataset, MODEL, "trainer.freeze_encoder_layers=3")
    assert changed(run, 2, 4) == below(run, ("final_proj.", "encoder.layer_norm."))


def test_a_run_continues_bit_for_bit_on_either_side_of_the_frozen_steps(
    tmp_path: Path, dataset: Path, staged: Path
) -> None:
    for last in (1, 3):
        run = copy_until(last, staged, tmp_path / f"from_{last}")
        assert train(run, dataset, *STAGED, TWICE) == 0
        assert same_weights(run, staged)
