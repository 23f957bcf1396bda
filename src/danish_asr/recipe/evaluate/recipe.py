"""The evaluation recipe: a checkpoint or a named model, a split, and its predictions.

It takes the training configuration and the run's directory as they are. A configuration without a
training section evaluates the model that it names, if it names one.
"""

from dataclasses import replace
from pathlib import Path
from typing import cast, final

from fairseq2.recipe.base import EvalRecipe, RecipeContext
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.runtime.dependency import DependencyContainer
from typing_extensions import override

from danish_asr.base.cluster import rank_info
from danish_asr.base.config_tree import Tree, flatten, read_yaml
from danish_asr.base.fairseq2_private import run_recipe
from danish_asr.base.schema import CARDS_DIR
from danish_asr.decoding import GREEDY, make_decoder
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.config import AsrEvalConfig, DecoderSection
from danish_asr.recipe.evaluate.evaluator import PredictionUnit, StoppableEvaluation
from danish_asr.recipe.evaluate.kept import (
    LOG_PROBS,
    LogProbsKeeper,
    content_of_splits,
    decode_kept,
    find_kept,
)
from danish_asr.recipe.evaluate.selection import Selection, select
from danish_asr.recipe.models.assets import configured_dataset
from danish_asr.recipe.run.continuing import locked
from danish_asr.recipe.run.run_directory import AVERAGES, CONFIG_FILE, checkpoint_steps
from danish_asr.recipe.train.console import hide_progress_bar
from danish_asr.recipe.train.ending import exit_on_error, explained
from danish_asr.recipe.train.preflight import dump, resolve
from danish_asr.recipe.train.readers import ReaderSetup, splits_reader
from danish_asr.recipe.train.record import keep_wandb_id
from danish_asr.recipe.train.subsets import validation_indices
from danish_asr.recipe.train.training import register_common


def run(request: cli.Request, tree: Tree) -> None:
    """Score a split; `danish_asr.recipe.entry.evaluate` has the exit statuses."""
    hide_progress_bar()
    with exit_on_error():
        selection = select(request.output_dir, tree)
        if request.dump_config:
            dump(selection.config, where=request.where, faults=selection.faults)
            return
        config = cast(
            AsrEvalConfig, resolve(selection.config, where=request.where, faults=selection.faults)
        )
        selection = selection._replace(config=config)
        if selection.step is not None and request.output_dir is not None:
            _note_unfinished(request.output_dir, config.common.cluster)
            _note_models(selection)
        if config.decoder.name == GREEDY or not _decode_kept(selection):
            _run_model(selection)


def _note_unfinished(run: Path, cluster: str) -> None:
    step, file = max(checkpoint_steps(run), default=0), run / CONFIG_FILE
    end = dict(flatten(read_yaml(file))).get("regime.num_steps") if file.is_file() else None
    # A run that ended early, as it was asked to, has a card.
    if step < (end or 0) and not [*run.glob(f"{CARDS_DIR}/*.yaml")] and not rank_info(cluster).rank:
        cli.note(
            f"the run is not complete: saved at step {step:,} of {end:,}; "
            f"`danish-asr train {run}` continues it"
        )


def _note_models(selection: Selection) -> None:
    if rank_info(selection.config.common.cluster).rank:
        return
    if AVERAGES in selection.model:
        cli.note(f"scoring {selection.model}, an average of weights")
    others = selection.results_of_other_models()
    others.pop(selection.greedy_dir, None)  # greedy's evaluation runs again
    for folder, model in others.items():
        cli.note(f"{folder} has results of another model, {model}; evaluate them again, too")


def _run_model(selection: Selection) -> None:
    config, rank = selection.config, rank_info(selection.config.common.cluster).rank
    with locked(selection.output_dir, rank), explained():
        if rank == 0:
            keep_wandb_id(selection.output_dir, config.common.metric_recorders.wandb)
        run_recipe(AsrEvalRecipe(selection), config, selection.output_dir)


def _decode_kept(selection: Selection) -> bool:
    """Decode what greedy's evaluation kept, on the first rank; False if it kept nothing that fits.

    With ``evaluator.keep_log_probs`` greedy's evaluation runs first if it has to.
    """
    config, folder = selection.config, selection.greedy_dir
    if not (config.evaluator.keep_log_probs or (folder / LOG_PROBS).is_file()):
        return False
    dataset, splits = configured_dataset(config), str(config.evaluator.split)
    indices = validation_indices(dataset, config.dataset, splits, None)
    content = content_of_splits(indices)
    kept = find_kept(selection, content)
    if kept is None and config.evaluator.keep_log_probs:
        evaluator = replace(config.evaluator, label=None)
        greedy = replace(config, decoder=DecoderSection(), evaluator=evaluator)
        _run_model(selection._replace(config=greedy, output_dir=folder))
        kept = find_kept(selection, content)
    if kept is None:
        return False
    if rank_info(config.common.cluster).rank == 0:
        with locked(selection.output_dir), explained():
            decode_kept(kept, selection, {name: len(index) for name, index in indices.items()})
    return True


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
        config = context.config.as_(AsrEvalConfig)
        setup, section = ReaderSetup.of(context), config.dataset
        indices = validation_indices(setup.dataset, section, str(config.evaluator.split), None)
        reader = splits_reader(setup, config, indices)
        decoder = make_decoder(config.decoder.name, config.decoder.config, setup.tokenizer)
        keeper = None
        if config.evaluator.keep_log_probs:
            depends = self._selection.dependencies(content_of_splits(indices))
            keeper = LogProbsKeeper(context.output_dir, context.gangs, depends)
        about = self._selection.about(decoder, reader.rows)
        unit = PredictionUnit(context, config, decoder, about=about, keeper=keeper)
        evaluator = context.create_evaluator([unit], [reader])
        # fairseq2 uses it as a Task.
        return cast(Evaluator, StoppableEvaluation(context, config, evaluator, reader))

    @property
    @override
    def config_kls(self) -> type[object]:
        return AsrEvalConfig
