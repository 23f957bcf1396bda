"""Keys of upstream and fairseq2 that are no keys of `schema`, and what becomes of them."""

from typing import Final

from danish_asr.base.config_tree import Tree, flatten
from danish_asr.base.files import from_yaml

_STORAGE: Final = "dataset.mixture_parquet_storage_config"
_TASK: Final = "dataset.asr_task_config"

WITHOUT_EFFECT: Final = [
    f"{section}.{name}"
    for section, names in {
        "model": "compile_options",
        "pretrained_encoder": "compile compile_options dtype",
        "dataset": "manifest_storage_config task_mode",
        _STORAGE: "beta_language dataset_summary_path fragment_loading fragment_streaming "
        "max_workers num_prefetch pa_cpu_count parquet_path_name sampling_seed sync_batches "
        "sync_mode",
        _TASK: "batch_size npc num_prefetch seed unified_audio_feature_keys",
        "common": "cluster profilers sweep_format",
        "common.torch": "compiled_region_activation_memory_budget",
    }.items()
    for name in names.split()
]
"""Keys and sections of upstream and fairseq2 that are accepted, and named in one note."""

ONLY_DEFAULT: Final[Tree] = dict(
    flatten(
        from_yaml("""
model: {family: wav2vec2_asr, dtype: float32, compile: false, mmap: false}
pretrained_encoder:
  {path: null, family: wav2vec2_ssl, arch: null, config_overrides: null, mmap: false}
tokenizer: {family: char_tokenizer, config_overrides: null}
dataset:
  family: mixture_parquet_asr_dataset
  storage_mode: MIXTURE_PARQUET
  mixture_parquet_storage_config:
    split_column: split
    fragment_streaming: {partition_filters: null, limit: null}
    fragment_loading: {filters: null, drop_null: false}
  asr_task_config:
    {batching_strategy: LENGTH, max_bucket_size: null, drop_remainder: false, max_num_batches: null,
     filter_long_text_threshold: null, remove_unknown: false, use_fbank: false, no_padding: false,
     spec_aug_freq_mask_param: 80, spec_aug_time_mask_param: 80}
gang: {tensor_parallel_size: 1, high_priority: true}
trainer:
  fsdp:
    {version: v2, granularity: layer, hybrid: false, reshard_after_forward: true, fp32_reduce: true}
  grad_accumulation: {no_sync: false}
  fp16_loss_scale: [128.0, 0.0001]
  gc_every_n_steps: 1000
  grad_check: false
  anomaly_detection: false
optimizer:
  config:
    {amsgrad: false, maximize: false, capturable: false, differentiable: false, impl: auto}
lr_scheduler: {config: {cycle_len: null, cycle_mul: 1.0, lr_mul: 1.0}}
regime:
  validate_at_start: false
  validate_after_n_data_epochs: 0
  checkpoint_after_n_data_epochs: 0
  checkpoint_every_n_data_epochs: null
  publish_metrics_after_n_data_epochs: 0
  publish_metrics_every_n_data_epochs: null
  export_hugging_face: false
common:
  no_sweep_dir: true
  debug: false
  torch:
    {allow_tf32: true, fp16_reduced_precision: true, bf16_reduced_precision: true,
     default_sdpa: torch}
  metric_recorders:
    tensorboard: {enabled: true}
    wandb: {run_id: persistent, run_name: null, group: null, job_type: null, resume_mode: allow}
  profilers: {torch: {enabled: false}}
""")
    )
)
"""Keys of upstream and fairseq2 that few set, with the one value that is accepted."""
