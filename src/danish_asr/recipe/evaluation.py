"""The evaluation recipe: which model is scored on which split, and its predictions.

It takes the training configuration and the run's directory as they are. A configuration without a
training section evaluates the model that it names. ``python -m danish_asr.recipe.evaluation`` runs
it.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, final

from fairseq2.datasets import Seq2SeqBatch
from fairseq2.logging import log
from fairseq2.metrics import MetricBag
from fairseq2.recipe.base import EvalRecipe, RecipeContext
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.recipe.run import evaluate
from fairseq2.runtime.dependency import DependencyContainer
from typing_extensions import override

from danish_asr.decoding import GREEDY, make_decoder
from danish_asr.errors import ConfigError, RunError, RunFailedError
from danish_asr.files import publish_text, to_yaml
from danish_asr.recipe import cli
from danish_asr.recipe.config import AsrEvalConfig
from danish_asr.recipe.criterion import CtcCriterion
from danish_asr.recipe.diagnostics import exit_on_error, explained
from danish_asr.recipe.loading import Tree, inspect, merge, unstructure
from danish_asr.recipe.preflight import resolve
from danish_asr.recipe.readers import SplitsReader, splits_reader
from danish_asr.recipe.run_directory import (
    CHECKPOINTS,
    best_step,
    checkpoint_scores,
    checkpoint_steps,
)
from danish_asr.recipe.training import register_common
from danish_asr.recipe.validation import AsrValidationUnit
from danish_asr.schema import SAMPLE_RATE
from danish_asr.scoring.predictions import Prediction, read_predictions, write_predictions

PREDICTIONS: Final = "predictions.jsonl"
EVALUATION: Final = "evaluation.json"

TRAINING_SECTIONS: Final = ("trainer", "optimizer", "lr_scheduler", "regime", "pretrained_encoder")

NO_CHECKPOINT: Final = "none"


def main(arguments: Sequence[str] | None = None) -> None:
    """Score a split with a run's checkpoint or a named model.

    Exits with status 0 when every row is scored, 2 when the configuration is refused, 1 otherwise.
    """
    args = cli.parse(arguments, "asr.eval.recipe", "Score a split and write predictions.jsonl.")
    with exit_on_error():
        tree = cli.read_configuration(args)
        selection = select(args.output_dir or Path(), tree)
        if args.dump_config:
            if selection.faults:
                raise ConfigError(selection.faults, where=cli.where(args))
            sys.stdout.write(to_yaml(unstructure(selection.config)))
            return
        config = resolve(selection.config, where=cli.where(args), faults=selection.faults)
        with explained():
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


def select(run_dir: Path, tree: Mapping[str, Any]) -> Selection:
    """Decide what is scored, for the OUTDIR of the command line and the configuration's YAML."""
    trains = any(section in tree for section in TRAINING_SECTIONS)
    section = tree.get("evaluator")
    given = section if isinstance(section, Mapping) else {}
    # Values of a wrong type are reported with the other faults.
    given = {key: value for key, value in given.items() if isinstance(value, str)}
    checkpoint = given.get("checkpoint") or ("best" if trains else NO_CHECKPOINT)
    split = given.get("split") or ("test" if trains else None)

    changes: Tree = {"dataset": {"valid_split": split}} if split else {}
    step, missing = None, []
    try:
        step = None if checkpoint == NO_CHECKPOINT else _step(run_dir, checkpoint)
    except RunError as error:
        missing = [f"evaluator.checkpoint: {error}"]
    if step is not None:
        checkpoints = str((run_dir / CHECKPOINTS).resolve())
        changes |= {"common": {"assets": {"prev_checkpoint_dir": checkpoints}}}
        name = f"checkpoint_step_{step}"
        tree = {**tree, "model": {"name": name}, "pretrained_encoder": {"name": ""}}
    config, faults = inspect(AsrEvalConfig, merge(tree, changes))
    split = config.dataset.valid_split
    if missing:
        # Without a checkpoint there is no model either; that is one fault.
        faults = [fault for fault in faults if not fault.startswith("model: ")]
    if not split:
        faults.append("evaluator.split must name a split to score")
    evaluator = replace(config.evaluator, checkpoint=checkpoint, split=split)
    # They are checked like the rest of a training configuration, then dropped: fairseq2 has no
    # optimizers in an evaluation.
    config = replace(config, evaluator=evaluator, optimizer=None, lr_scheduler=None)  # type: ignore[arg-type]
    scored = checkpoint if checkpoint != NO_CHECKPOINT else str(config.model.name)
    output_dir = run_dir / "eval" / scored / str(split)
    if config.decoder.name != GREEDY:
        output_dir /= config.decoder.name.replace(":", ".")
    return Selection(config, output_dir, step, [*missing, *faults])


