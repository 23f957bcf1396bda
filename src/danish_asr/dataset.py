"""A built dataset as fairseq2 reads it: index, seeded batch plan, decoded batches.

The recipe registers :class:`DanishAsrDataset` under upstream's family name, so that cards and YAML
files written for ``MixtureParquetAsrDataset`` keep working.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig
from omnilingual_asr.datasets.utils.batching import BatchingStrategy

from danish_asr.batches import BatchLoader, TargetEncoder
from danish_asr.errors import ConfigError, DatasetError
from danish_asr.filters import Account, Encoder, Limits, select_rows
from danish_asr.frames import FrameCount, frame_count, shortest_input
from danish_asr.index import (
    Index,
    Partition,
    find_shards,
    read_index,
    shards_of_split,
    split_names,
)
from danish_asr.mixture import (
    Mix,
    epoch_entries,
    make_mix,
    natural_hours,
    read_hours,
    weights,
)
from danish_asr.plan import BatchRule, Plan, Rows, Shuffling, plan_evaluation, plan_training
from danish_asr.reader import PlannedReader, Share
from danish_asr.subsets import filter_shards, make_row_filter, refuse_limits
from danish_asr.text import normalizer
from danish_asr.waveform import SpecAugment, WaveformDecoder

# isort: split
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.gang import Gangs

DATASET_FAMILY: Final = "mixture_parquet_asr_dataset"
"""The family that dataset cards name."""

NO_EFFECT: Final = (
    "mixture_parquet_storage_config.sync_batches",
    "mixture_parquet_storage_config.sync_mode",
    "mixture_parquet_storage_config.pa_cpu_count",
    "mixture_parquet_storage_config.max_workers",
    "mixture_parquet_storage_config.num_prefetch",
    "mixture_parquet_storage_config.parquet_path_name",
    "mixture_parquet_storage_config.sampling_seed",
    "mixture_parquet_storage_config.fragment_streaming.parquet_path",
    "mixture_parquet_storage_config.fragment_streaming.name",
    "mixture_parquet_storage_config.fragment_streaming.weight",
    "mixture_parquet_storage_config.fragment_streaming.split_to_row_groups",
    "mixture_parquet_storage_config.fragment_streaming.seed",
    "mixture_parquet_storage_config.fragment_streaming.fragment_shuffle_window",
    "mixture_parquet_storage_config.fragment_streaming.files_circular_shift",
    "mixture_parquet_storage_config.fragment_streaming.nb_epochs",
    "mixture_parquet_storage_config.fragment_loading.columns",
    "mixture_parquet_storage_config.fragment_loading.rename_columns",
    "mixture_parquet_storage_config.fragment_loading.add_fragment_traces",
    "mixture_parquet_storage_config.fragment_loading.drop_null",
    "mixture_parquet_storage_config.fragment_loading.min_batch_size",
    "mixture_parquet_storage_config.fragment_loading.non_deterministic_read",
    "mixture_parquet_storage_config.fragment_loading.use_threads",
    "mixture_parquet_storage_config.fragment_loading.nb_prefetch",
    "mixture_parquet_storage_config.fragment_loading.num_parallel_fragments",
    "mixture_parquet_storage_config.fragment_loading.cache",
    "mixture_parquet_storage_config.fragment_loading.cache_dir",
    "manifest_storage_config.sync_batches",
    "manifest_storage_config.sync_mode",
    "manifest_storage_config.cached_fd_count",
    "asr_task_config.unified_audio_feature_keys",
    "asr_task_config.npc",
    "asr_task_config.num_prefetch",
    "asr_task_config.seed",
)
"""Keys of upstream's sections, below ``dataset``, that mean nothing to this reader."""


@dataclass
class DanishAsrDatasetConfig:
    """The ``dataset_config`` of a dataset card, as upstream's."""

    data: Path = field(default_factory=Path)
    """The dataset's ROOT or its ``version=0`` directory."""


def open_dataset(config: DanishAsrDatasetConfig) -> DanishAsrDataset:
    """What fairseq2 calls to open the dataset that a card describes."""
    return DanishAsrDataset(config.data)


