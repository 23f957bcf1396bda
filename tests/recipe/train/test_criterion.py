"""A training step reads few values of a GPU, because each time it waits for all that was queued."""

import math
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq2.datasets import Seq2SeqBatch
from fairseq2.device import CPU
from fairseq2.metrics import MetricBag
from fairseq2.metrics.aggregation import Mean
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig
from fairseq2.models.wav2vec2.asr.factory import create_wav2vec2_asr_model
from torch.utils._python_dispatch import TorchDispatchMode

from danish_asr.base.errors import RunFailedError
from danish_asr.decoding.ctc import BLANK
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.train.criterion import AsrTrainUnit, CtcCriterion, chance_loss
from danish_asr.recipe.train.learning import Freezing
from danish_asr.recipe.train.readers import model_frames
from tests.running import train


def test_chance_is_the_ctc_loss_of_equal_probabilities() -> None:
    targets = torch.tensor([[3, 3, 4, 3], [5, 1, 1, 1], [2, 2, 0, 0]])
    frames, lengths = torch.tensor([20, 2, 9]), torch.tensor([4, 2, 2])
    equal = torch.full((20, 3, 7), -math.log(7))
    loss = torch.nn.functional.ctc_loss(equal, targets, frames, lengths, reduction="sum")
    assert chance_loss(frames, targets, lengths, 7).item() == pytest.approx(loss.item())


class Model:
    """The part of fairseq2's RecipeModel that the criterion needs."""

    def __init__(self, config: Wav2Vec2AsrConfig) -> None:
        torch.manual_seed(0)
        self.module = self.base_module = create_wav2vec2_asr_model(config).eval()


def batch() -> Seq2SeqBatch:
    torch.manual_seed(1)
    return Seq2SeqBatch(
        torch.randn(2, 16_000),
        [16_000, 12_000],
        torch.randint(4, 32, (2, 9)),
        [9, 5],
        example={"id": ["one", "two"], "target_size": [9, 5]},
    )


def bag_of(criterion: CtcCriterion) -> MetricBag:
    bag = MetricBag(CPU)
    criterion.prepare_metric_bag(bag)
    return bag


def test_the_loss_is_fairseq2s_own_to_the_bit() -> None:
    model = Model(tiny())
    example = batch()
    own = model.module(*example.as_source_input(), *example.as_target_input())
    criterion = CtcCriterion(model)  # type: ignore[arg-type]
    bag = bag_of(criterion)
    assert torch.equal(criterion(example, bag), own)
    assert bag.get("loss", Mean).compute().item() == pytest.approx(own.item() / 14)


def test_a_validation_has_the_losses_of_the_rows_with_a_target_and_the_frames_of_all() -> None:
    model, example = Model(tiny()), batch()
    example.example["target_size"] = [9, 0]  # type: ignore[index]
    logits, layout = model.module(*example.as_source_input())
    expected = logits.log_softmax(dim=-1)
    nats = torch.nn.functional.ctc_loss(
        expected[:1].transpose(0, 1),
        example.target_seqs[:1],
        torch.tensor(layout.seq_lens[:1]),
        torch.tensor([9]),
        blank=BLANK,
        reduction="sum",
    )
    criterion = CtcCriterion(model)  # type: ignore[arg-type]
    bag = bag_of(criterion)
    log_probs = criterion.log_probs(example, bag)
    assert [len(row) for row in log_probs] == [*layout.seq_lens]
    torch.testing.assert_close(log_probs[1], expected[1, : layout.seq_lens[1]])
    assert bag.get("loss", Mean).compute().item() == pytest.approx(nats.item() / 9)
    example.example["target_size"] = [0, 0]  # type: ignore[index]
    before = bag.get("loss", Mean).compute()
    criterion.log_probs(example, bag)
    assert bag.get("loss", Mean).compute() == before


