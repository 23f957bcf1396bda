"""What a configuration says of its dataset, held against the files before anything is built.

Names of splits, statistics and filters can be judged from paths alone, in no time; a run that finds
out after its model is loaded has wasted minutes, on a cluster hours of waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from danish_asr.data.dataset import AsrDataset, DanishAsrDataset
from danish_asr.data.mixture import hours_of
from danish_asr.data.shards import chosen_shards, find_shards
from danish_asr.errors import ConfigError, DatasetError
from danish_asr.recipe.config import AsrConfig, AsrEvalConfig
from danish_asr.recipe.sections import AsrDatasetSection, StorageMode, names_of_splits

_STORAGE = "dataset.mixture_parquet_storage_config"


def dataset_faults(dataset: AsrDataset, config: AsrConfig) -> Iterator[str]:
    """Yield every fault once, with the key of the configuration that causes it.

    Raises:
        DatasetError: There is no dataset at all.
    """
    section = config.dataset
    if isinstance(dataset, DanishAsrDataset):
        find_shards(dataset.path, split_key=section.mixture_parquet_storage_config.split_column)
    manifests = section.storage_mode is StorageMode.MANIFEST
    if manifests == isinstance(dataset, DanishAsrDataset):
        right = StorageMode.MIXTURE_PARQUET if manifests else StorageMode.MANIFEST
        yield f"dataset.storage_mode must be {right.value} for the dataset '{section.name}'"
    if section.train_split is None and not isinstance(config, AsrEvalConfig):
        yield "dataset.train_split must name a split to train on, but is null"
    told = set()
    for key, split in _splits(config):
        for fault in _faults_of_split(dataset, section, key, split):
            # A filter that is no expression is so for every split.
            if fault not in told:
                yield fault
            told.add(fault)


def _splits(config: AsrConfig) -> Iterator[tuple[str, str]]:
    if isinstance(config, AsrEvalConfig):
        for split in names_of_splits(config.evaluator.split):
            yield "evaluator.split", split
        return
    if config.dataset.train_split is not None:
        yield "dataset.train_split", config.dataset.train_split
    for split in names_of_splits(config.dataset.valid_split):
        yield "dataset.valid_split", split


def _faults_of_split(
    dataset: AsrDataset, section: AsrDatasetSection, key: str, split: str
) -> Iterator[str]:
    if not isinstance(dataset, DanishAsrDataset):
        if split not in dataset.splits:
            yield f"{key}: no split '{split}'; the dataset has: {', '.join(dataset.splits)}"
        return
    storage = section.mixture_parquet_storage_config
    try:
        chosen, every = chosen_shards(dataset.path, split, storage)
    except ConfigError as error:
        yield from error.faults
        return
    except DatasetError as error:
        yield f"{key}: {error}"
        return
    weighted = not (storage.beta_corpus is None and storage.beta_language is None)
    if key == "dataset.train_split" and weighted and storage.dataset_summary_path is not None:
        # A filter over rows may leave a partition without any.
        filtered = storage.fragment_loading.filters is not None
        needed = set() if filtered else {shard.partition for shard in chosen}
        known = {shard.partition for shard in every}
        try:
            hours_of(Path(storage.dataset_summary_path), needed=needed, known=known)
        except DatasetError as error:
            yield f"{_STORAGE}.dataset_summary_path: {error}"
