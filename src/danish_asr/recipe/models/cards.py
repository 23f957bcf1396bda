"""Cards of models: the directories that are searched, and what ``model.path`` may be.

Cards of built datasets and finished runs are found in ``data/parquet/cards`` below the working
directory, and in the directories that ``$DANISH_ASR_ASSETS`` names (separated by ``os.pathsep``).
The extension imports this file into every program that uses fairseq2.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq2.assets import AssetCard
from fairseq2.data.tokenizers.char import CHAR_TOKENIZER_FAMILY

from danish_asr.base.errors import ConfigError
from danish_asr.base.schema import CARDS_DIR
from danish_asr.recipe.models.hugging_face_directory import import_model, is_hugging_face
from danish_asr.recipe.run.run_directory import (
    CHECKPOINTS,
    MODEL_CARD,
    checkpoint_steps,
    own_tokenizer,
)

if TYPE_CHECKING:
    from danish_asr.recipe.config.schema import AsrConfig


def card_directories() -> list[Path]:
    """Return the directories that are searched for cards."""
    named = os.environ.get("DANISH_ASR_ASSETS", "").split(os.pathsep)
    default = Path("data", "parquet", CARDS_DIR)
    return without_nested([default, *(Path(name) for name in named if name)])


def without_nested(paths: Iterable[Path], searched: Sequence[Path] = ()) -> list[Path]:
    """Leave out directories inside another one, or inside one that is already searched.

    fairseq2 searches directories recursively, and refuses an asset that it finds twice.
    """
    directories = list(dict.fromkeys(path.expanduser().resolve() for path in paths))
    all_directories = {*searched, *directories}
    return [
        directory
        for directory in directories
        if directory not in searched and all_directories.isdisjoint(directory.parents)
    ]


def with_named_model(config: AsrConfig) -> AsrConfig:
    """Replace a ``model.path`` by the name of its card: of a run, a checkpoint, a HF directory.

    Raises:
        ConfigError: It is none of these, or a run without a card, which is not complete.
    """
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
    elif (path / CHECKPOINTS).is_dir():
        steps = [path / CHECKPOINTS / f"step_{step}" for step in checkpoint_steps(path)]
        named = f"name a checkpoint: {steps[-1]}" if steps else "it has saved no checkpoint yet"
        raise ConfigError([f"model.path {path} is a run that is not complete; {named}"])
    elif not _holds_weights(path):
        fault = (
            f"model.path {path} must be a finished run, one checkpoint of a run "
            f"(OUTDIR/{CHECKPOINTS}/step_<n>), a directory of Hugging Face with config.json, or a "
            "checkpoint (.pt, .safetensors) with model.arch"
        )
        raise ConfigError([fault])
    else:  # it takes precedence, as in fairseq2
        return replace(config, model=replace(config.model, name=None))
    common = replace(config.common, assets=assets)
    return replace(config, model=replace(config.model, path=None, name=name), common=common)


def _holds_weights(path: Path) -> bool:
    """Whether fairseq2 can take a path for a checkpoint; it refuses others after minutes."""
    if path.is_dir():
        return (path / "pp_00").is_dir() or any(path.glob("*.safetensors"))
    return path.suffix in {".pt", ".pth", ".bin", ".safetensors"} and path.is_file()


def cards_of(path: Path) -> Path:
    """Where the cards of a ``model.path`` are, among them the one of its tokenizer."""
    return import_model(path)[0] if is_hugging_face(path) else path / CARDS_DIR


def with_own_tokenizer(config: AsrConfig, checkpoints: Path | None) -> AsrConfig:
    """Return a configuration with the own tokenizer of the run of these checkpoints, if any."""
    file = own_tokenizer(checkpoints.parent) if checkpoints else None
    if file is None:
        return config
    section = type(config.tokenizer)(path=file, family=CHAR_TOKENIZER_FAMILY)
    return replace(config, tokenizer=section)


def tokenizer_of(card: AssetCard | None) -> str | None:
    """The tokenizer that a model's or dataset's card names, or that it holds itself."""
    if card is None:
        return None
    if card.has_field("tokenizer_ref"):
        return card.field("tokenizer_ref").as_(str)
    return card.name if card.has_field("tokenizer_family") else None
