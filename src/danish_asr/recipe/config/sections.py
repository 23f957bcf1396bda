"""The sections of the configuration that differ from fairseq2's: keys, defaults and rules."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from fairseq2.recipe import config as base
from fairseq2.utils.validation import ValidationResult
from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.base.errors import ConfigError
from danish_asr.recipe.data.settings import check_settings, storage_faults
from danish_asr.text.profiles import normalizer

FULL: Final = "full"

_MAX_FACTOR: Final = 1000
"""Of ``dataset.weights``: an epoch has so many times the rows."""


def names_of_splits(text: str | None) -> list[str]:
    """The names in a comma-separated list of splits, each once."""
    return [*dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip())]


def with_broken(rules: Mapping[str, bool], result: ValidationResult) -> ValidationResult:
    """Add the rules that do not hold; a key in backticks belongs to the section."""
    for rule, holds in rules.items():
        if not holds:
            result.add_error(rule)
    return result


def positive(section: object, *names: str) -> dict[str, bool]:
    """Return the rule of each key that must be null or above 0, and whether it holds."""
    values = {name: getattr(section, name) for name in names}
    return {f"`{name}` must be above 0": v is None or v > 0 for name, v in values.items()}


def profile_rule(section: object, name: str) -> dict[str, bool]:
    """Return the rules that a key with a text profile breaks."""
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

    keep_layers: Sequence[int] = ()
    """Of a trained model take these encoder layers alone, counted from 0: ``[0, 2, 4]``. The
    smaller model is then fine-tuned. A new model merely has so many layers. Empty: all."""

    def validate(self) -> ValidationResult:
        """Check that there is a trained head."""
        rules = {
            "`head` must be full without a trained model (model.name or model.path)": bool(
                self.head == FULL or self.name or self.path
            ),
            "`keep_layers` must be numbers of layers, from 0 on and ascending": (
                [*self.keep_layers] == sorted({*self.keep_layers})
            ),
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

    def validate(self) -> ValidationResult:
        """Check shares and spans."""
        rules = positive(self, "time_span", "channel_span")
        rules["`time` must be 0 to 1"] = 0 <= (self.time or 0) <= 1
        rules["`channel` must be 0 to 1"] = 0 <= (self.channel or 0) <= 1
        return with_broken(rules, ValidationResult())


@dataclass(kw_only=True)
class WeightConfig:
    """How often an epoch shows the rows that fulfil a condition."""

    where: str
    """An SQL condition, as ``dataset.train_where``: ``corpus = 'ftspeech'``."""

    factor: float
    """So many times as often as without it, above 0 and at most 1000. Of several conditions that a
    row fulfils, the factors multiply."""


@dataclass(kw_only=True)
class AsrDatasetSection(base.DatasetSection):
    """Which utterances are read, and how they become batches."""

    valid_subset: int | None = None
    """Validate on about this many rows of each split, always the same, each dialect in its share.
    Null: all rows. Evaluation always scores all."""

    quadratic_seconds: float | None = None
    """Count a training utterance of L seconds as L + L²/q in ``max_num_elements``, because the
    memory of attention grows so: fewer long utterances in a batch, more short ones. Null: as L."""

    valid_max_num_elements: int | str | None = None
    """``asr_task_config.max_num_elements`` for validation and evaluation, or a multiple of it
    (``3x``, which is safe, because there are no gradients); scores do not depend on it. Null: as in
    training."""

    train_subset: int | None = None
    """Train on about this many rows, counted before the filters, each dialect in its share. A
    larger subset contains the smaller ones. Null: all rows."""

    train_share: float | None = None
    """Train on this share of the hours, counted before the filters: speakers in an order drawn by
    ``common.seed``, of each dialect its share. A larger share contains the smaller ones, for a
    learning curve. Null: all rows."""

    train_split: str | None = "train"
    """The split to train on; ``train_<corpus>`` is one corpus."""

    train_where: str | None = None
    """Train on the rows that fulfil this SQL condition, such as ``dialect = 'Fynsk' and age >=
    60``; the shares of the corpora use the remaining hours. Null: all rows."""

    weights: Sequence[WeightConfig] = ()
    """Show rows more or less often: ``[{where: "corpus = 'ftspeech'", factor: 0.3}, {where:
    "dialect = 'Bornholmsk'", factor: 4}]``, each a factor beside ``beta_corpus``. A row with 0.3
    is in three of ten epochs. The log has hours, share and repeats of each."""

    valid_split: str | None = "dev"
    """The splits to validate on, separated by commas; ``test_<corpus>`` is one corpus."""

    valid_where: str | None = None
    """Validate on the rows that fulfil this SQL condition. Null: all rows."""

    storage_mode: Literal["MANIFEST", "MIXTURE_PARQUET"] = "MIXTURE_PARQUET"
    """Must be MIXTURE_PARQUET, as ``danish-asr convert`` writes."""

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
    ``spec_aug_*``: each a ``name`` (docs/howto/add-a-transform.md) and its parameters."""

    max_unknown_share: float | None = None
    """Refuse to train if a larger share of the target text is unknown to the tokenizer. Null: 20 %
    with the tokenizer that the model's card names, 2 % with another."""

    def validate(self) -> ValidationResult:
        """Check the numbers, the text profile, and what upstream's sections allow."""
        sizes = ("train_subset", "valid_subset", "quadratic_seconds")
        rules = positive(self, *sizes) | profile_rule(self, "text_profile")
        rules["`valid_max_num_elements` must be a number above 0 or a multiple such as 3x"] = (
            self.valid_max_num_elements is None or (self.valid_elements or 0) > 0
        )
        rules["`train_share` must be above 0 and at most 1"] = (
            self.train_share is None or 0 < self.train_share <= 1
        )
        rules["`max_unknown_share` must be 0 to 1"] = 0 <= (self.max_unknown_share or 0) <= 1
        for number, weight in enumerate(self.weights):
            rule = f"must be above 0 and at most {_MAX_FACTOR}, but is {weight.factor:g}"
            rules[f"`weights[{number}].factor` {rule}"] = 0 < weight.factor <= _MAX_FACTOR
            rules[f"`weights[{number}].where` must be an SQL condition"] = bool(
                weight.where.strip()
            )
        rules[
            "`storage_mode` must be MIXTURE_PARQUET; `danish-asr convert` makes it of manifests"
        ] = self.storage_mode == "MIXTURE_PARQUET"
        rules |= dict.fromkeys(storage_faults(self.mixture_parquet_storage_config), False)
        result = with_broken(rules, super().validate())
        try:
            check_settings(
                self.asr_task_config,
                speed_factors=self.speed_factors,
                transforms=self.transforms,
            )
        except ConfigError as error:
            with_broken(dict.fromkeys(error.faults, False), result)
        return result

    @property
    def valid_elements(self) -> int | None:
        """``valid_max_num_elements`` as a number; None if it is null, or no multiple."""
        value = self.valid_max_num_elements
        if not isinstance(value, str):
            return value
        factor = re.fullmatch(r"(\d+(?:\.\d+)?)x", value)
        return int(float(factor[1]) * self.asr_task_config.max_num_elements) if factor else None


@dataclass(kw_only=True)
class AsrTokenizerSection(base.TokenizerSection):
    """The tokenizer; if none is named, the one in the model's or the dataset's card."""

    def validate(self) -> ValidationResult:
        """Accept an empty section; otherwise as fairseq2."""
        named = self.name or self.path is not None
        return super().validate() if named else ValidationResult()
