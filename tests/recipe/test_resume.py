"""A run that is killed after any step continues bit for bit, whatever is switched on."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from danish_asr.recipe.run.advice import LOSS
from tests.recipe.running import (
    copy_until,
    metrics,
    same_weights,
    saved_optimizer,
    train,
    train_with_two,
)

STEPS = 6
EACH_STEP = (
    *(f"regime.num_steps={STEPS}", f"regime.keep_last_n_checkpoints={STEPS}"),
    *("regime.validate_every_n_steps=1", "regime.checkpoint_every_n_steps=1"),
    "dataset.valid_subset=2",
)
# Large enough that half of most matrices has the 4096 elements from which 8 bits are used.
WIDE = "model.config_overrides={encoder_config: {num_encoder_layers: 1, model_dim: 96}}"
CASES = {
    "plain": (),
    "everything": (
        "model.config_overrides={encoder_config: {num_encoder_layers: 2, model_dim: 32}}",
        *("masking.time=0.5", "masking.channel=0.25", "masking.channel_span=8"),
        "trainer.stages={2: {where: gender = 'male', lr: 1e-4}, 5: {subset: 24}}",
        *("trainer.unfreeze={0: head, 1: top 1, 4: all}", "dataset.speed_factors=[0.9, 1.1]"),
        "dataset.weights=[{where: \"dialect = 'Bornholmsk'\", factor: 3}]",
        "trainer.grad_accumulation.num_batches=2",
        "trainer.activation_checkpointing.mode=layerwise",
    ),
    "adamw_8bit": (WIDE, "optimizer.name=adamw_8bit"),
    "adamw_offload": (WIDE, "optimizer.name=adamw_offload"),
    "two processes with FSDP": (WIDE, "trainer.data_parallelism=fsdp"),
}
RECORDED = ("Step", LOSS, "Gradient Norm", "Learning Rate", "Data Epoch")


def run_to_the_end(case: str, run: Path, dataset: Path) -> None:
    options = (*EACH_STEP, *CASES[case])
    if case == "two processes with FSDP":
        train_with_two(run, dataset, *options)
    else:
        assert train(run, dataset, *options) == 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Callable[[str], Path]:
    """Returns the run of a case that nothing has stopped."""
    folder = tmp_path_factory.mktemp("undisturbed")

    @cache
    def run_of(case: str) -> Path:
        run_to_the_end(case, folder / case, dataset)
        return folder / case

    return run_of


@pytest.mark.parametrize("step", range(1, STEPS))
@pytest.mark.parametrize("case", CASES)
def test_a_run_that_was_killed_after_any_step_continues_bit_for_bit(
    case: str, step: int, tmp_path: Path, dataset: Path, undisturbed: Callable[[str], Path]
) -> None:
    """TRAPS, data reading: upstream continues with other batches and repeats steps in its files."""
    expected = undisturbed(case)
    run = copy_until(step, expected, tmp_path / "run")
    run_to_the_end(case, run, dataset)
    assert same_weights(run, expected, STEPS)
    states, others = (saved_optimizer(r, STEPS)["state"] for r in (run, expected))
    assert states.keys() == others.keys()
    rows, there = (
        [[row[n] for n in RECORDED] for row in metrics(r, "train")] for r in (run, expected)
    )
    assert rows == there
    wer = "Word Error Rate (WER)"
    scores = [[(row["Step"], row[wer]) for row in metrics(r, "valid")] for r in (run, expected)]
    assert scores[0] == scores[1]
    shutil.rmtree(run)
