"""Averages of weights, over the steps (EMA) and over kept checkpoints; the best is the result."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from danish_asr.base.files import from_yaml
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.run.run_directory import best_model, checkpoint_scores, weights_digest
from danish_asr.recipe.train.averaging import write_averages
from tests.recipe.running import copy_until, evaluate, metrics, same_weights, train, weights

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


def test_a_validation_that_was_killed_after_that_of_the_moving_average_is_recorded_once(
    averaged: Path, tmp_path: Path, dataset: Path
) -> None:
    run = Path(shutil.copytree(averaged, tmp_path / "run"))
    file = run / "metrics" / "valid.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    (run / "checkpoints" / "scores" / "step_4.txt").unlink()
    assert train(run, dataset, *AVERAGED, TWICE) == 0
    for kind in ("valid", "valid/ema"):
        assert [row["Step"] for row in metrics(run, kind)] == [1, 2, 3, 4]


def test_of_a_checkpoint_with_the_model_alone_no_moving_average_is_written(
    averaged: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(averaged, tmp_path / "run"))
    (best,) = checkpoint_scores(run / "averages" / "ema")
    shutil.rmtree(run / "checkpoints" / f"step_{best}" / "optimizer")
    config = AsrConfig()
    config.trainer.ema, config.regime.score_metric = DECAY, "loss"
    write_averages(run, config)
    losses = {row["Step"]: row["Loss (nats per character)"] for row in metrics(run, "valid/ema")}
    del losses[best]
    assert list(checkpoint_scores(run / "averages" / "ema")) == [
        min(losses, key=losses.__getitem__)
    ]


def test_a_complete_run_whose_average_fails_is_complete_at_each_start(
    averaged: Path, dataset: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(averaged, tmp_path / "run"))
    shutil.rmtree(run / "averages")
    shutil.rmtree(run / "cards")
    ranked = checkpoint_scores(run)
    averaged_steps = sorted(ranked, key=lambda step: ranked[step])[-2:]
    (file,) = (run / "checkpoints" / f"step_{min(averaged_steps)}" / "model").rglob("*.pt")
    file.write_bytes(b"damaged")
    for _ in range(2):
        assert train(run, dataset, *AVERAGED, TWICE) == 0
        assert "average 'best_2' was not written" in capfd.readouterr().err
        assert (run / "cards" / "run.yaml").is_file()
        assert not (run / "failed.txt").exists()


def test_the_best_checkpoints_are_averaged(averaged: Path) -> None:
    ranked = checkpoint_scores(averaged)
    one, other = sorted(ranked, key=lambda step: ranked[step])[-2:]
    left, right = weights(averaged, one), weights(averaged, other)
    made_from = json.loads((averaged / "averages" / "best_2" / "made_from.json").read_text())
    assert made_from == {f"step_{n}": weights_digest(averaged, n) for n in sorted((one, other))}
    assert len({*made_from.values()}) == 2
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
