"""The sections of the configuration that differ from fairseq2's: keys, defaults and rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from fairseq2.recipe.config import (
    DatasetSection,
    EvaluatorSection,
    RegimeSection,
    TokenizerSection,
    TrainerSection,
)
from fairseq2.utils.validation import ValidationResult
from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig
from omnilingual_asr.datasets.utils.batching import BatchingStrategy

from danish_asr.data.settings import check_settings
from danish_asr.decoding import GREEDY, find_decoder
from danish_asr.errors import ConfigError
from danish_asr.recipe.run_directory import SCORE_TITLES
from danish_asr.text.profiles import PROFILES


def names_of_splits(text: str | None) -> list[str]:
    """The names in a list of splits that are separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


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

    valid_max_num_elements: int | None = None
    """``asr_task_config.max_num_elements`` of validation and evaluation, which need no gradients:
    three times training's is safe. Scores do not depend on it. Null: as training."""

    train_subset: int | None = None
    """Train on so many rows of the split, before the filters, with the dialects in the split's
    shares and none left out: for learning curves, and for training in stages. A larger subset holds
    the smaller ones. Null: all rows."""

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
    """Text normalisation of the training targets (``danish_asr.text``). Models with a tokenizer
    of lower-case letters only (v1, or a character tokenizer) want ``coral``."""

    speed_factors: Sequence[float] = ()
    """In training each row is played, in each epoch, at one of these speeds, drawn evenly: 1.1 is a
    tenth faster and higher. A row that would then break the rules on lengths keeps its own speed.
    An empty list: every row as it was recorded."""

    max_unknown_share: float = 0.02
    """Training is refused if a larger share of the targets is unknown to the tokenizer."""

    def validate(self) -> ValidationResult:
        """Check the rules between lengths, batches and profile."""
        result = super().validate()
        if self.train_split is None and self.valid_split is None:
            result.add_error("`train_split` or `valid_split` must name a split, both are null.")
        for name in ("train_subset", "valid_subset", "valid_max_num_elements"):
            if getattr(self, name) == 0:
                result.add_error(f"`{name}` must be at least 1, but is 0.")
        if len(names := names_of_splits(self.valid_split)) > len(set(names)):
            result.add_error(
                f"`valid_split` must name each split once, but is '{self.valid_split}'."
            )
        if self.max_unknown_share > 1:
            result.add_error(
                f"`max_unknown_share` must be at most 1, but is {self.max_unknown_share}."
            )
        if self.text_profile not in PROFILES:
            known = ", ".join(PROFILES)
            result.add_error(f"`text_profile` must be one of {known}, but is {self.text_profile}.")
        for fault in self._batch_faults():
            result.add_error(fault)
        parquet = (
            self.mixture_parquet_storage_config
            if self.storage_mode is StorageMode.MIXTURE_PARQUET
            else None
        )
        try:
            check_settings(
                self.asr_task_config, parquet, training=True, speed_factors=self.speed_factors
            )
        except ConfigError as error:
            for fault in error.faults:
                result.add_error(fault)
        return result

    def _batch_faults(self) -> Iterator[str]:
        task = self.asr_task_config
        by_length = task.batching_strategy is BatchingStrategy.LENGTH
        if by_length and task.max_num_elements < task.max_audio_len:
            yield (
                f"`asr_task_config.max_num_elements` must hold the longest utterance "
                f"(`max_audio_len`, {task.max_audio_len}), but is {task.max_num_elements}."
            )
        if not by_length and self.valid_max_num_elements is not None:
            yield (
                "`valid_max_num_elements` must be null with asr_task_config.batching_strategy "
                f"STATIC, which counts rows, but is {self.valid_max_num_elements}."
            )

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

    freeze_encoder_layers: int = 0
    """The lowest n layers of the encoder, and all below them, learn nothing in the whole run: they
    need neither gradients nor optimizer states. As many as there are: only the head and the final
    normalisation learn."""

    freeze_feature_extractor: bool | None = None
    """Whether the convolutions below the encoder stay as they are. Null: exactly when their weights
    are pretrained; a model from scratch that cannot train them learns little."""

    max_wall_minutes: float | None = None
    """Save and exit with status 75 after so many minutes; the same command continues."""

    def validate(self) -> ValidationResult:
        """Check the numbers of this section."""
        result = super().validate()
        for name in ("max_grad_norm", "max_wall_minutes"):
            if getattr(self, name) == 0:
                result.add_error(f"`{name}` must be above 0, or null, but is 0.")
        if self.freeze_encoder_layers and self.freeze_feature_extractor is False:
            result.add_error(
                "`freeze_feature_extractor` must be true or null where `freeze_encoder_layers` is "
                f"{self.freeze_encoder_layers}: the convolutions lie below them."
            )
        return result


@dataclass(kw_only=True)
class AsrRegimeSection(RegimeSection):
    """How long to train, and when to validate, to save and to report."""

    score_profile: str = "coral"
    """The text normalisation under which validation computes WER and CER."""

    early_stopping_patience: int | None = None
    """Stop after so many validations in a row without a new best score. Null: never."""

    def validate(self) -> ValidationResult:
        """Check this section's own keys beside fairseq2's rules."""
        never = [name for name, value in vars(self).items() if "_every_n_" in name and value == 0]
        # fairseq2 divides by these numbers while it checks them.
        without: dict[str, Any] = dict.fromkeys(never)
        result = super(AsrRegimeSection, replace(self, **without)).validate()
        for name in never:
            result.add_error(f"`{name}` must be at least 1, or null for never, but is 0.")
        if self.score_profile not in PROFILES:
            known = ", ".join(PROFILES)
            result.add_error(
                f"`score_profile` must be one of {known}, but is {self.score_profile}."
            )
        if self.score_metric not in SCORE_TITLES:
            known = ", ".join(SCORE_TITLES)
            result.add_error(f"`score_metric` must be one of {known}, but is {self.score_metric}.")
        if self.early_stopping_patience == 0:
            result.add_error("`early_stopping_patience` must be at least 1, or null, but is 0.")
        if self.num_steps is None and self.num_data_epochs is None:
            result.add_error("`num_steps` or `num_data_epochs` must be given.")
        return result


@dataclass(kw_only=True)
class DecoderSection:
    """How logits become text, in validation and in evaluation (docs/extending.md)."""

    name: str = GREEDY
    """``greedy``, or ``package.module:name`` of another decoder."""

    config: dict[str, object] = field(default_factory=dict)
    """Its keyword arguments."""

    def validate(self) -> ValidationResult:
        """Check that the decoder can be imported."""
        result = ValidationResult()
        try:
            find_decoder(self.name)
        except ConfigError as error:
            for fault in error.faults:
                result.add_error(fault)
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
