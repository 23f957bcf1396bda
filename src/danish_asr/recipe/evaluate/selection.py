"""What an evaluation scores: which model on which split, and where the results go."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from fairseq2.recipe.config import ReferenceModelSection

from danish_asr.base.config_tree import Tree, merge, read_yaml
from danish_asr.base.errors import RunError, RunFailedError
from danish_asr.base.files import publish_json
from danish_asr.base.next_step import next_step
from danish_asr.base.schema import VERSION_DIR
from danish_asr.decoding.decoders import GREEDY, Decoder
from danish_asr.decoding.ngram import HELD_OUT, NOTHING_HELD_OUT
from danish_asr.recipe.config.config import AsrEvalConfig
from danish_asr.recipe.config.loading import load_with_faults, unstructure
from danish_asr.recipe.evaluate.replacing import faults_of_replacing
from danish_asr.recipe.models.assets import configured_dataset, validation_indices
from danish_asr.recipe.models.cards import cards_of
from danish_asr.recipe.run.run_directory import (
    CHECKPOINTS,
    CONFIG_FILE,
    EVALUATION,
    PREDICTIONS,
    best_step,
    checkpoint_scores,
    checkpoint_steps,
    evaluated_model,
    read_evaluation,
    weights_digest,
)
from danish_asr.recipe.train.console import log
from danish_asr.scoring.digests import digests_of
from danish_asr.scoring.predictions import Prediction, write_predictions

_TRAINING: Final = {"trainer", "optimizer", "lr_scheduler", "regime", "pretrained_encoder"}
"""Sections that only training reads."""

NO_CHECKPOINT: Final = "none"

_DECISIVE: Final = ("checkpoint", "split", "where", "amp", "amp_dtype")
"""Keys of the evaluator on which log-probabilities depend."""


class Selection(NamedTuple):
    """What will be scored, and the faults of the configuration."""

    config: AsrEvalConfig  # its `model.name` is what will be scored
    output_dir: Path  # of the results: one per checkpoint, split and decoder
    greedy_dir: Path  # of greedy's results, which keep the log-probabilities
    step: int | None  # of the checkpoint; None for `model.name` as it is
    faults: list[str]
    others: tuple["Selection", ...] = ()  # whose probabilities are averaged with this one's

    @property
    def run(self) -> Path:
        """The OUTDIR that was named."""
        return self.greedy_dir.parents[2].resolve()

    @property
    def model(self) -> str:
        """What will be scored, as `evaluated_model` names it."""
        run = self.config.common.assets.prev_checkpoint_dir
        name = self.config.model.name
        return evaluated_model({"run": str(run or ""), "step": self.step, "model": name})

    @property
    def weights(self) -> str | None:
        """The digest of the checkpoint's weights; None for `model.name` as it is."""
        checkpoints = self.config.common.assets.prev_checkpoint_dir
        if self.step is None or checkpoints is None:
            return None
        return weights_digest(checkpoints.parent, self.step)

    def results_of_other_models(self) -> dict[Path, str]:
        """The directories beside these results with those of another model, and its name."""
        others = {}
        for file in sorted(self.greedy_dir.rglob(EVALUATION)):
            if file.parent != self.output_dir:
                model = evaluated_model(read_evaluation(file))
                if model != self.model:
                    others[file.parent] = model
        return others

    def about(self, decoder: Decoder, rows: Mapping[str, int]) -> dict[str, Any]:
        """The content of ``evaluation.json``; ``rows`` of each split are scored."""
        config = self.config
        dataset = configured_dataset(config)
        path = dataset.path.resolve()
        about: dict[str, Any] = {
            "dataset": config.dataset.name,
            "dataset_root": str(path.parent if path.name == VERSION_DIR else path),
            "model": config.model.name,
            "checkpoint": config.evaluator.checkpoint,
            "step": self.step,
            "run": str(config.common.assets.prev_checkpoint_dir or ""),
            "weights": self.weights,
            "tokenizer": str(config.tokenizer.path or config.tokenizer.name),
        }
        if self.others:
            about["model"] += f" with {', '.join(other.run.name for other in self.others)}"
            about["with"] = [other.as_member() for other in self.others]
        if config.decoder.name != GREEDY:
            about["decoder"] = dict(vars(config.decoder))
            if settings := getattr(decoder, "settings", None):  # such as tuned values
                about["decoder"]["settings"] = settings
        rows_in_split = rows
        if config.evaluator.where:
            about["where"] = config.evaluator.where
            section = replace(config.dataset, valid_where=None)
            indices = validation_indices(dataset, section, str(config.evaluator.split))
            rows_in_split = {name: len(index) for name, index in indices.items()}
        return about | {"rows": dict(rows), "rows_in_split": dict(rows_in_split)}

    def as_member(self) -> dict[str, Any]:
        """What ``evaluation.json`` says of a run whose probabilities are averaged with others."""
        return {"run": str(self.run), "model": self.config.model.name, "weights": self.weights}

    def dependencies(self, content: Mapping[str, str]) -> dict[str, Any]:
        """All that log-probabilities depend on; ``content`` has the digest of each split's rows."""
        sections = unstructure(self.config)
        evaluator, dataset = sections["evaluator"], sections["dataset"]
        depends: dict[str, Any] = {
            "model": sections["model"],
            "weights": self.weights,
            "tokenizer": sections["tokenizer"],
            "text_profile": dataset["text_profile"],
            "normalize_audio": dataset["asr_task_config"]["normalize_audio"],
            "evaluator": {key: evaluator[key] for key in _DECISIVE},
            "rows": content,
        }
        return cast(dict[str, Any], json.loads(json.dumps(depends, default=str)))


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
    of_file = {"predictions": PREDICTIONS, **digests_of(predictions)._asdict()}
    publish_json(directory / EVALUATION, {**about, **of_file})
    log.info("{} predictions written to {}.", rows, file)
    log.info("{}", next_step("score", file, why="rates with intervals, and a page"))
    if about.get("decoder", {}).get("settings", {}).get(HELD_OUT) == 0:
        log.warning("{}", NOTHING_HELD_OUT)


