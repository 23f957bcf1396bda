"""A dataset as fairseq2 reads it: splits, an index of each, and readers of seeded batches.

The recipe registers these classes under upstream's family names, so that cards and YAML files
written for upstream's datasets keep working.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.gang import Gangs
from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig
from typing_extensions import override

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.schema import LANGUAGE, METADATA_COLUMNS, SAMPLE_RATE
from danish_asr.corpus.shards import (
    Partition,
    chosen_shards,
    empty_table,
    find_shards,
    split_names,
)
from danish_asr.recipe.data.audio_source import FileAudio
from danish_asr.recipe.data.collate import Collate
from danish_asr.recipe.data.index import Index, read_index
from danish_asr.recipe.data.make_reader import evaluation_reader, training_reader
from danish_asr.recipe.data.reader import BatchReader
from danish_asr.recipe.data.sampler import Sharding
from danish_asr.recipe.data.settings import check_settings
from danish_asr.recipe.data.targets import FrameCount, Targets
from danish_asr.recipe.data.transforms import Transform
from danish_asr.recipe.data.where import rows_where

DATASET_FAMILY: Final = "mixture_parquet_asr_dataset"
MANIFEST_FAMILY: Final = "manifest_asr_dataset"

StorageConfig: TypeAlias = MixtureParquetStorageConfig | ManifestStorageConfig


@dataclass
class DanishAsrDatasetConfig:
    """The ``dataset_config`` of a dataset card, as upstream's."""

    data: Path | None = None
    """A built dataset's ROOT or its ``version=0`` directory, or a directory of manifests."""

    def directory(self) -> Path:
        """Return ``data``; without it, everything below the working directory would be read."""
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

    path: Path
    """The directory."""

    @property
    @abstractmethod
    def splits(self) -> list[str]:
        """The names of splits that :meth:`read_index` and :meth:`create_reader` take."""

    @abstractmethod
    def read_index(
        self, split: str, storage_config: StorageConfig | None = None, where: str | None = None
    ) -> Index:
        """The rows of a split, or those that fulfil an SQL condition.

        Raises:
            DatasetError: No such split (the message names those that exist), or unreadable files.
            ConfigError: A filter of the section cannot be applied.
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
        quadratic_seconds: float | None = None,
        num_frames: FrameCount | None = None,
        index: Index | None = None,
    ) -> BatchReader:
        """Read the split in batches; no section is modified.

        In training rows are filtered, mixed, shuffled and transformed as the sections say. In
        evaluation every row comes exactly once over all processes, whatever they say.

        The data-parallel gang decides which batches this process reads, ``num_accumulate`` per
        step. Waveforms are normalised in float32 and then cast to ``dtype``; ``text_profile``
        changes the targets, and ``example["text"]`` stays raw. ``num_frames`` counts the model's
        frames (default: wav2vec2's), ``index`` gives the rows to read instead of all of the split.

        Raises:
            ConfigError: A setting is impossible, with this dataset or at all.
            DatasetError: The dataset lacks the split, breaks its contract, or has too few rows.
        """
        parquet = isinstance(storage_config, MixtureParquetStorageConfig)
        storage = storage_config if parquet else None
        chosen = check_settings(
            task_config,
            storage,
            training=training,
            speed_factors=speed_factors,
            transforms=transforms,
        )
        frames = num_frames or FrameCount()
        collate = Collate(
            index=self.read_index(split, storage_config) if index is None else index,
            targets=Targets(tokenizer, text_profile),
            dtype=dtype,
            normalize=task_config.normalize_audio,
            shortest=frames.shortest_input(),
            remove_unknown=training and task_config.remove_unknown,
            truncate=training and task_config.no_padding,
            transforms=[each for each in chosen if isinstance(each, Transform)],
            pin_memory=gangs.root.device.type == "cuda",
        )
        sharding = Sharding(gangs.dp.rank, gangs.dp.size, num_accumulate)
        if not training:
            return evaluation_reader(collate, sharding, task_config, seed=seed)
        quadratic = quadratic_seconds and quadratic_seconds * SAMPLE_RATE
        settings: Any = {"transforms": chosen, "seed": seed, "quadratic": quadratic}
        reader = training_reader(collate, sharding, frames, task_config, storage, **settings)
        if quadratic:
            reader.fingerprint["quadratic_seconds"] = quadratic_seconds
        if speed_factors:
            reader.fingerprint["speed_factors"] = ", ".join(map(str, speed_factors))
        if transforms:
            reader.fingerprint["transforms"] = str([dict(entry) for entry in transforms])
        return reader


class DanishAsrDataset(AsrDataset):
    """A built dataset, see :mod:`danish_asr.base.schema`: ROOT or ``ROOT/version=0``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    @override
    def splits(self) -> list[str]:
        return split_names(find_shards(self.path))

    @override
    def read_index(
        self, split: str, storage_config: StorageConfig | None = None, where: str | None = None
    ) -> Index:
        """The rows of ``<split>`` or ``<split>_<corpus>``.

        All of them, except for those that ``fragment_streaming.partition_filters`` and
        ``fragment_loading.filters`` leave out; unlike upstream's, these hold for every split.
        """
        if not isinstance(storage_config, MixtureParquetStorageConfig):
            storage_config = MixtureParquetStorageConfig()
        shards, every = chosen_shards(self.path, split, storage_config)
        if where is not None:
            rows_where(empty_table(shards[0]), where)  # refuse a faulty one before shards are read
        return read_index(
            shards,
            split,
            root=self.path,
            known_partitions={shard.partition for shard in every},
            row_filter=storage_config.fragment_loading.filters,
            where=where,
        )


class ManifestDataset(AsrDataset):
    """Upstream's manifests: ``<split>.tsv`` with audio files, ``<split>.wrd`` with texts.

    The first line of the TSV is the audio's directory; each other line is a path below it, a tab
    and the number of samples. A path may be ``file:offset:size``, a slice of an uncompressed
    archive, as fairseq2's ``FileMapper`` reads it. Line n of the ``.wrd`` file is the text of row
    n. Ids are the paths of the TSV, the corpus is named after the directory, metadata is unknown.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._splits = sorted(file.stem for file in path.glob("*.tsv"))
        if not self._splits:
            raise DatasetError(f"{path}: no manifest found; expected <split>.tsv and <split>.wrd")

    @property
    @override
    def splits(self) -> list[str]:
        return self._splits

    @override
    def read_index(
        self, split: str, storage_config: StorageConfig | None = None, where: str | None = None
    ) -> Index:
        if where is not None:
            raise ConfigError([f'"{where}": manifests have no columns to select rows by'])
        if split not in self._splits:
            known = ", ".join(self._splits)
            raise DatasetError(f"split '{split}' has no manifest; {self.path} has: {known}")
        tsv, wrd = self.path / f"{split}.tsv", self.path / f"{split}.wrd"
        root, *lines = _lines(tsv)
        if not root or not Path(root).is_dir():
            raise DatasetError(f"{tsv}:1: expected the directory of the audio, found '{root}'")
        texts = _lines(wrd)
        if len(texts) != len(lines):
            raise DatasetError(
                f"{wrd}: expected one text per row of {tsv.name} ({len(lines)}), found {len(texts)}"
            )
        paths, lengths = [], []
        for number, line in enumerate(lines, start=2):
            path, _, length = line.rstrip("\r").partition("\t")
            if not path or not length.strip().isdecimal():
                raise DatasetError(f"{tsv}:{number}: expected <path><tab><samples>, found '{line}'")
            paths.append(path)
            lengths.append(int(length))
        columns = {"id": paths, "text": texts} | dict.fromkeys(
            METADATA_COLUMNS, [None] * len(lines)
        )
        partition = Partition(self.path.resolve().name, LANGUAGE)
        return Index(
            name=split,
            split=split,
            table=pa.table({name: pa.array(each, pa.string()) for name, each in columns.items()}),
            lengths=np.array(lengths, np.int32),
            partition_of=np.zeros(len(lines), np.int16),
            # Each row is a file of its own, so rows may be shuffled one by one.
            row_group_of=np.arange(len(lines), dtype=np.int32),
            partitions=(partition,),
            known_partitions=frozenset([partition]),
            audio=FileAudio([_slice(Path(root), path) for path in paths]),
        )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: cannot be read ({error})") from error


def _slice(root: Path, name: str) -> tuple[Path, int, int]:
    parts = name.rsplit(":", 2)
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
        return root / parts[0], int(parts[1]), int(parts[2])
    return root / name, 0, -1
