"""What an evaluation scores: which model on which rows, and where the results go."""

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.base.config_tree import Tree, merge, read_yaml, value_of
from danish_asr.base.errors import ConfigError, RunError
from danish_asr.decoding.decoders import GREEDY, Decoder
from danish_asr.recipe.config.load import load, unstructure
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.run.run_directory import (
    CHECKPOINTS,
    CONFIG_FILE,
    EVALUATION,
    best_step,
    checkpoint_scores,
    checkpoint_steps,
    read_evaluation,
    weights_digest,
)
from danish_asr.recipe.train.preflight import Resolved, resolve

NO_CHECKPOINT: Final = "none"
BEST: Final = "best"
TEST: Final = "test"

CONFIGURATION: Final = "configuration_sha256"
"""The key of `Selection.configuration_sha256` in ``evaluation.json``."""


class Selection(NamedTuple):
    """What will be scored."""

    config: AsrConfig  # its `model.name` is what will be scored
    output_dir: Path  # of the results
    step: int | None  # of the checkpoint; None for `model.name` as it is

    @property
    def model(self) -> str:
        """What will be scored, in words."""
        return str(self.config.model.name) if self.step is None else f"step {self.step}"

    @property
    def weights(self) -> str | None:
        """The digest of the checkpoint's weights; None for `model.name` as it is."""
        checkpoints = self.config.common.assets.prev_checkpoint_dir
        if self.step is None or checkpoints is None:
            return None
        return weights_digest(checkpoints.parent, self.step)

    @property
    def configuration_sha256(self) -> str:
        """A digest of the values that results depend on.

        The weights of a checkpoint are left out: when a run has a better one, its results replace
        those of the one before.
        """
        sections = unstructure(self.config)
        dataset, evaluator, tokenizer = (
            sections[name] for name in ("dataset", "evaluator", "tokenizer")
        )
        values = {
            "model": sections["model"] if self.step is None else None,
            "tokenizer": tokenizer["name"] or Path(str(tokenizer["path"])).name,
            "dataset": [dataset[key] for key in ("name", "config_overrides", "text_profile")],
            "normalize_audio": dataset["asr_task_config"]["normalize_audio"],
            "evaluator": [evaluator[key] for key in ("split", "where", "amp", "amp_dtype")],
            "decoder": sections["decoder"],
        }
        text = json.dumps(values, sort_keys=True, default=str)
        return sha256(text.encode()).hexdigest()

    def resolved(self, where: str) -> "tuple[Selection, Resolved]":
        """Open what the configuration names, and refuse to replace other results.

        Raises:
            ConfigError: The configuration, which errors call ``where``, has faults, or the
                directory has the results of another one.
        """
        resolved = resolve(self.config, where=where)
        selection = self._replace(config=resolved.config)
        file = self.output_dir / EVALUATION
        if file.is_file():
            earlier = read_evaluation(file).get(CONFIGURATION)
            if earlier != selection.configuration_sha256:
                fault = (
                    f"evaluator.label: {file.parent} has the results of another configuration; "
                    "set evaluator.label=NAME for a directory beside them, or delete it"
                )
                raise ConfigError([fault], where=where)
        return selection, resolved


def select(run_dir: Path, tree: Tree, *, where: str) -> Selection:
    """Decide what is scored, for the OUTDIR of the command line and the configuration's YAML.

    ``evaluator.checkpoint`` says which checkpoint of the run in OUTDIR. Its default is the best
    one; where OUTDIR holds no run, it is the model that the configuration names, if any.

    Raises:
        ConfigError: There is no such checkpoint, or a value of the configuration, which errors call
            ``where``, is wrong.
    """
    checkpoint = _text(tree, "evaluator.checkpoint") or _default_checkpoint(run_dir, tree)
    split = _text(tree, "evaluator.split") or _default_split(tree, checkpoint)
    rows = {"valid_split": split, "valid_where": _text(tree, "evaluator.where")}
    tree = merge(tree, {"dataset": rows})
    # What changes a model before it is trained has been done.
    model = tree.pop("model", None)
    if checkpoint == NO_CHECKPOINT:
        step = None
        if isinstance(model, Mapping):
            model = {key: model[key] for key in model if key not in {"head", "keep_layers"}}
        tree["model"] = model
    else:
        try:
            step = _step_of(run_dir, checkpoint)
        except RunError as error:
            raise ConfigError([f"evaluator.checkpoint: {error}"], where=where) from None
        tree["model"], tree["pretrained_encoder"] = {"name": f"checkpoint_step_{step}"}, {}
        checkpoints = str((run_dir / CHECKPOINTS).resolve())
        tree = merge(tree, {"common": {"assets": {"prev_checkpoint_dir": checkpoints}}})
    config = load(tree, where=where)
    # Optimizer and schedule are checked like the rest of a training configuration, then dropped.
    config = replace(
        config,
        evaluator=replace(config.evaluator, checkpoint=checkpoint, split=split),
        optimizer=None,  # type: ignore[arg-type]
        lr_scheduler=None,  # type: ignore[arg-type]
    )
    return Selection(config, _output_dir(run_dir, config), step)


