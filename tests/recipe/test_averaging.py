"""Averages of weights, over the steps (EMA) and over kept checkpoints; the best is the result."""

from pathlib import Path

import pytest
import torch

from danish_asr.base.errors import ConfigError, RunError
from danish_asr.base.files import from_yaml
from danish_asr.recipe.run.run_directory import best_model, checkpoint_scores
from danish_asr.recipe.train.averaging import MovingAverage, average_command
from tests.recipe.running import (
    copy_until,
    evaluate,
    metrics,
    same_weights,
    train,
    weights,
)

DECAY = 0.5
AVERAGED = (
    f"trainer.ema={DECAY}",
    "model.config_overrides={encoder_config: {num_encoder_layers: 1, model_dim: 32, dropout_p: 0}}",
    *("regime.validate_every_n_steps=1", "regime.checkpoint_every_n_steps=1"),
    *("regime.keep_last_n_checkpoints=4", "regime.keep_best_n_checkpoints=4"),
    *("regime.average_n_checkpoints=2", "regime.score_metric=loss"),
    # Large enough that the last step is not the best.
    "optimizer.config.lr=3e-2",
)
TWICE = "trainer.grad_accumulation.num_batches=2"


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> Path:
    run = tmp_path_factory.mktemp("runs") / "averaged"
    assert train(run, dataset, *AVERAGED, TWICE) == 0
    return run


def saved(directory: Path) -> dict[str, torch.Tensor]:
    (step,) = checkpoint_scores(directory)
    return weights(directory, step)


def test_the_moving_average_follows_the_weights(averaged: Path) -> None:
    (step,) = checkpoint_scores(averaged / "averages" / "ema")
    expected = weights(averaged, 1)
    for number in range(2, step + 1):
        new = weights(averaged, number)
        expected = {name: value.lerp(new[name], 1 - DECAY) for name, value in expected.items()}
    for name, value in saved(averaged / "averages" / "ema").items():
        torch.testing.assert_close(value, expected[name])
    # It is the step at which the average was the best.
    rows = metrics(averaged, "valid/ema")
    assert [row["Step"] for row in rows] == [1, 2, 3, 4]
    assert step == min(rows, key=lambda row: row["Loss (nats per character)"])["Step"]


def test_the_best_checkpoints_are_averaged(averaged: Path) -> None:
    ranked = checkpoint_scores(averaged)
    one, other = sorted(ranked, key=lambda step: ranked[step])[-2:]
    left, right = weights(averaged, one), weights(averaged, other)
    for name, value in saved(averaged / "averages" / "best_2").items():
        torch.testing.assert_close(value, (left[name] + right[name]) / 2)


def test_the_best_of_all_models_is_the_result(averaged: Path, dataset: Path) -> None:
    best = best_model(averaged)
    assert best is not None
    directory, step = best
    folders = [averaged, *(averaged / "averages").iterdir()]
    scores = [score for folder in folders for score in checkpoint_scores(folder).values()]
    assert checkpoint_scores(directory)[step] == max(scores)
    card = from_yaml((averaged / "cards" / "averaged.yaml").read_text())
    named = averaged / "cards" / card["checkpoint"]
    assert named.resolve() == (directory / "checkpoints" / f"step_{step}" / "model").resolve()
    # The evaluation scores it too, with the loss that its score is made of.
    assert evaluate(averaged, dataset, "evaluator.split=dev", "evaluator.amp=false") == 0
    (row,) = metrics(averaged / "eval" / "best" / "dev", "eval")
    assert row["Loss (nats per character)"] == pytest.approx(-max(scores), rel=1e-3)


def test_a_run_continues_bit_for_bit_with_its_average(
    tmp_path: Path, dataset: Path, averaged: Path
) -> None:
    run = copy_until(2, averaged, tmp_path / "run")
    (tmp_path / "run" / "averages").rename(tmp_path / "old")
    assert train(run, dataset, *AVERAGED, TWICE) == 0
    for name in ("ema", "best_2"):
        one, other = run / "averages" / name, averaged / "averages" / name
        assert checkpoint_scores(one) == checkpoint_scores(other)
        assert same_weights(one, other, *checkpoint_scores(one))


def test_the_command_averages_what_a_run_kept(tmp_path: Path, averaged: Path) -> None:
    run = copy_until(3, averaged, tmp_path / "run")
    average_command(run, best=None, last=3)
    assert [*checkpoint_scores(run / "averages" / "last_3")] == [3]
    with pytest.raises(RunError, match="has 3 checkpoints, and 5 are needed"):
        average_command(run, best=None, last=5)
    with pytest.raises(RunError, match=r"config\.yaml"):
        average_command(tmp_path, best=None, last=None)
    with pytest.raises(ConfigError, match="--best and --last"):
        average_command(run, best=2, last=2)


def test_the_weights_of_an_optimizer_without_state_are_averaged_too() -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = MovingAverage(optimizer, model, DECAY)
    weights = []
    for _ in range(2):
        model(torch.ones(3)).sum().backward()
        optimizer.step()
        weights.append(model.weight.detach().clone())
    with average.weights():
        torch.testing.assert_close(model.weight.detach(), weights[0].lerp(weights[1], 1 - DECAY))
    assert torch.equal(model.weight.detach(), weights[1])
