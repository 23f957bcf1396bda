"""The sections of the configuration that differ from fairseq2's: keys, defaults and rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """The names in a comma-separated list of splits."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def result_of(faults: Iterable[str], result: ValidationResult | None = None) -> ValidationResult:
    """Return a result with more faults; a key in backticks belongs to the section."""
    result = result or ValidationResult()
    for fault in faults:
        result.add_error(fault)
    return result


def _positive(section: object, *names: str) -> Iterator[str]:
    for name in names:
        value = getattr(section, name)
        if value is not None and value <= 0:
            least = "at least 1" if isinstance(value, int) else "above 0"
            yield f"`{name}` must be {least}, but is {value}."


def _one_of(section: object, name: str, known: Iterable[str]) -> Iterator[str]:
    if (value := getattr(section, name)) not in known:
        yield f"`{name}` must be one of {', '.join(known)}, but is {value}."


class StorageMode(Enum):
    """How utterances are stored."""

    MANIFEST = "MANIFEST"
    MIXTURE_PARQUET = "MIXTURE_PARQUET"


class TaskMode(Enum):
    """What the model learns."""

    ASR = "ASR"


@dataclass(kw_only=True)
class AsrDatasetSection(DatasetSection):
    """Which utterances are read, and how they become batches."""

    valid_subset: int | None = None
    """Validate on about this many rows of each split, always the same ones, with every dialect in
    its share of the split. Null: all rows. Evaluation always scores all."""

    valid_max_num_elements: int | None = None
    """``asr_task_config.max_num_elements`` for validation and evaluation, which need no gradients:
    three times the value for training is safe. Scores do not depend on it. Null: as in training."""

    train_subset: int | None = None
    """Train on about this many rows of the split, counted before the filters, with every dialect in
    its share of the split: for learning curves and staged training. A larger subset contains the
    smaller ones. Null: all rows."""

    train_split: str | None = "train"
    """The split to train on."""

    valid_split: str | None = "dev"
    """The splits to validate on, separated by commas; ``test_<corpus>`` is one corpus."""

    storage_mode: StorageMode = StorageMode.MIXTURE_PARQUET

    task_mode: TaskMode = TaskMode.ASR

    manifest_storage_config: ManifestStorageConfig = field(default_factory=ManifestStorageConfig)
    """Used when ``storage_mode`` is MANIFEST."""

    mixture_parquet_storage_config: MixtureParquetStorageConfig = field(
        default_factory=MixtureParquetStorageConfig
    )
    """Used when ``storage_mode`` is MIXTURE_PARQUET."""

    asr_task_config: AsrTaskConfig = field(
        # omniASR models were trained on normalised waveforms; all of upstream's YAML files say so.
        default_factory=lambda: AsrTaskConfig(normalize_audio=True)
    )
    """Filters, batching, shuffling and augmentation. Lengths are in samples at 16 kHz."""

    text_profile: str = "raw"
    """Text normalisation of the training targets (``danish_asr.text``). Models with a tokenizer
    of lower-case letters only (v1, or a character tokenizer) need ``coral``."""

    speed_factors: Sequence[float] = ()
    """In training, each row is played in each epoch at one of these speeds, drawn uniformly: 1.1 is
    10 % faster and higher. A row that would then break the length limits keeps its own speed.
    Empty: every row as recorded."""

    transforms: Sequence[Mapping[str, object]] = ()
    """What changes training waveforms, in this order, in place of ``speed_factors`` and
    ``asr_task_config.spec_aug_*``: entries with a ``name`` (``speed``, ``spec_augment`` or
    ``<module>:<class>``, see docs/extending.md) and its parameters."""

    max_unknown_share: float = 0.02
    """Refuse to train if a larger share of the target text is unknown to the tokenizer."""

    def validate(self) -> ValidationResult:
        """Check splits, lengths, batches and the text profile."""
        return result_of(self._faults(), super().validate())

    def _faults(self) -> Iterator[str]:
        task = self.asr_task_config
        if self.train_split is None and self.valid_split is None:
            yield "`train_split` or `valid_split` must name a split, but both are null."
        if len(names := names_of_splits(self.valid_split)) > len(set(names)):
            yield f"`valid_split` must name each split once, but is '{self.valid_split}'."
        yield from _positive(self, "train_subset", "valid_subset", "valid_max_num_elements")
        if self.max_unknown_share > 1:
            yield f"`max_unknown_share` must be at most 1, but is {self.max_unknown_share}."
        yield from _one_of(self, "text_profile", PROFILES)
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
        parquet = self.storage_mode is StorageMode.MIXTURE_PARQUET
        storage = self.mixture_parquet_storage_config if parquet else None
        try:
            check_settings(
                task,
                storage,
                training=True,
                speed_factors=self.speed_factors,
                transforms=self.transforms,
            )
        except ConfigError as error:
            yield from error.faults

    @property
    def storage_config(self) -> MixtureParquetStorageConfig | ManifestStorageConfig:
        """The configuration of the storage that ``storage_mode`` selects."""
        if self.storage_mode is StorageMode.MANIFEST:
            return self.manifest_storage_config
        return self.mixture_parquet_storage_config


