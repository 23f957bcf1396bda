"""What an evaluation scores: which model on which split, and where the results go."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from fairseq2.recipe.config import ReferenceModelSection

from danish_asr.base.config_tree import Tree, merge
from danish_asr.base.errors import RunError
from danish_asr.base.schema import VERSION_DIR
from danish_asr.decoding import GREEDY, Decoder
from danish_asr.recipe.config.config import AsrEvalConfig
from danish_asr.recipe.config.loading import inspect, unstructure
from danish_asr.recipe.evaluate.evaluator import EVALUATION
from danish_asr.recipe.models.assets import configured_dataset
from danish_asr.recipe.models.model_path import cards_of
from danish_asr.recipe.run.run_directory import (
    CHECKPOINTS,
    best_model,
    checkpoint_scores,
    checkpoint_steps,
    evaluated_model,
)
from danish_asr.recipe.train.subsets import validation_indices

TRAINING_SECTIONS: Final = ("trainer", "optimizer", "lr_scheduler", "regime", "pretrained_encoder")

NO_CHECKPOINT: Final = "none"


class Selection(NamedTuple):
    """What will be scored, and the faults of the configuration."""

    config: AsrEvalConfig
    """Its ``model.name`` is what will be scored."""

    output_dir: Path
    """Where the results go: one directory per checkpoint, split and decoder."""

    greedy_dir: Path
    """Where those of greedy go, which keep the log-probabilities."""

    step: int | None
    """The training step of the checkpoint; None for ``model.name`` as it is."""

    faults: list[str]

    @property
    def model(self) -> str:
        """What will be scored, as `evaluated_model` names it."""
        run = self.config.common.assets.prev_checkpoint_dir
        name = self.config.model.name
        return evaluated_model({"run": str(run or ""), "step": self.step, "model": name})

    def of_other_models(self) -> dict[Path, str]:
        """Return the results that will stand beside these, of other models: the best changes."""
        files = [self.greedy_dir / EVALUATION, *sorted(self.greedy_dir.glob(f"*/{EVALUATION}"))]
        found = {
            file.parent: evaluated_model(json.loads(file.read_text(encoding="utf-8")))
            for file in files
            if file.is_file() and file.parent != self.output_dir
        }
        return {folder: model for folder, model in found.items() if model != self.model}

    def about(self, decoder: Decoder, rows: Mapping[str, int]) -> dict[str, Any]:
        """Return the content of ``evaluation.json``; ``rows`` of each split are scored."""
        config = self.config
        where, in_split = config.evaluator.where, rows
        if where:
            data, every = configured_dataset(config), replace(config.dataset, valid_where=None)
            indices = validation_indices(data, every, str(config.evaluator.split), None)
            in_split = {name: len(index) for name, index in indices.items()}
        section = {**vars(config.decoder), **_settings(decoder)}
        path = configured_dataset(config).path.resolve()
        return {
            "dataset": config.dataset.name,
            "dataset_root": str(path.parent if path.name == VERSION_DIR else path),
            "model": config.model.name,
            "checkpoint": config.evaluator.checkpoint,
            "step": self.step,
            "run": str(config.common.assets.prev_checkpoint_dir or ""),
            "tokenizer": str(config.tokenizer.path or config.tokenizer.name),
            **({"decoder": section} if section["name"] != GREEDY else {}),
            **({"where": where} if where else {}),
            "rows": dict(rows),
            "rows_in_split": dict(in_split),
        }

    def dependencies(self, rows: Mapping[str, object]) -> dict[str, Any]:
        """Return all that the log-probabilities depend on, as JSON has it.

        ``rows`` are the fingerprints of the splits.
        """
        whole = unstructure(self.config)
        found: dict[str, Any] = {name: whole[name] for name in ("model", "dataset", "tokenizer")}
        section = whole["evaluator"].items()
        found["evaluator"] = {k: v for k, v in section if k not in {"label", "keep_log_probs"}}
        found["rows"] = rows
        if self.step is not None:
            checkpoints = cast(Path, self.config.common.assets.prev_checkpoint_dir)
            found["checkpoint"] = (checkpoints / f"step_{self.step}").stat().st_mtime
        return _as_json(found)

    def predictions_depend_on(self, rows: Mapping[str, object], decoder: Decoder) -> dict[str, Any]:
        """Return all that the predictions depend on, as JSON has it."""
        config = self.config
        section = {**vars(config.decoder), **_settings(decoder)}
        keeps = config.evaluator.keep_log_probs
        return self.dependencies(rows) | _as_json({"decoder": section, "keep_log_probs": keeps})


def _settings(decoder: Decoder) -> dict[str, Any]:
    """What a decoder uses beside its configuration, such as tuned values, if it says so."""
    settings = getattr(decoder, "settings", None)
    return {"settings": settings} if settings else {}


def _as_json(found: Mapping[str, Any]) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(json.dumps(found, default=str)))


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
    if isinstance(model, Mapping):  # its head is for training
        model = {key: value for key, value in model.items() if key != "head"}
        tree = {**tree, "model": model}
    named = not trains and isinstance(model, Mapping) and (model.get("name") or model.get("path"))
    checkpoint = given.get("checkpoint") or (NO_CHECKPOINT if named else "best")
    split = given.get("split") or ("test" if trains else None)

    changes: Tree = {"dataset": {"valid_where": given.get("where")}}
    changes["dataset"] |= {"valid_split": split} if split else {}
    directory, step, missing = run_dir, None, []
    try:
        if run_dir is not None and checkpoint != NO_CHECKPOINT:
            directory, step = _model(run_dir, checkpoint)
    except RunError as error:
        missing = [f"evaluator.checkpoint: {error}"]
    if directory is not None and step is not None:
        checkpoints = str((directory / CHECKPOINTS).resolve())
        changes |= {"common": {"assets": {"prev_checkpoint_dir": checkpoints}}}
        name = f"checkpoint_step_{step}"
        tree = {**tree, "model": {"name": name}, "pretrained_encoder": {"name": ""}}
    config, faults = inspect(AsrEvalConfig, merge(tree, changes))
    if isinstance(model, Mapping) and model.get("path"):
        # A run that began with another model takes its tokenizer from there.
        assets = config.common.assets
        cards = cards_of(Path(str(model["path"])))
        assets = replace(assets, extra_paths=[*assets.extra_paths, cards])
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
    itself = config.model.path.name if config.model.path else str(config.model.name)
    scored = checkpoint if checkpoint != NO_CHECKPOINT else itself
    output_dir = greedy_dir = (run_dir or Path()) / "eval" / scored / str(split)
    if label := _label(config):
        output_dir = greedy_dir / label
        faults += _would_replace(output_dir, config)
    selection = Selection(config, output_dir, greedy_dir, step, [*missing, *faults])
    # With kept log-probabilities, greedy's evaluation runs again first.
    if step is not None and not config.evaluator.keep_log_probs:
        selection.faults.extend(_beside_another(selection))
    return selection


def _beside_another(selection: Selection) -> list[str]:
    """Refuse results of a decoder below greedy's of another model."""
    folder, section = selection.greedy_dir, selection.config.evaluator
    if (other := selection.of_other_models().get(folder)) is None:
        return []
    fault = (
        f"evaluator.checkpoint: '{section.checkpoint}' is now {selection.model}, but {folder} has "
        f"greedy's results of {other}, and the two cannot be compared. Evaluate with greedy first, "
        "which replaces them, or name the other model: evaluator.checkpoint=step_<n>"
    )
    return [fault]


