"""What each key of fairseq2's and upstream's own sections does here, in a line.

The keys of this project's sections are described by the docstrings below them.
"""

from typing import Final

_MODEL: Final = {
    "name": "A model's card, such as omniASR_CTC_300M: `danish-asr fetch` says how to look one up.",
    "path": "A run, one of its checkpoints, or a directory of Hugging Face, instead of a name.",
    "family": "The family of a model that `path` or `arch` gives.",
    "arch": "An architecture without weights, such as tiny or 300m.",
    "config_overrides": "Changes to the architecture, such as other dropout, as a mapping.",
    "dtype": "The type of the weights; `trainer.mixed_precision` sets that of the computation.",
    "mmap": "Map the file of weights into memory instead of reading it.",
    "compile": "Must be false: fairseq2 0.6 does not compile this family.",
}

_DATASET: Final = {
    "name": "The dataset's card, as `danish-asr convert --name` wrote it.",
    "family": "fairseq2's name for the kind of dataset; the card has it.",
    "config_overrides": "Changes to the card's configuration, such as the path of the data.",
    "task_mode": "Must be ASR.",
    "mixture_parquet_storage_config.dataset_summary_path": (
        "language_distribution_0.tsv of the dataset: the hours of each corpus, for its share."
    ),
    "mixture_parquet_storage_config.beta_corpus": (
        "0 gives each corpus the same share, 1 a share by its hours, 0.5 by their square root. "
        "Null with `beta_language` null: all rows once in an epoch."
    ),
    "mixture_parquet_storage_config.beta_language": "The same for languages within a corpus.",
    "mixture_parquet_storage_config.split_column": "The part of a shard's path with the split.",
    "mixture_parquet_storage_config.fragment_streaming.partition_filters": (
        "A condition on corpus, split and language, in training and evaluation alike."
    ),
    "mixture_parquet_storage_config.fragment_loading.filters": (
        "A condition on columns, in training and evaluation alike."
    ),
    "asr_task_config.min_audio_len": "Shorter training utterances are left out; in samples.",
    "asr_task_config.max_audio_len": "Longer training utterances are left out; in samples.",
    "asr_task_config.batching_strategy": (
        "LENGTH: batches of `max_num_elements` samples. STATIC: of `batch_size` rows."
    ),
    "asr_task_config.batch_size": "Rows in a batch with STATIC; 1 or more.",
    "asr_task_config.num_seqs_multiple_of": (
        "A batch with more rows than this has a multiple of it; 1 or more."
    ),
    "asr_task_config.max_num_elements": (
        "Samples in a batch, padding included; at least `max_audio_len`. Sets the memory of a step."
    ),
    "asr_task_config.max_bucket_size": "Most rows in a batch. Null: no limit.",
    "asr_task_config.drop_remainder": "Leave out an incomplete batch at the end of an epoch.",
    "asr_task_config.filter_long_text_threshold": (
        "Leave out training rows with more symbols than this. Null: none."
    ),
    "asr_task_config.remove_unknown": "Leave unknown symbols out of the training targets.",
    "asr_task_config.min_samples_per_char": (
        "Leave out training rows with fewer samples for each character: text of other audio."
    ),
    "asr_task_config.normalize_audio": "Give each waveform a mean of 0 and a variance of 1.",
    "asr_task_config.use_fbank": "Must be false: the models take waveforms.",
    "asr_task_config.spec_aug_p": "The share of training rows with SpecAugment. Null: none.",
    "asr_task_config.spec_aug_freq_mask_param": "Bins, of 201, that it masks at most.",
    "asr_task_config.spec_aug_time_mask_param": "Frames that it masks at most.",
    "asr_task_config.example_shuffle_window": (
        "Shuffle rows within windows of this many; 0: the whole epoch, 1: not at all."
    ),
    "asr_task_config.batch_shuffle_window": "The same for batches.",
    "asr_task_config.no_padding": "Cut all training rows of a batch to the shortest one.",
    "asr_task_config.max_num_batches": "Batches in an epoch, at most. Null: all.",
}

