"""The evaluation recipe: a checkpoint or a named model, a split, and its predictions.

It takes the training configuration and the run's directory as they are. A configuration without a
training section evaluates the model that it names, if it names one.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast, final

from fairseq2.datasets import Seq2SeqBatch
from fairseq2.gang import all_sum
from fairseq2.metrics import MetricBag
from fairseq2.recipe.base import EvalRecipe, RecipeContext
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.recipe.run import evaluate as run_evaluation
from fairseq2.recipe.task import TaskStopException
from fairseq2.runtime.dependency import DependencyContainer
from typing_extensions import override

from danish_asr.base.cluster import rank_info, use_granted_cpus
from danish_asr.base.config_tree import Tree
from danish_asr.base.schema import CARDS_DIR, METADATA_COLUMNS, SAMPLE_RATE
from danish_asr.decoding.decoders import GREEDY, Decoder, make_decoder
from danish_asr.decoding.ensemble import open_kept
from danish_asr.decoding.likelihood import Likelihood, ctc_losses
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.config import AsrEvalConfig, DecoderSection
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.evaluate.kept import (
    LOG_PROBS,
    LogProbsKeeper,
    content_of_splits,
    decode_kept,
    find_kept,
)
from danish_asr.recipe.evaluate.others import (
    check_processes,
    check_rows,
    check_tokenizers,
    resolved,
    select_others,
)
from danish_asr.recipe.evaluate.selection import (
    Selection,
    log_stop,
    publish_predictions,
    select,
)
from danish_asr.recipe.models.assets import configured_dataset, validation_indices
from danish_asr.recipe.run.continuing import locked
from danish_asr.recipe.run.run_directory import PREDICTIONS, checkpoint_steps
from danish_asr.recipe.train.console import hide_progress_bar
from danish_asr.recipe.train.criterion import CtcCriterion
from danish_asr.recipe.train.ending import (
    StoppableTask,
    exit_on_error,
    explained,
    on_stop_signals,
)
from danish_asr.recipe.train.preflight import dump
from danish_asr.recipe.train.readers import (
    ReaderSetup,
    SplitsReader,
    ValidationInterrupted,
    splits_reader,
)
from danish_asr.recipe.train.training import register_common
from danish_asr.recipe.train.validation import AsrValidationUnit
from danish_asr.scoring.predictions import (
    Prediction,
    from_row,
    read_predictions,
    write_predictions,
)

_COLUMNS: Final = ("id", "corpus", "split", *METADATA_COLUMNS)


def run(request: cli.Request, tree: Tree) -> None:
    """Score a split; `danish_asr.recipe.entry.evaluate` has the exit statuses."""
    hide_progress_bar()
    with exit_on_error():
        others = select_others(request, tree)
        selection = select(request.output_dir, tree, others)
        if request.dump_config:
            dump(selection.config, where=request.where, faults=selection.faults)
            return
        selection = resolved(selection, request.where)
        check_tokenizers(selection)
        if selection.step is not None and rank_info().rank == 0:
            _note_models(cast(Path, request.output_dir), selection)
        alone = selection.config.decoder.name == GREEDY and not others
        if alone or not _decode_kept(selection):
            _run_model(selection)


def _note_models(run: Path, selection: Selection) -> None:
    # A run that is complete, or ended early as it was asked to, has a card.
    if not any(run.glob(f"{CARDS_DIR}/*.yaml")):
        step = max(checkpoint_steps(run), default=0)
        cli.note(
            f"the run is not complete: saved at step {step:,}; `danish-asr train` continues it"
        )
    for folder, model in selection.results_of_other_models().items():
        if folder != selection.greedy_dir:  # greedy's evaluation runs again
            cli.note(f"{folder} has results of another model, {model}; evaluate them again, too")


def _run_model(selection: Selection) -> None:
    config, rank = selection.config, rank_info().rank
    with locked(selection.output_dir, rank), explained():
        run_evaluation(AsrEvalRecipe(selection), config, selection.output_dir)


def _decode_kept(selection: Selection) -> bool:
    """Decode what greedy's evaluation kept, on the first rank; False if it kept nothing that fits.

    With ``evaluator.keep_log_probs``, and for an average over runs, greedy's evaluation runs first
    if it has to.
    """
    keeps = bool(selection.config.evaluator.keep_log_probs or selection.others)
    if not (keeps or (selection.greedy_dir / LOG_PROBS).is_file()):
        return False
    members = (selection, *selection.others)
    indices = [_indices(member) for member in members]
    contents = check_rows(members, [content_of_splits(of_member) for of_member in indices])
    kept = [*map(find_kept, members, contents)]
    lacking = [number for number, file in enumerate(kept) if file is None]
    if lacking and not keeps:
        return False
    check_processes([members[number] for number in lacking])
    for number in lacking:
        _run_greedy(members[number])
        kept[number] = find_kept(members[number], contents[number])
    if rank_info().rank == 0:
        with locked(selection.output_dir), explained():
            rows = {name: len(index) for name, index in indices[0].items()}
            files = [file.path for file in kept if file is not None]
            assert len(files) == len(members)
            decode_kept(open_kept(files), selection, rows)
    return True


def _indices(selection: Selection) -> dict[str, Index]:
    config = selection.config
    splits = str(config.evaluator.split)
    return validation_indices(configured_dataset(config), config.dataset, splits)


def _run_greedy(selection: Selection) -> None:
    """Evaluate with greedy, and keep the log-probabilities."""
    evaluator = replace(selection.config.evaluator, label=None, keep_log_probs=True)
    greedy = replace(selection.config, decoder=DecoderSection(), evaluator=evaluator)
    alone = selection._replace(config=greedy, output_dir=selection.greedy_dir, others=())
    _run_model(alone)


@final
class AsrEvalRecipe(EvalRecipe):
    """Scores every row of ``evaluator.split`` with the checkpoint of ``step``."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    @override
    def register(self, container: DependencyContainer) -> None:
        register_common(container)

    @override
    def create_evaluator(self, context: RecipeContext) -> Evaluator:
        config, setup = context.config.as_(AsrEvalConfig), ReaderSetup.of(context)
        use_granted_cpus(config.common.torch.num_threads)
        indices = validation_indices(setup.dataset, config.dataset, str(config.evaluator.split))
        reader = splits_reader(setup, config, indices)
        decoder = make_decoder(config.decoder.name, config.decoder.config, setup.tokenizer)
        keeper = None
        if config.evaluator.keep_log_probs:
            depends = self._selection.dependencies(content_of_splits(indices))
            keeper = LogProbsKeeper(context.output_dir, context.gangs, depends)
        about = self._selection.about(decoder, reader.rows)
        about["content"] = content_of_splits(indices)
        likelihood = Likelihood(setup.tokenizer)
        unit = PredictionUnit(
            context, config, decoder, likelihood=likelihood, about=about, keeper=keeper
        )
        # fairseq2 uses it as a Task.
        return cast(Evaluator, StoppableEvaluation(context, config, unit, reader))

    @property
    @override
    def config_kls(self) -> type[object]:
        return AsrEvalConfig


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
        likelihood: Likelihood,
        about: Mapping[str, Any],
        keeper: LogProbsKeeper | None,
    ) -> None:
        criterion = CtcCriterion(context.model)
        super().__init__(criterion, decoder, profile=config.regime.score_profile)
        self._gangs, self._output_dir = context.gangs, context.output_dir
        self._likelihood, self._about, self._keeper = likelihood, about, keeper
        self.predictions: list[Prediction] = []

    @override
    def process_batch(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        example = cast(dict[str, list[Any]], batch.example)
        decoded = self._count_errors(batch, metric_bag)
        log_probs = decoded.logits.float().log_softmax(dim=-1)
        sizes: list[int] = example["target_size"]
        targets = [row[:size] for row, size in zip(batch.target_seqs, sizes, strict=True)]
        losses = ctc_losses(log_probs, decoded.lengths, targets)
        confidences = self._likelihood.confidences(log_probs, decoded.lengths, decoded.hypotheses)
        predictions = []
        for row, hypothesis in enumerate(decoded.hypotheses):
            seconds = example["audio_size"][row] / SAMPLE_RATE
            values = {
                "reference": example["text"][row],
                "hypothesis": hypothesis,
                "duration": seconds,
                "loss": losses[row],
                "confidence": confidences[row],
                "seconds_per_character": round(seconds / sizes[row], 4) if sizes[row] else None,
                **{name: example[name][row] for name in _COLUMNS},
            }
            predictions.append(from_row(values, f"row {row} of a batch"))
        if self._keeper:
            self._keeper.add(predictions, decoded.logits, decoded.lengths)
        self.predictions += predictions

    @override
    def finalize(self, metric_bag: MetricBag) -> None:
        root = self._gangs.root
        # Ranks may be on several hosts and share only the output directory.
        files = [self._output_dir / f"{PREDICTIONS}.{rank}" for rank in range(root.size)]
        if root.rank != 0:
            write_predictions(files[root.rank], self.predictions)
        root.barrier()
        if root.rank == 0:
            for file in files[1:]:
                self.predictions += read_predictions(file)
            if self._keeper:
                self._keeper.finish()
            publish_predictions(self._output_dir, self.predictions, self._about)
            for file in files[1:]:
                file.unlink()
        root.barrier()


@final
class StoppableEvaluation(StoppableTask):
    """Runs fairseq2's evaluator and ends it early where that is requested, without results."""

    def __init__(
        self,
        context: RecipeContext,
        config: AsrEvalConfig,
        unit: PredictionUnit,
        reader: SplitsReader,
    ) -> None:
        super().__init__(context, config.trainer)
        self.inner = context.create_evaluator([unit], [reader])
        self._unit, self._num_rows = unit, sum(reader.rows.values())
        reader.interrupted = self.must_stop

    @override
    def run(self) -> None:
        with on_stop_signals(self.request_stop):
            try:
                self.inner.run()
            except ValidationInterrupted:
                log_stop(int(all_sum(self._gang, len(self._unit.predictions))), self._num_rows)
                self._gangs.close()
                raise TaskStopException from None