def test_the_first_loss_of_a_run_is_reported_with_chance_and_judged(logged: list[str]) -> None:
    model, example = Model(tiny()), batch()
    frames = model_frames(tiny())
    unit = AsrTrainUnit(CtcCriterion(model), Freezing(AsrConfig()), frames, 32)  # type: ignore[arg-type]
    bag = MetricBag(CPU)
    unit.prepare_metric_bag(bag)
    for step in (1, 1, 2):
        unit.set_step_nr(step)
        for _ in range(2):
            loss, count = unit.process_batch(example, bag)
            assert count == 2
    sizes = torch.tensor(frames(np.array([16_000, 12_000])))
    chance = chance_loss(sizes, example.target_seqs, torch.tensor([9, 5]), 32).item() / 14
    assert bag.get("chance", Mean).compute().item() == pytest.approx(chance)
    line = f"First loss: {loss.item() / 14:.3f} nats per character; chance, with 32 symbols"
    assert logged == 2 * [f"{line}: {chance:.3f}"]
    model.module.get_parameter("final_proj.weight").data.mul_(1e3)
    unit.set_step_nr(1)
    unit.process_batch(example, bag)
    assert "WARNING: " in logged[-1]


def test_each_stage_begins_at_its_first_step_and_is_logged(logged: list[str]) -> None:
    config, model = AsrConfig(), Model(tiny())
    config.trainer.freeze_encoder_for_n_steps = 2
    unit = AsrTrainUnit(CtcCriterion(model), Freezing(config), model_frames(tiny()), 32)  # type: ignore[arg-type]
    learns = []
    for step in (1, 2, 3, 4):
        unit.set_step_nr(step)
        learns.append(sum(p.numel() for p in model.module.parameters() if p.requires_grad))
    assert learns == [learns[0]] * 2 + [learns[2]] * 2
    assert learns[0] < learns[2]
    parts = (("step 1 on, head", learns[0]), ("step 3 on, all", learns[2]))
    assert logged == [f"From {part} learns: {count:,} parameters." for part, count in parts]


@pytest.mark.parametrize("cause", ["audio", "loss", "weights"])
def test_a_loss_that_is_not_finite_ends_the_run_and_names_the_utterances(cause: str) -> None:
    """TRAPS, training: one bad recording looks like a learning rate that is too high."""
    model, example = Model(tiny()), batch()
    if cause == "weights":
        model.module.get_parameter("final_proj.weight").data.fill_(float("nan"))
        expected = "utterances: one, two. Lower the learning rate"
    else:
        # The largest number is finite, but its square is not.
        example.source_seqs[1, 500] = float("nan") if cause == "audio" else 3e38
        expected = "the audio of two holds NaN" if cause == "audio" else "the loss of two is NaN"
    criterion = CtcCriterion(model)  # type: ignore[arg-type]
    with pytest.raises(RunFailedError, match=expected):
        criterion(example, bag_of(criterion))


class Count(TorchDispatchMode):
    """Counts where a tensor's value is read: ``item()``, ``float()`` and ``bool()``.

    AdamW's counter of its steps is left out, as it is in the host's memory on a GPU too.
    """

    values = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            files = [frame.filename for frame in traceback.extract_stack()]
            self.values += not any(file.endswith("torch/optim/adam.py") for file in files)
        return func(*args, **(kwargs or {}))


def values_read(run: Path, dataset: Path, steps: int) -> int:
    """Of a training of so many steps, with one validation and one report at its end."""
    kinds = ("validate", "checkpoint", "publish_metrics")
    every = [f"regime.{kind}_every_n_steps={steps}" for kind in kinds]
    count: Any = Count()  # type: ignore[no-untyped-call]
    with count:
        assert train(run, dataset, *every, f"regime.num_steps={steps}") == 0
    return int(count.values)


def test_a_step_reads_one_value(tmp_path: Path, dataset: Path) -> None:
    """It is whether the loss is finite; metrics are read when they are reported."""
    more = values_read(tmp_path / "4", dataset, 4) - values_read(tmp_path / "2", dataset, 2)
    assert more == 2
