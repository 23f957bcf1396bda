"""A dataset as fairseq2 reads it: index, seeded batch plan, decoded batches.

The recipe registers these classes under upstream's family names, so that cards and YAML files
written for upstream's datasets keep working.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import torch
from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig
from typing_extensions import override

from danish_asr.errors import ConfigError, DatasetError
from danish_asr.reading.batches import BatchLoader
from danish_asr.reading.filters import select_rows
from danish_asr.reading.frames import FrameCount, frame_count, shortest_input
from danish_asr.reading.index import (
    Index,
    Partition,
    find_shards,
    read_index,
    split_names,
)
from danish_asr.reading.manifest_index import manifest_splits, read_manifest
from danish_asr.reading.mixture import (
    Mix,
    epoch_entries,
    make_mix,
    natural_hours,
    read_hours,
    weights,
)
from danish_asr.reading.plan import Plan, Rows, plan_evaluation, plan_training
from danish_asr.reading.reader import PlannedReader, Share
from danish_asr.reading.settings import (
    NO_EFFECT,
    augmentation,
    batch_rule,
    check_settings,
    limits,
    shuffling,
)
from danish_asr.reading.subsets import chosen_shards, make_row_filter
from danish_asr.reading.targets import Targets, UnknownSymbols, count_unknown
from danish_asr.reading.waveform import WaveformDecoder

# isort: split
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.gang import Gangs

__all__ = [
    "DATASET_FAMILY",
    "MANIFEST_FAMILY",
    "NO_EFFECT",
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

StorageConfig: TypeAlias = MixtureParquetStorageConfig | ManifestStorageConfig


@dataclass
class DanishAsrDatasetConfig:
    """The ``dataset_config`` of a dataset card, as upstream's."""

    data: Path = field(default_factory=Path)
    """A built dataset's ROOT or its ``version=0`` directory, or a directory of manifests."""


def open_dataset(config: DanishAsrDatasetConfig) -> DanishAsrDataset:
    """What fairseq2 calls to open the built dataset that a card describes."""
    return DanishAsrDataset(config.data)


def open_manifest(config: DanishAsrDatasetConfig) -> ManifestDataset:
    """What fairseq2 calls to open the manifests that a card describes."""
    return ManifestDataset(config.data)


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
        num_frames: FrameCount | None = None,
        index: Index | None = None,
    ) -> PlannedReader:
        """Read the split in batches; neither section is modified.

        In training rows are filtered, mixed, shuffled and augmented as the sections say. In
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
            task_config: Filters, batches, shuffling, augmentation.
            training: Whether the split is trained on.
            seed: Fixes all that is random.
            text_profile: Normalisation of the targets' text; ``example["text"]`` stays raw.
            num_frames: The model's frames for a number of samples; None: wav2vec2's.
            index: Rows to read instead of all rows of the split, e.g. ``index.take(...)``.

        Raises:
            ConfigError: A setting is impossible, with this dataset or at all.
            DatasetError: The dataset lacks the split, breaks its contract, or has too few rows.
        """
        storage = (
            storage_config if isinstance(storage_config, MixtureParquetStorageConfig) else None
        )
        check_settings(task_config, storage, training=training)
        frames = num_frames or frame_count()
        load = BatchLoader(
            index=self.read_index(split, storage_config) if index is None else index,
            decoder=WaveformDecoder(normalize=task_config.normalize_audio),
            targets=Targets.of(tokenizer, text_profile),
            dtype=dtype,
            shortest=shortest_input(frames),
            remove_unknown=training and task_config.remove_unknown,
            truncate=training and task_config.no_padding,
            augment=augmentation(task_config) if training else None,
            pin_memory=gangs.root.device.type == "cuda",
        )
        share = Share(gangs.dp.rank, gangs.dp.size, num_accumulate)
        if training:
            return _training_reader(load, share, frames, task_config, storage, seed=seed)
        plan = plan_evaluation(load.index.lengths, batch_rule(task_config))
        fingerprint = {"utterances": len(load.index), "content": _digest(load.index, plan.rows)}
        return PlannedReader(load, lambda _: plan, share, seed=seed, fingerprint=fingerprint)


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


def _training_reader(
    load: BatchLoader,
    share: Share,
    frames: FrameCount,
    task: AsrTaskConfig,
    storage: MixtureParquetStorageConfig | None,
    *,
    seed: int,
) -> PlannedReader:
    index = load.index
    kept, account = select_rows(index, load.targets, limits(task), frames)
    _check_room(index, kept, task)
    mix = make_mix(index, kept, None if storage is None else _shares(index, storage))
    fingerprint = {
        "utterances": len(kept),
        "content": _digest(index, kept),
        "seed": seed,
        "batches": str(batch_rule(task)),
        "shuffling": str(shuffling(task)),
        "repeats": ", ".join(f"{row.partition} {row.repeats:.6f}" for row in mix.rows),
        "drop_remainder": task.drop_remainder,
        "max_num_batches": task.max_num_batches,
    }
    return PlannedReader(
        load,
        _plans(index, kept, mix, task, seed),
        share,
        seed=seed,
        fingerprint=fingerprint,
        account=account,
        mix=mix,
    )


def _plans(
    index: Index, kept: Rows, mix: Mix, task: AsrTaskConfig, seed: int
) -> Callable[[int], Plan]:
    def make_plan(epoch: int) -> Plan:
        return plan_training(
            index.lengths,
            index.block_of,
            epoch_entries(index, kept, mix, seed=seed, epoch=epoch),
            batch_rule(task),
            shuffling(task),
            seed=seed,
            epoch=epoch,
            drop_remainder=task.drop_remainder,
            max_batches=task.max_num_batches,
        )

    return make_plan


def _check_room(index: Index, kept: Rows, task: AsrTaskConfig) -> None:
    if not len(kept):
        raise DatasetError(
            f"split '{index.name}': the filters leave none of its {len(index)} utterances; look at "
            "min_audio_len, max_audio_len and min_samples_per_char in dataset.asr_task_config"
        )
    longest, room = int(index.lengths[kept].max()), batch_rule(task).max_elements
    if room is not None and longest > room:
        fault = (
            "dataset.asr_task_config.max_num_elements: expected room for the longest training "
            f"utterance ({longest} samples), found {room}; raise it, or lower max_audio_len"
        )
        raise ConfigError([fault])


def _shares(index: Index, storage: MixtureParquetStorageConfig) -> dict[Partition, float] | None:
    """Shares of an epoch's hours by the betas; None: as much of each as there is."""
    if storage.beta_corpus is None and storage.beta_language is None:
        return None
    if storage.dataset_summary_path is None:
        hours = natural_hours(index)
    else:
        hours = read_hours(Path(storage.dataset_summary_path), index)
    return weights(
        hours,
        beta_corpus=1.0 if storage.beta_corpus is None else storage.beta_corpus,
        beta_language=1.0 if storage.beta_language is None else storage.beta_language,
    )


def _digest(index: Index, rows: Rows) -> str:
    """Fingerprint of which rows are read and what they are; the dataset's place plays no part."""
    digest = hashlib.blake2b(np.ascontiguousarray(rows).tobytes(), digest_size=16)
    digest.update(index.lengths.tobytes())
    for strings in (index.ids, index.texts):
        digest.update(strings.sizes.tobytes())
        for _, chunk in strings.chunks():
            digest.update(chunk.buffers()[2])
    return digest.hexdigest()
