"""What an evaluation scores: which model, on which rows, with which decoder, and where it writes.

In: an OUTDIR and a configuration, of which only the keys in `_READ` count: nothing of a training.
Out: a `Selection`, whose model is prepared as its card says.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.base.cluster import rank_info
from danish_asr.base.config_tree import Tree, merge, nested, value_of
from danish_asr.base.errors import ConfigError, note
from danish_asr.base.files import to_yaml
from danish_asr.decoding.decoders import GREEDY, find_decoder
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.load import load, unstructure
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.data.index import Index, evaluated_rows
from danish_asr.recipe.models.cards import Assets, OpenModel, open_model, speech_of
from danish_asr.recipe.run.evaluations import BEST, NO_CHECKPOINT
from danish_asr.recipe.run.run import Checkpoint, Run
from danish_asr.recipe.train.preflight import collected, open_dataset, recorder_faults
from danish_asr.text.profiles import profile_in

_READ: Final = (
    *("model.name", "model.path", "dataset.name", "dataset.config_overrides"),
    *("dataset.valid_split", "dataset.valid_max_num_elements", "dataset.text_profile"),
    *("dataset.asr_task_config.max_num_elements", "dataset.asr_task_config.num_seqs_multiple_of"),
    "dataset.asr_task_config.normalize_audio",
    *("evaluator", "decoder", "regime.score_profile", "trainer.max_wall_minutes", "gang", "common"),
)
"""The keys and sections of a configuration that an evaluation reads."""

_PREPARATION: Final[Mapping[str, tuple[str, ...]]] = {
    "text_profile": ("dataset.text_profile",),
    "normalize_audio": ("dataset.asr_task_config.normalize_audio",),
    "amp_dtype": ("evaluator.amp", "evaluator.amp_dtype"),
}
"""What a card says of a model's recordings and texts: the keys that say it too."""


class Selection(NamedTuple):
    """What is scored."""

    config: AsrConfig  # its rows are those of ``dataset.valid_split``
    output_dir: Path  # of the results
    checkpoint: Checkpoint | None  # of the run; None: another model
    name: str  # of the model
    model: OpenModel
    dataset: Path  # the root of the built dataset
    rows: Mapping[str, Index]  # of each split, with their targets


def read_keys(config: AsrConfig) -> Tree:
    """Return a configuration as an evaluation writes it."""
    return _only_read(unstructure(config))


def _only_read(tree: Mapping[str, Any]) -> Tree:
    values = {key: value_of(tree, key) for key in _READ}
    return merge(*(nested(key, value) for key, value in values.items() if value is not None))


def select(request: cli.Request, tree: Tree) -> Selection:
    """Decide what is scored, for the OUTDIR of a request and the configuration's YAML.

    Prints the configuration, if that is asked for, also of one with faults.

    Raises:
        ConfigError: There is no such model, dataset, split or decoder, or a value is wrong.
    """
    checkpoint, config = choose(request, tree)
    if request.dump_config:
        sys.stdout.write(to_yaml(read_keys(config)))
    return _open(request, checkpoint, config)


def choose(request: cli.Request, tree: Tree) -> tuple[Checkpoint | None, AsrConfig]:
    """Return the checkpoint that is scored, and the configuration of the evaluation.

    ``evaluator.checkpoint`` says which one of the run in OUTDIR. Its default is the best one; where
    OUTDIR holds no run, it is the model that the configuration names, if any: None.

    Raises:
        ConfigError: There is no such checkpoint, or a value of the configuration is wrong.
    """
    run, trains = Run(_outdir(request)), value_of(tree, "dataset.train_split")
    tree = _only_read(tree)
    checkpoint = _text(tree, "evaluator.checkpoint")
    if checkpoint is None:
        holds_run = run.is_trained or run.steps
        has_model = _text(tree, "model.name") or _text(tree, "model.path")
        checkpoint = NO_CHECKPOINT if has_model and not holds_run else BEST
    split = _text(tree, "evaluator.split")
    # An evaluation file of upstream calls it dataset.valid_split.
    if not split and checkpoint == NO_CHECKPOINT and trains is None:
        split = _text(tree, "dataset.valid_split")
    split = split or "test"
    chosen = None
    if checkpoint != NO_CHECKPOINT:
        chosen = _checkpoint(run, checkpoint, request.where)
        tree["model"] = {"path": str(chosen.folder)}
    own = {"evaluator": {"checkpoint": checkpoint, "split": split}}
    return chosen, load(merge(tree, own, {"dataset": {"valid_split": split}}), where=request.where)


