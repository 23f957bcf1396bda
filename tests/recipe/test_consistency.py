"""CR-CTC: its loss is the paper's, and a run with it stops, continues and spreads as any other."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from danish_asr.recipe import entry as cli
from danish_asr.recipe.train import masking
from danish_asr.recipe.train.criterion import consistency_loss
from tests.forks import in_processes
from tests.recipe.running import (
    arguments,
    copy_until,
    losses,
    metrics,
    optimizer_state,
    same_weights,
    train,
    weights,
)

SMALL = "num_encoder_layers: 1, model_dim: 32, dropout_p: 0.0"
TRANSFORMS = "{name: speed, factors: [0.9, 1.1]}, {name: join, probability: 0.7}, {name: telephone}"
ON = (
    *("masking.time=0.5", "masking.consistency_scale=0.2", "optimizer.layer_decay=0.9"),
    f"dataset.transforms=[{TRANSFORMS}]",
    # Two batches a step with one process, one with two; step 2 is in the middle of an epoch.
    "trainer.effective_audio_minutes=0.333",
)
METRIC = "Consistency (nats per character)"


def test_the_loss_is_the_papers() -> None:
    torch.manual_seed(1)
    logits = torch.randn(4, 7, 5, requires_grad=True)
    lengths = torch.tensor([7, 4, 7, 4])
    p, q = logits.detach().softmax(dim=-1).chunk(2)
    inside = torch.arange(7) < lengths[:2, None]
    both = (q * (q / p).log() + p * (p / q).log()).sum(dim=-1)
    loss = consistency_loss(logits, lengths)
    torch.testing.assert_close(loss, both[inside].sum() / 2)
    # That of a cross entropy whose targets are the other view.
    (gradient,) = torch.autograd.grad(loss, logits)
    expected = torch.cat([p - q, q - p]) / 2 * inside.repeat(2, 1)[..., None]
    torch.testing.assert_close(gradient, expected)
    assert consistency_loss(logits[:2].repeat(2, 1, 1), lengths) == 0


def test_with_all_else_switched_on_a_run_continues_bit_for_bit(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    options = (
        *("model.config_overrides=null", f"model={{path: {finished_run}, head: danish}}"),
        *("trainer.ema=0.9", "trainer.unfreeze={0: head, 1: all}", *ON),
        "trainer.activation_checkpointing.mode=layerwise",
    )
    whole, run = tmp_path / "whole", tmp_path / "run"
    assert train(whole, dataset, *options) == 0
    copy_until(2, whole, run)
    assert train(run, dataset, *options) == 0
    assert same_weights(run, whole)
    averages = [
        [state["ema"] for state in optimizer_state(each, 4).values()] for each in (run, whole)
    ]
    assert all(map(torch.equal, *averages))
    assert all(row[METRIC] > 0 for row in metrics(run, "train"))
    assert METRIC not in metrics(run, "valid")[-1]


def halves(lengths: Tensor, width: int, share: float, span: int) -> Tensor:  # noqa: ARG001
    """In place of ``span_mask``: one view lacks the first half of each row, the other the second.

    Masks that are drawn depend on the process.
    """
    first = torch.arange(width) < lengths[:, None] // 2
    is_first_view = torch.arange(len(lengths))[:, None] < len(lengths) // 2
    return torch.eq(first, is_first_view)


def train_with_halves(args: list[str]) -> None:
    masking.span_mask = halves
    cli.train(args)


@pytest.mark.slow
def test_two_processes_learn_what_one_learns_with_twice_the_accumulation(
    tmp_path: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With this epsilon, Adam's step is proportional to the gradient and does not amplify rounding.
    options = (
        f"model.config_overrides={{encoder_config: {{{SMALL}}}}}",
        *("optimizer.config={eps: 1.0, lr: 0.02}", "lr_scheduler={name: passthrough}"),
        *("trainer.unfreeze={0: head, 1: all}", "dataset.valid_split=null", *ON),
        "regime.num_steps=2",
    )
    one, two = tmp_path / "one", tmp_path / "two"
    monkeypatch.setattr(masking, "span_mask", halves)
    assert train(one, dataset, *options) == 0
    in_processes(2, train_with_halves, arguments(two, dataset, *options))
    torch.testing.assert_close(weights(two, 2), weights(one, 2), rtol=0, atol=5e-7)
    assert losses(two) == pytest.approx(losses(one), rel=1e-5)
    rows = zip(metrics(one, "train"), metrics(two, "train"), strict=True)
    for own, other in rows:
        assert own[METRIC] == pytest.approx(other[METRIC], rel=1e-5)
