"""A configuration, completed from its cards, with what it names: all opened once, in seconds.

No model is built yet but one without memory, which shows whether its sizes fit. What is wrong is
raised at once, as the faults of one ConfigError.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec, TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

import torch
from fairseq2.assets import AssetCard
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs

from danish_asr.base.cluster import rank_info
from danish_asr.base.errors import ConfigError, DatasetError, MissingExtraError
from danish_asr.base.files import to_yaml
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.base.stops import ends_in_time
from danish_asr.decoding.decoders import find_decoder
from danish_asr.recipe.config.load import top_layers, unstructure
from danish_asr.recipe.config.schema import AsrConfig, WandbConfig
from danish_asr.recipe.config.training_sections import OPTIMIZERS
from danish_asr.recipe.data.index import DanishAsrDataset, OpenRows, open_rows
from danish_asr.recipe.data.transforms import transforms_of_training
from danish_asr.recipe.models.cards import (
    Assets,
    ModelDescription,
    head_fault,
    open_tokenizer,
    tokenizer_of,
    with_named_model,
)
from danish_asr.recipe.run.run_directory import TOKENIZER
from danish_asr.recipe.train.masking import masking_faults

_ANSWER_SECONDS: Final = 5

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
    """The faults that checks have had so far."""

    def attempt(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the value of a function, or None if it raises faults, which are added."""
        try:
            return function(*args, **kwargs)
        except ConfigError as error:
            self.extend(error.faults)
        return None


def resolve(config: AsrConfig, *, where: str) -> Resolved:
    """Open what a configuration names, and complete a copy of it; errors call it ``where``.

    Raises:
        ConfigError: A name or split does not exist, or model, tokenizer and head do not fit.
    """
    try:
        return _resolved(config)
    except ConfigError as error:
        raise ConfigError(error.faults, where=where) from error.__cause__


def _resolved(config: AsrConfig) -> Resolved:
    config = with_named_model(config)
    assets = Assets(config.common.assets)
    # fairseq2 wants each directory of cards once.
    section = replace(config.common.assets, extra_paths=assets.extra_paths)
    config = replace(config, common=replace(config.common, assets=section))

    faults, data = _Faults(), None
    dataset, model, encoder = config.dataset.name, config.model.name, config.pretrained_encoder.name
    dataset_card = faults.attempt(assets.find, "dataset.name", dataset) if dataset else None
    if dataset_card is not None or not dataset:
        data = faults.attempt(_open_dataset, assets, config, dataset_card)
    model_card = faults.attempt(assets.find, "model.name", model) if model else None
    if encoder:
        faults.attempt(assets.find, "pretrained_encoder.name", encoder)
    if config.trains:
        faults.extend(_optimizer_faults(config.optimizer.name))
    faults.attempt(transforms_of_training, config.dataset)
    faults.attempt(find_decoder, config.decoder.name, config.decoder.config)
    faults.extend(recorder_faults(config.common.metric_recorders.wandb))
    if faults or data is None:
        raise ConfigError(faults)

    config = _with_tokenizer(config, model_card, dataset_card)
    file = assets.tokenizer_file(config.tokenizer)
    tokenizer = open_tokenizer(file)
    config = _with_model(config, assets, model_card, tokenizer.vocab_info.size)
    if config.trains:
        config = with_accumulation(config)
    opened, rows = data
    return Resolved(config, file, tokenizer, opened.root, rows)


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
        names = assets.available("dataset.name", card.name if card else "")
        fault = f"dataset.name: {error}; or set dataset.name to another one, available: {names}"
        raise ConfigError([fault]) from error


def _with_tokenizer(
    config: AsrConfig, model_card: AssetCard | None, dataset_card: AssetCard | None
) -> AsrConfig:
    """Return a configuration with its tokenizer: the run's, the one that is named, or a card's."""
    section, checkpoints = config.tokenizer, config.common.assets.prev_checkpoint_dir
    if checkpoints is not None and (checkpoints / TOKENIZER).is_file():
        section = replace(section, name=None, path=checkpoints / TOKENIZER)
    elif section.path is None:
        name = section.name or tokenizer_of(model_card) or tokenizer_of(dataset_card)
        section = replace(section, name=name)
    return replace(config, tokenizer=section)


