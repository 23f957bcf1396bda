"""The rules of upstream's dataset sections, and the keys that have no effect here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig
from omnilingual_asr.datasets.utils.batching import BatchingStrategy

from danish_asr.data.transforms import AnyTransform, SpecAugment, Speed, make_transforms
from danish_asr.errors import ConfigError

_TASK: Final = "dataset.asr_task_config"
_STORAGE: Final = "dataset.mixture_parquet_storage_config"

_STORAGE_NO_EFFECT: Final = """
    sync_batches sync_mode pa_cpu_count max_workers num_prefetch parquet_path_name sampling_seed
    fragment_streaming.parquet_path fragment_streaming.name fragment_streaming.weight
    fragment_streaming.split_to_row_groups fragment_streaming.seed
    fragment_streaming.fragment_shuffle_window fragment_streaming.files_circular_shift
    fragment_streaming.nb_epochs
    fragment_loading.columns fragment_loading.rename_columns fragment_loading.add_fragment_traces
    fragment_loading.drop_null fragment_loading.min_batch_size
    fragment_loading.non_deterministic_read fragment_loading.use_threads
    fragment_loading.nb_prefetch fragment_loading.num_parallel_fragments
    fragment_loading.cache fragment_loading.cache_dir
"""

NO_EFFECT: Final = (
    *(f"mixture_parquet_storage_config.{key}" for key in _STORAGE_NO_EFFECT.split()),
    "manifest_storage_config.sync_batches",
    "manifest_storage_config.sync_mode",
    "manifest_storage_config.read_text",
    "manifest_storage_config.cached_fd_count",
    "asr_task_config.unified_audio_feature_keys",
    "asr_task_config.npc",
    "asr_task_config.num_prefetch",
    "asr_task_config.seed",
)
"""Keys below ``dataset`` that upstream has and that this reader ignores."""

_AT_LEAST_ONE: Final = (
    "batch_size",
    "num_seqs_multiple_of",
    "max_num_elements",
    "max_bucket_size",
    "max_num_batches",
    "filter_long_text_threshold",
)


def check_settings(
    task: AsrTaskConfig,
    storage: MixtureParquetStorageConfig | None,
    *,
    training: bool,
    speed_factors: Sequence[float] = (),
    transforms: Sequence[Mapping[str, object]] = (),
) -> list[AnyTransform]:
    """Refuse impossible settings, all faults at once; return the transforms that are chosen.

    ``speed_factors`` and the keys ``spec_aug_*`` choose the two built-in transforms, in this order.
    ``transforms`` takes the place of both.

    Raises:
        ConfigError: At least one setting is impossible.
    """
    faults = [*_task_faults(task, training=training)]
    if storage is not None:
        faults += _storage_faults(storage)
    chosen: list[AnyTransform] = []
    if transforms:
        if speed_factors or task.spec_aug_p:
            faults.append(
                "dataset.transforms: expected speed_factors and spec_aug_p to be unset; list "
                "`speed` and `spec_augment` among the transforms instead"
            )
        try:
            chosen += make_transforms(transforms)
        except ConfigError as error:
            faults += error.faults
    try:
        if speed_factors:
            chosen.append(Speed(speed_factors))
    except ValueError as error:
        faults.append(f"dataset.speed_factors: {error}")
    try:
        augment = SpecAugment(
            task.spec_aug_p or 0, task.spec_aug_freq_mask_param, task.spec_aug_time_mask_param
        )
        if task.spec_aug_p:
            chosen.append(augment)
    except ValueError as error:
        faults.append(f"{_TASK}.spec_aug_*: {error}")
    if faults:
        raise ConfigError(faults)
    return chosen if training else []


def _task_faults(task: AsrTaskConfig, *, training: bool) -> Iterator[str]:
    for name in _AT_LEAST_ONE:
        if (value := getattr(task, name)) is not None and value < 1:
            yield f"{_TASK}.{name}: expected 1 or more, found {value}"
    if task.use_fbank:
        yield f"{_TASK}.use_fbank: expected false (the models take waveforms), found true"
    if training and task.min_audio_len > task.max_audio_len:
        yield (
            f"{_TASK}.min_audio_len: expected at most max_audio_len ({task.max_audio_len}), "
            f"found {task.min_audio_len}"
        )
    if task.no_padding and task.batching_strategy is BatchingStrategy.STATIC:
        yield f"{_TASK}.no_padding: expected false with batching_strategy STATIC, found true"


def _storage_faults(storage: MixtureParquetStorageConfig) -> Iterator[str]:
    streaming = storage.fragment_streaming
    for name, value in vars(streaming.limit).items() if streaming.limit else ():
        if value is not None:
            yield (
                f"{_STORAGE}.fragment_streaming.limit.{name}: expected null (use "
                f"asr_task_config.max_num_batches to shorten an epoch), found {value}"
            )
    for name in ("beta_corpus", "beta_language"):
        if (beta := getattr(storage, name)) is not None and not 0 <= beta <= 1:
            yield (
                f"{_STORAGE}.{name}: expected 0 (equal shares) to 1 (shares by hours), found {beta}"
            )
    if streaming.filesystem is not None:
        yield f"{_STORAGE}.fragment_streaming.filesystem: expected none (only local paths are read)"
