"""What a run began with: the model's configuration and tokenizer, which its directory keeps.

A run that continues takes both from there. The weights are those of its last checkpoint, so that
the model that it began with may have been trained on, or be gone.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from fairseq2.utils.structured import StandardValueConverter

from danish_asr.base.config_tree import Tree
from danish_asr.base.errors import ConfigError
from danish_asr.base.files import publish, publish_text, to_yaml
from danish_asr.recipe.config.load import unstructure, validated
from danish_asr.recipe.config.schema import (
    AsrConfig,
    EncoderSection,
    ModelSection,
    TokenizerSection,
)
from danish_asr.recipe.models.cards import ModelDescription
from danish_asr.recipe.run.run import MODEL_CARD, START, TOKENIZER, Run

NAMING: Final = ("model", "pretrained_encoder", "tokenizer")
"""The sections of a configuration that name the model of a training."""

_ASKED: Final = "asked"


class Began(NamedTuple):
    """A configuration with the sections `NAMING` of a run that it continues."""

    asked: AsrConfig  # as the run's own configuration has them
    config: AsrConfig  # with the model that the run has
    placed: Sequence[Tree]  # its card


def began_with(run: Run, config: AsrConfig) -> Began | None:
    """Return what a run began with; None if it is new, or another model is asked for."""
    card = run.began_with()
    if card is None:
        return None
    saved = run.config
    own, faults = validated(AsrConfig, {key: saved.get(key, {}) for key in NAMING}, "")
    if faults:
        raise ConfigError(faults, where=str(run.folder))
    asked = card.pop(_ASKED)
    if named_model(config) not in (asked, named_model(own)):
        return None
    model = ModelSection(name=card["name"], head=own.model.head, keep_layers=own.model.keep_layers)
    tokenizer = TokenizerSection(path=run.folder / START / TOKENIZER)
    now = replace(config, model=model, pretrained_encoder=EncoderSection(), tokenizer=tokenizer)
    sections = {key: getattr(own, key) for key in NAMING}
    return Began(replace(config, **sections), now, [card])


def named_model(config: AsrConfig) -> Tree:
    """Return the sections `NAMING` as plain values."""
    return {key: unstructure(getattr(config, key)) for key in NAMING}


def write_start(run: Run, asked: AsrConfig, model: ModelDescription, tokenizer: Path) -> None:
    """Write what a run begins with; ``asked`` is the configuration before it was completed."""
    folder = run.folder / START
    with publish(folder / TOKENIZER) as stream:
        stream.write(tokenizer.read_bytes())
    card = {
        "name": "the run's own model",
        "model_family": model.family.name,
        "model_config": StandardValueConverter().unstructure(model.config),
        _ASKED: named_model(asked),
    }
    publish_text(folder / MODEL_CARD, to_yaml(card))