def _with_model(config: AsrConfig, assets: Assets, card: AssetCard | None, size: int) -> AsrConfig:
    """Check the model, and return a configuration with the ``size`` of the tokenizer's head."""
    description = assets.describe_model(config.model, card)
    if description.has_new_head and not config.trains:
        raise ConfigError(["model: it is an encoder without a head; train it first"])
    faults = [
        *_model_faults(config, description, card, size),
        *_layer_faults(config, description.config.encoder_config.num_encoder_layers),
        *_size_faults(description),
    ]
    if faults:
        raise ConfigError(faults)
    if not description.has_new_head:
        return config
    overrides = {**(config.model.config_overrides or {}), "target_vocab_size": size}
    return replace(config, model=replace(config.model, config_overrides=overrides))


def _model_faults(
    config: AsrConfig, description: ModelDescription, card: AssetCard | None, size: int
) -> Iterator[str]:
    """Check the masking and the head, which has the ``size`` of the tokenizer."""
    model = description.config
    yield from masking_faults(config.masking, model)
    if card is not None and size != model.target_vocab_size:
        yield head_fault(card.name, size, model.target_vocab_size)
    configured = (config.model.config_overrides or {}).get("target_vocab_size", size)
    if description.has_new_head and size != configured:
        rule = f"must be {size}, as in the tokenizer, but is {configured}; leave it out"
        yield f"model.config_overrides.target_vocab_size {rule}"


def _layer_faults(config: AsrConfig, layers: int) -> Iterator[str]:
    """Compare the encoder layers that a training keeps, freezes and frees with those there are."""
    if not config.trains:
        return
    tops = [top_layers(what) or 0 for what in config.trainer.unfreeze.values()]
    needed = {
        "model.keep_layers": max(config.model.keep_layers, default=-1) + 1,
        "trainer.freeze_encoder_layers": config.trainer.freeze_encoder_layers,
        "trainer.unfreeze": max(tops, default=0),
    }
    for key, number in needed.items():
        if number > layers:
            yield f"{key} must name at most {layers} encoder layers, but names {number}"


def _size_faults(description: ModelDescription) -> Iterator[str]:
    """Build the model without memory."""
    gangs, settings = create_fake_gangs(CPU), description.config
    try:
        description.family.create_new_model(settings, gangs, torch.float32, meta=True)
    except Exception as error:  # noqa: BLE001 - whatever sizes that do not fit each other raise
        yield f"model.config_overrides: no model can be built with these values: {error}"


def _optimizer_faults(name: str) -> Iterator[str]:
    extra = OPTIMIZERS[name].extra
    if extra is not None and find_spec(extra) is None:
        yield f"optimizer.name: {MissingExtraError(name, extra)}"


def with_accumulation(config: AsrConfig, processes: int | None = None) -> AsrConfig:
    """Set the batches in a step of a process from ``trainer.effective_audio_minutes``.

    ConfigError if no number of batches has so much audio. ``processes``: None for those here.
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


def recorder_faults(section: WandbConfig) -> list[str]:
    """Return why Weights & Biases cannot be used: it would wait for its server for ever."""
    if not section.enabled:
        return []
    key = "common.metric_recorders.wandb.enabled"
    if find_spec("wandb") is None:
        return [f"{key}: {MissingExtraError('W&B', 'wandb')}"]
    server = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    is_online = os.environ.get("WANDB_MODE", "online") in {"online", "shared", "run"}
    if is_online and rank_info().rank == 0 and not _answers(server):
        fix = "WANDB_MODE=offline records it in OUTDIR/wandb, and `wandb sync` uploads it later"
        return [f"{key}: {server} does not answer within {_ANSWER_SECONDS} s; {fix}"]
    return []


def _answers(url: str) -> bool:
    """Whether a server answers in time, with whatever status; a look-up of its name may hang."""

    def ask() -> None:
        try:
            urlopen(url, timeout=_ANSWER_SECONDS).close()  # noqa: S310
        except HTTPError as error:
            error.close()

    try:
        return ends_in_time(ask, _ANSWER_SECONDS)
    except OSError:
        return False
