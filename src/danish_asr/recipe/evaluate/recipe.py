"""The evaluation recipe: a checkpoint or a named model, a split, and its predictions.

``lm tune`` runs the same forward pass, and takes its log-probabilities.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast, final

from fairseq2.datasets import Seq2SeqBatch
from fairseq2.gang import all_sum
from fairseq2.metrics import MetricBag
from fairseq2.recipe.base import EvalRecipe, RecipeContext
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.recipe.run import evaluate as run_evaluation
from fairseq2.recipe.task import TaskStopException
from fairseq2.runtime.dependency import DependencyContainer
from torch import Tensor
from typing_extensions import override

from danish_asr.base.cluster import rank_info, use_granted_cpus
from danish_asr.base.config_tree import Tree, merge, read_yaml, value_of
from danish_asr.base.errors import ConfigError
from danish_asr.base.schema import METADATA_COLUMNS, SAMPLE_RATE
from danish_asr.decoding.decoders import Decoder, make_decoder
from danish_asr.decoding.likelihood import Likelihood, ctc_losses
from danish_asr.decoding.ngram_tuning import AddBatch, DevSplit
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.fairseq2 import Fairseq2Config, sections_of
from danish_asr.recipe.config.schema import AsrConfig, names_of_splits
from danish_asr.recipe.evaluate.results import about_evaluation, write_results
from danish_asr.recipe.evaluate.selection import BEST, Selection, select
from danish_asr.recipe.run.continuing import locked
from danish_asr.recipe.run.run_directory import CHECKPOINTS, CONFIG_FILE
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
            _run_recipe(AsrEvalRecipe(selection, resolved), selection.output_dir)
    return selection.output_dir


def _run_recipe(recipe: "AsrEvalRecipe", output_dir: Path) -> None:
    config = recipe.selection.config
    write_configuration(config, output_dir)
    run_evaluation(recipe, sections_of(config), output_dir)


@final
class AsrEvalRecipe(EvalRecipe):
    """Runs the selected model over every row of ``evaluator.split``.

    ``add`` takes the rows of each batch, and the log-probabilities of each, (S, V) without padding;
    None: predictions are written to the directory of the recipe.
    """

    def __init__(
        self, selection: Selection, resolved: Resolved, add: AddBatch | None = None
    ) -> None:
        self.selection, self._resolved, self._add = selection, resolved, add

    @override
    def register(self, container: DependencyContainer) -> None:
        register_common(container)

    @override
    def create_evaluator(self, context: RecipeContext) -> Evaluator:
        config, tokenizer = self._resolved.config, self._resolved.tokenizer
        setup = ReaderSetup(tokenizer, context.gangs, model_frames(context.model.config))
        use_granted_cpus(config.common.torch.num_threads)
        reader = splits_reader(setup, config, self._resolved.rows.valid)
        decoder = make_decoder(config.decoder.name, config.decoder.config, tokenizer)
        predictions = list[Prediction]()

        def keep(batch: Sequence[Prediction], log_probs: Sequence[Tensor]) -> None:
            del log_probs
            predictions.extend(batch)

        def write() -> None:
            if self._add is None:
                about = about_evaluation(self.selection, self._resolved, decoder)
                write_results(context.output_dir, context.gangs.root, predictions, about)

        unit = PredictionUnit(
            CtcCriterion(context.model),
            decoder,
            likelihood=Likelihood(tokenizer),
            profile=config.regime.score_profile,
            add=self._add or keep,
            finish=write,
        )
        # fairseq2 uses it as a Task.
        return cast(Evaluator, StoppableEvaluation(context, config, unit, reader))

    @property
    @override
    def config_kls(self) -> type[object]:
        return Fairseq2Config


@final
class PredictionUnit(AsrValidationUnit):
    """Validates, and hands the predictions and log-probabilities of each batch on.

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
        likelihood: Likelihood,
        profile: str,
        add: AddBatch,
        finish: Callable[[], None],
    ) -> None:
        super().__init__(criterion, decoder, profile)
        self._likelihood, self._add, self._finish = likelihood, add, finish
        self.num_rows = 0

    @override
    def process_batch(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        example = cast(dict[str, list[Any]], batch.example)
        hypotheses, logits, lengths = self._count_errors(batch, metric_bag)
        log_probs = logits.float().log_softmax(dim=-1)
        sizes: list[int] = example["target_size"]
        targets = [row[:size] for row, size in zip(batch.target_seqs, sizes, strict=True)]
        losses = ctc_losses(log_probs, lengths, targets)
        confidences = self._likelihood.confidences(log_probs, lengths, hypotheses)
        predictions = []
        for row, hypothesis in enumerate(hypotheses):
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
        self._add(predictions, [row[:n] for row, n in zip(log_probs, lengths, strict=True)])
        self.num_rows += len(predictions)

    @override
    def finalize(self, metric_bag: MetricBag) -> None:
        self._finish()


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


def open_dev(directory: Path) -> DevSplit:
    """Open the validation split of a run, for `lm tune`.

    ``directory`` is that of a run, whose best checkpoint is taken, or of one of its checkpoints.

    Raises:
        ConfigError: It is no run, the run validates on test or train, or its data is gone.
    """
    where, run, checkpoint = str(directory), directory.expanduser().resolve(), BEST
    if run.parent.name == CHECKPOINTS:
        run, checkpoint = run.parents[1], run.name
    if not (run / CONFIG_FILE).is_file():
        fault = f"expected OUTDIR or OUTDIR/{CHECKPOINTS}/step_<n> of a run, found no {CONFIG_FILE}"
        raise ConfigError([fault], where=where)
    tree = read_yaml(run / CONFIG_FILE)
    split = str(value_of(tree, "dataset.valid_split") or "dev")
    if {name.partition("_")[0] for name in names_of_splits(split)} & {"test", "train"}:
        rule = "a model knows train, and scores on test would describe the tuning"
        fault = f"dataset.valid_split must be of dev, but is {split}: {rule}"
        raise ConfigError([fault], where=where)
    changes = {
        "evaluator": {"checkpoint": checkpoint, "split": split, "where": None, "label": None},
        "decoder": {"name": "greedy", "config": {}},
        "common": {"metric_recorders": {"wandb": {"enabled": False}}},
    }
    selection, resolved = select(run, merge(tree, changes), where=where).resolved(where)

    def forward(add: AddBatch) -> None:
        hide_progress_bar()
        with exit_on_error(), explained(), TemporaryDirectory() as folder:
            _run_recipe(AsrEvalRecipe(selection, resolved, add), Path(folder))

    return DevSplit(
        run=run,
        model=selection.model,
        weights=str(selection.weights),
        split=split,
        rows=sum(len(index) for index in resolved.rows.valid.values()),
        tokenizer=resolved.tokenizer,
        forward=forward,
    )
