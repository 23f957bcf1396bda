"""Which model a name or a directory means, and how it was trained."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from danish_asr.base.config_tree import Tree, merge, nested, read_yaml, value_of
from danish_asr.base.errors import ConfigError, RunError
from danish_asr.base.schema import CARDS_DIR
from danish_asr.recipe.config.load import load
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.models.assets import Assets
from danish_asr.recipe.models.cards import cards_of
from danish_asr.recipe.models.hugging_face_directory import is_hugging_face
from danish_asr.recipe.run.run_directory import (
    CHECKPOINTS,
    CONFIG_FILE,
    check_model,
    meant_checkpoint,
)
from danish_asr.recipe.train.preflight import resolve

_NO_DATASET: Final[Tree] = {"dataset": {"name": ""}}
"""The data that a model was trained on may be gone."""

_EXTRA_PATHS: Final = "common.assets.extra_paths"
_KEPT: Final = (
    "evaluator.amp",
    "evaluator.amp_dtype",
    "dataset.asr_task_config.normalize_audio",
    "dataset.text_profile",
    "dataset.asr_task_config.max_audio_len",
)
"""What of a run's configuration matters for its model, beside the tokenizer."""


def select_model(model: str | Path) -> AsrConfig:
    """Return the configuration of a model: a run, a checkpoint, a directory with a card, or a name.

    Of a run it is the best checkpoint, of a checkpoint the run's tokenizer and normalisation.

    Raises:
        ConfigError: There is no such name (the message lists those that exist), or model, tokenizer
            and head do not fit.
        RunError: The directory has no model.
    """
    if (path := check_model(model)).is_dir():
        config = _of_directory(path)
    else:
        config = load({**_NO_DATASET, "model": {"name": str(model)}}, where=f"model {model}")
        assets = Assets(config)
        if assets.find("model.name", str(model), []) is None:
            named = assets.available("model.name", str(model))
            fault = f"no run, checkpoint or named CTC model '{model}'; named models: {named}"
            raise ConfigError([fault], where="the model")
    config = replace(config, optimizer=None, lr_scheduler=None)  # type: ignore[arg-type]
    return resolve(config, where=f"model {model}")


def _of_directory(path: Path) -> AsrConfig:
    run = checkpoint = path
    if meant := meant_checkpoint(path):
        checkpoint = meant[0] / CHECKPOINTS / f"step_{meant[1]}"
        run = meant[0]
    cards = sorted((run / CARDS_DIR).glob("*.yaml"))
    if run == checkpoint and not cards and not is_hugging_face(path):
        raise RunError(
            f"model {path}: no model in this directory; expected a run with a checkpoint, a "
            f"checkpoint (OUTDIR/{CHECKPOINTS}/step_<n>), a card of a model in {CARDS_DIR}/ or a "
            "Wav2Vec2ForCTC of Hugging Face (config.json)"
        )
    file = run / CONFIG_FILE
    tree = read_yaml(file) if file.is_file() else {}
    changes: Tree = {"model": {"name": "", "path": str(checkpoint)}}
    if cards and "tokenizer_family" in read_yaml(cards[0]):
        # The card has a copy of the tokenizer beside it, also where the run was moved.
        assets = {"extra_paths": [str(cards[0].parent)]}
        changes |= {"tokenizer": {"name": cards[0].stem}, "common": {"assets": assets}}
        kept: tuple[str, ...] = _KEPT
    else:
        kept = (*_KEPT, "tokenizer", _EXTRA_PATHS)
        if origin := value_of(tree, "model.path"):  # its tokenizer may be there
            extra = [*(value_of(tree, _EXTRA_PATHS) or []), str(cards_of(Path(origin)))]
            tree = merge(tree, nested(_EXTRA_PATHS, extra))
    values = {key: value_of(tree, key) for key in kept}
    taken = [nested(key, value) for key, value in values.items() if value is not None]
    return load(merge(_NO_DATASET, *taken, changes), where=f"model {path}")