@dataclass(kw_only=True)
class AsrTokenizerSection(TokenizerSection):
    """The tokenizer; if none is named, the one in the model's or the dataset's card."""

    def validate(self) -> ValidationResult:
        """Accept an empty section; otherwise as fairseq2."""
        named = self.name or self.path is not None
        return super().validate() if named else ValidationResult()


@dataclass(kw_only=True)
class AsrTrainerSection(TrainerSection):
    """The trainer, and which parameters are frozen for how long."""

    freeze_encoder_for_n_steps: int = 0
    """The encoder is frozen for the first n steps, while the new head settles."""

    freeze_encoder_layers: int = 0
    """The lowest n encoder layers, and everything below them, stay frozen for the whole run: they
    need neither gradients nor optimizer states. If n is the number of layers, only the head and
    the final normalisation learn."""

    freeze_feature_extractor: bool | None = None
    """Whether the convolutions below the encoder are frozen. Null: only if their weights are
    pretrained; a model from scratch that cannot train them learns little."""

    max_wall_minutes: float | None = None
    """Save and exit with status 75 after this many minutes; the same command continues."""

    def validate(self) -> ValidationResult:
        """Check the numbers of this section."""
        return result_of(self._faults(), super().validate())

    def _faults(self) -> Iterator[str]:
        yield from _positive(self, "max_grad_norm", "max_wall_minutes")
        if self.freeze_encoder_layers and self.freeze_feature_extractor is False:
            yield (
                "`freeze_feature_extractor` must be true or null when `freeze_encoder_layers` is "
                f"{self.freeze_encoder_layers}: the convolutions are below these layers."
            )


@dataclass(kw_only=True)
class AsrRegimeSection(RegimeSection):
    """How long to train, and when to validate, to save and to report."""

    score_profile: str = "coral"
    """The text normalisation under which validation computes WER and CER."""

    early_stopping_patience: int | None = None
    """Stop after this many validations in a row without a new best score. Null: never."""

    def validate(self) -> ValidationResult:
        """Check this section's own keys and fairseq2's rules."""
        intervals = [name for name in vars(self) if "_every_n_" in name]
        faults = [*_positive(self, *intervals, "early_stopping_patience")]
        # fairseq2 divides by these numbers while it checks them.
        unset: dict[str, Any] = {n: None for n in intervals if (getattr(self, n) or 0) <= 0}
        result = super(AsrRegimeSection, replace(self, **unset)).validate()
        faults += _one_of(self, "score_profile", PROFILES)
        faults += _one_of(self, "score_metric", SCORE_TITLES)
        if self.num_steps is None and self.num_data_epochs is None:
            faults.append("`num_steps` must be given, or `num_data_epochs`.")
        return result_of(faults, result)


@dataclass(kw_only=True)
class DecoderSection:
    """How logits become text, in validation and in evaluation (docs/extending.md)."""

    name: str = GREEDY
    """``greedy``, or ``package.module:name`` of another decoder."""

    config: dict[str, object] = field(default_factory=dict)
    """Its keyword arguments."""

    def validate(self) -> ValidationResult:
        """Check that the decoder can be imported."""
        try:
            find_decoder(self.name)
        except ConfigError as error:
            return result_of(error.faults)
        return ValidationResult()


@dataclass(kw_only=True)
class AsrEvaluatorSection(EvaluatorSection):
    """What the evaluation recipe scores."""

    checkpoint: str | None = None
    """``best``, ``last`` or ``step_<n>`` of the run in OUTDIR, or ``none`` for ``model.name``
    itself. Null: ``best`` with a training configuration, otherwise ``none``."""

    split: str | None = None
    """The splits to score, separated by commas. Null: ``test`` with a training configuration,
    otherwise ``dataset.valid_split``."""
