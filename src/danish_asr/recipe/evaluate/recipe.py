"""The evaluation recipe: a checkpoint or a named model, a split, and its predictions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast, final

from fairseq2.data.tokenizers import Tokenizer
from fairseq2.datasets import Seq2SeqBatch
from fairseq2.gang import all_sum
from fairseq2.metrics import MetricBag
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from fairseq2.recipe.base import EvalRecipe, RecipeContext
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.recipe.model import RecipeModel
from fairseq2.recipe.run import evaluate as run_evaluation
from fairseq2.recipe.task import TaskStopException
from fairseq2.runtime.dependency import DependencyContainer
from torch import Tensor
from typing_extensions import override

from danish_asr.base.cluster import rank_info, use_granted_cpus
from danish_asr.base.config_tree import Tree
from danish_asr.base.schema import METADATA_COLUMNS, SAMPLE_RATE
from danish_asr.decoding.ctc import confidences, ctc_nats, per_token
from danish_asr.decoding.decoders import Decoder, make_decoder
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.fairseq2 import Fairseq2Config, sections_of
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.evaluate.results import about_evaluation, write_results
from danish_asr.recipe.evaluate.selection import Selection, select
from danish_asr.recipe.models.cards import speech_of
from danish_asr.recipe.models.trained import TrainedModel
from danish_asr.recipe.run.continuing import locked
from danish_asr.recipe.train.console import hide_progress_bar, log
from danish_asr.recipe.train.criterion import CtcCriterion
from danish_asr.recipe.train.ending import (
    StoppableTask,
    exit_on_error,
    explained,
    on_stop_signals,
)
from danish_asr.recipe.train.preflight import Resolved, dump
from danish_asr.recipe.train.readers import (
    ReaderSetup,
    SplitsReader,
    ValidationInterrupted,
    model_frames,
    splits_reader,
)
from danish_asr.recipe.train.training import register_common, write_configuration
from danish_asr.recipe.train.validation import AsrValidationUnit
from danish_asr.scoring.predictions import Prediction, from_row

_COLUMNS: Final = ("id", "corpus", "split", *METADATA_COLUMNS)


def run(request: cli.Request, tree: Tree) -> Path | None:
    """Score a split, and return where its predictions are, None if there are none.

    `danish_asr.recipe.entry.run` has the exit statuses.
    """
    hide_progress_bar()
    output_dir = cast(Path, request.output_dir)
    with exit_on_error():
        selection = select(output_dir, tree, where=request.where)
        if request.dump_config:
            dump(selection.config, where=request.where)
            return None
        selection, resolved = selection.resolved(request.where)
        rank = rank_info().rank
        if rank == 0:
            cli.note(f"scoring {selection.model}, split {selection.config.evaluator.split}")
        with locked(selection.output_dir, rank), explained():
            write_configuration(selection.config, selection.output_dir)
            recipe = AsrEvalRecipe(selection, resolved)
            run_evaluation(recipe, sections_of(selection.config), selection.output_dir)
    return selection.output_dir


@final
class AsrEvalRecipe(EvalRecipe):
    """Runs the selected model over every row of ``evaluator.split``, and writes its predictions."""

    def __init__(self, selection: Selection, resolved: Resolved) -> None:
        self._selection, self._resolved = selection, resolved

    @override
    def register(self, container: DependencyContainer) -> None:
        register_common(container)

    @override
    def create_evaluator(self, context: RecipeContext) -> Evaluator:
        config, tokenizer = self._resolved.config, self._resolved.tokenizer
        setup = ReaderSetup(tokenizer, context.gangs, model_frames(context.model.config))
        use_granted_cpus(config.common.torch.num_threads)
        reader = splits_reader(setup, _with_raw_audio(config), self._resolved.rows.valid)
        decoder = make_decoder(config.decoder.name, config.decoder.config, setup.tokenizer)
        about = about_evaluation(self._selection, self._resolved, decoder)
        predictions = list[Prediction]()
        unit = PredictionUnit(
            CtcCriterion(context.model),
            decoder,
            trained=_trained(context.model, config),
            tokenizer=setup.tokenizer,
            profile=config.regime.score_profile,
            predictions=predictions,
            finish=partial(
                write_results, context.output_dir, context.gangs.root, predictions, about
            ),
        )
        # fairseq2 uses it as a Task.
        return cast(Evaluator, StoppableEvaluation(context, config, unit, reader))

    @property
    @override
    def config_kls(self) -> type[object]:
        return Fairseq2Config


def _with_raw_audio(config: AsrConfig) -> AsrConfig:
    """The configuration of a reader that leaves normalising waveforms to the model."""
    task = replace(config.dataset.asr_task_config, normalize_audio=False)
    return replace(config, dataset=replace(config.dataset, asr_task_config=task))


def _trained(model: RecipeModel, config: AsrConfig) -> TrainedModel:
    speech = speech_of(config)
    return TrainedModel(
        cast(Wav2Vec2AsrModel, model.base_module),
        cast(Wav2Vec2AsrConfig, model.config),
        normalize_audio=speech["normalize_audio"],
        amp_dtype=speech["amp_dtype"],
    )


@final
class PredictionUnit(AsrValidationUnit):
    """Validates, and adds the predictions of each batch to a list.

    ``finish`` is called when each row was added once, on one of the processes.

    Attributes:
        num_rows: The rows so far, on this process.
    """

    TITLE = "Evaluation"

    def __init__(
        self,
        criterion: CtcCriterion,
        decoder: Decoder,
        *,
        trained: TrainedModel,
        tokenizer: Tokenizer,
        profile: str,
        predictions: list[Prediction],
        finish: Callable[[], None],
    ) -> None:
        super().__init__(criterion, decoder, profile)
        self._trained, self._tokenizer = trained, tokenizer
        self._predictions, self._finish = predictions, finish
        self.num_rows = 0

    @override
    def process_batch(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        example = cast(dict[str, list[Any]], batch.example)
        waveforms = _rows(batch.source_seqs, example["audio_size"])
        seconds = batch.source_seqs.numel() / SAMPLE_RATE
        log_probs = self._trained.log_probs(
            [waveform.numpy() for waveform in waveforms], batch_seconds=seconds
        )
        hypotheses = self._count_errors(batch, log_probs, metric_bag)
        sizes: list[int] = example["target_size"]
        targets = _rows(batch.target_seqs, sizes)
        nats = ctc_nats(log_probs, targets)
        # As in training, a row with fewer frames than its text needs counts as 0.
        self._criterion.record(nats[~nats.isinf()].sum(), batch, metric_bag)
        losses = per_token(nats, targets)
        sure = confidences(log_probs, hypotheses, self._tokenizer)
        for row, hypothesis in enumerate(hypotheses):
            seconds = example["audio_size"][row] / SAMPLE_RATE
            values = {
                "reference": example["text"][row],
                "hypothesis": hypothesis,
                "duration": seconds,
                "loss": losses[row],
                "confidence": sure[row],
                "seconds_per_character": round(seconds / sizes[row], 4) if sizes[row] else None,
                **{name: example[name][row] for name in _COLUMNS},
            }
            self._predictions.append(from_row(values, f"row {row} of a batch"))
        self.num_rows += len(hypotheses)

    @override
    def finalize(self, metric_bag: MetricBag) -> None:
        self._finish()


def _rows(padded: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """The rows of a batch, each of its size, on the CPU."""
    return [row[:size] for row, size in zip(padded.cpu(), sizes, strict=True)]


@final
class StoppableEvaluation(StoppableTask):
    """Runs fairseq2's evaluator and ends it early where that is requested, without results."""

    def __init__(
        self,
        context: RecipeContext,
        config: AsrConfig,
        unit: PredictionUnit,
        reader: SplitsReader,
    ) -> None:
        super().__init__(context, config.trainer)
        self.inner = context.create_evaluator([unit], [reader])
        self._unit, self._num_rows = unit, sum(map(len, reader.indices.values()))
        reader.interrupted = self.must_stop

    @override
    def run(self) -> None:
        with on_stop_signals(self.request_stop):
            try:
                self.inner.run()
            except ValidationInterrupted:
                done = int(all_sum(self._gang, self._unit.num_rows))
                log.warning(
                    "Stopped after {:,} of {:,} rows; nothing is written, and the next evaluation "
                    "begins anew: raise trainer.max_wall_minutes and the job's limit.",
                    *(done, self._num_rows),
                )
                self._gangs.close()
                raise TaskStopException from None
