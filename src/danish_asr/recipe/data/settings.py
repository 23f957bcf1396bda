"""The rules of upstream's dataset sections."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig
from omnilingual_asr.datasets.utils.batching import BatchingStrategy

from danish_asr.base.errors import ConfigError
from danish_asr.recipe.data.make_transforms import make_transforms
from danish_asr.recipe.data.transforms import AnyTransform, SpecAugment, Speed

_TASK: Final = "dataset.asr_task_config"

_AT_LEAST_ONE: Final = (
    "batch_size num_seqs_multiple_of max_num_elements max_bucket_size max_num_batches "
    "filter_long_text_threshold"
)


def check_settings(
    task: AsrTaskConfig,
    storage: object,
    *,
    training: bool,
    speed_factors: Sequence[float] = (),
    transforms: Sequence[Mapping[str, object]] = (),
) -> list[AnyTransform]:
    """Refuse impossible settings, all faults at once; return the transforms to apply.

    These are ``transforms``, or else those of ``speed_factors`` and ``spec_aug_*``, in this order.

    Raises:
        ConfigError: At least one setting is impossible.
    """
    faults = [*_faults(task, storage)]
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
    masks = task.spec_aug_freq_mask_param, task.spec_aug_time_mask_param
    for key, given, transform in (
        ("dataset.speed_factors", speed_factors, lambda: Speed(speed_factors)),
        (f"{_TASK}.spec_aug_*", task.spec_aug_p, lambda: SpecAugment(task.spec_aug_p or 0, *masks)),
    ):
        try:
            if given:
                chosen.append(transform())
        except ValueError as error:
            faults.append(f"{key}: {error}")
    if faults:
        raise ConfigError(faults)
    return chosen if training else []


def _faults(task: AsrTaskConfig, storage: object) -> Iterator[str]:
    for name in _AT_LEAST_ONE.split():
        if (value := getattr(task, name)) is not None and value < 1:
            yield f"{_TASK}.{name} must be 1 or more, but is {value}"
    if task.use_fbank:
        yield f"{_TASK}.use_fbank must be false: the models take waveforms"
    if task.no_padding and task.batching_strategy is BatchingStrategy.STATIC:
        yield f"{_TASK}.no_padding must be false with batching_strategy STATIC"
    key = "dataset.mixture_parquet_storage_config"
    for name in ("beta_corpus", "beta_language"):
        if (beta := getattr(storage, name, None)) is not None and not 0 <= beta <= 1:
            rule = "must be from 0 (equal shares) to 1 (shares by hours)"
            yield f"{key}.{name} {rule}, but is {beta}"