def _text(tree: Tree, key: str) -> str | None:
    """A value that is a text; one of another type is reported with the other faults."""
    value = value_of(tree, key)
    return str(value) if isinstance(value, str | Path) else None


def _checkpoint(run: Run, name: str, where: str) -> Checkpoint:
    """Return what ``best``, ``last`` or ``step_<n>`` names."""
    names = run.named()
    if name not in names:
        fault = (
            f"evaluator.checkpoint: '{name}' is not in {run.folder}, which has: "
            f"{', '.join(names) or 'no checkpoint'}. Name the directory of a run, or set "
            f"evaluator.checkpoint={NO_CHECKPOINT} and model.name or model.path to score a model"
        )
        raise ConfigError([fault], where=where)
    return names[name]


def _open(request: cli.Request, checkpoint: Checkpoint | None, config: AsrConfig) -> Selection:
    """Open what a configuration names; raises ConfigError with all faults."""
    faults, named = list[str](), _named(config)
    with collected(faults):
        model = _prepared(open_model(named, config.common.assets), config, request)
        task = replace(config.dataset.asr_task_config, normalize_audio=model.normalize_audio)
        section = replace(config.dataset, text_profile=model.text_profile, asr_task_config=task)
        config = replace(config, dataset=section)
    with collected(faults):
        assets = Assets(config.common.assets)
        # fairseq2 wants each directory of cards once.
        places = replace(config.common.assets, extra_paths=assets.extra_paths)
        config = replace(config, common=replace(config.common, assets=places))
        dataset, rows = open_dataset(assets, config, evaluated_rows)
    with collected(faults):
        find_decoder(config.decoder.name, config.decoder.config)
    faults += recorder_faults(config.common.metric_recorders.wandb)
    if faults:
        raise ConfigError(faults, where=request.where)
    name = f"checkpoint_step_{checkpoint.step}" if checkpoint else named.name
    output_dir = results_dir(Run(_outdir(request)), config)
    return Selection(config, output_dir, checkpoint, name, model, dataset.root, rows)


def _named(config: AsrConfig) -> Path:
    """The path or the name of the model."""
    return config.model.path or Path(str(config.model.name))


def _outdir(request: cli.Request) -> Path:
    assert request.output_dir is not None
    return request.output_dir


def _prepared(model: OpenModel, config: AsrConfig, request: cli.Request) -> OpenModel:
    """Return a model that is prepared as its card says, or as the user has written.

    Raises:
        ConfigError: The card, which may come from others, names code.
    """
    files, overrides = cli.read_trees(replace(request, run_config=None))
    written, asked = merge(*files, *overrides), speech_of(config)
    wins = {
        field: asked[field]
        for field, keys in _PREPARATION.items()
        if asked[field] != getattr(model, field)
        and any(value_of(written, key) is not None for key in keys)
    }
    if wins and rank_info().rank == 0:
        texts = [f"{field}={value}, not {getattr(model, field)}" for field, value in wins.items()]
        note(f"as the configuration says, and not the model's card: {'; '.join(texts)}")
    if "text_profile" not in wins and model.text_profile != asked["text_profile"]:
        remedy = f"if you trust it, add dataset.text_profile={model.text_profile}"
        profile_in(f"the card of {model.card.name}", model.text_profile, remedy)
    return model._replace(**wins)


def results_dir(run: Run, config: AsrConfig) -> Path:
    """Return ``OUTDIR/eval/<checkpoint>/<split>``, below it those of a label and another decoder.

    The dataset is part of its name where it is not that of the run.
    """
    scored, split = str(config.evaluator.checkpoint), str(config.evaluator.split)
    if scored == NO_CHECKPOINT:
        scored = _named(config).name
    own, data = run.config, (config.dataset.config_overrides or {}).get("data")
    name, root = (_text(own, f"dataset.{key}") for key in ("name", "config_overrides.data"))
    if name not in {None, config.dataset.name}:
        split = f"{split}@{config.dataset.name}"
    elif root and data and data != Path(root).resolve() and Path(root).exists():  # else it moved
        split = f"{split}@{data.parent.name}"
    decoder = "" if config.decoder.name == GREEDY else config.decoder.name.replace(":", ".")
    return run.folder / "eval" / scored / split / (config.evaluator.label or "") / decoder
