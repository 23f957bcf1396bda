"""The sections of the configuration that differ from fairseq2's: keys, defaults and rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from fairseq2.recipe import config as base
from fairseq2.utils.validation import ValidationResult
from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.base.errors import ConfigError
from danish_asr.recipe.data.settings import check_settings
from danish_asr.recipe.run.run_directory import SCORE_TITLES
from danish_asr.text.profiles import normalizer

FULL: Final = "full"

HEAD: Final = "head"
ALL_LAYERS: Final = "all"
"""What learns in a stage of ``trainer.unfreeze``, beside ``top <n>``."""


def top_layers(learning: str) -> int | None:
    """The number of encoder layers that learn; None: all, and what is below them.

    Raises:
        ValueError: It is not ``head``, ``top <n>`` or ``all``.
    """
    if learning in {HEAD, ALL_LAYERS}:
        return 0 if learning == HEAD else None
    number = learning.removeprefix("top ")
    if number == learning or not number.isdecimal() or int(number) < 1:
        raise ValueError(learning)
    return int(number)


def names_of_splits(text: str | None) -> list[str]:
    """The names in a comma-separated list of splits, each once."""
    return [*dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip())]


def with_broken(rules: Mapping[str, bool], result: ValidationResult) -> ValidationResult:
    """Add the rules that do not hold; a key in backticks belongs to the section."""
    for rule, holds in rules.items():
        if not holds:
            result.add_error(rule)
    return result


def _positive(section: object, *names: str) -> dict[str, bool]:
    values = {name: getattr(section, name) for name in names}
    return {f"`{name}` must be above 0": v is None or v > 0 for name, v in values.items()}


def _profile(section: object, name: str) -> dict[str, bool]:
    try:
        normalizer(getattr(section, name))
    except ConfigError as error:
        return {fault.replace("profile", f"`{name}`", 1): False for fault in error.faults}
    return {}


@dataclass(kw_only=True)
class AsrModelSection(base.ModelSection):
    """The model to train."""

    head: Literal["full", "danish"] = FULL
    """``danish`` keeps those rows of a trained head whose symbols the training text uses, below
    100 of 10,000: head, softmax and CTC loss then need a fraction of their time and memory."""

    def validate(self) -> ValidationResult:
        """Check that there is a trained head."""
        rules = {
            "`head` must be full without a trained model (model.name or model.path)": bool(
                self.head == FULL or self.name or self.path
            )
        }
        return with_broken(rules, super().validate())


@dataclass(kw_only=True)
class MaskingSection:
    """Which share of the encoder's input is masked in training.

    Null: as the model is configured, which is not at all for omniASR's models.
    """

    time: float | None = None
    """wav2vec 2.0's mask probability: spans are drawn for this share of the frames. They may
    overlap, so that 0.5 masks about 0.4 of the frames of a long utterance."""

    time_span: int | None = None
    """Frames in a span; 10 in wav2vec 2.0. Rows that are not longer are left as they are."""

    channel: float | None = None
    """The same for channels."""

    channel_span: int | None = None
    """Channels in a span; 64 in wav2vec 2.0."""

    consistency_scale: float | None = None
    """CR-CTC: mask each utterance twice, and add this much of the difference of the two posteriors
    to the loss; 0.2 in arXiv:2410.05101. A batch then needs twice the memory. Null: mask once."""

    def validate(self) -> ValidationResult:
        """Check shares and spans."""
        rules = _positive(self, "time_span", "channel_span", "consistency_scale")
        rules["`time` must be 0 to 1"] = 0 <= (self.time or 0) <= 1
        rules["`channel` must be 0 to 1"] = 0 <= (self.channel or 0) <= 1
        return with_broken(rules, ValidationResult())


@dataclass(kw_only=True)
class AsrDatasetSection(base.DatasetSection):
    """Which utterances are read, and how they become batches."""

    valid_subset: int | None = None
    """Validate on about this many rows of each split, always the same, each dialect in its share.
    Null: all rows. Evaluation always scores all."""

    quadratic_seconds: float | None = None
    """Count a training utterance of L seconds as L + L²/q in ``max_num_elements``, because the
    memory of attention grows so: fewer long utterances in a batch, more short ones. Null: as L."""

    valid_max_num_elements: int | None = None
    """``asr_task_config.max_num_elements`` for validation and evaluation; scores do not depend on
    it. Null: as in training. Three times that is safe, because there are no gradients."""

    train_subset: int | None = None
    """Train on about this many rows, counted before the filters, each dialect in its share. A
    larger subset contains the smaller ones. Null: all rows."""

    train_split: str | None = "train"
    """The split to train on; ``train_<corpus>`` is one corpus."""

    train_where: str | None = None
    """Train on the rows that fulfil this SQL condition, such as ``dialect = 'Fynsk' and age >=
    60``; the shares of the corpora are then by the hours of these rows. Null: all rows."""

    valid_split: str | None = "dev"
    """The splits to validate on, separated by commas; ``test_<corpus>`` is one corpus."""

    valid_where: str | None = None
    """Validate on the rows that fulfil this SQL condition. Null: all rows."""

    storage_mode: Literal["MANIFEST", "MIXTURE_PARQUET"] = "MIXTURE_PARQUET"
    """How utterances are stored; only the section of this storage is used."""

    task_mode: Literal["ASR"] = "ASR"
    manifest_storage_config: ManifestStorageConfig = field(default_factory=ManifestStorageConfig)
    mixture_parquet_storage_config: MixtureParquetStorageConfig = field(
        default_factory=MixtureParquetStorageConfig
    )

    asr_task_config: AsrTaskConfig = field(
        # omniASR models were trained on normalised waveforms; all of upstream's YAML files say so.
        default_factory=lambda: AsrTaskConfig(normalize_audio=True)
    )
    """Filters, batching, shuffling and augmentation. Lengths are in samples at 16 kHz."""

    text_profile: str = "raw"
    """Text normalisation of the training targets: a profile of ``danish_asr.text``, or your own as
    ``package.module:function``. Models with a tokenizer of lower-case letters only (v1,
    or a character tokenizer) need ``coral``."""

    speed_factors: Sequence[float] = ()
    """Speeds to draw from for each training row in each epoch: 1.1 is 10 % faster and higher. A row
    that would break the length limits keeps its own speed."""

    transforms: Sequence[Mapping[str, object]] = ()
    """Changes to training waveforms, in this order, in place of ``speed_factors`` and
    ``spec_aug_*``: each a ``name`` (docs/extending.md) and its parameters."""

    max_unknown_share: float | None = None
    """Refuse to train if a larger share of the target text is unknown to the tokenizer. Null: 20 %
    with the tokenizer that the model's card names, 2 % with another."""

    def validate(self) -> ValidationResult:
        """Check the numbers, the text profile, and what upstream's sections allow."""
        sizes = ("train_subset", "valid_subset", "valid_max_num_elements", "quadratic_seconds")
        rules = _positive(self, *sizes) | _profile(self, "text_profile")
        rules["`max_unknown_share` must be 0 to 1"] = 0 <= (self.max_unknown_share or 0) <= 1
        result = with_broken(rules, super().validate())
        try:
            check_settings(
                self.asr_task_config,
                self.storage_config,
                speed_factors=self.speed_factors,
                transforms=self.transforms,
            )
        except ConfigError as error:
            with_broken(dict.fromkeys(error.faults, False), result)
        return result

    @property
    def storage_config(self) -> MixtureParquetStorageConfig | ManifestStorageConfig:
        """The configuration of the storage that ``storage_mode`` selects."""
        if self.storage_mode == "MANIFEST":
            return self.manifest_storage_config
        return self.mixture_parquet_storage_config


