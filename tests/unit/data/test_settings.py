from dataclasses import fields, is_dataclass
from typing import Any

from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.recipe.config.keys import NO_EFFECT

SECTIONS = {
    "mixture_parquet_storage_config": MixtureParquetStorageConfig(),
    "manifest_storage_config": ManifestStorageConfig(),
    "asr_task_config": AsrTaskConfig(),
}
OBEYED = {
    "mixture_parquet_storage_config": "dataset_summary_path beta_corpus beta_language split_column "
    "fragment_streaming.partition_filters fragment_loading.filters",
    "manifest_storage_config": "",
    "asr_task_config": "min_audio_len max_audio_len batching_strategy batch_size max_bucket_size "
    "num_seqs_multiple_of max_num_elements drop_remainder filter_long_text_threshold "
    "remove_unknown min_samples_per_char normalize_audio spec_aug_p spec_aug_freq_mask_param "
    "spec_aug_time_mask_param example_shuffle_window batch_shuffle_window no_padding "
    "max_num_batches",
}
REFUSED = ("asr_task_config.use_fbank",)


def keys(section: Any, prefix: str) -> list[str]:
    """Dotted keys of all leaves; upstream fills ``columns`` itself."""
    found = []
    for field in fields(section):
        value = getattr(section, field.name)
        nested = is_dataclass(value) and field.name not in {"columns", "limit"}
        name = f"{prefix}.{field.name}"
        found += keys(value, name) if nested else [name]
    return found


def test_every_key_that_upstream_has_is_obeyed_without_effect_or_refused() -> None:
    upstream = [key for name, section in SECTIONS.items() for key in keys(section, name)]

    ours = [*(key.removeprefix("dataset.") for key in NO_EFFECT), *REFUSED]
    ours += [f"{name}.{key}" for name, row in OBEYED.items() for key in row.split()]

    assert sorted(ours) == sorted(upstream)
