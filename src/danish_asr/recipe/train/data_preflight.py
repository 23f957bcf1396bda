"""Checks of a configuration against the rows of its dataset, before any model is built."""

from collections.abc import Iterator

from fairseq2.assets import AssetCard

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.corpus.shards import splitting_hint
from danish_asr.recipe.config.schema import AsrConfig, names_of_splits
from danish_asr.recipe.data.dataset import DanishAsrDataset
from danish_asr.recipe.data.index import UNKNOWN_DIALECT
from danish_asr.recipe.models.assets import DATASET_FAMILIES, Assets, validation_indices


def dataset_faults(assets: Assets, config: AsrConfig, card: AssetCard | None) -> Iterator[str]:
    """Check that the dataset, of a card or of a family, has what the configuration reads of it."""
    section = config.dataset
    if card is None and section.family not in DATASET_FAMILIES:
        if section.family:
            families = ", ".join(DATASET_FAMILIES)
            yield f"dataset.family must be one of {families}, but is '{section.family}'"
        return
    try:
        dataset = assets.open_dataset(section, card)
        # A check reads what the ones before it found to be there.
        for check in (_split_faults, _condition_faults, _score_faults):
            faults = dict.fromkeys(check(dataset, config))
            if faults:
                yield from faults
                return
    except ConfigError as error:
        yield from error.faults
    except DatasetError as error:
        if card is None:
            yield f"dataset.config_overrides: {error}"
        else:
            names = assets.available("dataset.name", card.name)
            yield f"dataset.name: {error}; or set dataset.name to another one, available: {names}"


def _split_faults(dataset: DanishAsrDataset, config: AsrConfig) -> Iterator[str]:
    """Compare the splits with the dataset's paths; no file is opened."""
    section, names = config.dataset, dataset.splits
    if not config.trains:
        key, scored = "evaluator.split", names_of_splits(config.evaluator.split)
        splits = []
    else:
        key, scored = "dataset.valid_split", names_of_splits(section.valid_split)
        splits = [("dataset.train_split", str(section.train_split))]
    splits += [(key, split) for split in scored]
    for split_of, split in splits:
        if split not in names:
            hint = splitting_hint(split, names)
            yield f"{split_of}: no split '{split}'; the dataset has: {', '.join(names)}{hint}"
    for split in scored:
        whole, _, corpus = split.partition("_")
        if corpus and whole in scored:
            yield f"{key}: '{whole}' and '{split}' have rows in common; name one"


def _condition_faults(dataset: DanishAsrDataset, config: AsrConfig) -> Iterator[str]:
    """Check that rows fulfil the conditions, whose columns alone are read."""
    section = config.dataset
    if not config.trains:
        # It reads no training rows; its dataset may have none.
        parts = [("evaluator.where", section.valid_where, section.valid_split)]
    else:
        parts = [
            ("dataset.train_where", section.train_where, section.train_split),
            *(
                (f"trainer.stages.{first}.where", stage.where, section.train_split)
                for first, stage in config.trainer.stages.items()
            ),
            *(
                (f"dataset.weights[{number}].where", weight.where, section.train_split)
                for number, weight in enumerate(section.weights)
            ),
            ("dataset.valid_where", section.valid_where, section.valid_split),
        ]
    for key, where, splits in parts:
        for split in names_of_splits(splits) if where else ():
            try:
                dataset.check_condition(split, str(where))
            except ConfigError as error:
                yield from (f"{key}: {fault}" for fault in error.faults)
            except DatasetError as error:
                yield f"{key}: {error}"


def _score_faults(dataset: DanishAsrDataset, config: AsrConfig) -> Iterator[str]:
    """Check that the rows to validate on have the score that the run is judged by."""
    section, metric = config.dataset, config.regime.score_metric
    if metric != "worst_group_wer" or not section.valid_split or not config.trains:
        return
    indices = validation_indices(dataset, section, section.valid_split, section.valid_subset)
    dialects = {name for index in indices.values() for name in index.dialects()[1]}
    if not dialects - {UNKNOWN_DIALECT}:
        yield (
            f"regime.score_metric: {metric} needs rows with a dialect, and "
            f"dataset.valid_split '{section.valid_split}' has none; set regime.score_metric=wer"
        )