def log_stop(done: int, rows: int) -> None:
    """Say how far a stopped evaluation came, and that the same command begins it anew."""
    log.warning(
        "Stopped after {:,} of {:,} rows; nothing is written. An evaluation begins anew each time: "
        "give it more time (trainer.max_wall_minutes, and the job's limit).",
        *(done, rows),
    )


def select(run_dir: Path | None, tree: Tree, others: Sequence[Selection] = ()) -> Selection:
    """Decide what is scored, for the OUTDIR of the command line and the configuration's YAML.

    ``others`` are averaged with it; the results then have a directory of their own.

    Where ``evaluator.checkpoint`` is not given, a YAML that only names a model scores that model;
    any other, such as that of a training run, scores the best checkpoint of the run in OUTDIR.
    Without OUTDIR, which only ``--dump-config`` allows, no checkpoint is looked up.
    """
    evaluator, model = _texts(tree.get("evaluator")), _texts(tree.get("model"))
    is_training = not _TRAINING.isdisjoint(tree)
    names_model = bool(model.get("name") or model.get("path"))
    default = NO_CHECKPOINT if names_model and not is_training else "best"
    checkpoint = evaluator.get("checkpoint") or default
    dataset = {"valid_where": evaluator.get("where")}
    if split := evaluator.get("split") or ("test" if is_training else None):
        dataset["valid_split"] = split
    tree = merge(tree, {"dataset": dataset})
    if run_dir is None or checkpoint == NO_CHECKPOINT:
        step = None
        config, faults = load_with_faults(AsrEvalConfig, _as_trained(tree))
    else:
        step, config, faults = _load_with_checkpoint(tree, run_dir, checkpoint)
    if model.get("path") and Path(model["path"]).is_dir():
        # A run that began with another model takes its tokenizer from there.
        assets = config.common.assets
        assets = replace(assets, extra_paths=[*assets.extra_paths, cards_of(Path(model["path"]))])
        config = replace(config, common=replace(config.common, assets=assets))
    split = config.dataset.valid_split
    if not split:
        faults.append("evaluator.split must name a split to score")
    # Optimizer and schedule are checked like the rest of a training configuration, then dropped:
    # fairseq2 has none in an evaluation.
    config = replace(
        config,
        evaluator=replace(config.evaluator, checkpoint=checkpoint, split=split),
        optimizer=None,  # type: ignore[arg-type]
        lr_scheduler=None,  # type: ignore[arg-type]
    )
    return _with_directory(run_dir or Path(), config, step, faults, others)


def _as_trained(tree: Tree) -> Tree:
    """The configuration without the keys that change a model before it is trained."""
    if not isinstance(tree.get("model"), Mapping):
        return tree
    keys = tree["model"].keys() - {"head", "keep_layers"}
    return {**tree, "model": {key: tree["model"][key] for key in tree["model"] if key in keys}}