@dataclass(kw_only=True)
class AsrTokenizerSection(base.TokenizerSection):
    """The tokenizer; if none is named, the one in the model's or the dataset's card."""

    def validate(self) -> ValidationResult:
        """Accept an empty section; otherwise as fairseq2."""
        named = self.name or self.path is not None
        return super().validate() if named else ValidationResult()


@dataclass(kw_only=True)
class AsrTrainerSection(base.TrainerSection):
    """The trainer, and which parameters are frozen for how long."""

    freeze_encoder_for_n_steps: int = 0
    """The encoder is frozen for the first n steps, while the new head settles."""

    unfreeze: Mapping[int, str] = field(default_factory=dict)
    """What learns after so many steps, in stages, instead of ``freeze_encoder_for_n_steps``:
    ``{0: head, 1000: top 8, 3000: all}``."""

    effective_audio_minutes: float | None = None
    """Minutes of audio in a step, padding included, on any number of processes: sets
    ``grad_accumulation.num_batches``. Null: as that says."""

    ema: float | None = None
    """Keep an exponential moving average of the weights with this decay, such as 0.999, validate
    it beside them, and take it as the result if it is better. It needs memory for the weights once
    more. Null: none."""

    freeze_encoder_layers: int = 0
    """The lowest n encoder layers, and everything below them, stay frozen for the whole run: they
    need neither gradients nor optimizer states."""

    freeze_feature_extractor: bool | None = None
    """Whether the convolutions below the encoder are frozen. Null: if they are pretrained; a model
    from scratch that cannot train them learns little."""

    probe_steps: int | None = None
    """Only measure: take so many steps, the longest batches first and with all that will ever
    learn, and write ``OUTDIR/probe.json``: memory, time, what the whole run takes. Null: train."""

    max_wall_minutes: float | None = None
    """Save and exit with status 75 after this many minutes; the same command continues."""

    def validate(self) -> ValidationResult:
        """Check the numbers and the stages of this section."""
        numbers = ("max_grad_norm", "max_wall_minutes", "effective_audio_minutes", "probe_steps")
        rules = _positive(self, *numbers)
        rules["`ema` must be above 0 and below 1"] = self.ema is None or 0 < self.ema < 1
        rules["`ema` must be null with data_parallelism=fsdp"] = (
            self.ema is None or self.data_parallelism != "fsdp"
        )
        rules["`unfreeze` must be empty with freeze_encoder_for_n_steps"] = not (
            self.unfreeze and self.freeze_encoder_for_n_steps
        )
        rules[
            "`unfreeze` must be steps from 0 on, each with head, top <n> or all, in this order"
        ] = _are_stages(self.unfreeze)
        return with_broken(rules, super().validate())


