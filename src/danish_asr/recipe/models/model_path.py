"""What ``model.path`` may be: a run, a checkpoint of a run, a directory of Hugging Face."""

from dataclasses import replace
from pathlib import Path

from danish_asr.base.schema import CARDS_DIR
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.models.imported import import_model, is_hugging_face
from danish_asr.recipe.run.run_directory import CHECKPOINTS, MODEL_CARD


def with_named_model(config: AsrConfig) -> AsrConfig:
    """Replace a ``model.path`` by the name of its card: of a run, a checkpoint, a HF directory."""
    path, assets = config.model.path, config.common.assets
    if path is None:
        return config
    step = path.parent if path.name == "model" else path
    if step.parent.name == CHECKPOINTS and (step.parent / MODEL_CARD).is_file():
        name = f"checkpoint_{step.name}"
        assets = replace(assets, prev_checkpoint_dir=step.parent.resolve())
    elif cards := sorted((path / CARDS_DIR).glob("*.yaml")):
        name = cards[0].stem
        # A run that was copied has its card twice; model.path says which is meant.
        others = [p for p in assets.extra_paths if [*p.glob("*.yaml")] != [p / cards[0].name]]
        assets = replace(assets, extra_paths=[*others, cards[0].parent])
    elif is_hugging_face(path):
        folder, name = import_model(path)
        assets = replace(assets, extra_paths=[*assets.extra_paths, folder])
    else:
        return config
    common = replace(config.common, assets=assets)
    return replace(config, model=replace(config.model, path=None, name=name), common=common)


def cards_of(path: Path) -> Path:
    """Where the cards of a ``model.path`` are, among them the one of its tokenizer."""
    return import_model(path)[0] if is_hugging_face(path) else path / CARDS_DIR
