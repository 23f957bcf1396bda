"""The evaluation recipe: a model's predictions of every row that is selected.

In: a `Selection`. Out: ``predictions.jsonl`` and ``evaluation.json`` in its directory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast, final

import pandas as pd
from fairseq2.datasets import Seq2SeqBatch
from fairseq2.gang import Gang, all_sum
from fairseq2.metrics import MetricBag
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from fairseq2.recipe.base import EvalRecipe, RecipeContext
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.recipe.run import evaluate as run_evaluation
from fairseq2.recipe.task import TaskStopException
from fairseq2.runtime.dependency import DependencyContainer
from torch import Tensor
from typing_extensions import override

from danish_asr.base.cluster import rank_info, use_granted_cpus, wait_for_first_rank
from danish_asr.base.config_tree import Tree
from danish_asr.base.errors import RunFailedError
from danish_asr.base.files import publish_json, sha256_of
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.inventory import share_people_of
from danish_asr.decoding.ctc import confidences, ctc_nats, per_token
from danish_asr.decoding.decoders import GREEDY, Decoder, make_decoder
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.fairseq2 import Fairseq2Config, sections_of
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.data.reader import ReaderSetup, SplitsReader, ValidationInterrupted
from danish_asr.recipe.evaluate.selection import Selection, dump, read_keys, select
from danish_asr.recipe.models.cards import register_placed
from danish_asr.recipe.models.trained import TrainedModel
from danish_asr.recipe.run.evaluations import (
    EVALUATION,
    PREDICTIONS,
    PREDICTIONS_SHA256,
    SHARE_PEOPLE,
)
from danish_asr.recipe.run.locks import locked
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.criterion import CtcCriterion
from danish_asr.recipe.train.ending import (
    StoppableTask,
    exit_on_error,
    explained,
    on_stop_signals,
)
from danish_asr.recipe.train.readers import any_row_has_loss, model_frames, splits_reader
from danish_asr.recipe.train.training import register_common, write_configuration
from danish_asr.recipe.train.validation import AsrValidationUnit
from danish_asr.scoring.predictions import read_predictions, write_predictions

_NOT_WRITTEN: Final = frozenset({"text", "language", "audio_size", "target_size"})
"""What a batch has of its rows and a predictions file does not, or by another name."""


def run(request: cli.Request, tree: Tree) -> Path | None:
    """Score a split, and return where its predictions are, None if there are none.

    `danish_asr.recipe.entry.run` has the exit statuses.
    """
    with exit_on_error():
        if request.dump_config:
            dump(request, tree)
            return None
        selection = select(request, tree)
        rank = rank_info().rank
        if rank == 0:
            cli.note(f"scoring {selection.name}, split {selection.config.evaluator.split}")
        with locked(selection.output_dir, rank), explained():
            wait_for_first_rank(rank)
            write_configuration(read_keys(selection.config), selection.output_dir)
            sections = sections_of(selection.config, evaluated=selection.model.card.name)
            run_evaluation(AsrEvalRecipe(selection), sections, selection.output_dir)
    return selection.output_dir


@final
class AsrEvalRecipe(EvalRecipe):
    """Runs the selected model over every row, and writes its predictions."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    @override
    def register(self, container: DependencyContainer) -> None:
        register_common(container)
        register_placed(container, self._selection.model.placed)

    @override
    def create_evaluator(self, context: RecipeContext) -> Evaluator:
        config, rows = self._selection.config, self._selection.rows
        use_granted_cpus(config.common.torch.num_threads)
        tokenizer = self._selection.model.tokenizer
        setup = ReaderSetup(tokenizer, context.gangs, model_frames(context.model.config))
        # The model normalises waveforms.
        task = replace(config.dataset.asr_task_config, normalize_audio=False)
        raw = replace(config, dataset=replace(config.dataset, asr_task_config=task))
        reader = splits_reader(setup, raw, rows)
        has_loss = any_row_has_loss(setup, raw, rows)
        unit = PredictionUnit(context, self._selection, has_loss=has_loss)
        # fairseq2 uses it as a Task.
        return cast(Evaluator, StoppableEvaluation(context, config, unit, reader))

    @property
    @override
    def config_kls(self) -> type[object]:
        return Fairseq2Config