_TRAINER: Final = {
    "data_parallelism": "On several GPUs: ddp copies the model to each, fsdp shards it.",
    "fsdp.version": "PyTorch's FSDP 1 or 2.",
    "fsdp.granularity": "What is sharded as one.",
    "fsdp.hybrid": "Shard within a host, and copy between hosts.",
    "fsdp.reshard_after_forward": "Give sharded weights back after the forward pass, for memory.",
    "fsdp.fp32_reduce": "Sum gradients over GPUs in float32.",
    "mixed_precision.mode": (
        "static: a step in `dtype`, the optimizer in float32. auto: autocast. off: `model.dtype`."
    ),
    "mixed_precision.dtype": "bfloat16; float16 on GPUs without it, such as a V100.",
    "grad_accumulation.num_batches": "Batches that a process sums in a step; 1 or more.",
    "grad_accumulation.no_sync": "Sum gradients over GPUs at the last batch of a step only.",
    "activation_checkpointing.mode": (
        "layerwise recomputes activations in the backward pass: less memory, a third more time."
    ),
    "activation_checkpointing.every_nth_layer": "Only every n-th layer; 1 or more.",
    "max_grad_norm": "Clip gradients to this norm; above 0. Null: no clipping.",
    "fp16_loss_scale": "First and smallest scale of the loss in float16.",
    "gc_every_n_steps": "Collect Python's garbage every n steps; 1 or more. Null: automatically.",
    "grad_check": "Compare the gradients of the processes in each step, to find faults.",
    "anomaly_detection": "PyTorch's search for the operation that makes a NaN; slow.",
}

_ADAMW: Final = {
    "lr": "The highest learning rate of the schedule; above 0 and at most 1000.",
    "betas": "Decay of the two averages of the gradient; below 1.",
    "eps": "Added to the denominator.",
    "weight_decay": "How much weights shrink in a step, times the rate.",
    "amsgrad": "The variant AMSGrad.",
    "maximize": "Maximise the loss; false.",
    "capturable": "Must be false.",
    "differentiable": "Must be false.",
    "impl": "PyTorch's implementation; auto is fused on a GPU.",
    "groups": "Values of their own for parameters: a list with `params`, a pattern of names.",
}

_REGIME: Final = {
    "num_steps": "The length of the run and of its schedule. Null: `num_data_epochs` ends the run.",
    "num_data_epochs": "End after this many passes over the training data. Null: no limit.",
    "validate_at_start": "Validate before the first step too.",
    "validate_after_n_steps": "No validation before this step.",
    "validate_every_n_steps": (
        "Steps between validations; a multiple of `publish_metrics_every_n_steps`."
    ),
    "validate_after_n_data_epochs": "No validation before this epoch.",
    "score_metric": "What the best checkpoint is best by: wer, cer, loss or worst_group_wer.",
    "checkpoint_after_n_steps": "No checkpoint before this step.",
    "checkpoint_every_n_steps": "Steps between checkpoints.",
    "checkpoint_after_n_data_epochs": "No checkpoint before this epoch.",
    "checkpoint_every_n_data_epochs": "Epochs between checkpoints.",
    "save_model_only": (
        "all_but_last: of all but the newest checkpoint only the model. true or all: of all, so "
        "that no run can continue."
    ),
    "export_hugging_face": "Must be false: `danish-asr export` does it.",
    "keep_last_n_checkpoints": "How many of the newest are kept. Null here and below: all.",
    "keep_best_n_checkpoints": "How many of the best by `score_metric` are kept.",
    "keep_checkpoint_every_n_steps": "Keep those of every n-th step too.",
    "publish_metrics_after_n_steps": "No report before this step.",
    "publish_metrics_every_n_steps": "Steps between reports.",
    "publish_metrics_after_n_data_epochs": "No report before this epoch.",
    "publish_metrics_every_n_data_epochs": "Epochs between reports.",
}

