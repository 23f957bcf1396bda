"""What every dataset can do: name its splits, index one, read it in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import torch
from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.data.batches import BatchLoader
from danish_asr.data.fingerprint import digest
from danish_asr.data.frames import FrameCount, frame_count, shortest_input
from danish_asr.data.index import Index
from danish_asr.data.plan import plan_evaluation
from danish_asr.data.reader import PlannedReader, Share
from danish_asr.data.settings import augmentation, batch_rule, check_settings
from danish_asr.data.targets import Targets
from danish_asr.data.training import training_reader
from danish_asr.data.waveform import WaveformDecoder

# isort: split
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.gang import Gangs

StorageConfig: TypeAlias = MixtureParquetStorageConfig | ManifestStorageConfig


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
            speed_factors: In training each row gets one of them in each epoch; none: every row as
                it was recorded.
            num_frames: The model's frames for a number of samples; None: wav2vec2's.
            index: Rows to read instead of all rows of the split, e.g. ``index.take(...)``.

        Raises:
            ConfigError: A setting is impossible, with this dataset or at all.
            DatasetError: The dataset lacks the split, breaks its contract, or has too few rows.
        """
        storage = (
            storage_config if isinstance(storage_config, MixtureParquetStorageConfig) else None
        )
        check_settings(task_config, storage, training=training, speed_factors=speed_factors)
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
            return training_reader(
                load, share, frames, task_config, storage, speed_factors=speed_factors, seed=seed
            )
        plan = plan_evaluation(load.index.lengths, batch_rule(task_config))
        fingerprint = {"utterances": len(load.index), "content": digest(load.index, plan.rows)}
        return PlannedReader(load, lambda _: plan, share, seed=seed, fingerprint=fingerprint)