def _text(tree: Tree, key: str) -> str | None:
    """A value that is a text; one of another type is reported with the other faults."""
    value = value_of(tree, key)
    return str(value) if isinstance(value, str | Path) else None


def _default_checkpoint(run_dir: Path, tree: Tree) -> str:
    holds_run = (run_dir / CONFIG_FILE).is_file() or bool(checkpoint_steps(run_dir))
    names_model = bool(_text(tree, "model.name") or _text(tree, "model.path"))
    return NO_CHECKPOINT if names_model and not holds_run else BEST


def _default_split(tree: Tree, checkpoint: str) -> str:
    """Return ``test``, or what an evaluation file of upstream calls ``dataset.valid_split``."""
    trains = value_of(tree, "dataset.train_split") is not None
    named = None if trains else _text(tree, "dataset.valid_split")
    return named if named and checkpoint == NO_CHECKPOINT else TEST


def _step_of(run_dir: Path, checkpoint: str) -> int:
    """Return the step that ``best``, ``last`` or ``step_<n>`` names."""
    steps = checkpoint_steps(run_dir)
    if not steps:
        raise RunError(
            f"{run_dir} holds no checkpoint to score. Name the directory of a run, or set "
            f"evaluator.checkpoint={NO_CHECKPOINT} and model.name to score that model as it is"
        )
    if checkpoint == BEST:
        # A run of `danish-asr average` has one, which was not validated.
        if len(steps) > 1 and not checkpoint_scores(run_dir):
            raise RunError(
                f"no checkpoint of {run_dir} was validated, so none is the best; "
                "set evaluator.checkpoint=last to score the newest."
            )
        return best_step(run_dir) or steps[-1]
    named = {f"step_{step}": step for step in steps} | {"last": steps[-1]}
    if checkpoint not in named:
        names = ", ".join([NO_CHECKPOINT, BEST, *named])
        raise RunError(f"'{checkpoint}' is not in {run_dir}; it has: {names}")
    return named[checkpoint]


def _output_dir(run_dir: Path, config: AsrConfig) -> Path:
    """Return ``OUTDIR/eval/<checkpoint>/<split>``, below it one for a label or another decoder.

    The dataset is part of its name where it is not that of the run.
    """
    scored = str(config.evaluator.checkpoint)
    if scored == NO_CHECKPOINT:
        scored = config.model.path.name if config.model.path else str(config.model.name)
    split, file = str(config.evaluator.split), run_dir / CONFIG_FILE
    dataset_of_run = _text(read_yaml(file), "dataset.name") if file.is_file() else None
    if dataset_of_run not in {None, config.dataset.name}:
        split = f"{split}@{config.dataset.name}"
    decoder = "" if config.decoder.name == GREEDY else config.decoder.name.replace(":", ".")
    return run_dir / "eval" / scored / split / (config.evaluator.label or decoder)


def about_evaluation(selection: Selection, resolved: Resolved, decoder: Decoder) -> dict[str, Any]:
    """Return what is scored, on which rows of which dataset."""
    config, indices = resolved.config, resolved.rows.valid
    about: dict[str, Any] = {
        "dataset": config.dataset.name,
        "dataset_root": str(resolved.dataset),
        "model": config.model.name,
        "checkpoint": config.evaluator.checkpoint,
        "step": selection.step,
        "run": str(config.common.assets.prev_checkpoint_dir or ""),
        "weights": selection.weights,
        "tokenizer": str(config.tokenizer.path or config.tokenizer.name),
        CONFIGURATION: selection.configuration_sha256,
        "score_profile": config.regime.score_profile,
    }
    if config.decoder.name != GREEDY:
        about["decoder"] = dict(vars(config.decoder))
        if settings := getattr(decoder, "settings", None):  # such as tuned values
            about["decoder"]["settings"] = settings
    if config.evaluator.where:
        about["where"] = config.evaluator.where
    return about | {
        "rows": {name: len(index) for name, index in indices.items()},
        "rows_in_split": {name: index.rows_in_split for name, index in indices.items()},
    }