_COMMON: Final = {
    "torch.num_threads": "CPU threads of PyTorch. Null: OMP_NUM_THREADS, else the CPUs at hand.",
    "torch.allow_tf32": "Use TF32 for float32 matrices on a GPU.",
    "torch.fp16_reduced_precision": "Sum float16 products in float16.",
    "torch.bf16_reduced_precision": "Sum bfloat16 products in bfloat16.",
    "torch.default_sdpa": "The implementation of attention.",
    "torch.compiled_region_activation_memory_budget": "Without effect: nothing is compiled.",
    "metric_recorders.tensorboard.enabled": "Write curves to OUTDIR/tb.",
    "metric_recorders.wandb.enabled": "Write curves to Weights & Biases; needs the extra wandb.",
    "metric_recorders.wandb.entity": "The user or team there.",
    "metric_recorders.wandb.project": "The project there.",
    "metric_recorders.wandb.run_id": "persistent: a run that continues keeps its id.",
    "metric_recorders.wandb.run_name": "The name that is shown. Null: a random one.",
    "metric_recorders.wandb.group": "A group of runs.",
    "metric_recorders.wandb.job_type": "A kind of run.",
    "metric_recorders.wandb.resume_mode": "What W&B does with an id that it knows.",
    "profilers.torch.enabled": "Write a trace of some steps to OUTDIR/tb.",
    "profilers.torch.skip_n_steps": "Steps before the first trace.",
    "profilers.torch.wait_n_steps": "Steps between traces.",
    "profilers.torch.num_warmup_steps": "Steps that are traced and dropped.",
    "profilers.torch.num_active_steps": "Steps in a trace; 1 or more.",
    "profilers.torch.repeat": "How many traces.",
    "assets.extra_paths": "Directories of cards, beside those of $DANISH_ASR_ASSETS.",
    "assets.prev_checkpoint_dir": "Set by the evaluation: the checkpoints of the run.",
    "seed": "The seed of weights, batches and transforms; below 4,000,000,000.",
    "debug": "Print what otherwise stands in OUTDIR/logs only.",
    "cluster": "Without effect: `python -m danish_asr.base.cluster` starts processes.",
    "no_sweep_dir": "Must be true: OUTDIR is the directory of one run.",
    "sweep_format": "Without effect, because `no_sweep_dir` is true.",
}

_SECTIONS: Final = {
    "model": _MODEL,
    "pretrained_encoder": _MODEL,
    "dataset": _DATASET,
    "tokenizer": {
        "name": "A tokenizer's card. Null: that of the model, else of the dataset.",
        "path": "The file of a tokenizer, instead of a name.",
        "family": "The family of the tokenizer that `path` gives: char_tokenizer.",
        "config_overrides": "Changes to the tokenizer's configuration.",
    },
    "gang": {
        "tensor_parallel_size": "Must be 1.",
        "timeout": "Minutes that a process waits for the others; 1 to 1440. NCCL's limit too.",
        "high_priority": "Let GPUs communicate before they compute.",
    },
    "trainer": _TRAINER,
    "optimizer": {
        "name": "adamw, adamw_8bit, adamw_offload, adafactor, or package.module:Class.",
        **{f"config.{key}": effect for key, effect in _ADAMW.items()},
    },
    "lr_scheduler": {
        "name": "tri_stage, cosine_annealing, polynomial_decay, noam or myle (inverse root).",
        "config.stage_ratio": "The shares of warm-up, hold and decay in `num_steps`; their sum: 1.",
        "config.start_lr_scale": "The first rate, as a part of `lr`.",
        "config.final_lr_scale": "The last rate, as a part of `lr`; above 0.",
    },
    "regime": _REGIME,
    "evaluator": {
        "amp": "Evaluate with autocast on a GPU.",
        "amp_dtype": "Its type; float16 on GPUs without bfloat16.",
    },
    "common": _COMMON,
}

EFFECTS: Final = {
    f"{section}.{key}": effect
    for section, keys in _SECTIONS.items()
    for key, effect in keys.items()
}
"""The effect of each key that a section inherits."""

SECTIONS: Final = {
    "gang": "The processes of a run.",
    "lr_scheduler": "The course of the learning rate; its length is `regime.num_steps`.",
    "pretrained_encoder": "With `model.arch`: a pretrained encoder below a new head.",
    "common": "Threads, curves, traces, cards and the seed.",
}
"""What a section of fairseq2's is for."""