def _are_stages(unfreeze: Mapping[int, str]) -> bool:
    try:
        sizes = [top_layers(unfreeze[step]) for step in sorted(unfreeze)]
    except ValueError:
        return False
    numbers = [float("inf") if size is None else size for size in sizes]
    ascends = numbers == sorted(set(numbers))
    return not unfreeze or (min(unfreeze) == 0 and ascends)


@dataclass(kw_only=True)
class AsrRegimeSection(base.RegimeSection):
    """How long to train, and when to validate, to save and to report."""

    score_profile: str = "coral"
    """The text normalisation under which validation computes WER and CER."""

    average_n_checkpoints: int | None = None
    """At the end average this many of the best checkpoints that are kept, validate the average, and
    take it as the result if it is better. Null: no average."""

    early_stopping_patience: int | None = None
    """Stop after this many validations in a row without a new best score. Null: never."""

    stop_at_step: int | None = None
    """Save and exit after this step, with status 0; a higher value or null continues. The schedule
    stays that of ``num_steps``. Null: never."""

    def validate(self) -> ValidationResult:
        """Check this section's own keys and fairseq2's rules."""
        intervals = _positive(self, *(name for name in vars(self) if "_every_n_" in name))
        # fairseq2 divides by the intervals.
        result = super().validate() if all(intervals.values()) else ValidationResult()
        rules = intervals | _positive(self, "early_stopping_patience", "stop_at_step")
        rules["`average_n_checkpoints` must be 2 or more, and at most keep_best_n_checkpoints"] = (
            self.average_n_checkpoints is None
            or 2 <= self.average_n_checkpoints <= (self.keep_best_n_checkpoints or 1)
        )
        rules |= _profile(self, "score_profile")
        metrics = ", ".join(SCORE_TITLES)
        rules[f"`score_metric` must be one of {metrics}"] = self.score_metric in SCORE_TITLES
        return with_broken(rules, result)