def _load_with_checkpoint(
    tree: Tree, run_dir: Path, checkpoint: str
) -> tuple[int | None, AsrEvalConfig, list[str]]:
    """Load the configuration with a run's checkpoint in place of the model that the run began with.

    Returns the step, the configuration and the faults. Without such a checkpoint the step is None
    and no model is named: the missing checkpoint is the fault, not a model that nobody named.
    """
    tree = {key: value for key, value in tree.items() if key != "model"}
    tree["pretrained_encoder"] = {"name": ""}
    try:
        directory, step = _find_checkpoint(run_dir, checkpoint)
    except RunError as error:
        config, faults = load_with_faults(AsrEvalConfig, tree)
        config = replace(config, model=ReferenceModelSection(name=""))
        return None, config, [f"evaluator.checkpoint: {error}", *faults]
    checkpoints = str((directory / CHECKPOINTS).resolve())
    changes: Tree = {
        "common": {"assets": {"prev_checkpoint_dir": checkpoints}},
        "model": {"name": f"checkpoint_step_{step}"},
    }
    config, faults = load_with_faults(AsrEvalConfig, merge(tree, changes))
    return step, config, faults


def _texts(section: object) -> dict[str, str]:
    """The texts of a section; values of a wrong type are reported with the other faults."""
    items = section.items() if isinstance(section, Mapping) else ()
    return {key: str(value) for key, value in items if isinstance(value, str | Path)}


def _with_directory(
    run_dir: Path,
    config: AsrEvalConfig,
    step: int | None,
    faults: list[str],
    others: Sequence[Selection],
) -> Selection:
    """Choose the directory of the results, and refuse to replace others there."""
    scored = str(config.evaluator.checkpoint)
    if scored == NO_CHECKPOINT:
        scored = config.model.path.name if config.model.path else str(config.model.name)
    output_dir = greedy_dir = run_dir / "eval" / scored / _split_folder(run_dir, config)
    label = config.evaluator.label
    if label is None:
        names = ["_".join(["with", *(other.run.name for other in others)])] if others else []
        if config.decoder.name != GREEDY:
            names.append(config.decoder.name.replace(":", "."))
        label = ".".join(names)
    selection = Selection(config, output_dir, greedy_dir, step, faults, tuple(others))
    if label:
        selection = selection._replace(output_dir=greedy_dir / label)
        faults += faults_of_replacing(selection)
    other = selection.results_of_other_models().get(greedy_dir)
    # With kept log-probabilities, greedy's evaluation runs again first.
    keeps = bool(config.evaluator.keep_log_probs or others)
    if keeps and config.evaluator.where and (others or config.decoder.name != GREEDY):
        faults.append(
            "evaluator.where must be null with --with, and where another decoder than greedy has "
            f"evaluator.keep_log_probs: greedy's results of all rows, in {greedy_dir}, would "
            "become those of a part"
        )
    if other is not None and step is not None and not keeps:
        faults.append(
            f"evaluator.checkpoint: '{scored}' is now {selection.model}, but {greedy_dir} has "
            f"greedy's results of {other}, and the two cannot be compared. Evaluate with greedy "
            "first, which replaces them, or name the other model: evaluator.checkpoint=step_<n>"
        )
    return selection


def _split_folder(run_dir: Path, config: AsrEvalConfig) -> str:
    """The split, and the dataset where it is not that of the run: each keeps its results."""
    split, file = str(config.evaluator.split), run_dir / CONFIG_FILE
    own = _texts(read_yaml(file).get("dataset")).get("name") if file.is_file() else None
    return split if own in {None, config.dataset.name} else f"{split}@{config.dataset.name}"


def _find_checkpoint(run_dir: Path, checkpoint: str) -> tuple[Path, int]:
    """Return the run and the step that ``best``, ``last`` or ``step_<n>`` names."""
    steps = checkpoint_steps(run_dir)
    if not steps:
        raise RunError(
            f"{run_dir} holds no checkpoint to score. Train into it first, name the directory of a "
            f"run, or set evaluator.checkpoint={NO_CHECKPOINT} and model.name to score that model "
            "as it is"
        )
    if checkpoint == "best":
        # A run of `danish-asr average` has one, which was not validated.
        if len(steps) > 1 and not checkpoint_scores(run_dir):
            raise RunError(
                f"no checkpoint of {run_dir} was validated, so none is the best; "
                "set evaluator.checkpoint=last to score the newest."
            )
        return run_dir, best_step(run_dir) or steps[-1]
    named = {f"step_{step}": step for step in steps} | {"last": steps[-1]}
    if checkpoint not in named:
        names = ", ".join([NO_CHECKPOINT, "best", *named])
        raise RunError(f"evaluator.checkpoint '{checkpoint}' is not in {run_dir}; known: {names}")
    return run_dir, named[checkpoint]
