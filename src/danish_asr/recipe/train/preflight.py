"""Checks of a configuration against cards and files, in seconds, before any model is built.

They also fill in what the cards say: the tokenizer, and the size of the head.
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
from fairseq2.models import ModelFamily
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.utils.batching import BatchingStrategy
from torch.nn import Module

from danish_asr.base.cluster import rank_info
from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.fairseq2_private import new_model
from danish_asr.base.files import to_yaml
from danish_asr.base.schema import SAMPLE_RATE, STATISTICS_FILE
from danish_asr.corpus.shards import find_shards, shards_of_split, splitting_hint
from danish_asr.recipe.config.config import AsrConfig, AsrEvalConfig
from danish_asr.recipe.config.loading import is_faulty, unstructure
from danish_asr.recipe.config.sections import AsrModelSection, names_of_splits, top_layers
from danish_asr.recipe.data.dataset import (
    AsrDataset,
    DanishAsrDataset,
    conditions_of_filters,
)
from danish_asr.recipe.data.index import UNKNOWN_DIALECT
from danish_asr.recipe.models.assets import (
    DATASET_FAMILIES,
    Assets,
    described_model,
    overridden,
    validation_indices,
)
from danish_asr.recipe.models.cards import tokenizer_of, with_named_model, with_own_tokenizer
from danish_asr.recipe.models.hugging_face import HUGGING_FACE_FAMILY
from danish_asr.recipe.train.learning import group_faults, layer_groups, optimizer_faults
from danish_asr.recipe.train.masking import masking_faults
from danish_asr.recipe.train.record import recorder_faults


def resolve(config: AsrConfig, *, where: str, faults: Sequence[str] = ()) -> AsrConfig:
    """Return the configuration completed from its cards; the given one is not changed.

    Errors call it ``where``, and report the known ``faults`` with those found here.

    Raises:
        ConfigError: A name or split does not exist, or model, tokenizer and head do not fit.
    """
    found = list(faults)
    try:
        config = with_named_model(config)
        config = with_own_tokenizer(config, config.common.assets.prev_checkpoint_dir)
        assets = Assets(config)
    except ConfigError as error:
        raise ConfigError([*found, *error.faults], where=where) from None
    searched = replace(config.common.assets, extra_paths=assets.extra_paths)
    config = replace(config, common=replace(config.common, assets=searched))
    dataset = _check_dataset(assets, config, found)
    name = config.model.name
    model = assets.find("model.name", name, found) if name else None
    if config.pretrained_encoder.name:
        assets.find("pretrained_encoder.name", config.pretrained_encoder.name, found)
    if config.tokenizer.path is None:
        tokenizer = config.tokenizer.name or tokenizer_of(model) or tokenizer_of(dataset)
        config = replace(config, tokenizer=replace(config.tokenizer, name=tokenizer))
    opened = assets.open_tokenizer(config.tokenizer, found)
    size = opened.vocab_info.size if opened else None
    section, module = _check_model(config, model, assets, size, found)
    config = replace(config, model=section)
    if config.optimizer is not None:  # an evaluation has none
        config = with_accumulation(config, found)
        found.extend(optimizer_faults(config.optimizer.name))
        if module is not None:
            found.extend(_training_faults(config, module, found))
    found.extend(recorder_faults(config.common.metric_recorders.wandb))
    if found:
        raise ConfigError(found, where=where)
    return config


def dump(config: AsrConfig, *, where: str, faults: Sequence[str]) -> None:
    """Print a configuration whose values are sound; then raise the faults that a run would."""
    try:
        config = resolve(config, where=where, faults=faults)
    finally:
        if not faults:
            sys.stdout.write(to_yaml(unstructure(config)))


def tokenizer_card(config: AsrConfig) -> AssetCard | None:
    """The card of the tokenizer of a resolved configuration; None if it is given as a path."""
    name = config.tokenizer.name
    return Assets(config).find("tokenizer.name", name, []) if name else None


def _check_dataset(assets: Assets, config: AsrConfig, faults: list[str]) -> AssetCard | None:
    section, card = config.dataset, None
    if section.storage_mode == "MIXTURE_PARQUET" and not isinstance(config, AsrEvalConfig):
        faults.extend(_summary_faults(section.mixture_parquet_storage_config))
    if section.name:
        card = assets.find("dataset.name", section.name, faults)
        if card is None:
            return None
    elif section.family not in DATASET_FAMILIES:
        if section.family:
            known = ", ".join(DATASET_FAMILIES)
            faults.append(f"dataset.family must be one of {known}, but is '{section.family}'")
        return None
    try:
        # A filter that is not an expression is a fault of every split.
        dataset = assets.open_dataset(section, card)
        found = dict.fromkeys(_dataset_faults(dataset, config))
        found = found or dict.fromkeys(_where_faults(dataset, config))
        faults += found or _score_faults(dataset, config)
    except ConfigError as error:
        faults.extend(error.faults)
    except DatasetError as error:
        known = assets.available("dataset.name", card.name) if card else ""
        fix = f"; or set dataset.name to another one, available: {known}" if card else ""
        faults.append(f"dataset.{'name' if card else 'config_overrides'}: {error}{fix}")
    return card


def _dataset_faults(dataset: AsrDataset, config: AsrConfig) -> Iterator[str]:
    """Compare splits, filters and statistics with the dataset's paths; no audio is read."""
    section, right = config.dataset, "MANIFEST"
    storage = section.mixture_parquet_storage_config
    if isinstance(dataset, DanishAsrDataset):
        right = "MIXTURE_PARQUET"
        find_shards(dataset.path, split_key=storage.split_column)
    if section.storage_mode != right:
        yield f"dataset.storage_mode must be {right} for the dataset '{section.name}'"
    if isinstance(config, AsrEvalConfig):
        splits = [("evaluator.split", name) for name in names_of_splits(config.evaluator.split)]
    else:
        splits = [("dataset.train_split", str(section.train_split))]
        splits += [("dataset.valid_split", name) for name in names_of_splits(section.valid_split)]
    taken: dict[Path, str] = {}
    for key, split in splits:
        try:
            if isinstance(dataset, DanishAsrDataset):
                shards = shards_of_split(dataset.path, split, split_key=storage.split_column)
                if key != "dataset.train_split":
                    both = {taken.setdefault(shard.path, split) for shard in shards} - {split}
                    yield from (
                        f"{key}: '{other}' and '{split}' have rows in common; name one"
                        for other in both
                    )
            elif split not in dataset.splits:
                hint = splitting_hint(split, dataset.splits)
                exist = ", ".join(dataset.splits)
                yield f"{key}: no split '{split}'; the dataset has: {exist}{hint}"
        except ConfigError as error:
            yield from error.faults
        except DatasetError as error:
            yield f"{key}: {error}"


