"""A configuration, completed from its cards, with what it names: all opened once, in seconds.

No model is built yet but one without memory, which shows whether its sizes fit. What is wrong is
raised at once, as the faults of one ConfigError.

A run that continues takes the model's configuration and the tokenizer from its directory: the model
that it began with may have been trained on, or be gone. The weights are those of its checkpoint.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import torch
from fairseq2.assets import AssetCard
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs
from fairseq2.utils.structured import StandardValueConverter

from danish_asr.base.cluster import rank_info
from danish_asr.base.config_tree import Tree
from danish_asr.base.errors import ConfigError, DatasetError, MissingExtraError
from danish_asr.base.files import publish, publish_text, to_yaml
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.base.stops import ends_in_time
from danish_asr.decoding.decoders import find_decoder
from danish_asr.recipe.config.load import top_layers, unstructure, validated
from danish_asr.recipe.config.schema import (
    AsrConfig,
    EncoderSection,
    ModelSection,
    TokenizerSection,
    WandbConfig,
)
from danish_asr.recipe.config.training_sections import OPTIMIZERS
from danish_asr.recipe.data.index import DanishAsrDataset, OpenRows, open_rows
from danish_asr.recipe.data.sampler import repeats_of
from danish_asr.recipe.data.transforms import transforms_of_training
from danish_asr.recipe.models.cards import (
    Assets,
    ModelDescription,
    open_tokenizer,
    tokenizer_of,
    with_named_model,
)
from danish_asr.recipe.run.run import MODEL_CARD, START, TOKENIZER, Run
from danish_asr.recipe.train.masking import masking_faults
from danish_asr.text.profiles import normalizer

_ANSWER_SECONDS: Final = 5

NAMING: Final = ("model", "pretrained_encoder", "tokenizer")
"""The sections of a configuration that name the model of a training."""

_ASKED: Final = "asked"

RowsT = TypeVar("RowsT")


class Resolved(NamedTuple):
    """What a run needs beside its model's weights."""

    config: AsrConfig  # with tokenizer, size of a new head, and accumulation
    asked: AsrConfig  # the same where ``model.path`` is not replaced
    placed: Sequence[Tree]  # cards of models that are named by a path, or that the run began with
    model: ModelDescription
    tokenizer_file: Path
    tokenizer: Tokenizer
    dataset: Path  # the root of the built dataset
    rows: OpenRows


def resolve(config: AsrConfig, run: Run | None = None, *, where: str) -> Resolved:
    """Open what a configuration names, and complete a copy of it; errors call it ``where``.

    Raises:
        ConfigError: A name or split does not exist, or model, tokenizer and head do not fit.
    """
    try:
        return _resolved(config, run)
    except ConfigError as error:
        raise ConfigError(error.faults, where=where) from error.__cause__


def _resolved(asked: AsrConfig, run: Run | None) -> Resolved:
    began = began_with(run, asked) if run else None
    if began:
        asked, config, placed = began
    else:
        config, placed = with_named_model(asked)
    assets = Assets(config.common.assets, placed)
    # fairseq2 wants each directory of cards once.
    section = replace(config.common.assets, extra_paths=assets.extra_paths)
    config = replace(config, common=replace(config.common, assets=section))

    faults = list[str]()
    with collected(faults):
        dataset_card = _card(assets, "dataset.name", config.dataset.name)
        dataset, rows = open_dataset(assets, config, open_rows)
        faults += row_faults(rows, config)
    with collected(faults):
        model_card = _card(assets, "model.name", config.model.name)
    with collected(faults):
        _card(assets, "pretrained_encoder.name", config.pretrained_encoder.name)
    with collected(faults):
        transforms_of_training(config.dataset)
    with collected(faults):
        find_decoder(config.decoder.name, config.decoder.config)
    faults += _optimizer_faults(config.optimizer.name)
    faults += recorder_faults(config.common.metric_recorders.wandb)
    if faults:
        raise ConfigError(faults)

    config = _with_tokenizer(config, model_card, dataset_card)
    file = assets.tokenizer_file(config.tokenizer)
    tokenizer = open_tokenizer(file)
    size = tokenizer.vocab_info.size
    model = _checked_model(config, assets, model_card, size)
    if model.has_new_head:
        overrides = {**(config.model.config_overrides or {}), "target_vocab_size": size}
        config = replace(config, model=replace(config.model, config_overrides=overrides))
        model = model._replace(config=replace(model.config, target_vocab_size=size))
    config = with_accumulation(config)
    if placed:  # so that the configuration says what was asked for
        sections = {key: getattr(asked, key) for key in NAMING}
        asked = replace(config, **sections)
    else:
        asked = config
    return Resolved(config, asked, placed, model, file, tokenizer, dataset.root, rows)


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


