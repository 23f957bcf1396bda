"""The recipe's configuration: typed sections, every default, and the rules between them.

The keys are upstream's (omnilingual-asr's recipe of the same name), so that its YAML files load
unchanged; what is ours stands in the subclasses below. Defaults live here and nowhere else: a YAML
file holds only what differs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import torch
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY
from fairseq2.recipe.config import (
    ADAMW_OPTIMIZER,
    TRI_STAGE_LR,
    AdamWConfig,
    CommonSection,
    CompileOptions,
    DatasetSection,
    EvaluatorSection,
    GangSection,
    GradAccumulationConfig,
    LRSchedulerSection,
    MixedPrecisionConfig,
    ModelSection,
    OptimizerSection,
    ReferenceModelSection,
    RegimeSection,
    TokenizerSection,
    TrainerSection,
    TriStageLRConfig,
)
from fairseq2.utils.validation import ValidationResult
from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig
from omnilingual_asr.datasets.utils.batching import BatchingStrategy

from danish_asr.errors import ConfigError
from danish_asr.reading.settings import check_settings
from danish_asr.text import PROFILES

from .run_directory import SCORE_TITLES


class StorageMode(Enum):
    """Where utterances come from."""

    MANIFEST = "MANIFEST"
    MIXTURE_PARQUET = "MIXTURE_PARQUET"


class TaskMode(Enum):
    """What is learnt from them."""

    ASR = "ASR"


@dataclass(kw_only=True)
class AsrDatasetSection(DatasetSection):
    """Which utterances are read, and how they become batches."""

    valid_subset: int | None = None
    """Validate on so many rows of each split, always the same ones, with the dialects in the
    split's shares and none left out. Null: all rows. Evaluation always scores all."""

    train_split: str | None = "train"
    """The split to train on."""

    valid_split: str | None = "dev"
    """The split or splits to validate on, separated by commas; ``test_<corpus>`` is one corpus."""

    storage_mode: StorageMode = StorageMode.MIXTURE_PARQUET
    """How the dataset is stored."""

    task_mode: TaskMode = TaskMode.ASR
    """The task; ASR is the only one."""

    manifest_storage_config: ManifestStorageConfig = field(default_factory=ManifestStorageConfig)
    """Read when ``storage_mode`` is MANIFEST."""

    mixture_parquet_storage_config: MixtureParquetStorageConfig = field(
        default_factory=MixtureParquetStorageConfig
    )
    """Read when ``storage_mode`` is MIXTURE_PARQUET."""

    asr_task_config: AsrTaskConfig = field(
        # omniASR models were trained on normalised waveforms; upstream's YAML files all say so.
        default_factory=lambda: AsrTaskConfig(normalize_audio=True)
    )
    """Filters, batching, shuffling and augmentation. Lengths are in samples at 16 kHz."""

    text_profile: str = "raw"
    """The text normalisation of the training targets (``danish_asr.text``). Models with a tokenizer
    of lower-case letters only (v1, or a character tokenizer) want ``coral``."""

    max_unknown_share: float = 0.02
    """Training is refused if a larger share of the targets is unknown to the tokenizer."""

    def validate(self) -> ValidationResult:
        """Check the rules between lengths, batches and profile."""
        result = super().validate()
        if self.train_split is None and self.valid_split is None:
            result.add_error("`train_split` or `valid_split` must name a split, both are null.")
        if self.valid_subset is not None and self.valid_subset < 1:
            result.add_error(f"`valid_subset` must be at least 1, but is {self.valid_subset}.")
        if self.text_profile not in PROFILES:
            known = ", ".join(PROFILES)
            result.add_error(f"`text_profile` must be one of {known}, but is {self.text_profile}.")
        task = self.asr_task_config
        by_length = task.batching_strategy is BatchingStrategy.LENGTH
        if by_length and task.max_num_elements < task.max_audio_len:
            result.add_error(
                f"`asr_task_config.max_num_elements` must hold the longest utterance "
                f"(`max_audio_len`, {task.max_audio_len}), but is {task.max_num_elements}."
            )
        parquet = (
            self.mixture_parquet_storage_config
            if self.storage_mode is StorageMode.MIXTURE_PARQUET
            else None
        )
        try:
            check_settings(task, parquet, training=True)
        except ConfigError as error:
            for fault in error.faults:
                result.add_error(fault)
        return result

    @property
    def storage_config(self) -> MixtureParquetStorageConfig | ManifestStorageConfig:
        """The configuration of the storage that ``storage_mode`` chooses."""
        if self.storage_mode is StorageMode.MANIFEST:
            return self.manifest_storage_config
        return self.mixture_parquet_storage_config


@dataclass(kw_only=True)
class AsrTokenizerSection(TokenizerSection):
    """The tokenizer; when none is named, the one that the model's or the dataset's card names."""

    def validate(self) -> ValidationResult:
        """Accept an empty section; otherwise as fairseq2."""
        if not self.name and self.path is None:
            return ValidationResult()
        return super().validate()


@dataclass(kw_only=True)
class AsrTrainerSection(TrainerSection):
    """The trainer, with what is frozen and for how long."""

    freeze_encoder_for_n_steps: int = 0
    """The encoder learns nothing in the first n steps, while the new head settles."""

    freeze_feature_extractor: bool | None = None
    """Whether the convolutions below the encoder stay as they are. Null: exactly when their weights
    are pretrained; a model from scratch that cannot train them learns little."""

    max_wall_minutes: float | None = None
    """Save and exit with status 75 after so many minutes; the same command continues."""

    def validate(self) -> ValidationResult:
        """Check the numbers of this section."""
        result = super().validate()
        if self.freeze_encoder_for_n_steps < 0:
            result.add_error(
                "`freeze_encoder_for_n_steps` must be 0 or more, "
                f"but is {self.freeze_encoder_for_n_steps}."
            )
        if self.max_grad_norm is not None and self.max_grad_norm <= 0:
            result.add_error(f"`max_grad_norm` must be above 0, but is {self.max_grad_norm}.")
        if self.max_wall_minutes is not None and self.max_wall_minutes <= 0:
            result.add_error(f"`max_wall_minutes` must be above 0, but is {self.max_wall_minutes}.")
        return result


