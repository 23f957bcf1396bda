"""Checks of a configuration against cards and files, in seconds, before any model is built.

They also fill in what the cards say: the tokenizer, and the size of the head. A check yields its
faults; a function that returns something else, such as a card, adds to the ``faults`` it is given.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.request import url2pathname

import torch
from fairseq2.assets import AssetCard
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs
from torch.nn import Module

from danish_asr.base.cluster import rank_info
from danish_asr.base.errors import ConfigError, LanguageModelError
from danish_asr.base.files import to_yaml
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.decoders import find_decoder
from danish_asr.recipe.config.load import top_layers, unstructure
from danish_asr.recipe.config.schema import AsrConfig, DatasetSection, DecoderSection
from danish_asr.recipe.data.settings import transforms_of_training
from danish_asr.recipe.models.assets import Assets, ModelDescription
from danish_asr.recipe.models.cards import tokenizer_of, with_named_model, with_own_tokenizer
from danish_asr.recipe.train.data_preflight import dataset_faults
from danish_asr.recipe.train.learning import (
    group_faults,
    keep_layers,
    optimizer_faults,
)
from danish_asr.recipe.train.masking import masking_faults
from danish_asr.recipe.train.record import recorder_faults


def resolve(config: AsrConfig, *, where: str) -> AsrConfig:
    """Return the configuration completed from its cards; the given one is not changed.

    Errors call it ``where``.

    Raises:
        ConfigError: A name or split does not exist, or model, tokenizer and head do not fit.
    """
    faults = list[str]()
    try:
        config = with_named_model(config)
        config = with_own_tokenizer(config, config.common.assets.prev_checkpoint_dir)
        assets = Assets(config)
    except ConfigError as error:
        raise ConfigError(error.faults, where=where) from None
    section_of_assets = replace(config.common.assets, extra_paths=assets.extra_paths)
    common = replace(config.common, assets=section_of_assets)
    config = replace(config, common=common)
    dataset_name = config.dataset.name
    dataset_card = assets.find("dataset.name", dataset_name, faults) if dataset_name else None
    if dataset_card is not None or not dataset_name:
        faults.extend(dataset_faults(assets, config, dataset_card))
    name, encoder = config.model.name, config.pretrained_encoder.name
    model_card = assets.find("model.name", name, faults) if name else None
    if encoder:
        assets.find("pretrained_encoder.name", encoder, faults)
    config = _with_tokenizer_name(config, model_card, dataset_card)
    tokenizer = assets.open_tokenizer(config.tokenizer, faults)
    size = tokenizer.vocab_info.size if tokenizer else None
    description = assets.describe_model(config.model, model_card, faults)
    module = _build_without_memory(config, description, faults) if description else None
    if description is not None and module is not None:
        if description.has_new_head and model_card and not config.trains:
            # The sole fault: others, as that of a missing tokenizer, follow from it.
            name = model_card.name.removesuffix("-hf")  # of `import_model`
            fault = f"model.path: '{name}' is an encoder without a head; train it first"
            raise ConfigError([fault], where=where)
        faults.extend(_model_faults(config, description, model_card, size))
        if description.has_new_head:
            config = _with_head_size(config, size)
    if config.trains:
        config = with_accumulation(config, faults)
        faults.extend(optimizer_faults(config.optimizer.name))
        if module is not None:
            faults.extend(_training_faults(config, module))
    faults.extend(_transform_faults(config.dataset))
    faults.extend(_decoder_faults(config.decoder))
    faults.extend(recorder_faults(config.common.metric_recorders.wandb))
    if faults:
        raise ConfigError(faults, where=where)
    return config


def dump(config: AsrConfig, *, where: str) -> None:
    """Print a configuration; then raise the faults that a run would."""
    try:
        config = resolve(config, where=where)
    finally:
        sys.stdout.write(to_yaml(unstructure(config)))


def tokenizer_card(config: AsrConfig) -> AssetCard | None:
    """The card of the tokenizer of a resolved configuration; None if it is given as a path."""
    name = config.tokenizer.name
    return Assets(config).find("tokenizer.name", name, []) if name else None


def _transform_faults(section: DatasetSection) -> Sequence[str]:
    try:
        transforms_of_training(
            section.asr_task_config,
            speed_factors=section.speed_factors,
            transforms=section.transforms,
        )
    except ConfigError as error:
        return error.faults
    return ()


def _decoder_faults(section: DecoderSection) -> Sequence[str]:
    try:
        find_decoder(section.name, section.config)
    except ConfigError as error:
        return error.faults
    except LanguageModelError as error:
        return [f"decoder.config.lm: {error}"]
    return ()


def _with_tokenizer_name(
    config: AsrConfig, model_card: AssetCard | None, dataset_card: AssetCard | None
) -> AsrConfig:
    """Return a configuration with the tokenizer of its cards, if it has none itself."""
    section = config.tokenizer
    if section.path is not None:
        return config
    name = section.name or tokenizer_of(model_card) or tokenizer_of(dataset_card)
    return replace(config, tokenizer=replace(section, name=name))


def _build_without_memory(
    config: AsrConfig, description: ModelDescription, faults: list[str]
) -> Module | None:
    """Build a model on the meta device, which finds sizes that do not fit each other."""
    gangs, settings = create_fake_gangs(CPU), description.config
    try:
        module: Any = description.family.create_new_model(settings, gangs, torch.float32, meta=True)
    except Exception as error:  # noqa: BLE001 - whatever torch raises about sizes
        faults.append(f"model.config_overrides: no model can be built with these values: {error}")
        return None
    layers, kept = len(module.encoder.layers), getattr(config.model, "keep_layers", ())
    if kept and max(kept) >= layers:
        rule = f"must be below {layers}, the number of encoder layers"
        faults.append(f"model.keep_layers {rule}, but is {max(kept)}")
    else:
        keep_layers(module, kept)
    return cast(Module, module)


def _model_faults(
    config: AsrConfig, description: ModelDescription, card: AssetCard | None, size: int | None
) -> Iterator[str]:
    """Check the masking, the weights and the head, which has the ``size`` of the tokenizer."""
    model = description.config
    yield from masking_faults(config.masking, model, description.card_config if card else None)
    if card is not None:
        yield from _weights_faults(card)
    if size is None:
        return
    if description.has_new_head:
        overrides = cast(Mapping[str, object], config.model.config_overrides or {})
        configured = overrides.get("target_vocab_size", size)
        if configured != size:
            rule = f"must be {size}, as in the tokenizer, but is {configured}; leave it out"
            yield f"model.config_overrides.target_vocab_size {rule}"
    elif card is not None and size != model.target_vocab_size:
        yield (
            f"tokenizer has {size} symbols, but the head of '{card.name}' has "
            f"{model.target_vocab_size}; leave tokenizer.name out to use the model's own"
        )


def _with_head_size(config: AsrConfig, size: int | None) -> AsrConfig:
    """Return a configuration whose new head has as many symbols as the tokenizer."""
    overrides = cast(Mapping[str, object], config.model.config_overrides or {})
    changed = {**overrides, "target_vocab_size": size}
    return replace(config, model=replace(config.model, config_overrides=changed))


def _weights_faults(card: AssetCard) -> Iterator[str]:
    """Check that the weights of a card are on the disk, if they should be there."""
    weights = card.field("checkpoint").as_uri() if card.has_field("checkpoint") else None
    if weights is not None and weights.scheme == "file":
        path = Path(url2pathname(weights.path)).resolve()
        if not path.exists():
            yield (
                f"model.name: the weights of '{card.name}' must be in {path}, as its card says; "
                "if the run was moved, give its directory as model.path"
            )


def _training_faults(config: AsrConfig, module: Any) -> Iterator[str]:
    """Compare the layers to freeze and the groups of parameters with the model."""
    layers, frozen = len(module.encoder.layers), config.trainer.freeze_encoder_layers
    if frozen > layers:
        rule = f"must be at most {layers}, the number of encoder layers"
        yield f"trainer.freeze_encoder_layers {rule}, but is {frozen}"
    most = max((top_layers(what) or 0 for what in config.trainer.unfreeze.values()), default=0)
    if most > layers:
        yield f"trainer.unfreeze must name at most {layers} encoder layers, but names {most}"
    optimizer: Any = config.optimizer.config
    names = (name for name, _ in module.named_parameters())
    yield from group_faults(optimizer.groups, config.lr_scheduler.config, names)


def with_accumulation(
    config: AsrConfig, faults: list[str], processes: int | None = None
) -> AsrConfig:
    """Set the batches in a step of each process from ``trainer.effective_audio_minutes``.

    ``processes`` is by default their number in this run. Nothing is set if there are ``faults``.
    """
    minutes, task = config.trainer.effective_audio_minutes, config.dataset.asr_task_config
    if minutes is None or faults:
        return config
    processes = processes or rank_info().world_size
    minutes_in_batches = processes * task.max_num_elements / SAMPLE_RATE / 60
    num_batches = max(round(minutes / minutes_in_batches), 1)
    if abs(num_batches * minutes_in_batches / minutes - 1) > 0.01:
        faults.append(
            f"trainer.effective_audio_minutes must be a multiple of {minutes_in_batches:g}, the "
            f"minutes in {processes} batches of dataset.asr_task_config.max_num_elements samples, "
            f"but is {minutes:g}; the nearest is {num_batches * minutes_in_batches:g}"
        )
        return config
    accumulation = replace(config.trainer.grad_accumulation, num_batches=num_batches)
    return replace(config, trainer=replace(config.trainer, grad_accumulation=accumulation))
