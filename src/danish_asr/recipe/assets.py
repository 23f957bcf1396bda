"""What the names in a configuration stand for, looked up before any model is built.

Datasets, tokenizers and models are fairseq2 assets: a name leads to a card. The look-up here
answers with the names that exist when one does not, fills in what the cards already know (the
tokenizer, the size of the head) and holds the parts against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fairseq2.assets import AssetCard
from fairseq2.models.wav2vec2 import WAV2VEC2_FAMILY
from fairseq2.recipe.config import ModelSection

from danish_asr.errors import ConfigError, DatasetError, RunError
from danish_asr.recipe.asset_store import HEAD_SIZE, OPENS, Assets, overridden
from danish_asr.recipe.config import AsrConfig
from danish_asr.recipe.dataset_checks import dataset_faults
from danish_asr.recipe.optimizers import optimizer_faults
from danish_asr.recipe.run_directory import CHECKPOINTS, MODEL_CARD, checkpoint_steps
from danish_asr.schema import CARDS_DIR

__all__ = ["Assets", "resolve", "tokenizer_card"]


def resolve(config: AsrConfig, *, where: str, faults: Sequence[str] = ()) -> AsrConfig:
    """Return the configuration with what its cards know filled in; the given one is not changed.

    Args:
        config: The configuration.
        where: What it is called in errors.
        faults: What is wrong with it already; it is told together with what is found here.

    Raises:
        ConfigError: There are faults: a name is unknown, the dataset lacks a split, or model,
            tokenizer and head do not fit together.
    """
    all_faults = list(faults)
    config = _name_own_model(config, all_faults)
    try:
        assets = Assets(config)
    except ConfigError as error:
        raise ConfigError([*all_faults, *error.faults], where=where) from None
    searched = replace(config.common.assets, extra_paths=assets.extra_paths)
    config = replace(config, common=replace(config.common, assets=searched))
    dataset = _dataset_card(assets, config, all_faults)
    model = _model_card(assets, config, all_faults)
    _check_encoder(assets, config.pretrained_encoder.name, all_faults)
    if config.tokenizer.path is None:
        name = config.tokenizer.name or _named_by(model) or _named_by(dataset)
        config = replace(config, tokenizer=replace(config.tokenizer, name=name))
    size = _vocabulary_size(assets, config, all_faults)
    config = replace(config, model=_with_head(assets, config.model, model, size, all_faults))
    _check_frozen_layers(assets, config, model, all_faults)
    if config.optimizer is not None:  # an evaluation has none
        all_faults.extend(optimizer_faults(config.optimizer.name))
    if all_faults:
        raise ConfigError(all_faults, where=where)
    return config


def _dataset_card(assets: Assets, config: AsrConfig, faults: list[str]) -> AssetCard | None:
    section, card = config.dataset, None
    if section.name:
        card = assets.find("dataset.name", section.name, "dataset", faults)
        if card is None:
            return None
    elif section.family not in OPENS:
        if section.family:
            known = ", ".join(OPENS)
            faults.append(f"dataset.family must be one of {known}, but is '{section.family}'")
        return None
    try:
        faults.extend(dataset_faults(assets.open_dataset(section, card), config))
    except ConfigError as error:
        faults.extend(error.faults)
    except DatasetError as error:
        faults.append(f"dataset.{'name' if card else 'config_overrides'}: {error}")
    return card


def _model_card(assets: Assets, config: AsrConfig, faults: list[str]) -> AssetCard | None:
    name = config.model.name
    card = assets.find("model.name", name, "model", faults) if name else None
    if card is not None and assets.head_size(card) is None:
        faults.append(
            f"model.name '{name}' has no CTC head: this recipe trains and scores CTC models, such "
            "as omniASR_CTC_300M, and no LLM models"
        )
        return None
    return card


def _check_encoder(assets: Assets, name: str | None, faults: list[str]) -> None:
    card = assets.find("pretrained_encoder.name", name, "model", faults) if name else None
    family = card.field("model_family").as_(str) if card else WAV2VEC2_FAMILY
    if family != WAV2VEC2_FAMILY:
        faults.append(
            f"pretrained_encoder.name '{name}' is of the family {family}; it must be an encoder, "
            "such as omniASR_W2V_300M. A whole model is named in model.name"
        )


def _check_frozen_layers(
    assets: Assets, config: AsrConfig, card: AssetCard | None, faults: list[str]
) -> None:
    asked = config.trainer.freeze_encoder_layers
    layers = assets.encoder_layers(config.model, card) if asked else None
    if layers is not None and asked > layers:
        faults.append(
            f"trainer.freeze_encoder_layers must be at most {layers}, the number of layers that "
            f"the encoder of {config.model.name or config.model.arch} has, but is {asked}"
        )


def _name_own_model(config: AsrConfig, faults: list[str]) -> AsrConfig:
    """Let ``model.path`` be a finished run or one of a run's checkpoints: both go by a card."""
    path, assets = config.model.path, config.common.assets
    if path is None:
        return config
    if not path.exists():
        faults.append(f"model.path {path} does not exist")
        return config
    step = path.parent if path.name == "model" else path
    if step.parent.name == CHECKPOINTS and (step.parent / MODEL_CARD).is_file():
        name = f"checkpoint_{step.name}"
        assets = replace(assets, prev_checkpoint_dir=step.parent.resolve())
    elif cards := sorted((path / CARDS_DIR).glob("*.yaml")):
        name = cards[0].stem
        assets = replace(assets, extra_paths=[*assets.extra_paths, cards[0].parent])
    elif steps := checkpoint_steps(path):
        faults.append(
            f"model.path {path} holds a run that is not finished; its command continues it, or "
            f"name a checkpoint: model.path={path / CHECKPOINTS}/step_{steps[-1]}"
        )
        return config
    else:
        return config
    common = replace(config.common, assets=assets)
    return replace(config, model=replace(config.model, path=None, name=name), common=common)


