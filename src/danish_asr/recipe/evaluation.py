"""The evaluation recipe: which model is scored on which split, and its predictions.

It takes the training configuration and the run's directory as they are. A configuration without a
training section evaluates the model that it names, if it names one.
``python -m danish_asr.recipe.evaluation`` runs it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, final

from fairseq2.recipe.base import EvalRecipe, RecipeContext
from fairseq2.recipe.config import ReferenceModelSection
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.recipe.run import evaluate
from fairseq2.runtime.dependency import DependencyContainer
from typing_extensions import override

from danish_asr.cluster import rank_info
from danish_asr.decoding import GREEDY
from danish_asr.errors import RunError
from danish_asr.recipe import cli
from danish_asr.recipe.config import AsrEvalConfig
from danish_asr.recipe.diagnostics import exit_on_error, explained
from danish_asr.recipe.evaluator import PREDICTIONS, PredictionUnit, StoppableEvaluation
from danish_asr.recipe.loading import Tree, inspect, merge, unstructure
from danish_asr.recipe.preflight import dump, resolve
from danish_asr.recipe.readers import SplitsReader, splits_reader
from danish_asr.recipe.record import keep_wandb_id
from danish_asr.recipe.run_directory import (
    CHECKPOINTS,
    best_step,
    checkpoint_scores,
    checkpoint_steps,
)
from danish_asr.recipe.run_lock import locked
from danish_asr.recipe.scored_batches import ScoredBatches
from danish_asr.recipe.training import register_common
from danish_asr.schema import CARDS_DIR

TRAINING_SECTIONS: Final = ("trainer", "optimizer", "lr_scheduler", "regime", "pretrained_encoder")

NO_CHECKPOINT: Final = "none"


def main(arguments: Sequence[str] | None = None) -> None:
    """Score a split with a run's checkpoint or a named model.

    Exits with status 0 when every row is scored, 75 when it stopped early at a signal or its time
    limit and the same command continues it, 2 when the configuration is refused, 1 otherwise.
    """
    args = cli.parse(arguments, "asr.eval.recipe", "Score a split and write predictions.jsonl.")
    with exit_on_error():
        tree = cli.read_configuration(args)
        selection = select(args.output_dir, tree)
        if args.dump_config:
            dump(selection.config, where=cli.where(args), faults=selection.faults)
            return
        config = resolve(selection.config, where=cli.where(args), faults=selection.faults)
        rank = rank_info(config.common.cluster).rank
        with locked(selection.output_dir, rank), explained():
            if rank == 0:
                keep_wandb_id(selection.output_dir, config.common.metric_recorders.wandb)
            evaluate(AsrEvalRecipe(selection.step), config, selection.output_dir)


class Selection(NamedTuple):
    """What will be scored, and the faults of the configuration."""

    config: AsrEvalConfig
    """Its ``model.name`` is what will be scored."""

    output_dir: Path
    """Where the results go: one directory per checkpoint, split and decoder."""

    step: int | None
    """The training step of the checkpoint; None for ``model.name`` as it is."""

    faults: list[str]


def select(run_dir: Path | None, tree: Mapping[str, Any]) -> Selection:
    """Decide what is scored, for the OUTDIR of the command line and the configuration's YAML.

    Without OUTDIR, which only ``--dump-config`` allows, no checkpoint is looked up.
    """
    trains = any(section in tree for section in TRAINING_SECTIONS)
    section = tree.get("evaluator")
    given = section if isinstance(section, Mapping) else {}
    # Values of a wrong type are reported with the other faults.
    given = {key: value for key, value in given.items() if isinstance(value, str)}
    model = tree.get("model")
    named = not trains and isinstance(model, Mapping) and (model.get("name") or model.get("path"))
    checkpoint = given.get("checkpoint") or (NO_CHECKPOINT if named else "best")
    split = given.get("split") or ("test" if trains else None)

    changes: Tree = {"dataset": {"valid_split": split}} if split else {}
    step, missing = None, []
    try:
        if run_dir is not None and checkpoint != NO_CHECKPOINT:
            step = _step(run_dir, checkpoint)
    except RunError as error:
        missing = [f"evaluator.checkpoint: {error}"]
    if run_dir is not None and step is not None:
        checkpoints = str((run_dir / CHECKPOINTS).resolve())
        changes |= {"common": {"assets": {"prev_checkpoint_dir": checkpoints}}}
        name = f"checkpoint_step_{step}"
        tree = {**tree, "model": {"name": name}, "pretrained_encoder": {"name": ""}}
    config, faults = inspect(AsrEvalConfig, merge(tree, changes))
    if isinstance(model, Mapping) and model.get("path"):
        # A run that began with a finished run takes its tokenizer from there.
        assets = config.common.assets
        assets = replace(
            assets, extra_paths=[*assets.extra_paths, Path(str(model["path"])) / CARDS_DIR]
        )
        config = replace(config, common=replace(config.common, assets=assets))
    split = config.dataset.valid_split
    if missing:
        # Without a checkpoint there is no model either, and no tokenizer of it: that is one fault.
        faults = [fault for fault in faults if not fault.startswith("model: ")]
        config = replace(config, model=ReferenceModelSection(name=""))
    if not split:
        faults.append("evaluator.split must name a split to score")
    evaluator = replace(config.evaluator, checkpoint=checkpoint, split=split)
    # They are checked like the rest of a training configuration, then dropped: fairseq2 has no
    # optimizers in an evaluation.
    config = replace(config, evaluator=evaluator, optimizer=None, lr_scheduler=None)  # type: ignore[arg-type]
    scored = checkpoint if checkpoint != NO_CHECKPOINT else str(config.model.name)
    output_dir = (run_dir or Path()) / "eval" / scored / str(split)
    if config.decoder.name != GREEDY:
        output_dir /= config.decoder.name.replace(":", ".")
    return Selection(config, output_dir, step, [*missing, *faults])


def _step(run_dir: Path, checkpoint: str) -> int:
    """Return the step of the checkpoint that ``best``, ``last`` or ``step_<n>`` names."""
    steps = checkpoint_steps(run_dir)
    if not steps:
        raise RunError(
            f"{run_dir} holds no checkpoint to score. Train into it first, name the directory of a "
            f"run, or set evaluator.checkpoint={NO_CHECKPOINT} and model.name to score that model "
            "as it is"
        )
    named = {"best": best_step(run_dir) or steps[-1], "last": steps[-1]}
    named |= {f"step_{step}": step for step in steps}
    if checkpoint == "best" and not checkpoint_scores(run_dir):
        raise RunError(
            f"no checkpoint of {run_dir} was validated, so none is the best; "
            "set evaluator.checkpoint=last to score the newest."
        )
    if checkpoint not in named:
        known = ", ".join([NO_CHECKPOINT, *named])
        raise RunError(f"evaluator.checkpoint '{checkpoint}' is not in {run_dir}; known: {known}")
    return named[checkpoint]


@final
class AsrEvalRecipe(EvalRecipe):
    """Scores every row of ``evaluator.split`` with the checkpoint of ``step``."""

    def __init__(self, step: int | None) -> None:
        self._step = step

    @override
    def register(self, container: DependencyContainer) -> None:
        register_common(container)

    @override
    def create_evaluator(self, context: RecipeContext) -> Evaluator:
        config = context.config.as_(AsrEvalConfig)
        reader = splits_reader(context, config, config.evaluator.split or "")
        about = {
            "dataset": config.dataset.name,
            "model": config.model.name,
            "checkpoint": config.evaluator.checkpoint,
            "step": self._step,
            "run": str(config.common.assets.prev_checkpoint_dir or ""),
            "tokenizer": config.tokenizer.name,
            **({"decoder": vars(config.decoder)} if config.decoder.name != GREEDY else {}),
            "rows_in_split": reader.rows,
        }
        scored = ScoredBatches(context.output_dir / PREDICTIONS, context.gangs)
        scored.resume(self._dependencies(config, reader), reader)
        unit = PredictionUnit(context, config, reader, about, scored)
        evaluator = context.create_evaluator([unit], [reader])
        # fairseq2 uses it as a Task.
        return cast(Evaluator, StoppableEvaluation(context, config, evaluator, reader))

    def _dependencies(self, config: AsrEvalConfig, reader: SplitsReader) -> dict[str, Any]:
        """Return all that the predictions depend on, as JSON has it."""
        sections = ("model", "dataset", "tokenizer", "decoder", "evaluator")
        whole = unstructure(config)
        found: dict[str, Any] = {name: whole[name] for name in sections}
        found["rows"] = {name: each.fingerprint for name, each in reader.readers.items()}
        if self._step is not None:
            checkpoints = cast(Path, config.common.assets.prev_checkpoint_dir)
            found["checkpoint"] = (checkpoints / f"step_{self._step}").stat().st_mtime
        return cast(dict[str, Any], json.loads(json.dumps(found, default=str)))

    @property
    @override
    def config_kls(self) -> type[object]:
        return AsrEvalConfig


if __name__ == "__main__":
    main()
