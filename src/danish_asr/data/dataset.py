"""A dataset as fairseq2 reads it: index, seeded batch plan, decoded batches.

The recipe registers these classes under upstream's family names, so that cards and YAML files
written for upstream's datasets keep working.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from typing_extensions import override

from danish_asr.data.asr_dataset import AsrDataset, StorageConfig
from danish_asr.data.index import Index, find_shards, read_index, split_names
from danish_asr.data.manifest_index import manifest_splits, read_manifest
from danish_asr.data.reader import PlannedReader
from danish_asr.data.settings import NO_EFFECT
from danish_asr.data.subsets import chosen_shards, make_row_filter
from danish_asr.data.targets import UnknownSymbols, count_unknown
from danish_asr.errors import DatasetError

__all__ = [
    "DATASET_FAMILY",
    "MANIFEST_FAMILY",
    "NO_EFFECT",
    "AsrDataset",
    "DanishAsrDataset",
    "DanishAsrDatasetConfig",
    "Index",
    "ManifestDataset",
    "PlannedReader",
    "UnknownSymbols",
    "count_unknown",
    "open_dataset",
    "open_manifest",
]

DATASET_FAMILY: Final = "mixture_parquet_asr_dataset"
MANIFEST_FAMILY: Final = "manifest_asr_dataset"


@dataclass
class DanishAsrDatasetConfig:
    """The ``dataset_config`` of a dataset card, as upstream's."""

    data: Path | None = None
    """A built dataset's ROOT or its ``version=0`` directory, or a directory of manifests."""

    def directory(self) -> Path:
        """Return ``data``; without it, whatever lies below the working directory would be read.

        Raises:
            DatasetError: It is not given.
        """
        if self.data is None:
            raise DatasetError(
                "data must name a dataset's directory; nothing else says where it is"
            )
        return self.data


def open_dataset(config: DanishAsrDatasetConfig) -> DanishAsrDataset:
    """What fairseq2 calls to open the built dataset that a card describes."""
    return DanishAsrDataset(config.directory())


def open_manifest(config: DanishAsrDatasetConfig) -> ManifestDataset:
    """What fairseq2 calls to open the manifests that a card describes."""
    return ManifestDataset(config.directory())


class DanishAsrDataset(AsrDataset):
    """A built dataset, see :mod:`danish_asr.schema`.

    Args:
        path: ROOT or ``ROOT/version=0``; looked at when rows are wanted, as the storage section
            says which of its keys is the split.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    @override
    def splits(self) -> list[str]:
        return split_names(find_shards(self.path))

    @override
    def read_index(self, split: str, storage_config: StorageConfig | None = None) -> Index:
        """The rows of ``<split>`` or ``<split>_<corpus>``.

        All of them, but for those that ``fragment_streaming.partition_filters`` and
        ``fragment_loading.filters`` leave out; unlike upstream's, these hold for every split.

        Raises:
            DatasetError: No such split (the message names those that exist), no rows left, or
                unreadable shards.
            ConfigError: A filter cannot be applied.
        """
        if not isinstance(storage_config, MixtureParquetStorageConfig):
            storage_config = MixtureParquetStorageConfig()
        shards, every = chosen_shards(self.path, split, storage_config)
        return read_index(
            shards,
            split,
            known_partitions={shard.partition for shard in every},
            row_filter=make_row_filter(storage_config),
        )


class ManifestDataset(AsrDataset):
    """A directory of ``<split>.tsv`` and ``<split>.wrd`` (``reading.manifest_index``).

    Args:
        path: The directory.

    Raises:
        DatasetError: There is no manifest.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._splits = manifest_splits(path)

    @property
    @override
    def splits(self) -> list[str]:
        return self._splits

    @override
    def read_index(self, split: str, storage_config: StorageConfig | None = None) -> Index:
        return read_manifest(self.path, split)
