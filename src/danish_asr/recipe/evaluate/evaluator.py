"""Runs an evaluation: it writes the predictions of all rows, and can be stopped and continued."""

import json
from collections.abc import Collection, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final, cast, final

from fairseq2.datasets import Seq2SeqBatch
from fairseq2.metrics import MetricBag
from fairseq2.metrics.aggregation import Mean
from fairseq2.recipe.base import RecipeContext
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.recipe.task import TaskStopException
from typing_extensions import override

from danish_asr.base.errors import RunFailedError
from danish_asr.base.files import publish_text
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding import Decoder
from danish_asr.decoding.ngram import HELD_OUT, NOTHING_HELD_OUT
from danish_asr.recipe.config.config import AsrEvalConfig
from danish_asr.recipe.evaluate.kept import LogProbsKeeper
from danish_asr.recipe.evaluate.scored_batches import ScoredBatch, ScoredBatches
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.criterion import CtcCriterion
from danish_asr.recipe.train.readers import SplitsReader, ValidationInterrupted
from danish_asr.recipe.train.stopping import StoppableTask, on_stop_signals
from danish_asr.recipe.train.validation import AsrValidationUnit, ErrorRates
from danish_asr.scoring.predictions import Prediction, write_predictions

PREDICTIONS: Final = "predictions.jsonl"
EVALUATION: Final = "evaluation.json"


@final
class StoppableEvaluation(StoppableTask):
    """Runs fairseq2's evaluator and ends it early where that is requested."""

    def __init__(
        self,
        context: RecipeContext,
        config: AsrEvalConfig,
        evaluator: Evaluator,
        reader: SplitsReader,
    ) -> None:
        super().__init__(context, config.trainer)
        self.inner = evaluator
        reader.interrupted = self._must_stop

    @override
    def run(self) -> None:
        with on_stop_signals(self.request_stop):
            try:
                self.inner.run()
            except ValidationInterrupted:
                self._gangs.close()
                raise TaskStopException from None

    def _must_stop(self) -> bool:
        # An evaluation that continues scores one batch at least.
        return self._any_rank(self._stop_requested or (self.step_nr > 0 and self._late()))


@final
class PredictionUnit(AsrValidationUnit):
    """Validates, gathers the predictions of all ranks and writes them as one file of raw text.

    ``about`` is what is scored, the content of ``evaluation.json``. ``scored`` has what earlier
    starts scored; loss and error rates include it. ``keeper`` keeps the log-probabilities.
    """

    TITLE = "Evaluation"

    def __init__(
        self,
        context: RecipeContext,
        config: AsrEvalConfig,
        decoder: Decoder,
        *,
        about: Mapping[str, Any],
        scored: ScoredBatches,
        keeper: LogProbsKeeper | None,
    ) -> None:
        criterion = CtcCriterion(context.model)
        super().__init__(criterion, decoder, profile=config.regime.score_profile)
        self._gangs, self._output_dir = context.gangs, context.output_dir
        self._about, self._scored, self._keeper = about, scored, keeper

    @override
    def prepare_metric_bag(self, metric_bag: MetricBag) -> None:
        super().prepare_metric_bag(metric_bag)
        for bits, rows in self._scored.earlier:
            metric_bag.get("ctc_loss", Mean).update(bits, weight=len(rows))
            texts = [row.reference for row in rows], [row.hypothesis for row in rows]
            metric_bag.get("errors", ErrorRates).update(*texts, [()] * len(rows))

    @override
    def process_metric_values(self, values: MutableMapping[str, object]) -> None:
        if self._scored.earlier:  # whose characters were not counted
            del values["loss"]
        super().process_metric_values(values)

    @override
    def process_batch(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        example = cast(dict[str, list[Any]], batch.example)
        same = ("id", "corpus", "split", "speaker_id", "dialect", "age_group", "gender")
        decoded = self._count_errors(batch, metric_bag)
        predictions = [
            Prediction(
                reference=example["text"][row],
                hypothesis=hypothesis,
                duration=example["audio_size"][row] / SAMPLE_RATE,
                **{name: example[name][row] for name in same},
            )
            for row, hypothesis in enumerate(decoded.hypotheses)
        ]
        if self._keeper:
            self._keeper.add(predictions, decoded.logits, decoded.lengths)
        self._scored.add(ScoredBatch(decoded.bits.item(), predictions))

    @override
    def finalize(self, metric_bag: MetricBag) -> None:
        predictions = self._scored.collect()
        if self._gangs.root.rank == 0:
            if self._keeper:
                self._keeper.finish([each.id for each in predictions])
            publish_predictions(self._output_dir, predictions, self._about)
            self._scored.delete()
            if self._keeper:
                self._keeper.delete()
        self._gangs.root.barrier()


def publish_predictions(
    directory: Path, predictions: Collection[Prediction], about: Mapping[str, Any]
) -> None:
    """Write ``predictions.jsonl`` and ``evaluation.json``.

    Raises:
        RunFailedError: There is not one prediction for each row to score.
    """
    rows = sum(about["rows"].values())
    if len({p.id for p in predictions}) != rows or len(predictions) != rows:
        raise RunFailedError(
            f"{len(predictions)} predictions were made for {rows} rows; every row must "
            "be scored once. `danish-asr verify` finds ids that occur twice."
        )
    file = directory / PREDICTIONS
    write_predictions(file, sorted(predictions, key=lambda p: (p.split, p.id)))
    text = json.dumps(about, ensure_ascii=False, indent=2) + "\n"
    publish_text(directory / EVALUATION, text)
    log.info("{} predictions written to {}.", rows, file)
    if about.get("decoder", {}).get("settings", {}).get(HELD_OUT) == 0:
        log.warning("{}", NOTHING_HELD_OUT)
