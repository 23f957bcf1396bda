"""A configuration, completed from its cards, with what it names: all opened once, in seconds.

No model is built yet but one without memory, which shows whether its sizes fit. What is wrong is
raised at once, as the faults of one ConfigError.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import torch
from fairseq2.assets import AssetCard
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs
from torch.nn import Module

from danish_asr.base.cluster import rank_info
from danish_asr.base.errors import ConfigError, DatasetError, LanguageModelError
from danish_asr.base.files import to_yaml
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.decoders import find_decoder
from danish_asr.recipe.config.load import top_layers, unstructure
from danish_asr.recipe.config.schema import AsrConfig, DecoderSection
from danish_asr.recipe.data.index import DanishAsrDataset, OpenRows, open_rows
from danish_asr.recipe.data.transforms import transforms_of_training
from danish_asr.recipe.models.cards import (
    Assets,
    ModelDescription,
    head_fault,
    open_tokenizer,
    tokenizer_of,
    weights_fault,
    with_named_model,
)
from danish_asr.recipe.run.run_directory import own_tokenizer
from danish_asr.recipe.train.learning import group_faults, keep_layers, optimizer_faults
from danish_asr.recipe.train.masking import masking_faults
from danish_asr.recipe.train.record import recorder_faults

P = ParamSpec("P")
T = TypeVar("T")


class Resolved(NamedTuple):
    """What a run needs beside its model's weights."""

    config: AsrConfig  # with tokenizer, size of a new head, and accumulation
    tokenizer_file: Path
    tokenizer: Tokenizer
    dataset: Path  # the root of the built dataset
    rows: OpenRows


