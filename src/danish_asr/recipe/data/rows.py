"""The rows that a configuration names: its splits, conditions, weights and shares, opened once."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from danish_asr.base.errors import ConfigError
from danish_asr.corpus.shards import splitting_hint
from danish_asr.recipe.config.schema import AsrConfig, names_of_splits
from danish_asr.recipe.data.index import (
    UNKNOWN_DIALECT,
    ConditionError,
    DanishAsrDataset,
    Index,
)


class OpenRows(NamedTuple):
    """The rows of a run, with their targets, before the filters."""

    train: Mapping[int, Index]  # of each stage, by the step that it begins after; none: evaluation
    valid: Mapping[str, Index]  # of each split to validate on, or to evaluate


def open_rows(dataset: DanishAsrDataset, config: AsrConfig) -> OpenRows:
    """Open the rows that a training or an evaluation reads.

    Raises:
        ConfigError: A split does not exist, a condition is faulty or no row fulfils it, or the rows
            lack the score that the run is judged by.
        DatasetError: A file cannot be read.
    """
    if faults := list(_split_faults(dataset, config)):
        raise ConfigError(faults)
    train = dict[int, Index]()
    if config.trains:
        for first, stage in config.stages().items():
            key = f"trainer.stages.{first}.where" if first else "dataset.train_where"
            train[first] = training_rows(dataset, stage, key)
    valid = _validation_rows(dataset, config)
    if fault := _score_fault(config, valid):
        raise ConfigError([fault])
    return OpenRows(train, valid)


def training_rows(
    dataset: DanishAsrDataset, config: AsrConfig, key: str = "dataset.train_where"
) -> Index:
    """Open the rows that a run, or a stage whose condition has this ``key``, trains on.

    They have targets and weights; raises as :func:`open_rows`.
    """
    section = config.dataset
    weights = [(weight.where, weight.factor) for weight in section.weights]
    keys = {where: f"dataset.weights[{n}].where" for n, (where, _) in enumerate(weights)}
    if section.train_where:
        keys[section.train_where] = key
    try:
        index = dataset.read_index(str(section.train_split), section.train_where, weights)
    except ConditionError as error:
        raise ConfigError([f"{keys[error.condition]}: {error}"]) from error
    if section.train_share is not None:
        index = index.share(section.train_share, config.common.seed)
    if section.train_subset is not None:
        index = index.subset(section.train_subset)
    return index.with_targets(section.text_profile)


def _validation_rows(dataset: DanishAsrDataset, config: AsrConfig) -> dict[str, Index]:
    section, indices = config.dataset, dict[str, Index]()
    for name in names_of_splits(section.valid_split):
        try:
            index = dataset.read_index(name, section.valid_where)
        except ConditionError as error:
            key = "dataset.valid_where" if config.trains else "evaluator.where"
            raise ConfigError([f"{key}: {error}"]) from error
        if config.trains and section.valid_subset is not None:
            index = index.subset(section.valid_subset)
        indices[name] = index.with_targets(section.text_profile)
    return indices


def _split_faults(dataset: DanishAsrDataset, config: AsrConfig) -> Iterator[str]:
    section, names = config.dataset, dataset.splits
    key = "dataset.valid_split" if config.trains else "evaluator.split"
    scored = names_of_splits(section.valid_split)
    splits = dict.fromkeys(scored, key)
    if config.trains:
        splits[section.train_split] = "dataset.train_split"
    for split, named_by in splits.items():
        if split not in names:
            hint = splitting_hint(split, names)
            yield f"{named_by}: no split '{split}'; the dataset has: {', '.join(names)}{hint}"
    for split in scored:
        whole, _, corpus = split.partition("_")
        if corpus and whole in scored:
            yield f"{key}: '{whole}' and '{split}' have rows in common; name one"


def _score_fault(config: AsrConfig, valid: Mapping[str, Index]) -> str | None:
    if not config.trains or config.regime.score_metric != "worst_group_wer" or not valid:
        return None
    dialects = {name for index in valid.values() for name in index.dialects()[1]}
    if dialects - {UNKNOWN_DIALECT}:
        return None
    return (
        "regime.score_metric: worst_group_wer needs rows with a dialect, and dataset.valid_split "
        f"'{config.dataset.valid_split}' has none; set regime.score_metric=wer"
    )
