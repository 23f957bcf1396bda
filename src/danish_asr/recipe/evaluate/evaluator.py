"""An evaluation that runs the model: it scores all rows, and gathers their predictions."""

from collections.abc import Mapping
from typing import Any, Final, cast, final

from fairseq2.datasets import Seq2SeqBatch
from fairseq2.metrics import MetricBag
from fairseq2.recipe.base import RecipeContext
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.recipe.task import TaskStopException
from typing_extensions import override

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding import Decoder
from danish_asr.recipe.config.config import AsrEvalConfig
from danish_asr.recipe.evaluate.kept import LogProbsKeeper
from danish_asr.recipe.evaluate.selection import PREDICTIONS, publish_predictions
from danish_asr.recipe.train.criterion import CtcCriterion
from danish_asr.recipe.train.ending import StoppableTask, on_stop_signals
from danish_asr.recipe.train.readers import SplitsReader, ValidationInterrupted
from danish_asr.recipe.train.validation import AsrValidationUnit
from danish_asr.scoring.predictions import Prediction, read_predictions, write_predictions

_COLUMNS: Final = ("id", "corpus", "split", "speaker_id", "dialect", "age_group", "gender")


@final
class StoppableEvaluation(StoppableTask):
    """Runs fairseq2's evaluator and ends it early where that is requested, without results."""

    def __init__(
        self,
        context: RecipeContext,
        config: AsrEvalConfig,
        evaluator: Evaluator,
        reader: SplitsReader,
    ) -> None:
        super().__init__(context, config.trainer)
        self.inner = evaluator
        reader.interrupted = self.must_stop

    @override
    def run(self) -> None:
        with on_stop_signals(self.request_stop):
            try:
                self.inner.run()
            except ValidationInterrupted:
                self._gangs.close()
                raise TaskStopException from None


@final
class PredictionUnit(AsrValidationUnit):
    """Validates, gathers the predictions of all ranks and writes them as one file of raw text.

    ``about`` is what is scored, the content of ``evaluation.json``. ``keeper`` keeps the
    log-probabilities.
    """

    TITLE = "Evaluation"

    def __init__(
        self,
        context: RecipeContext,
        config: AsrEvalConfig,
        decoder: Decoder,
        *,
        about: Mapping[str, Any],
        keeper: LogProbsKeeper | None,
    ) -> None:
        criterion = CtcCriterion(context.model)
        super().__init__(criterion, decoder, profile=config.regime.score_profile)
        self._gangs, self._output_dir = context.gangs, context.output_dir
        self._about, self._keeper = about, keeper
        self._predictions: list[Prediction] = []

    @override
    def process_batch(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        example = cast(dict[str, list[Any]], batch.example)
        decoded = self._count_errors(batch, metric_bag)
        predictions = [
            Prediction(
                reference=example["text"][row],
                hypothesis=hypothesis,
                duration=example["audio_size"][row] / SAMPLE_RATE,
                **{name: example[name][row] for name in _COLUMNS},
            )
            for row, hypothesis in enumerate(decoded.hypotheses)
        ]
        if self._keeper:
            self._keeper.add(predictions, decoded.logits, decoded.lengths)
        self._predictions += predictions

    @override
    def finalize(self, metric_bag: MetricBag) -> None:
        root = self._gangs.root
        # Ranks may be on several hosts and share only the output directory.
        files = [self._output_dir / f"{PREDICTIONS}.{rank}" for rank in range(root.size)]
        if root.rank != 0:
            write_predictions(files[root.rank], self._predictions)
        root.barrier()
        if root.rank == 0:
            for file in files[1:]:
                self._predictions += read_predictions(file)
            if self._keeper:
                self._keeper.finish()
            publish_predictions(self._output_dir, self._predictions, self._about)
            for file in files[1:]:
                file.unlink()
        root.barrier()