class _Faults(list[str]):
    """The faults that checks have found so far."""

    def attempt(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a function and return its value; None, and its faults are added, if it has some."""
        try:
            return function(*args, **kwargs)
        except ConfigError as error:
            self.extend(error.faults)
        return None

    def raise_any(self, where: str) -> None:
        if self:
            raise ConfigError(list(dict.fromkeys(self)), where=where)


def resolve(config: AsrConfig, *, where: str) -> Resolved:
    """Open what a configuration names, and complete it; the given one is not changed.

    Errors call it ``where``.

    Raises:
        ConfigError: A name or split does not exist, or model, tokenizer and head do not fit.
    """
    faults = _Faults()
    config = faults.attempt(with_named_model, config) or config
    assets = faults.attempt(Assets, config.common.assets)
    faults.raise_any(where)
    assert assets is not None
    # fairseq2 wants each directory of cards once.
    section = replace(config.common.assets, extra_paths=assets.extra_paths)
    config = replace(config, common=replace(config.common, assets=section))

    dataset_card = model_card = data = None
    if config.dataset.name:
        dataset_card = faults.attempt(assets.find, "dataset.name", config.dataset.name)
    if dataset_card is not None or not config.dataset.name:
        data = faults.attempt(_open_dataset, assets, config, dataset_card)
    if config.model.name:
        model_card = faults.attempt(assets.find, "model.name", config.model.name)
    if encoder := config.pretrained_encoder.name:
        faults.attempt(assets.find, "pretrained_encoder.name", encoder)

    config = _with_tokenizer(config, model_card, dataset_card)
    file = tokenizer = None
    # Otherwise the card that names it may be the one that was not found.
    if config.tokenizer.path or config.tokenizer.name or not faults:
        file = faults.attempt(assets.tokenizer_file, config.tokenizer)
    if file is not None:
        tokenizer = faults.attempt(open_tokenizer, file)
    if model_card is not None or not config.model.name:
        size = tokenizer.vocab_info.size if tokenizer else None
        config = faults.attempt(_with_model, config, assets, model_card, size) or config
    if config.trains:
        faults.extend(optimizer_faults(config.optimizer.name))
        config = faults.attempt(with_accumulation, config) or config
    faults.attempt(transforms_of_training, config.dataset)
    faults.attempt(_check_decoder, config.decoder)
    faults.extend(recorder_faults(config.common.metric_recorders.wandb))
    faults.raise_any(where)
    assert file is not None
    assert tokenizer is not None
    assert data is not None
    dataset, rows = data
    return Resolved(config, file, tokenizer, dataset.root, rows)


def dump(config: AsrConfig, *, where: str) -> None:
    """Print a configuration; then raise the faults that a run would."""
    try:
        config = resolve(config, where=where).config
    finally:
        sys.stdout.write(to_yaml(unstructure(config)))


def _open_dataset(
    assets: Assets, config: AsrConfig, card: AssetCard | None
) -> tuple[DanishAsrDataset, OpenRows]:
    dataset = assets.open_dataset(config.dataset, card)
    try:
        return dataset, open_rows(dataset, config)
    except DatasetError as error:
        if card is None:
            raise ConfigError([f"dataset.config_overrides: {error}"]) from error
        names = assets.available("dataset.name", card.name)
        fault = f"dataset.name: {error}; or set dataset.name to another one, available: {names}"
        raise ConfigError([fault]) from error


def _with_tokenizer(
    config: AsrConfig, model_card: AssetCard | None, dataset_card: AssetCard | None
) -> AsrConfig:
    """Return a configuration with its tokenizer.

    A checkpoint of a run has the run's, else it is the one that is named, or that of a card.
    """
    section, checkpoints = config.tokenizer, config.common.assets.prev_checkpoint_dir
    file = own_tokenizer(checkpoints.parent) if checkpoints else None
    if file is not None:
        return replace(config, tokenizer=replace(section, name=None, path=file))
    if section.path is not None:
        return config
    name = section.name or tokenizer_of(model_card) or tokenizer_of(dataset_card)
    return replace(config, tokenizer=replace(section, name=name))


def _check_decoder(section: DecoderSection) -> None:
    try:
        find_decoder(section.name, section.config)
    except LanguageModelError as error:
        raise ConfigError([f"decoder.config.lm: {error}"]) from error


def _with_model(
    config: AsrConfig, assets: Assets, card: AssetCard | None, size: int | None
) -> AsrConfig:
    """Check the model, and return a configuration with the size of a new head.

    ``size`` is that of the tokenizer, if there is one.
    """
    description = assets.describe_model(config.model, card)
    if description.has_new_head and not config.trains:
        raise ConfigError(["model: it is an encoder without a head; train it first"])
    faults = list(_model_faults(config, description, card, size))
    module = _build_without_memory(config, description)
    if config.trains:
        faults += _training_faults(config, module)
    if faults:
        raise ConfigError(faults)
    if not description.has_new_head:
        return config
    overrides = {**(config.model.config_overrides or {}), "target_vocab_size": size}
    return replace(config, model=replace(config.model, config_overrides=overrides))


def _build_without_memory(config: AsrConfig, description: ModelDescription) -> Module:
    """Build a model on the meta device, which finds sizes that do not fit each other."""
    gangs, settings = create_fake_gangs(CPU), description.config
    try:
        module: Any = description.family.create_new_model(settings, gangs, torch.float32, meta=True)
    except Exception as error:
        fault = f"model.config_overrides: no model can be built with these values: {error}"
        raise ConfigError([fault]) from error
    layers, kept = len(module.encoder.layers), config.model.keep_layers
    if kept and max(kept) >= layers:
        rule = f"must be below {layers}, the number of encoder layers"
        raise ConfigError([f"model.keep_layers {rule}, but is {max(kept)}"])
    keep_layers(module, kept)
    return cast(Module, module)


def _model_faults(
    config: AsrConfig, description: ModelDescription, card: AssetCard | None, size: int | None
) -> Iterator[str]:
    """Check the masking, the weights and the head, which has the ``size`` of the tokenizer."""
    model = description.config
    yield from masking_faults(config.masking, model, description.card_config if card else None)
    if card is not None and (fault := weights_fault(card)):
        yield fault
    if card is not None and size not in {None, model.target_vocab_size}:
        yield head_fault(card.name, size, model.target_vocab_size)
    configured = (config.model.config_overrides or {}).get("target_vocab_size", size)
    if description.has_new_head and size not in {None, configured}:
        rule = f"must be {size}, as in the tokenizer, but is {configured}; leave it out"
        yield f"model.config_overrides.target_vocab_size {rule}"


def _training_faults(config: AsrConfig, module: Any) -> Iterator[str]:
    """Compare the layers to freeze and the groups of parameters with the model."""
    layers, frozen = len(module.encoder.layers), config.trainer.freeze_encoder_layers
    if frozen > layers:
        rule = f"must be at most {layers}, the number of encoder layers"
        yield f"trainer.freeze_encoder_layers {rule}, but is {frozen}"
    most = max((top_layers(what) or 0 for what in config.trainer.unfreeze.values()), default=0)
    if most > layers:
        yield f"trainer.unfreeze must name at most {layers} encoder layers, but names {most}"
    yield from group_faults(config.optimizer.config.groups, dict(module.named_parameters()))


def with_accumulation(config: AsrConfig, processes: int | None = None) -> AsrConfig:
    """Set the batches in a step of each process from ``trainer.effective_audio_minutes``.

    ``processes`` is by default their number in this run.

    Raises:
        ConfigError: No number of batches has so much audio.
    """
    minutes, task = config.trainer.effective_audio_minutes, config.dataset.asr_task_config
    if minutes is None:
        return config
    processes = processes or rank_info().world_size
    minutes_in_batches = processes * task.max_num_elements / SAMPLE_RATE / 60
    num_batches = max(round(minutes / minutes_in_batches), 1)
    if abs(num_batches * minutes_in_batches / minutes - 1) > 0.01:
        fault = (
            f"trainer.effective_audio_minutes must be a multiple of {minutes_in_batches:g}, the "
            f"minutes in {processes} batches of dataset.asr_task_config.max_num_elements samples, "
            f"but is {minutes:g}; the nearest is {num_batches * minutes_in_batches:g}"
        )
        raise ConfigError([fault])
    accumulation = replace(config.trainer.grad_accumulation, num_batches=num_batches)
    return replace(config, trainer=replace(config.trainer, grad_accumulation=accumulation))