def _where_faults(dataset: AsrDataset, config: AsrConfig) -> Iterator[str]:
    """Check that rows fulfil the conditions; that writes the indices which the run reads."""
    section = config.dataset
    filtered = bool(conditions_of_filters(section.mixture_parquet_storage_config))
    parts = [("dataset.train_where", section.train_where, section.train_split)]
    if isinstance(config, AsrEvalConfig):
        parts = [("evaluator.where", section.valid_where, section.valid_split)]
    else:
        parts += [("dataset.valid_where", section.valid_where, section.valid_split)]
    for key, where, splits in parts:
        for split in names_of_splits(splits) if where or filtered else ():
            try:
                dataset.read_index(split, section.storage_config, where)
            except ConfigError as error:
                yield from (f"{key}: {fault}" for fault in error.faults)
            except DatasetError as error:
                yield f"{key}: {error}"


def _score_faults(dataset: AsrDataset, config: AsrConfig) -> Iterator[str]:
    """Check that the rows to validate on have the score that the run is judged by."""
    section, metric = config.dataset, config.regime.score_metric
    trains = not isinstance(config, AsrEvalConfig)
    if trains and section.valid_split and metric == "worst_group_wer":
        indices = validation_indices(dataset, section, section.valid_split, section.valid_subset)
        dialects = [name for index in indices.values() for name in index.dialects()[1]]
        if not set(dialects) - {UNKNOWN_DIALECT}:
            yield (
                f"regime.score_metric: {metric} needs rows with a dialect, and "
                f"dataset.valid_split '{section.valid_split}' has none; set regime.score_metric=wer"
            )


def _summary_faults(storage: MixtureParquetStorageConfig) -> Iterator[str]:
    file = storage.dataset_summary_path
    if file and not Path(file).is_file():
        key = "dataset.mixture_parquet_storage_config.dataset_summary_path"
        yield f"{key} must be a file, but is '{file}'; a built dataset has {STATISTICS_FILE}"