class DanishAsrDataset:
    """A built dataset.

    Args:
        path: ROOT or ``ROOT/version=0``.

    Raises:
        DatasetError: There is no dataset.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shards = find_shards(path)

    @property
    def splits(self) -> list[str]:
        """Names that exist: the splits, then ``<split>_<corpus>``."""
        return split_names(self._shards)

    def read_index(
        self, split: str, storage_config: MixtureParquetStorageConfig | None = None
    ) -> Index:
        """The rows of ``<split>`` or ``<split>_<corpus>``.

        All of them, but for those that ``fragment_streaming.partition_filters`` and
        ``fragment_loading.filters`` leave out; unlike upstream's, these hold for every split.

        Raises:
            DatasetError: No such split (the message names those that exist), no rows left, or
                unreadable shards.
            ConfigError: A filter cannot be applied.
        """
        shards = shards_of_split(self._shards, split)
        row_filter = None
        if storage_config is not None:
            shards = filter_shards(shards, split, storage_config)
            row_filter = make_row_filter(storage_config)
        known = {shard.partition for shard in self._shards}
        return read_index(shards, split, known_partitions=known, row_filter=row_filter)

    def create_reader(
        self,
        split: str,
        *,
        tokenizer: Tokenizer,
        gangs: Gangs,
        dtype: torch.dtype,
        num_accumulate: int,
        storage_config: MixtureParquetStorageConfig,
        task_config: AsrTaskConfig,
        training: bool,
        seed: int,
        text_profile: str = "raw",
        num_frames: FrameCount | None = None,
        index: Index | None = None,
    ) -> PlannedReader:
        """Read the split in batches; neither section is modified.

        In training rows are filtered, mixed, shuffled and augmented as the sections say. In
        evaluation every row comes exactly once over all processes, long rows in a batch of their
        own, whatever the sections say about filters and numbers of batches.

        Args:
            split: ``<split>`` or ``<split>_<corpus>``.
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
        check_settings(task_config)
        if faults := refuse_limits(storage_config):
            raise ConfigError(faults)
        rows = self.read_index(split, storage_config) if index is None else index
        share = Share(gangs.dp.rank, gangs.dp.size, num_accumulate)
        frames = num_frames or frame_count()
        encoder = _Encoding(tokenizer, normalizer(text_profile))
        pin_memory = gangs.root.device.type == "cuda"
        load = BatchLoader(
            index=rows,
            decoder=WaveformDecoder(normalize=task_config.normalize_audio),
            targets=encoder.targets(remove_unknown=training and task_config.remove_unknown),
            dtype=dtype,
            shortest=shortest_input(frames),
            truncate=training and task_config.no_padding,
            augment=_augmentation(task_config) if training else None,
            pin_memory=pin_memory,
        )
        rule = _batch_rule(task_config)
        if not training:
            plan = plan_evaluation(rows.lengths, rule)
            mark = {"dataset": _digest(rows.lengths, plan.rows), "batches": str(rule)}
            return PlannedReader(load, lambda _epoch: plan, share, seed=seed, fingerprint=mark)
        kept, account = encoder.select(rows, task_config, frames)
        _check_limit(rows, kept, rule)
        mix = make_mix(rows, kept, _shares(rows, storage_config))
        fingerprint = {
            "dataset": _digest(rows.lengths, kept),
            "seed": seed,
            "batches": str(rule),
            "shuffling": str(_shuffling(task_config)),
            "mix": [(str(row.partition), round(row.repeats, 6)) for row in mix.rows],
            "drop_remainder": task_config.drop_remainder,
            "max_num_batches": task_config.max_num_batches,
            "text_profile": text_profile,
        }
        return PlannedReader(
            load,
            _training_plans(rows, kept, mix, task_config, seed),
            share,
            seed=seed,
            fingerprint=fingerprint,
            account=account,
            mix=mix,
        )


def check_settings(config: AsrTaskConfig) -> None:
    """Refuse what cannot be done, all faults at once.

    Raises:
        ConfigError: At least one setting is impossible.
    """
    faults = []
    where = "dataset.asr_task_config"
    if config.use_fbank:
        faults.append(f"{where}.use_fbank: expected false (the models hear waveforms), found true")
    for name, least in (
        ("batch_size", 1),
        ("num_seqs_multiple_of", 1),
        ("max_num_elements", 1),
        ("max_bucket_size", 1),
        ("max_num_batches", 1),
        ("example_shuffle_window", 0),
        ("batch_shuffle_window", 0),
    ):
        value = getattr(config, name)
        if value is not None and value < least:
            faults.append(f"{where}.{name}: expected {least} or more, found {value}")
    if config.min_audio_len > config.max_audio_len:
        faults.append(
            f"{where}.min_audio_len: expected at most max_audio_len ({config.max_audio_len}), "
            f"found {config.min_audio_len}"
        )
    if faults:
        raise ConfigError(faults)


