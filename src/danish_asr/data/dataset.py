"""A dataset as fairseq2 reads it: splits, an index of each, and readers of seeded batches.

The recipe registers these classes under upstream's family names, so that cards and YAML files
written for upstream's datasets keep working.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import torch
from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig
from typing_extensions import override

from danish_asr.data.collate import Collate
from danish_asr.data.index import Index, read_index
from danish_asr.data.manifest import manifest_splits, read_manifest
from danish_asr.data.reader import BatchReader, training_reader
from danish_asr.data.sampler import BatchLimits, Sharding, evaluation_batches
from danish_asr.data.settings import NO_EFFECT, check_settings
from danish_asr.data.shards import chosen_shards, find_shards, split_names
from danish_asr.data.targets import (
    FrameCount,
    Targets,
    UnknownSymbols,
    count_unknown,
    frame_count,
    shortest_input,
)
from danish_asr.data.transforms import EpochLengths, Transform
from danish_asr.errors import DatasetError

# isort: split
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.gang import Gangs

__all__ = [
    "DATASET_FAMILY",
    "MANIFEST_FAMILY",
    "NO_EFFECT",
    "AsrDataset",
    "BatchReader",
    "DanishAsrDataset",
    "DanishAsrDatasetConfig",
    "Index",
    "ManifestDataset",
    "UnknownSymbols",
    "count_unknown",
    "open_dataset",
    "open_manifest",
]

DATASET_FAMILY: Final = "mixture_parquet_asr_dataset"
MANIFEST_FAMILY: Final = "manifest_asr_dataset"

StorageConfig: TypeAlias = MixtureParquetStorageConfig | ManifestStorageConfig


@dataclass
class DanishAsrDatasetConfig:
    """The ``dataset_config`` of a dataset card, as upstream's."""

    data: Path | None = None
    """A built dataset's ROOT or its ``version=0`` directory, or a directory of manifests."""

    def directory(self) -> Path:
        """Return ``data``; without it, everything below the working directory would be read.

        Raises:
            DatasetError: It is not given.
        """
        if self.data is None:
            raise DatasetError("dataset_config.data: expected the dataset's directory, found null")
        return self.data


def open_dataset(config: DanishAsrDatasetConfig) -> DanishAsrDataset:
    """What fairseq2 calls to open the built dataset that a card describes."""
    return DanishAsrDataset(config.directory())


def open_manifest(config: DanishAsrDatasetConfig) -> ManifestDataset:
    """What fairseq2 calls to open the manifests that a card describes."""
    return ManifestDataset(config.directory())


class AsrDataset(ABC):
    """Utterances in splits, whatever they are stored in."""

    @property
    @abstractmethod
    def splits(self) -> list[str]:
        """The names of splits that :meth:`read_index` and :meth:`create_reader` take."""

    @abstractmethod
    def read_index(self, split: str, storage_config: StorageConfig | None = None) -> Index:
        """The rows of a split.

        Raises:
            DatasetError: No such split (the message names those that exist), or unreadable files.
        """

    def create_reader(
        self,
        split: str,
        *,
        tokenizer: Tokenizer,
        gangs: Gangs,
        dtype: torch.dtype,
        num_accumulate: int,
        storage_config: StorageConfig,
        task_config: AsrTaskConfig,
        training: bool,
        seed: int,
        text_profile: str = "raw",
        speed_factors: Sequence[float] = (),
        transforms: Sequence[Mapping[str, object]] = (),
        num_frames: FrameCount | None = None,
        index: Index | None = None,
    ) -> BatchReader:
        """Read the split in batches; no section is modified.

        In training rows are filtered, mixed, shuffled and transformed as the sections say. In
        evaluation every row comes exactly once over all processes, a row that is longer than
        ``max_num_elements`` in a batch of its own, whatever the sections say about filters and
        numbers of batches.

        Args:
            split: One of :attr:`splits`.
            tokenizer: Makes the targets.
            gangs: The data-parallel gang decides which batches this process reads.
            dtype: Of the waveforms; they are decoded and normalised in float32 before.
            num_accumulate: Batches per step and process.
            storage_config: Where rows come from and how corpora are mixed.
            task_config: Filters, batches, shuffling, SpecAugment.
            training: Whether the split is trained on.
            seed: Fixes all that is random.
            text_profile: Normalisation of the targets' text; ``example["text"]`` stays raw.
            speed_factors: ``dataset.speed_factors``.
            transforms: ``dataset.transforms``.
            num_frames: The model's frames for a number of samples; None: wav2vec2's.
            index: Rows to read instead of all rows of the split, e.g. ``index.take(...)``.

        Raises:
            ConfigError: A setting is impossible, with this dataset or at all.
            DatasetError: The dataset lacks the split, breaks its contract, or has too few rows.
        """
        storage = (
            storage_config if isinstance(storage_config, MixtureParquetStorageConfig) else None
        )
        chosen = check_settings(
            task_config,
            storage,
            training=training,
            speed_factors=speed_factors,
            transforms=transforms,
        )
        frames = num_frames or frame_count()
        collate = Collate(
            index=self.read_index(split, storage_config) if index is None else index,
            targets=Targets.of(tokenizer, text_profile),
            dtype=dtype,
            normalize=task_config.normalize_audio,
            shortest=shortest_input(frames),
            remove_unknown=training and task_config.remove_unknown,
            truncate=training and task_config.no_padding,
            transforms=[each for each in chosen if isinstance(each, Transform)],
            pin_memory=gangs.root.device.type == "cuda",
        )
        sharding = Sharding(gangs.dp.rank, gangs.dp.size, num_accumulate)
        if training:
            reader = training_reader(
                collate, sharding, frames, task_config, storage, transforms=chosen, seed=seed
            )
            if speed_factors:
                reader.fingerprint["speed_factors"] = ", ".join(map(str, speed_factors))
            if transforms:
                reader.fingerprint["transforms"] = str([dict(entry) for entry in transforms])
            return reader
        lengths = collate.index.lengths
        batches = evaluation_batches(lengths, BatchLimits.of(task_config))
        digest = collate.index.digest(batches.rows)
        return BatchReader(
            collate,
            lambda _: (batches, EpochLengths(lengths)),
            sharding,
            seed=seed,
            fingerprint={"utterances": len(lengths), "content": digest},
        )


class DanishAsrDataset(AsrDataset):
    """A built dataset, see :mod:`danish_asr.schema`.

    Args:
        path: ROOT or ``ROOT/version=0``. It is read on use, as the storage section names the key of
            the path that is the split.
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

        All of them, except for those that ``fragment_streaming.partition_filters`` and
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
            root=self.path,
            known_partitions={shard.partition for shard in every},
            row_filter=storage_config.fragment_loading.filters,
        )


class ManifestDataset(AsrDataset):
    """A directory of ``<split>.tsv`` and ``<split>.wrd`` (:mod:`danish_asr.data.manifest`).

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
