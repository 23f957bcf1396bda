"""What an evaluation scores: which model on which rows, and where the results go."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.base.config_tree import Tree, merge, read_yaml, value_of
from danish_asr.base.errors import ConfigError
from danish_asr.decoding.decoders import GREEDY, Decoder
from danish_asr.recipe.config.load import load, unstructure
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.run.run_directory import (
    CHECKPOINTS,
    CONFIG_FILE,
    EVALUATION,
    best_step,
    checkpoint_steps,
    read_evaluation,
    weights_digest,
)
from danish_asr.recipe.train.preflight import Resolved, resolve

NO_CHECKPOINT: Final = "none"
BEST: Final = "best"

_OF_TRAINING: Final = ("head", "keep_layers")

CONFIGURATION: Final = "configuration_sha256"
"""The key of `Selection.configuration_sha256` in ``evaluation.json``."""


class Selection(NamedTuple):
    """What will be scored."""

    config: AsrConfig  # its `model.name` is what will be scored
    output_dir: Path  # of the results
    step: int | None  # of the checkpoint; None for `model.name` as it is

    @property
    def configuration_sha256(self) -> str:
        """A digest of the values that results depend on.

        The weights of a checkpoint are left out: when a run has a better one, its results replace
        those of the one before.
        """
        tree = unstructure(self.config)
        dataset, evaluator, tokenizer = tree["dataset"], tree["evaluator"], tree["tokenizer"]
        values = {
            "model": tree["model"] if self.step is None else None,
            "tokenizer": tokenizer["name"] or Path(str(tokenizer["path"])).name,
            "dataset": [dataset[key] for key in ("name", "config_overrides", "text_profile")],
            "normalize_audio": dataset["asr_task_config"]["normalize_audio"],
            "evaluator": [evaluator[key] for key in ("split", "where", "amp", "amp_dtype")],
            "decoder": tree["decoder"],
        }
        return sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()

    def resolved(self, where: str) -> "tuple[Selection, Resolved]":
        """Open what the configuration names, and refuse to replace other results.

        Raises:
            ConfigError: The configuration, which errors call ``where``, has faults, or the
                directory has the results of another one.
        """
        resolved = resolve(self.config, where=where)
        selection, file = self._replace(config=resolved.config), self.output_dir / EVALUATION
        earlier = read_evaluation(file) if file.is_file() else {}
        if earlier and earlier.get(CONFIGURATION) != selection.configuration_sha256:
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
    steps, model = checkpoint_steps(run_dir), tree.get("model")
    checkpoint = _text(tree, "evaluator.checkpoint")
    if checkpoint is None:
        holds_run = bool(steps) or (run_dir / CONFIG_FILE).is_file()
        has_model = _text(tree, "model.name") or _text(tree, "model.path")
        checkpoint = NO_CHECKPOINT if has_model and not holds_run else BEST
    split = _text(tree, "evaluator.split")
    # An evaluation file of upstream calls it dataset.valid_split.
    if not split and checkpoint == NO_CHECKPOINT and value_of(tree, "dataset.train_split") is None:
        split = _text(tree, "dataset.valid_split")
    split = split or "test"
    rows = {"valid_split": split, "valid_where": _text(tree, "evaluator.where")}
    tree = merge(tree, {"dataset": rows})
    # What changes a model before it is trained has been done.
    if checkpoint == NO_CHECKPOINT:
        step = None
        if isinstance(model, Mapping):
            tree["model"] = {key: model[key] for key in model if key not in _OF_TRAINING}
    else:
        step = _step_of(run_dir, steps, checkpoint, where)
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


def _step_of(run_dir: Path, steps: Sequence[int], checkpoint: str, where: str) -> int:
    """Return the step that ``best``, ``last`` or ``step_<n>`` names."""
    names = {f"step_{step}": step for step in steps}
    if steps:
        names |= {"last": steps[-1], BEST: best_step(run_dir) or steps[-1]}
    if checkpoint not in names:
        fault = (
            f"evaluator.checkpoint: '{checkpoint}' is not in {run_dir}, which has: "
            f"{', '.join(names) or 'no checkpoint'}. Name the directory of a run, or set "
            f"evaluator.checkpoint={NO_CHECKPOINT} and model.name to score that model as it is"
        )
        raise ConfigError([fault], where=where)
    return names[checkpoint]


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
    config, indices, step = resolved.config, resolved.rows.valid, selection.step
    checkpoints = config.common.assets.prev_checkpoint_dir
    about: dict[str, Any] = {
        "dataset": config.dataset.name,
        "dataset_root": str(resolved.dataset),
        "model": config.model.name,
        "checkpoint": config.evaluator.checkpoint,
        "step": step,
        "run": str(checkpoints or ""),
        "weights": weights_digest(checkpoints.parent, step) if checkpoints and step else None,
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