def _label(config: AsrEvalConfig) -> str | None:
    """Return the directory of the results below greedy's, None for greedy's own."""
    name = config.decoder.name
    return config.evaluator.label or (None if name == GREEDY else name.replace(":", "."))


def _would_replace(output_dir: Path, config: AsrEvalConfig) -> list[str]:
    """Refuse to write over the results of another decoder, or of another configuration."""
    file = output_dir / EVALUATION
    if not file.is_file():
        return []
    about = json.loads(file.read_text(encoding="utf-8"))
    then = about.get("decoder", {"name": GREEDY})
    found = [then["name"], then.get("config", {}), about.get("where")]
    now = [config.decoder.name, config.decoder.config, config.evaluator.where]
    if found == now:
        return []
    of_found, of_now = (
        f"{name} with {json.dumps(values, default=str)}" + (f' where "{where}"' if where else "")
        for name, values, where in (found, now)
    )
    fault = (
        f"evaluator.label: {output_dir} has the results of {of_found}; set evaluator.label=NAME "
        f"for a directory of those of {of_now}, or delete this one"
    )
    return [fault]


def _model(run_dir: Path, checkpoint: str) -> tuple[Path, int]:
    """Return the run and the step that ``best``, ``last`` or ``step_<n>`` names.

    The best can be one of the run's averages.
    """
    steps = checkpoint_steps(run_dir)
    if not steps:
        raise RunError(
            f"{run_dir} holds no checkpoint to score. Train into it first, name the directory of a "
            f"run, or set evaluator.checkpoint={NO_CHECKPOINT} and model.name to score that model "
            "as it is"
        )
    named = {f"step_{step}": (run_dir, step) for step in steps}
    named |= {"best": best_model(run_dir) or (run_dir, steps[-1]), "last": (run_dir, steps[-1])}
    if checkpoint == "best" and not checkpoint_scores(run_dir):
        raise RunError(
            f"no checkpoint of {run_dir} was validated, so none is the best; "
            "set evaluator.checkpoint=last to score the newest."
        )
    if checkpoint not in named:
        known = ", ".join([NO_CHECKPOINT, "best", "last", *(n for n in named if "_" in n)])
        raise RunError(f"evaluator.checkpoint '{checkpoint}' is not in {run_dir}; known: {known}")
    return named[checkpoint]
