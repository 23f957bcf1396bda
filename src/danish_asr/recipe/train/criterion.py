"""From a batch to its loss and its logits."""

import math
from collections.abc import Sequence
from typing import Any, Final, cast, final

import numpy as np
import torch
from fairseq2.datasets import Seq2SeqBatch
from fairseq2.metrics import MetricBag
from fairseq2.metrics.aggregation import Mean, Sum
from fairseq2.nn import BatchLayout
from fairseq2.nn.fsdp import FSDP1Module, FSDP2Module
from fairseq2.recipe.model import RecipeModel
from fairseq2.utils.tensor import to_tensor
from torch import Tensor

from danish_asr.base.errors import RunFailedError
from danish_asr.recipe.data.targets import FrameCount
from danish_asr.recipe.train.consistency import consistency_loss, two_views

_SUMS: Final = (
    *("num_examples", "num_elements", "num_source_elements", "num_target_elements"),
    *("total_num_examples", "total_num_elements", "padding"),
)


@final
class CtcCriterion:
    """The CTC loss of a model, summed over a batch, and its metrics.

    The loss is fairseq2's own: the model returns it. One that is NaN or infinite ends the run.
    With a ``consistency_scale``, training adds the loss of `train.consistency`.
    """

    def __init__(self, model: RecipeModel, consistency_scale: float | None = None) -> None:
        self.model, self._scale = model, consistency_scale

    def prepare_metric_bag(self, metric_bag: MetricBag) -> None:
        """Add the metrics that :meth:`__call__` updates."""
        metric_bag.add("ctc_loss", Mean())
        metric_bag.add("loss", Mean())
        for name in _SUMS:
            metric_bag.add(name, Sum())

    def prepare_training_bag(self, metric_bag: MetricBag) -> None:
        """Add also the metric that only training has."""
        self.prepare_metric_bag(metric_bag)
        if self._scale is not None:
            metric_bag.add("consistency", Mean())

    def __call__(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> Tensor:
        """Return the loss of ``batch``, in nats, summed over its utterances: a scalar."""
        if self._scale is not None:
            return self._of_two_views(self._scale, batch, metric_bag)
        loss: Tensor = self.model.module(*batch.as_source_input(), *batch.as_target_input())
        self._record(loss, batch, metric_bag)
        return loss

    def _of_two_views(self, scale: float, batch: Seq2SeqBatch, metric_bag: MetricBag) -> Tensor:
        views = two_views(batch)
        inputs = (*views.as_source_input(), *views.as_target_input())
        ctc, logits, layout = self.model.module(*inputs, return_logits=True)
        loss: Tensor = ctc / 2
        # What is recorded is CTC's loss alone, to be compared with that of other runs.
        self._record(loss, batch, metric_bag)
        consistency = consistency_loss(logits, layout.seq_lens_pt)
        characters = sum(batch.target_seq_lens)
        each = consistency.detach() / characters
        metric_bag.get("consistency", Mean).update(each, weight=characters)
        return loss + scale * consistency

    def with_logits(
        self, batch: Seq2SeqBatch, metric_bag: MetricBag
    ) -> tuple[Tensor, Tensor, BatchLayout]:
        """Record the loss of ``batch``.

        Returns it in bits per utterance, the logits, (N, S, V), and their layout.
        """
        inputs = (*batch.as_source_input(), *batch.as_target_input())
        loss, logits, layout = self.model.module(*inputs, return_logits=True)
        return self._record(loss, batch, metric_bag), logits, layout

    @torch.no_grad()
    def _record(self, loss: Tensor, batch: Seq2SeqBatch, metric_bag: MetricBag) -> Tensor:
        loss = loss.detach()
        if not torch.isfinite(loss):
            raise RunFailedError(self._explain(batch))
        size = batch.batch_size
        # Bits per utterance, as upstream's recipe reports it.
        bits = loss / size / math.log(2)
        metric_bag.get("ctc_loss", Mean).update(bits, weight=size)
        characters = sum(batch.target_seq_lens)
        metric_bag.get("loss", Mean).update(loss / characters, weight=characters)
        for name in _SUMS:
            metric_bag.get(name, Sum).update(getattr(batch, name.removeprefix("total_")))
        return bits

    def _explain(self, batch: Seq2SeqBatch) -> str:
        """Say which utterances make the loss NaN or infinite."""
        ids = cast(dict[str, Any], batch.example)["id"]
        if found := _rows_not_finite(ids, batch.source_seqs):
            return (
                f"the audio of {', '.join(found)} holds NaN or infinite samples. If the recording "
                "does not, one of dataset.transforms makes them."
            )
        # A forward pass of sharded parameters would wait for the other ranks.
        if not isinstance(self.model.module, FSDP1Module | FSDP2Module):
            model = self.model.base_module.eval()
            for name, row, size in zip(ids, batch.source_seqs, batch.source_seq_lens, strict=True):
                seqs = row[:size].unsqueeze(0)  # one at a time, as memory may be short
                found += _rows_not_finite([name], model(seqs, BatchLayout.of(seqs))[0])
            if 0 < len(found) < len(ids):
                return (
                    f"the loss of {', '.join(found)} is NaN or infinite, but not that of the other "
                    f"{len(ids) - len(found)} utterances of the batch; listen to it."
                )
        return (
            f"the loss is NaN or infinite; utterances: {', '.join(ids)}. Lower the learning rate "
            "or set trainer.max_grad_norm."
        )


def chance_of(batch: Seq2SeqBatch, num_frames: FrameCount, vocabulary: int) -> Tensor:
    """Return the :func:`chance_loss` of a batch; unlike ``torch.tensor``, it awaits no GPU."""
    frames = num_frames(np.array(batch.source_seq_lens)).tolist()
    device = batch.target_seqs.device
    counts, lengths = (to_tensor(n, device=device) for n in (frames, batch.target_seq_lens))
    return chance_loss(counts, batch.target_seqs, lengths, vocabulary)


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


def _rows_not_finite(ids: Sequence[str], values: Tensor) -> list[str]:
    bad = ~values.isfinite().flatten(1).all(dim=1)
    return [name for name, is_bad in zip(ids, bad.tolist(), strict=True) if is_bad]
