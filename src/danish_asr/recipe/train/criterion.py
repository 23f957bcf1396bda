"""From a batch to its loss and its logits, and the unit that fairseq2's trainer calls."""

import math
from collections.abc import Sequence
from itertools import compress
from typing import Any, cast, final

import numpy as np
import torch
from fairseq2.datasets import Seq2SeqBatch
from fairseq2.metrics import MetricBag
from fairseq2.metrics.aggregation import Mean
from fairseq2.metrics.common import add_seq2seq_batch_metrics, update_seq2seq_batch_metrics
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrModel
from fairseq2.nn import BatchLayout
from fairseq2.nn.fsdp import FSDP1Module, FSDP2Module
from fairseq2.recipe.model import RecipeModel
from fairseq2.recipe.trainer import TrainUnit
from fairseq2.utils.tensor import to_tensor
from torch import Tensor
from torch.nn.functional import ctc_loss
from typing_extensions import override

from danish_asr.base.errors import RunFailedError
from danish_asr.decoding.ctc import BLANK
from danish_asr.recipe.data.targets import FrameCount, has_loss
from danish_asr.recipe.run.advice import loss_warning
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.learning import Freezing


@final
class CtcCriterion:
    """The CTC loss of a model and its metric, in nats per character.

    Raises:
        RunFailedError: The loss is NaN or infinite.
    """

    def __init__(self, model: RecipeModel) -> None:
        self.model = model

    def prepare_metric_bag(self, metric_bag: MetricBag, *, has_loss: bool = True) -> None:
        """Add the metrics that training and validation share."""
        if has_loss:  # the mean of no rows would be 0
            metric_bag.add("loss", Mean())
        add_seq2seq_batch_metrics(metric_bag)

    def __call__(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> Tensor:
        """Training: return the loss, in nats, summed over the utterances of a batch: a scalar."""
        loss: Tensor = self.model.module(*batch.as_source_input(), *batch.as_target_input())
        self._record(loss, sum(batch.target_seq_lens), batch, metric_bag)
        return loss

    def log_probs(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> list[Tensor]:
        """Validation: record the losses; return log-probabilities of each utterance, (S, V)."""
        logits, layout = self.model.module(*batch.as_source_input())
        padded = logits.float().log_softmax(dim=-1)
        lengths = torch.tensor(layout.seq_lens), torch.tensor(batch.target_seq_lens)
        nats = ctc_loss(
            padded.transpose(0, 1), batch.target_seqs, *lengths, blank=BLANK, reduction="none"
        )
        sizes = cast(dict[str, list[int]], batch.example)["target_size"]
        rows = zip(batch.target_seqs.cpu().numpy(), sizes, layout.seq_lens, strict=True)
        counted = [has_loss(row[:size], frames) for row, size, frames in rows]
        characters = sum(compress(sizes, counted))
        loss = nats[torch.tensor(counted, device=nats.device)].sum()
        self._record(loss, characters, batch, metric_bag)
        return [row[:length] for row, length in zip(padded, layout.seq_lens, strict=True)]

    @torch.no_grad()
    def _record(
        self, loss: Tensor, characters: int, batch: Seq2SeqBatch, metric_bag: MetricBag
    ) -> None:
        """Add the loss of a batch, in nats, which so many characters have, to the metrics."""
        if not torch.isfinite(loss):
            raise RunFailedError(self._explain(batch))
        if characters:
            metric_bag.get("loss", Mean).update(loss.detach() / characters, weight=characters)
        update_seq2seq_batch_metrics(metric_bag, batch)

    def _explain(self, batch: Seq2SeqBatch) -> str:
        """Say which utterances make the loss NaN or infinite."""
        ids = cast(dict[str, Any], batch.example)["id"]
        if damaged := _not_finite(ids, batch.source_seqs):
            samples = "NaN or infinite samples, its own or those of a transform"
            return f"the audio of {', '.join(damaged)} holds {samples}."
        # A forward pass of sharded parameters would wait for the other ranks.
        if not isinstance(self.model.module, FSDP1Module | FSDP2Module):
            model, bad = self.model.base_module.eval(), []
            for name, row, size in zip(ids, batch.source_seqs, batch.source_seq_lens, strict=True):
                seqs = row[:size].unsqueeze(0)  # one at a time, as memory may be short
                bad += _not_finite([name], model(seqs, BatchLayout.of(seqs))[0])
            if 0 < len(bad) < len(ids):
                return f"the loss of {', '.join(bad)} is NaN or infinite; listen to it."
        return (
            f"the loss is NaN or infinite; utterances: {', '.join(ids)}. Lower the learning rate "
            "or set trainer.max_grad_norm."
        )


def _not_finite(ids: Sequence[str], values: Tensor) -> list[str]:
    """Return the ids of the rows that hold NaN or infinite values."""
    finite = values.isfinite().flatten(1).all(dim=1)
    return [name for name, is_finite in zip(ids, finite.tolist(), strict=True) if not is_finite]


def chance_loss(frames: Tensor, targets: Tensor, lengths: Tensor, vocabulary: int) -> Tensor:
    """Return the CTC loss, in nats, of a model that gives each symbol the same probability.

    Of T frames and L targets, R of them equal to the one before, C(T + L - R, 2 L) paths of
    probability V^-T give the targets (stars and bars; Graves et al. 2006 define the paths).

    Args:
        frames: T of each utterance, (N).
        targets: The symbols, padded, (N, L).
        lengths: L of each utterance, (N).
        vocabulary: V, blank included.
    """
    inside = torch.arange(1, targets.size(1), device=targets.device) < lengths[:, None]
    repeats = ((targets[:, 1:] == targets[:, :-1]) & inside).sum(dim=1)
    drawn = (2 * lengths).double()
    from_ = (frames + lengths - repeats).double().maximum(drawn)
    paths = (from_ + 1).lgamma() - (drawn + 1).lgamma() - (from_ - drawn + 1).lgamma()
    return (frames.double() * math.log(vocabulary) - paths).sum()


@final
class AsrTrainUnit(TrainUnit[Seq2SeqBatch]):
    """Computes the loss, and freezes the layers that do not learn in a stage of the run."""

    def __init__(
        self, criterion: CtcCriterion, freezing: Freezing, num_frames: FrameCount, vocabulary: int
    ) -> None:
        self._criterion, self._freezing = criterion, freezing
        self._num_frames, self._vocabulary = num_frames, vocabulary
        self._stage: int | None = None
        self._is_first_batch = False

    @override
    def set_step_nr(self, step_nr: int) -> None:
        self._is_first_batch = step_nr == 1
        stage = self._freezing.stage(step_nr)
        if stage == self._stage:
            return
        self._stage = stage
        model = cast(Wav2Vec2AsrModel, self._criterion.model.base_module)
        self._freezing.begin(stage, model)
        if len(self._freezing.stages) > 1:
            count = sum(p.numel() for p in model.parameters() if p.requires_grad)
            part = self._freezing.stages[stage]
            log.info("From step {} on, {} learns: {:,} parameters.", stage + 1, part, count)

    @override
    def prepare_metric_bag(self, metric_bag: MetricBag) -> None:
        self._criterion.prepare_metric_bag(metric_bag)
        metric_bag.add("chance", Mean())

    @override
    def process_batch(
        self, batch: Seq2SeqBatch, metric_bag: MetricBag
    ) -> tuple[Tensor, int | None]:
        loss = self._criterion(batch, metric_bag)
        chance, characters = self._chance(batch), sum(batch.target_seq_lens)
        metric_bag.get("chance", Mean).update(chance, weight=characters)
        if self._is_first_batch:
            self._is_first_batch = False
            self._report_first(loss.item() / characters, chance.item())
        # The number of utterances normalises the gradient, over all batches and ranks of the step.
        return loss, batch.batch_size

    @torch.no_grad()
    def _chance(self, batch: Seq2SeqBatch) -> Tensor:
        # Unlike ``torch.tensor``, ``to_tensor`` awaits no GPU.
        targets, num_frames = batch.target_seqs, self._num_frames(np.array(batch.source_seq_lens))
        frames = to_tensor(num_frames.tolist(), device=targets.device)
        lengths = to_tensor(batch.target_seq_lens, device=targets.device)
        loss = chance_loss(frames, targets, lengths, self._vocabulary)
        return loss / sum(batch.target_seq_lens)

    def _report_first(self, loss: float, chance: float) -> None:
        text = "First loss: {:.3f} nats per character; chance, with {} symbols: {:.3f}"
        log.info(text, loss, self._vocabulary, chance)
        if warning := loss_warning(loss, chance):
            log.warning("{}", warning)

    @property
    @override
    def model(self) -> RecipeModel:
        return self._criterion.model
