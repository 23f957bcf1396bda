"""Checks of a configuration against cards and files, in seconds, before any model is built.

They also fill in what the cards say: the tokenizer, and the size of the head.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from fairseq2.assets import AssetCard
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs
from fairseq2.models import ModelFamily
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY
from fairseq2.recipe.config import ModelSection
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig

from danish_asr.data.dataset import AsrDataset, DanishAsrDataset
from danish_asr.data.shards import chosen_shards, find_shards
from danish_asr.errors import ConfigError, DatasetError
from danish_asr.recipe.assets import DATASET_FAMILIES, Assets, overridden
from danish_asr.recipe.config import AsrConfig, AsrEvalConfig
from danish_asr.recipe.optimizers import optimizer_faults
from danish_asr.recipe.run_directory import CHECKPOINTS, MODEL_CARD
from danish_asr.recipe.sections import names_of_splits
from danish_asr.schema import CARDS_DIR


def resolve(config: AsrConfig, *, where: str, faults: Sequence[str] = ()) -> AsrConfig:
    """Return the configuration completed from its cards; the given one is not changed.

    Errors call it ``where``, and report the known ``faults`` with those found here.

    Raises:
        ConfigError: A name or split does not exist, or model, tokenizer and head do not fit.
    """
    found, config = list(faults), _name_own_model(config)
    try:
        assets = Assets(config)
    except ConfigError as error:
        raise ConfigError([*found, *error.faults], where=where) from None
    searched = replace(config.common.assets, extra_paths=assets.extra_paths)
    config = replace(config, common=replace(config.common, assets=searched))
    dataset = _check_dataset(assets, config, found)
    section = config.model
    model = assets.find("model.name", section.name, found) if section.name else None
    if config.pretrained_encoder.name:
        assets.find("pretrained_encoder.name", config.pretrained_encoder.name, found)
    if config.tokenizer.path is None:
        tokenizer = config.tokenizer.name or _tokenizer_of(model) or _tokenizer_of(dataset)
        config = replace(config, tokenizer=replace(config.tokenizer, name=tokenizer))
    size = assets.vocabulary_size(config.tokenizer, found)
    if model is not None:
        _check_trained_head(_family(assets), model, size, found)
    elif section.path is not None and not (section.arch and section.path.exists()):
        found.append(
            f"model.path {section.path} must be a finished run or one checkpoint of a run "
            "(OUTDIR/checkpoints/step_<n>); another checkpoint needs model.arch"
        )
    elif section.arch is not None:
        config = replace(config, model=_with_new_head(_family(assets), section, size, found))
    elif not found:
        found.append("model.name, model.arch or model.path must say which model to train")
    if config.optimizer is not None:  # an evaluation has none
        found.extend(optimizer_faults(config.optimizer.name))
    if found:
        raise ConfigError(found, where=where)
    return config


def tokenizer_card(config: AsrConfig) -> AssetCard | None:
    """The card of the tokenizer of a resolved configuration; None if it is given as a path."""
    name = config.tokenizer.name
    return Assets(config).find("tokenizer.name", name, []) if name else None


def _name_own_model(config: AsrConfig) -> AsrConfig:
    """Replace a ``model.path`` that is a finished run or a run's checkpoint by its card's name."""
    path, assets = config.model.path, config.common.assets
    if path is None:
        return config
    step = path.parent if path.name == "model" else path
    if step.parent.name == CHECKPOINTS and (step.parent / MODEL_CARD).is_file():
        name = f"checkpoint_{step.name}"
        assets = replace(assets, prev_checkpoint_dir=step.parent.resolve())
    elif cards := sorted((path / CARDS_DIR).glob("*.yaml")):
        name = cards[0].stem
        assets = replace(assets, extra_paths=[*assets.extra_paths, cards[0].parent])
    else:
        return config
    common = replace(config.common, assets=assets)
    return replace(config, model=replace(config.model, path=None, name=name), common=common)


def _check_dataset(assets: Assets, config: AsrConfig, faults: list[str]) -> AssetCard | None:
    section, card = config.dataset, None
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
        faults += dict.fromkeys(_dataset_faults(assets.open_dataset(section, card), config))
    except ConfigError as error:
        faults.extend(error.faults)
    except DatasetError as error:
        faults.append(f"dataset.{'name' if card else 'config_overrides'}: {error}")
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
        if right == "MIXTURE_PARQUET":
            yield from _summary_faults(storage)
    for key, split in splits:
        try:
            if isinstance(dataset, DanishAsrDataset):
                chosen_shards(dataset.path, split, storage)
            elif split not in dataset.splits:
                yield f"{key}: no split '{split}'; the dataset has: {', '.join(dataset.splits)}"
        except ConfigError as error:
            yield from error.faults
        except DatasetError as error:
            yield f"{key}: {error}"


def _summary_faults(storage: MixtureParquetStorageConfig) -> Iterator[str]:
    file = storage.dataset_summary_path
    weighted = storage.beta_corpus is not None or storage.beta_language is not None
    if file and weighted and not Path(file).is_file():
        key = "dataset.mixture_parquet_storage_config.dataset_summary_path"
        yield f"{key} must be a file, but is '{file}'"


def _tokenizer_of(card: AssetCard | None) -> str | None:
    """The tokenizer that a model's or dataset's card names, or that it holds itself."""
    if card is None:
        return None
    if card.has_field("tokenizer_ref"):
        return card.field("tokenizer_ref").as_(str)
    return card.name if card.has_field("tokenizer_family") else None


def _family(assets: Assets) -> ModelFamily:
    return cast(ModelFamily, assets.model_family(WAV2VEC2_ASR_FAMILY))


def _check_trained_head(
    family: ModelFamily, card: AssetCard, size: int | None, faults: list[str]
) -> None:
    config: Any = family.get_model_config(card)
    if size not in {None, config.target_vocab_size}:
        faults.append(
            f"tokenizer has {size} symbols, but the head of '{card.name}' has "
            f"{config.target_vocab_size}; leave tokenizer.name out to use the model's own"
        )


def _with_new_head(
    family: ModelFamily, section: ModelSection, size: int | None, faults: list[str]
) -> ModelSection:
    """Check ``model.arch`` and its overrides, and set the size of the head to the tokenizer's."""
    architecture = family.maybe_get_arch_config(section.arch or "")
    if architecture is None:
        known = ", ".join(sorted(family.get_archs()))
        faults.append(f"model.arch: unknown architecture '{section.arch}'; available: {known}")
        return section
    try:
        model = overridden(architecture, section.config_overrides, "model")
        # Without memory: this finds sizes that do not fit each other.
        family.create_new_model(model, create_fake_gangs(CPU), section.dtype, meta=True)
    except ConfigError as error:
        faults.extend(error.faults)
        return section
    except Exception as error:  # noqa: BLE001 - whatever torch raises about sizes
        faults.append(f"model.config_overrides: no model can be built with these values: {error}")
        return section
    overrides = cast(Mapping[str, object], section.config_overrides or {})
    given = overrides.get("target_vocab_size", size)
    if size is not None and given != size:
        key = "model.config_overrides.target_vocab_size"
        faults.append(f"{key} must be {size}, as in the tokenizer, but is {given}; leave it out")
    return replace(section, config_overrides={**overrides, "target_vocab_size": size})