def _check_model(
    config: AsrConfig,
    card: AssetCard | None,
    assets: Assets,
    size: int | None,
    faults: list[str],
) -> tuple[AsrModelSection, Module | None]:
    """Check which model is trained; return its section, completed, and the model without memory.

    A new head gets the size of the tokenizer, which a trained one must have.
    """
    section = config.model
    kind = card.field("model_family").as_(str) if card else WAV2VEC2_ASR_FAMILY
    family = cast(ModelFamily, assets.model_family(kind))
    usual = described_model(section, card, family, faults)
    if usual is None:
        return section, None
    try:
        model: Any = overridden(usual, section.config_overrides, "model")
        # Without memory: this finds sizes that do not fit each other.
        module = new_model(family, model, create_fake_gangs(CPU), torch.float32, meta=True)
    except ConfigError as error:
        faults.extend(error.faults)
        return section, None
    except Exception as error:  # noqa: BLE001 - whatever torch raises about sizes
        faults.append(f"model.config_overrides: no model can be built with these values: {error}")
        return section, None
    faults.extend(masking_faults(config.masking, model, usual if card else None))
    if card is not None:
        faults.extend(_weights_faults(card))
    if card is None or (kind == HUGGING_FACE_FAMILY and not model.head_rows):
        if card is not None and isinstance(config, AsrEvalConfig):
            # Alone, as its lack of a tokenizer follows from it.
            name = card.name.removesuffix("-hf")  # of `import_model`
            faults[:] = [f"model.path: '{name}' is an encoder without a head; train it first"]
        overrides = cast(Mapping[str, object], section.config_overrides or {})
        given = overrides.get("target_vocab_size", size)
        if size is not None and given != size:
            rule = f"must be {size}, as in the tokenizer, but is {given}; leave it out"
            faults.append(f"model.config_overrides.target_vocab_size {rule}")
        section = replace(section, config_overrides={**overrides, "target_vocab_size": size})
    elif size not in {None, model.target_vocab_size}:
        faults.append(
            f"tokenizer has {size} symbols, but the head of '{card.name}' has "
            f"{model.target_vocab_size}; leave tokenizer.name out to use the model's own"
        )
    return section, module


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


def _training_faults(config: AsrConfig, module: Any, faults: Sequence[str]) -> Iterator[str]:
    """Compare the layers to freeze and the groups of parameters with the model."""
    layers, frozen = len(module.encoder.layers), config.trainer.freeze_encoder_layers
    if frozen > layers:
        rule = f"must be at most {layers}, the number of encoder layers"
        yield f"trainer.freeze_encoder_layers {rule}, but is {frozen}"
    if not is_faulty("trainer.unfreeze", faults):
        most = max((top_layers(what) or 0 for what in config.trainer.unfreeze.values()), default=0)
        if most > layers:
            yield f"trainer.unfreeze must name at most {layers} encoder layers, but names {most}"
    optimizer: Any = config.optimizer.config
    keys = ("optimizer.config.groups", "optimizer.layer_decay")
    if not any(is_faulty(key, faults) for key in keys):
        names = (name for name, _ in module.named_parameters())
        decay, groups = config.optimizer.layer_decay, optimizer.groups
        if decay is not None:
            if groups:
                yield "optimizer.layer_decay must be null with optimizer.config.groups"
            groups = layer_groups(optimizer, decay, layers)
        yield from group_faults(groups, config.lr_scheduler.config, names)


def with_accumulation(
    config: AsrConfig, faults: list[str], processes: int | None = None
) -> AsrConfig:
    """Set the batches in a step of each process from ``trainer.effective_audio_minutes``.

    ``processes`` is by default their number in this run.
    """
    minutes, task = config.trainer.effective_audio_minutes, config.dataset.asr_task_config
    if minutes is None or faults:
        return config
    if task.batching_strategy is not BatchingStrategy.LENGTH:
        rule = "must be null with dataset.asr_task_config.batching_strategy=STATIC"
        faults.append(f"trainer.effective_audio_minutes {rule}, but is {minutes:g}")
        return config
    processes = processes or rank_info(config.common.cluster).world_size
    each = processes * task.max_num_elements / SAMPLE_RATE / 60
    batches = max(round(minutes / each), 1)
    if abs(batches * each / minutes - 1) > 0.01:
        lower = max(int(minutes / each), 1)
        faults.append(
            f"trainer.effective_audio_minutes must be a multiple of {each:g}, the minutes in "
            f"{processes} batches of dataset.asr_task_config.max_num_elements samples, but is "
            f"{minutes:g}; the nearest are {lower * each:g} and {(lower + 1) * each:g}"
        )
        return config
    accumulation = replace(config.trainer.grad_accumulation, num_batches=batches)
    return replace(config, trainer=replace(config.trainer, grad_accumulation=accumulation))