def tokenizer_card(config: AsrConfig) -> AssetCard | None:
    """The card of the tokenizer of a resolved configuration; None if it is given as a path."""
    return Assets(config).tokenizer_card(config.tokenizer.name) if config.tokenizer.name else None


def _named_by(card: AssetCard | None) -> str | None:
    """The tokenizer that a model's or dataset's card names, or that it holds itself."""
    if card is None:
        return None
    if card.has_field("tokenizer_ref"):
        return card.field("tokenizer_ref").as_(str)
    return card.name if card.has_field("tokenizer_family") else None


def _vocabulary_size(assets: Assets, config: AsrConfig, faults: list[str]) -> int | None:
    """The tokenizer's number of symbols; None if it cannot be known."""
    name = config.tokenizer.name
    if name is None and config.tokenizer.path is None:
        # Whoever names no tokenizer relies on cards; one that is not found is told already.
        if not faults:
            faults.append(
                "tokenizer.name is missing, and neither the model's nor the dataset's card names "
                "a tokenizer"
            )
        return None
    try:
        if name is None:
            return assets.vocabulary_size_of_file(config.tokenizer)
        card = assets.find("tokenizer.name", name, "tokenizer", faults)
        return None if card is None else assets.vocabulary_size(card.name)
    except RunError as error:
        faults.append(str(error))
        return None


def _with_head(
    assets: Assets,
    section: ModelSection,
    card: AssetCard | None,
    size: int | None,
    faults: list[str],
) -> ModelSection:
    """Size a new head for the tokenizer, or hold a trained head against it."""
    if section.name:
        head = assets.head_size(card) if card else None
        if None not in {head, size} and head != size:
            faults.append(
                f"tokenizer has {size} symbols, but the head of '{section.name}' has {head}; "
                "leave tokenizer.name out to get the model's own"
            )
        return section
    if section.arch is None:
        if not faults:
            faults.append(_no_model(section))
        return section
    return _with_new_head(assets, section, size, faults)


def _with_new_head(
    assets: Assets, section: ModelSection, size: int | None, faults: list[str]
) -> ModelSection:
    family = assets.model_family(section.family or "")
    if family is None:
        faults.append(f"model.family '{section.family}' is no known model family")
        return section
    architecture = family.maybe_get_arch_config(section.arch or "")
    if architecture is None:
        faults.append(
            f"model.arch '{section.arch}' is no architecture of {section.family}; "
            f"known: {', '.join(sorted(family.get_archs()))}"
        )
        return section
    try:
        config = overridden(architecture, section.config_overrides, "model")
        assets.build(section, config)
    except ConfigError as error:
        faults.extend(error.faults)
    if size is None:
        return section
    overrides = section.config_overrides
    given = dict(overrides) if isinstance(overrides, Mapping) else {}
    if given.get(HEAD_SIZE, size) != size:
        faults.append(
            f"model.config_overrides.{HEAD_SIZE} must be {size}, the tokenizer's number "
            f"of symbols, but is {given[HEAD_SIZE]}; leave it out"
        )
    return replace(section, config_overrides={**given, HEAD_SIZE: size})


def _no_model(section: ModelSection) -> str:
    if section.path is None:
        return (
            "model.name, model.arch or model.path must say which model it is, for example "
            "model.name=omniASR_CTC_300M"
        )
    return (
        f"model.arch must say of which architecture the checkpoint in model.path {section.path} "
        "is, for example 300m; it may only be left out for runs of this recipe"
    )