def _check_limit(index: Index, kept: Rows, rule: BatchRule) -> None:
    if not len(kept):
        raise DatasetError(
            f"split '{index.name}': the filters leave none of its {len(index)} utterances; look at "
            "min_audio_len, max_audio_len and min_samples_per_char in dataset.asr_task_config"
        )
    longest = int(index.lengths[kept].max())
    if rule.max_elements is not None and longest > rule.max_elements:
        fault = (
            "dataset.asr_task_config.max_num_elements: expected room for the longest training "
            f"utterance ({longest} samples), found {rule.max_elements}; raise it, or lower "
            "max_audio_len"
        )
        raise ConfigError([fault])


@dataclass(frozen=True, eq=False)
class _Encoding:
    """A tokenizer behind a text profile, as filters and batches want it."""

    tokenizer: Tokenizer
    normalize: Callable[[str], str]

    def targets(self, *, remove_unknown: bool) -> TargetEncoder:
        info = self.tokenizer.vocab_info
        return TargetEncoder(
            normalize=self.normalize,
            encode=self.tokenizer.create_encoder(),
            pad=info.pad_idx if info.pad_idx is not None else 0,
            unknown=info.unk_idx if remove_unknown else None,
        )

    def select(
        self, index: Index, config: AsrTaskConfig, frames: FrameCount
    ) -> tuple[Rows, Account]:
        encode = self.tokenizer.create_encoder()
        encoder = Encoder(
            lambda text: np.asarray(encode(text).numpy(), np.int64),
            self.tokenizer.vocab_info.unk_idx,
        )
        limits = Limits(
            min_audio_len=config.min_audio_len,
            max_audio_len=config.max_audio_len,
            min_samples_per_char=config.min_samples_per_char,
            filter_long_text_threshold=config.filter_long_text_threshold,
            remove_unknown=config.remove_unknown,
        )
        texts = normalized_texts(index, self.normalize)
        return select_rows(index, texts, encoder, limits, frames)


def normalized_texts(index: Index, normalize: Callable[[str], str]) -> pa.Array:
    """The texts of an index in the form that they are trained on."""
    texts = index.column("text")
    if normalize is normalizer("raw"):
        return texts
    return pa.array((normalize(text.as_py()) for text in texts), pa.large_string())


def _batch_rule(config: AsrTaskConfig) -> BatchRule:
    if config.batching_strategy is BatchingStrategy.STATIC:
        return BatchRule(max_elements=None, max_rows=config.batch_size)
    return BatchRule(
        max_elements=config.max_num_elements,
        max_rows=config.max_bucket_size,
        multiple_of=config.num_seqs_multiple_of,
    )


def _shuffling(config: AsrTaskConfig) -> Shuffling:
    return Shuffling(config.example_shuffle_window, config.batch_shuffle_window)


def _augmentation(config: AsrTaskConfig) -> SpecAugment | None:
    if not config.spec_aug_p:
        return None
    return SpecAugment(
        probability=config.spec_aug_p,
        max_frequency=config.spec_aug_freq_mask_param,
        max_time=config.spec_aug_time_mask_param,
    )


def _shares(index: Index, config: MixtureParquetStorageConfig) -> dict[Partition, float] | None:
    if config.beta_corpus is None and config.beta_language is None:
        return None
    if config.dataset_summary_path is None:
        hours = natural_hours(index)
    else:
        path = Path(config.dataset_summary_path)
        hours = read_hours(path, index, known=index.known_partitions)
    ones = (1.0 if beta is None else beta for beta in (config.beta_corpus, config.beta_language))
    beta_corpus, beta_language = ones
    return weights(hours, beta_corpus=beta_corpus, beta_language=beta_language)


def _training_plans(
    index: Index, kept: Rows, mix: Mix, config: AsrTaskConfig, seed: int
) -> Callable[[int], Plan]:
    def make_plan(epoch: int) -> Plan:
        return plan_training(
            index.lengths,
            index.block_of,
            epoch_entries(index, kept, mix, seed=seed, epoch=epoch),
            _batch_rule(config),
            _shuffling(config),
            seed=seed,
            epoch=epoch,
            drop_remainder=config.drop_remainder,
            max_batches=config.max_num_batches,
        )

    return make_plan


def _digest(lengths: NDArray[np.int32], rows: Rows) -> str:
    """Fingerprint of which rows are read and how long they are."""
    digest = hashlib.blake2b(lengths.tobytes(), digest_size=16)
    digest.update(rows.tobytes())
    return digest.hexdigest()