def _step(run_dir: Path, checkpoint: str) -> int:
    """Return the step of the checkpoint that ``best``, ``last`` or ``step_<n>`` names."""
    steps = checkpoint_steps(run_dir)
    if not steps:
        raise RunError(
            f"{run_dir} holds no checkpoint to score. Train into it first, name the directory of a "
            f"run, or set evaluator.checkpoint={NO_CHECKPOINT} to score model.name as it is."
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
        return context.create_evaluator([PredictionUnit(context, config, reader, about)], [reader])

    @property
    @override
    def config_kls(self) -> type[object]:
        return AsrEvalConfig


@final
class PredictionUnit(AsrValidationUnit):
    """Validates, gathers the predictions of all ranks and writes them as one file of raw text.

    ``about`` is what is scored, the content of ``evaluation.json``.
    """

    def __init__(
        self,
        context: RecipeContext,
        config: AsrEvalConfig,
        reader: SplitsReader,
        about: Mapping[str, object],
    ) -> None:
        super().__init__(
            CtcCriterion(context.model),
            make_decoder(config.decoder.name, config.decoder.config, context.default_tokenizer),
            profile=config.regime.score_profile,
        )
        self._gangs, self._output_dir = context.gangs, context.output_dir
        self._rows, self._about = sum(reader.rows.values()), about
        self._predictions: list[Prediction] = []

    @override
    def process_batch(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        example = cast(dict[str, list[Any]], batch.example)
        same = ("id", "corpus", "split", "speaker_id", "dialect", "age_group", "gender")
        for row, hypothesis in enumerate(self._count_errors(batch, metric_bag)):
            prediction = Prediction(
                reference=example["text"][row],
                hypothesis=hypothesis,
                duration=example["audio_size"][row] / SAMPLE_RATE,
                **{name: example[name][row] for name in same},
            )
            self._predictions.append(prediction)

    @override
    def finalize(self, metric_bag: MetricBag) -> None:
        # Ranks may be on several hosts; they share only the output directory.
        names = [f"{PREDICTIONS}.rank_{rank}" for rank in range(self._gangs.dp.size)]
        parts = [self._output_dir / name for name in names]
        write_predictions(parts[self._gangs.dp.rank], self._predictions)
        self._gangs.root.barrier()
        if self._gangs.root.rank == 0:
            # A rank may have had no rows; read_predictions refuses an empty file.
            written = [part for part in parts if part.stat().st_size]
            self._publish([p for part in written for p in read_predictions(part)])
            for part in parts:
                part.unlink()
        self._gangs.root.barrier()

    def _publish(self, predictions: list[Prediction]) -> None:
        if len({p.id for p in predictions}) != self._rows or len(predictions) != self._rows:
            raise RunFailedError(
                f"{len(predictions)} predictions were made for {self._rows} rows; every row must "
                "be scored once. `danish-asr verify` finds ids that occur twice."
            )
        file = self._output_dir / PREDICTIONS
        write_predictions(file, sorted(predictions, key=lambda p: (p.split, p.id)))
        text = json.dumps(self._about, ensure_ascii=False, indent=2) + "\n"
        publish_text(self._output_dir / EVALUATION, text)
        log.info("{} predictions written to {}.", self._rows, file)


if __name__ == "__main__":
    main()
