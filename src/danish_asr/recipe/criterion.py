"""From a batch to its loss and its logits."""

import math
from typing import Any, Final, cast, final

import torch
from fairseq2.datasets import Seq2SeqBatch
from fairseq2.metrics import MetricBag
from fairseq2.metrics.aggregation import Mean, Sum
from fairseq2.nn import BatchLayout
from fairseq2.recipe.model import RecipeModel
from torch import Tensor

from danish_asr.errors import RunFailedError

_SUMS: Final = (
    *("num_examples", "num_elements", "num_source_elements", "num_target_elements"),
    *("total_num_examples", "total_num_elements", "padding"),
)


@final
class CtcCriterion:
    """The CTC loss of a model, summed over a batch, and its metrics.

    The loss is fairseq2's own: the model returns it. One that is NaN or infinite ends the run.
    """

    def __init__(self, model: RecipeModel) -> None:
        self.model = model

    def prepare_metric_bag(self, metric_bag: MetricBag) -> None:
        """Add the metrics that :meth:`__call__` updates."""
        metric_bag.add("ctc_loss", Mean())
        for name in _SUMS:
            metric_bag.add(name, Sum())

    def __call__(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> Tensor:
        """Return the loss of ``batch``, in nats, summed over its utterances: a scalar."""
        loss: Tensor = self.model.module(*batch.as_source_input(), *batch.as_target_input())
        self._record(loss, batch, metric_bag)
        return loss

    def with_logits(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> tuple[Tensor, BatchLayout]:
        """Record the loss of ``batch`` and return the logits, (N, S, V), and their layout."""
        inputs = (*batch.as_source_input(), *batch.as_target_input())
        loss, logits, layout = self.model.module(*inputs, return_logits=True)
        self._record(loss, batch, metric_bag)
        return logits, layout

    @torch.no_grad()
    def _record(self, loss: Tensor, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        loss = loss.detach()
        if not torch.isfinite(loss):
            ids = ", ".join(cast(dict[str, Any], batch.example)["id"])
            raise RunFailedError(
                f"the loss is NaN or infinite; utterances: {ids}. Listen to them; if they are "
                "intact, lower the learning rate or set trainer.max_grad_norm."
            )
        size = batch.batch_size
        # Bits per utterance, as upstream's recipe reports it.
        metric_bag.get("ctc_loss", Mean).update(loss / size / math.log(2), weight=size)
        for name in _SUMS:
            metric_bag.get(name, Sum).update(getattr(batch, name.removeprefix("total_")))