@final
class PredictionUnit(AsrValidationUnit):
    """Validates, collects the predictions of each batch, and writes the results at the end.

    Attributes:
        predictions: Those so far, on this process.
    """

    TITLE = "Evaluation"

    def __init__(
        self,
        context: RecipeContext,
        selection: Selection,
        *,
        has_loss: bool = True,
    ) -> None:
        model, profile = selection.model, selection.config.regime.score_profile
        settings = selection.config.decoder
        decoder = make_decoder(settings.name, settings.config, model.tokenizer)
        super().__init__(CtcCriterion(context.model), decoder, profile, has_loss=has_loss)
        self._trained = TrainedModel(
            cast(Wav2Vec2AsrModel, context.model.base_module),
            cast(Wav2Vec2AsrConfig, context.model.config),
            normalize_audio=model.normalize_audio,
            amp_dtype=model.amp_dtype,
        )
        self._output_dir, self._gang = context.output_dir, context.gangs.root
        self._about, self._tokenizer = about_evaluation(selection, decoder), model.tokenizer
        self.predictions = list[dict[str, Any]]()

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
        frames = [len(row) for row in log_probs]
        nats = ctc_nats(log_probs, targets)
        losses = per_token(self._criterion.record_rows(nats, frames, batch, metric_bag), targets)
        sure = confidences(log_probs, hypotheses, self._tokenizer)
        columns = {key: values for key, values in example.items() if key not in _NOT_WRITTEN}
        for row, hypothesis in enumerate(hypotheses):
            seconds = example["audio_size"][row] / SAMPLE_RATE
            prediction = {key: values[row] for key, values in columns.items()} | {
                "reference": example["text"][row],
                "hypothesis": hypothesis,
                "duration": seconds,
                "loss": losses[row],
                "confidence": sure[row],
                "seconds_per_character": round(seconds / sizes[row], 4) if sizes[row] else None,
            }
            self.predictions.append(prediction)

    @override
    def finalize(self, metric_bag: MetricBag) -> None:
        write_results(self._output_dir, self._gang, self.predictions, self._about)


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
                done = int(all_sum(self._gang, len(self._unit.predictions)))
                log.warning(
                    "Stopped after {:,} of {:,} rows; nothing is written, and the next evaluation "
                    "begins anew: raise trainer.max_wall_minutes and the job's limit.",
                    *(done, self._num_rows),
                )
                self._gangs.close()
                raise TaskStopException from None


def about_evaluation(selection: Selection, decoder: Decoder) -> dict[str, Any]:
    """Return what is scored, on which rows of which dataset."""
    config, checkpoint = selection.config, selection.checkpoint
    about: dict[str, Any] = {
        "dataset": config.dataset.name,
        "dataset_root": str(selection.dataset),
        SHARE_PEOPLE: share_people_of(selection.dataset),
        "model": selection.name,
        "checkpoint": config.evaluator.checkpoint,
        "step": checkpoint.step if checkpoint else None,
        "run": str(checkpoint.run.checkpoints) if checkpoint else "",
        "weights": checkpoint.digest() if checkpoint else None,
        "score_profile": config.regime.score_profile,
    }
    if config.decoder.name != GREEDY:
        about["decoder"] = dict(vars(config.decoder))
        if settings := getattr(decoder, "settings", None):  # such as tuned values
            about["decoder"]["settings"] = settings
    if config.evaluator.where:
        about["where"] = config.evaluator.where
    rows = selection.rows
    return about | {
        "rows": {name: len(index) for name, index in rows.items()},
        "rows_in_split": {name: index.rows_in_split for name, index in rows.items()},
    }


def write_results(
    directory: Path, gang: Gang, predictions: list[dict[str, Any]], about: Mapping[str, Any]
) -> None:
    """Write the predictions of all processes as one file, and ``evaluation.json`` beside it.

    ``about`` is the content of that, without the hash of the predictions file.

    Raises:
        RunFailedError: There is not one prediction for each row to score.
    """
    # Ranks may be on several hosts and share only the output directory.
    files = [directory / f"{PREDICTIONS}.{rank}" for rank in range(gang.size)]
    if gang.rank != 0:
        write_predictions(files[gang.rank], read_predictions(predictions))
    gang.barrier()
    if gang.rank == 0:
        table = pd.concat(map(read_predictions, (predictions, *files[1:])), ignore_index=True)
        for file in files[1:]:
            file.unlink()
        rows = sum(about["rows"].values())
        if len(table) != rows or table.duplicated(["corpus", "id"]).any():
            raise RunFailedError(
                f"{len(table)} predictions were made for {rows} rows; every row must "
                "be scored once. `danish-asr verify` finds ids that occur twice."
            )
        path = directory / PREDICTIONS
        write_predictions(path, table.sort_values(["split", "id", "corpus"]))
        of_file = {"predictions": PREDICTIONS, PREDICTIONS_SHA256: sha256_of(path)}
        publish_json(directory / EVALUATION, {**about, **of_file})
        log.info("{} predictions written to {}.", rows, path)
    gang.barrier()