@dataclass(kw_only=True)
class AsrRegimeSection(RegimeSection):
    """How long to train, and when to validate, to save and to report."""

    score_profile: str = "coral"
    """The text normalisation under which validation computes WER and CER."""

    early_stopping_patience: int | None = None
    """Stop after so many validations in a row without a new best score. Null: never."""

    def validate(self) -> ValidationResult:
        """Check this section's profile beside fairseq2's rules."""
        result = super().validate()
        if self.score_profile not in PROFILES:
            known = ", ".join(PROFILES)
            result.add_error(
                f"`score_profile` must be one of {known}, but is {self.score_profile}."
            )
        if self.score_metric not in SCORE_TITLES:
            known = ", ".join(SCORE_TITLES)
            result.add_error(f"`score_metric` must be one of {known}, but is {self.score_metric}.")
        if self.early_stopping_patience is not None and self.early_stopping_patience < 1:
            result.add_error(
                "`early_stopping_patience` must be at least 1, "
                f"but is {self.early_stopping_patience}."
            )
        if self.num_steps is None and self.num_data_epochs is None:
            result.add_error("`num_steps` or `num_data_epochs` must be given.")
        return result


@dataclass(kw_only=True)
class AsrEvaluatorSection(EvaluatorSection):
    """What the evaluation recipe scores."""

    checkpoint: str | None = None
    """``best``, ``last`` or ``step_<n>`` of the run in OUTDIR, or ``none`` for the model as
    ``model.name`` has it. Null: ``best`` with a training configuration, else ``none``."""

    split: str | None = None
    """The split or splits to score, separated by commas. Null: ``test`` with a training
    configuration, else ``dataset.valid_split``."""


@dataclass(kw_only=True)
class AsrConfig:
    """Configuration of the training recipe."""

    model: ModelSection = field(
        default_factory=lambda: ModelSection(
            family="wav2vec2_asr",
            compile_options=CompileOptions(fullgraph=False, dynamic=False),
        )
    )
    """``name`` fine-tunes a checkpoint; ``arch`` alone starts from scratch."""

    pretrained_encoder: ReferenceModelSection = field(
        default_factory=lambda: ReferenceModelSection(name="", family="wav2vec2_ssl")
    )
    """With ``model.arch``: a pretrained encoder below a new head."""

    dataset: AsrDatasetSection = field(default_factory=AsrDatasetSection)

    tokenizer: AsrTokenizerSection = field(default_factory=AsrTokenizerSection)

    gang: GangSection = field(default_factory=GangSection)

    trainer: AsrTrainerSection = field(
        default_factory=lambda: AsrTrainerSection(
            mixed_precision=MixedPrecisionConfig(dtype=torch.bfloat16),
            grad_accumulation=GradAccumulationConfig(num_batches=4),
            # Without clipping a single bad batch can undo a run.
            max_grad_norm=1.0,
        )
    )

    optimizer: OptimizerSection = field(
        default_factory=lambda: OptimizerSection(
            name=ADAMW_OPTIMIZER,
            config=AdamWConfig(lr=5e-05, betas=(0.9, 0.98), eps=1e-08, weight_decay=0.0),
        )
    )

    lr_scheduler: LRSchedulerSection = field(
        default_factory=lambda: LRSchedulerSection(
            name=TRI_STAGE_LR,
            config=TriStageLRConfig(
                stage_ratio=(0.1, 0.4, 0.5), start_lr_scale=0.01, final_lr_scale=0.05
            ),
        )
    )

    regime: AsrRegimeSection = field(
        default_factory=lambda: AsrRegimeSection(
            num_steps=20_000,
            score_metric="wer",
            validate_every_n_steps=1_000,
            checkpoint_every_n_steps=1_000,
            publish_metrics_every_n_steps=100,
            # A full quota kills a run without a word; what the best and the newest need is kept.
            keep_best_n_checkpoints=1,
            keep_last_n_checkpoints=2,
        )
    )

    evaluator: AsrEvaluatorSection = field(
        default_factory=lambda: AsrEvaluatorSection(amp=True, amp_dtype=torch.bfloat16)
    )
    """Read by the evaluation recipe only; it stands here so that one file serves both."""

    common: CommonSection = field(
        # One output directory is one run: no hashed directory below it.
        default_factory=lambda: CommonSection(no_sweep_dir=True)
    )

    def validate(self) -> ValidationResult:
        """Refuse the models that this recipe does not train."""
        result = ValidationResult()
        named = self.model.name is not None
        if not named and self.model.family != WAV2VEC2_ASR_FAMILY:
            result.add_error(
                f"model.family must be {WAV2VEC2_ASR_FAMILY}: this recipe trains CTC models and no "
                f"LLM models, but is {self.model.family}."
            )
        if self.model.compile:
            result.add_error(
                "model.compile must be false: fairseq2 0.6 does not compile this family."
            )
        return result


@dataclass(kw_only=True)
class AsrEvalConfig(AsrConfig):
    """Configuration of the evaluation recipe: a training configuration does as it stands."""

    model: ReferenceModelSection = field(  # type: ignore[assignment] # same keys, by design
        default_factory=lambda: ReferenceModelSection(name="omniASR_CTC_300M")
    )

    dataset: AsrDatasetSection = field(
        default_factory=lambda: AsrDatasetSection(valid_split="test")
    )
