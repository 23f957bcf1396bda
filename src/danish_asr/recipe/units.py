"""What the trainer calls for each batch: one unit that learns, one that validates."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import cast, final

from fairseq2.datasets import Seq2SeqBatch
from fairseq2.logging import log
from fairseq2.metrics import MetricBag
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrModel
from fairseq2.recipe.evaluator import EvalUnit
from fairseq2.recipe.model import RecipeModel
from fairseq2.recipe.trainer import TrainUnit
from torch import Tensor
from typing_extensions import override

from danish_asr.data.frames import FrameCount
from danish_asr.decoding.greedy import GreedyDecoder
from danish_asr.recipe.checks import FIRST_STEPS, loss_above_chance
from danish_asr.recipe.criterion import CtcCriterion
from danish_asr.recipe.error_rates import ALL, ErrorRates, publish, table
from danish_asr.recipe.freezing import Freezing


@final
class AsrTrainUnit(TrainUnit[Seq2SeqBatch]):
    """Computes the loss, and freezes what must not learn yet.

    Args:
        criterion: The loss.
        freezing: What learns nothing, and for how long.
        num_frames: Frames that the model makes of a number of samples.
        vocabulary: Symbols of the head, blank included.
    """

    def __init__(
        self,
        criterion: CtcCriterion,
        *,
        freezing: Freezing,
        num_frames: FrameCount,
        vocabulary: int,
    ) -> None:
        self._criterion = criterion
        self._freezing = freezing
        self._encoder_frozen: bool | None = None
        self._num_frames = num_frames
        self._vocabulary = vocabulary
        self._step = 0

    @override
    def set_step_nr(self, step_nr: int) -> None:
        self._step = step_nr
        frozen = step_nr <= self._freezing.encoder_steps
        if frozen == self._encoder_frozen:
            return
        if frozen:
            log.info("The encoder is frozen until step {}.", self._freezing.encoder_steps)
        elif self._encoder_frozen is not None:
            log.info("The encoder learns from step {} on.", step_nr)
        model = cast(Wav2Vec2AsrModel, self._criterion.model.base_module)
        self._freezing.freeze_encoder(model, frozen=frozen)
        self._encoder_frozen = frozen

    @override
    def prepare_metric_bag(self, metric_bag: MetricBag) -> None:
        self._criterion.prepare_metric_bag(metric_bag)

    @override
    def process_batch(
        self, batch: Seq2SeqBatch, metric_bag: MetricBag
    ) -> tuple[Tensor, int | None]:
        loss = self._criterion(batch, metric_bag)
        if self._step <= FIRST_STEPS:
            self._check_first_loss(float(loss.detach()), batch)
        # The number of utterances normalises the gradient, over all batches and ranks of the step.
        return loss, batch.batch_size

    def _check_first_loss(self, loss: float, batch: Seq2SeqBatch) -> None:
        frames = sum(map(self._num_frames, batch.source_seq_lens))
        warning = loss_above_chance(loss / max(frames, 1), self._vocabulary, self._step)
        if warning is not None:
            log.warning("{}", warning)

    @property
    @override
    def model(self) -> RecipeModel:
        return self._criterion.model


@final
class AsrValidationUnit(EvalUnit[Seq2SeqBatch]):
    """Measures loss, WER and CER over all validation splits together, and per split and dialect.

    Args:
        criterion: The loss.
        decoder: Turns logits into text.
        splits: The names of the splits, reported each if there are several.
        dialects: The dialects that occur in them; the worst gives ``worst_group_wer``.
        profile: The text normalisation of the scores.
    """

    def __init__(
        self,
        criterion: CtcCriterion,
        decoder: GreedyDecoder,
        *,
        splits: Sequence[str],
        dialects: Sequence[str],
        profile: str,
    ) -> None:
        self._criterion = criterion
        self._decoder = decoder
        self._splits = tuple(splits) if len(splits) > 1 else ()
        self._dialects = tuple(f"dialect/{name}" for name in dialects)
        self._profile = profile

    @override
    def prepare_metric_bag(self, metric_bag: MetricBag) -> None:
        self._criterion.prepare_metric_bag(metric_bag)
        groups = [*self._splits, *self._dialects]
        metric_bag.add("errors", ErrorRates(groups, self._profile))

    @override
    def process_batch(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        logits, layout = self._criterion.with_logits(batch, metric_bag)
        example = cast(dict[str, list[str]], batch.example)
        groups = [
            ([split] if self._splits else []) + ([f"dialect/{dialect}"] if dialect else [])
            for split, dialect in zip(example["split"], example["dialect"], strict=True)
        ]
        errors = metric_bag.get("errors", ErrorRates)
        errors.update(example["text"], self._decoder(logits, layout), groups)

    @override
    def process_metric_values(self, values: MutableMapping[str, object]) -> None:
        counts = cast(Tensor, values.pop("errors"))
        groups = (ALL, *self._splits, *self._dialects)
        log.info("Validation, text profile {}\n{}", self._profile, "\n".join(table(counts, groups)))
        publish(counts, groups, worst_among=self._dialects, values=values)

    @property
    @override
    def model(self) -> RecipeModel:
        return self._criterion.model