@contextmanager
def collected(faults: list[str]) -> Iterator[None]:
    """Add the faults of what is done to the list, so that more can be found."""
    try:
        yield
    except ConfigError as error:
        faults += error.faults


def _card(assets: Assets, key: str, name: str | None) -> AssetCard | None:
    return assets.find(key, name) if name else None


def dump(config: AsrConfig, *, where: str) -> None:
    """Print a configuration; then raise the faults that a run would."""
    try:
        config = resolve(config, where=where).asked
    finally:
        sys.stdout.write(to_yaml(unstructure(config)))


def open_dataset(
    assets: Assets, config: AsrConfig, read: Callable[[DanishAsrDataset, AsrConfig], RowsT]
) -> tuple[DanishAsrDataset, RowsT]:
    """Open a dataset and what is read of it; raises ConfigError if it cannot be read."""
    card = _card(assets, "dataset.name", config.dataset.name)
    dataset = assets.open_dataset(config.dataset, card)
    try:
        return dataset, read(dataset, config)
    except DatasetError as error:
        names = assets.available("dataset.name", card.name if card else "")
        fix = "name it with `--dataset DIR` if it was moved, or set dataset.name to another one"
        fault = f"dataset.name: {error}; {fix}, available: {names}"
        raise ConfigError([fault]) from error


def _with_tokenizer(
    config: AsrConfig, model_card: AssetCard | None, dataset_card: AssetCard | None
) -> AsrConfig:
    """Return a configuration with its tokenizer: the one that is named, or a card's."""
    section = config.tokenizer
    if section.path is None:
        name = section.name or tokenizer_of(model_card) or tokenizer_of(dataset_card)
        section = replace(section, name=name)
    return replace(config, tokenizer=section)


def _checked_model(
    config: AsrConfig, assets: Assets, card: AssetCard | None, size: int
) -> ModelDescription:
    """Describe the model, below a head of ``size`` symbols; raises the faults of both."""
    description = assets.describe_model(config.model, card)
    faults = [
        *_model_faults(config, description, card, size),
        *_layer_faults(config, description.config.encoder_config.num_encoder_layers),
        *_size_faults(description),
    ]
    if faults:
        raise ConfigError(faults)
    return description


def _model_faults(
    config: AsrConfig, description: ModelDescription, card: AssetCard | None, size: int
) -> Iterator[str]:
    """Check the masking and the head, which has the ``size`` of the tokenizer."""
    model = description.config
    yield from masking_faults(config.masking, model)
    if card is not None and size != model.target_vocab_size:
        yield (
            f"tokenizer has {size} symbols, but the head of '{card.name}' has "
            f"{model.target_vocab_size}; leave tokenizer.name out to use the model's own"
        )
    configured = (config.model.config_overrides or {}).get("target_vocab_size", size)
    if description.has_new_head and size != configured:
        rule = f"must be {size}, as in the tokenizer, but is {configured}; leave it out"
        yield f"model.config_overrides.target_vocab_size {rule}"


def _layer_faults(config: AsrConfig, layers: int) -> Iterator[str]:
    """Compare the encoder layers that a training keeps, freezes and frees with those there are."""
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


def row_faults(rows: OpenRows, config: AsrConfig) -> Iterator[str]:
    """Check that an epoch has a row, and that rows have the score that the run is judged by."""
    beta = config.dataset.mixture_parquet_storage_config.beta_corpus
    for index in rows.train.values():
        shown = repeats_of(index, np.arange(len(index), dtype=np.int32), beta).sum()
        if shown < 1:
            yield f"dataset.weights leave {shown:.2g} rows in an epoch; raise the factors"
    metric, section = config.regime.score_metric, config.dataset
    if metric == "loss" or not rows.valid:
        return
    normal = normalizer(config.regime.score_profile)
    of_metric = metric == "worst_group_wer"
    if not any(
        normal(text)
        for index in rows.valid.values()
        for text, dialect in index.rows.select("text", "dialect").iter_rows()
        if dialect is not None or not of_metric
    ):
        what = "rows with a dialect and words" if of_metric else "rows with words"
        where = f"dataset.valid_split '{section.valid_split}'"
        profile = f"under the profile {config.regime.score_profile}"
        yield f"regime.score_metric: {metric} needs {what} {profile}, and {where} has none"


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
