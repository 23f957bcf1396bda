"""The configuration: sections, keys, defaults, and what each key may be.

The keys are upstream's (omnilingual-asr's recipe of the same name) with ours beside them. Each
default is written here alone; a YAML file holds only what differs. The text below a field is its
help. No PyTorch and no fairseq2 is imported, so that faults and help come at once: `fairseq2.py`
turns these sections into those of fairseq2.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BeforeValidator, ConfigDict, Strict

# Strict: without it pydantic takes "5" for a number, and 1 for true.
Bool = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Ge(0)]
AtLeastOne = Annotated[int, Strict(), Ge(1)]
AboveZero = Annotated[float, Strict(), Gt(0)]
Share = Annotated[float, Strict(), Ge(0), Le(1)]


def _without_module(value: object) -> object:
    """Upstream's YAML files write ``torch.bfloat16``."""
    return value.removeprefix("torch.") if isinstance(value, str) else value


DataType = Annotated[Literal["float32", "float16", "bfloat16"], BeforeValidator(_without_module)]

FULL: Final = "full"
CTC_FAMILY: Final = "wav2vec2_asr"


class Section:
    """Pydantic refuses keys that a section does not have."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(kw_only=True)
class ModelSection(Section):
    """The model to train: ``name`` fine-tunes a checkpoint, ``arch`` alone starts from scratch."""

    name: str | None = None
    """A model's card, such as omniASR_CTC_300M_v2: `danish-asr fetch` says how to look one up."""

    path: Path | None = None
    """A run, one of its checkpoints, or a directory of Hugging Face, instead of a name."""

    family: str | None = CTC_FAMILY
    """The family of a model that `path` or `arch` gives."""

    arch: str | None = None
    """An architecture without weights, such as tiny or 300m."""

    config_overrides: dict[str, Any] | None = None
    """Changes to the architecture, such as other dropout."""

    dtype: Annotated[Literal["float32"], BeforeValidator(_without_module)] = "float32"
    """The type of the weights; `trainer.mixed_precision` sets that of the computation."""

    mmap: Bool = False
    """Map the file of weights into memory instead of reading it."""

    compile: Literal[False] = False
    """fairseq2 0.6 does not compile this family."""

    head: Literal["full", "danish"] = FULL
    """`danish` keeps those rows of a trained head whose symbols the training text uses, below 100
    of 10,000: head, softmax and CTC loss then need a fraction of their time and memory."""

    keep_layers: list[Count] = field(default_factory=list)
    """Of a trained model take these encoder layers alone, counted from 0 and ascending: `[0, 2,
    4]`. The smaller model is then fine-tuned. A new model merely has so many layers. Empty: all."""


@dataclass(kw_only=True)
class EncoderSection(Section):
    """With `model.arch`: a pretrained encoder below a new head."""

    name: str | None = ""
    """A model's card, such as omniASR_W2V_300M."""

    path: Path | None = None
    """A checkpoint, instead of a name."""

    family: str | None = "wav2vec2_ssl"
    """The family of a model that `path` gives."""

    arch: str | None = None
    """The architecture of a model that `path` gives."""

    config_overrides: dict[str, Any] | None = None
    """Changes to the architecture."""

    mmap: Bool = False
    """Map the file of weights into memory instead of reading it."""


@dataclass(kw_only=True)
class MaskingSection(Section):
    """Which share of the encoder's input is masked in training.

    Null: as the model is configured, which is not at all for omniASR's models.
    """

    time: Share | None = None
    """wav2vec 2.0's mask probability: spans are drawn for this share of the frames. They may
    overlap, so that 0.5 masks about 0.4 of the frames of a long utterance."""

    time_span: AtLeastOne | None = None
    """Frames in a span; 10 in wav2vec 2.0. Rows that are not longer are left as they are."""

    channel: Share | None = None
    """The same for channels."""

    channel_span: AtLeastOne | None = None
    """Channels in a span; 64 in wav2vec 2.0."""


@dataclass(kw_only=True)
class StorageSection(Section):
    """How the shares of corpora are balanced."""

    beta_corpus: Share | None = None
    """0 gives each corpus the same share, 1 a share by its hours, 0.5 by their square root. Null:
    all rows once in an epoch."""


@dataclass(kw_only=True)
class TaskSection(Section):
    """Filters, batching, shuffling and SpecAugment. Lengths are in samples at 16 kHz."""

    min_audio_len: AtLeastOne = 1
    """Shorter training utterances are left out."""

    max_audio_len: AtLeastOne = 800_000
    """Longer training utterances are left out."""

    max_num_elements: AtLeastOne = 3_200_000
    """Samples in a batch, padding included; at least as many as the longest utterance has. Sets
    the memory of a step."""

    num_seqs_multiple_of: AtLeastOne = 8
    """A batch with more rows than this has a multiple of it."""

    min_samples_per_char: Count = 160
    """Leave out training rows with fewer samples for each character: text of other audio."""

    normalize_audio: Bool = True
    """Give each waveform a mean of 0 and a variance of 1, as omniASR's models were trained."""

    spec_aug_p: Share | None = None
    """The share of training rows with SpecAugment. Null: none."""

    spec_aug_freq_mask_param: Count = 80
    """Bins, of 201, that it masks at most."""

    spec_aug_time_mask_param: Count = 80
    """Frames that it masks at most."""

    example_shuffle_window: Count = 0
    """Shuffle rows within windows of this many; 0: the whole epoch, 1: not at all."""

    batch_shuffle_window: Count = 1000
    """The same for batches."""


@dataclass(kw_only=True)
class WeightConfig(Section):
    """How often an epoch shows the rows that fulfil a condition."""

    where: Annotated[str, MinLen(1)]
    """An SQL condition, as `dataset.train_where`: `corpus = 'ftspeech'`."""

    factor: Annotated[float, Strict(), Gt(0), Le(1000)]
    """So many times as often as without it. Of several conditions that a row fulfils, the factors
    multiply."""


def names_of_splits(text: str | None) -> list[str]:
    """The names in a comma-separated list of splits, each once."""
    return [*dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip())]


@dataclass(kw_only=True)
class DatasetSection(Section):
    """Which utterances are read, and how they become batches."""

    name: str | None = None
    """The dataset's card, as `danish-asr convert --name` wrote it; `--dataset DIR` sets it."""

    family: str | None = None
    """fairseq2's name for the kind of dataset; the card has it."""

    config_overrides: dict[str, Any] | None = None
    """Changes to the card's configuration, such as the path of the data."""

    train_split: str = "train"
    """The split to train on; `train_<corpus>` is one corpus."""

    train_where: str | None = None
    """Train on the rows that fulfil this SQL condition, such as `dialect = 'Fynsk' and age >= 60`;
    the shares of the corpora use the remaining hours. Null: all rows."""

    train_subset: AtLeastOne | None = None
    """Train on about this many rows, counted before the filters, each dialect in its share. A
    larger subset contains the smaller ones. Null: all rows."""

    train_share: Annotated[float, Strict(), Gt(0), Le(1)] | None = None
    """Train on this share of the hours, counted before the filters: speakers in an order drawn by
    `common.seed`, of each dialect its share. A larger share contains the smaller ones. Null: all
    rows."""

    weights: list[WeightConfig] = field(default_factory=list)
    """Show rows more or less often: `[{where: "corpus = 'ftspeech'", factor: 0.3}, {where: "dialect
    = 'Bornholmsk'", factor: 4}]`, each a factor beside `beta_corpus`. A row with 0.3 is in three of
    ten epochs. The log has hours, share and repeats of each."""

    valid_split: str | None = "dev"
    """The splits to validate on, separated by commas; `test_<corpus>` is one corpus."""

    valid_where: str | None = None
    """Validate on the rows that fulfil this SQL condition. Null: all rows."""

    valid_subset: AtLeastOne | None = None
    """Validate on about this many rows of each split, always the same, each dialect in its share.
    Null: all rows. Evaluation always scores all."""

    quadratic_seconds: AboveZero | None = None
    """Count a training utterance of L seconds as L + L²/q in `max_num_elements`, because the memory
    of attention grows so: fewer long utterances in a batch, more short ones. Null: as L."""

    valid_max_num_elements: AtLeastOne | Annotated[str, MinLen(2)] | None = None
    """`asr_task_config.max_num_elements` for validation and evaluation, or a multiple of it (`3x`,
    which is safe, because there are no gradients); scores do not depend on it. Null: as in
    training."""

    mixture_parquet_storage_config: StorageSection = field(default_factory=StorageSection)
    asr_task_config: TaskSection = field(default_factory=TaskSection)

    text_profile: str = "raw"
    """Text normalisation of the training targets: a profile of `danish_asr.text`, or your own as
    `package.module:function`. Models with a tokenizer of lower-case letters only (v1, or a
    character tokenizer) need `coral`."""

    speed_factors: list[AboveZero] = field(default_factory=list)
    """Speeds to draw from for each training row in each epoch: 1.1 is 10 % faster and higher. A row
    that would break the length limits keeps its own speed."""

    transforms: list[dict[str, Any]] = field(default_factory=list)
    """Changes to training waveforms, in this order, in place of `speed_factors` and `spec_aug_*`:
    each a `name` (docs/howto/add-a-transform.md) and its parameters."""

    max_unknown_share: Share | None = None
    """Refuse to train if a larger share of the target text is unknown to the tokenizer. Null: 20 %
    with the tokenizer that the model's card names, 2 % with another."""

    @property
    def valid_elements(self) -> int | None:
        """``valid_max_num_elements`` as a number; None if it is null, or no multiple."""
        value = self.valid_max_num_elements
        if not isinstance(value, str):
            return value
        factor = re.fullmatch(r"(\d+(?:\.\d+)?)x", value)
        return int(float(factor[1]) * self.asr_task_config.max_num_elements) if factor else None


@dataclass(kw_only=True)
class TokenizerSection(Section):
    """The tokenizer; if none is named, the one in the model's or the dataset's card."""

    name: str | None = None
    """A tokenizer's card. Null: that of the model, else of the dataset."""

    path: Path | None = None
    """The file of a tokenizer, instead of a name."""

    family: str | None = None
    """The family of the tokenizer that `path` gives: char_tokenizer."""

    config_overrides: dict[str, Any] | None = None
    """Changes to the tokenizer's configuration."""


@dataclass(kw_only=True)
class GangSection(Section):
    """The processes of a run."""

    tensor_parallel_size: Literal[1] = 1
    """CTC models fit one GPU."""

    timeout: Annotated[int, Strict(), Ge(1), Le(10_000_000)] = 15
    """Minutes, not seconds, that a process waits for the others. NCCL's limit too."""

    high_priority: Bool = True
    """Let GPUs communicate before they compute."""


@dataclass(kw_only=True)
class FsdpConfig(Section):
    """PyTorch's sharding of a model over GPUs."""

    version: Literal["v1", "v2"] = "v2"
    """PyTorch's FSDP 1 or 2."""

    granularity: Literal["model", "stack", "layer"] = "layer"
    """What is sharded as one."""

    hybrid: Bool = False
    """Shard within a host, and copy between hosts."""

    reshard_after_forward: Bool = True
    """Give sharded weights back after the forward pass, for memory."""

    fp32_reduce: Bool = True
    """Sum gradients over GPUs in float32."""


@dataclass(kw_only=True)
class MixedPrecisionConfig(Section):
    """In which type layers compute."""

    mode: Literal["off", "static", "auto"] = "static"
    """off: float32. static and auto: autocast to `dtype`; with fsdp, static shards in `dtype`. The
    optimizer computes in float32."""

    dtype: DataType = "bfloat16"
    """float16 on GPUs without bfloat16, such as a V100."""


@dataclass(kw_only=True)
class AccumulationConfig(Section):
    """Batches in a step."""

    num_batches: AtLeastOne = 4
    """Batches that a process sums in a step."""

    no_sync: Bool = False
    """Sum gradients over GPUs at the last batch of a step only."""


@dataclass(kw_only=True)
class CheckpointingConfig(Section):
    """Which activations are computed again."""

    mode: Literal["off", "layerwise"] = "off"
    """layerwise recomputes activations in the backward pass: less memory, a third more time."""

    every_nth_layer: AtLeastOne = 1
    """Only every n-th layer."""


@dataclass(kw_only=True)
class StageConfig(Section):
    """The rows and the learning rate of a stage; a key that is left out is not as it was before."""

    where: str | None = None
    """Train on the rows of `dataset.train_split` that fulfil this SQL condition. Null: all."""

    subset: AtLeastOne | None = None
    """Train on about this many of them, as `dataset.train_subset`. Null: all."""

    lr: AboveZero | None = None
    """The learning rate in place of `optimizer.config.lr`, to which those of groups are in
    proportion. Null: that one."""


@dataclass(kw_only=True)
class TrainerSection(Section):
    """The trainer, and which parameters are frozen for how long."""

    data_parallelism: Literal["ddp", "fsdp"] = "ddp"
    """On several GPUs: ddp copies the model to each, fsdp shards it."""

    fsdp: FsdpConfig = field(default_factory=FsdpConfig)
    mixed_precision: MixedPrecisionConfig = field(default_factory=MixedPrecisionConfig)
    grad_accumulation: AccumulationConfig = field(default_factory=AccumulationConfig)
    activation_checkpointing: CheckpointingConfig = field(default_factory=CheckpointingConfig)

    max_grad_norm: AboveZero | None = 1.0
    """Clip gradients to this norm: without it a single bad batch can ruin a run. Null: none."""

    fp16_loss_scale: list[AboveZero] = field(default_factory=lambda: [128.0, 0.0001])
    """First and smallest scale of the loss in float16."""

    gc_every_n_steps: AtLeastOne | None = 1000
    """Collect Python's garbage every n steps. Null: automatically."""

    grad_check: Bool = False
    """Compare the gradients of the processes in each step, to find faults."""

    anomaly_detection: Bool = False
    """PyTorch's search for the operation that makes a NaN; slow."""

    freeze_encoder_for_n_steps: Count = 0
    """The encoder is frozen for the first n steps, while the new head settles."""

    unfreeze: dict[Count | str, str] = field(default_factory=dict)
    """What learns after so many steps, in stages, instead of `freeze_encoder_for_n_steps`: `{0:
    head, 1000: top 8, 3000: all}`; or after so many passes over the training data: `{0: head, 1
    epoch: top 8, 2.5 epochs: all}`."""

    stages: dict[AtLeastOne, StageConfig] = field(default_factory=dict)
    """Rows and learning rate after so many steps: `{5000: {subset: 500_000}, 9000: {lr: 1e-5}}`.
    The first stage has `dataset.train_where` and `dataset.train_subset`. A stage begins a new
    epoch; the schedule is one for all stages."""

    effective_audio_minutes: AboveZero | None = None
    """Minutes of audio in a step, padding included, on any number of processes: sets
    `grad_accumulation.num_batches`. Null: as that says."""

    freeze_encoder_layers: Count = 0
    """The lowest n encoder layers, and everything below them, stay frozen for the whole run: they
    need neither gradients nor optimizer states."""

    freeze_feature_extractor: Bool | None = None
    """Whether the convolutions below the encoder are frozen. Null: if they are pretrained; a model
    from scratch that cannot train them learns little."""

    max_wall_minutes: AboveZero | None = None
    """Save and exit with status 75 after this many minutes; the same command continues."""


Betas = Annotated[list[Annotated[float, Strict(), Ge(0), Lt(1)]], MinLen(2)]
Rate = Annotated[float, Strict(), Gt(0), Le(1000)]


@dataclass(kw_only=True)
class GroupConfig(Section):
    """Values of their own for the parameters whose names match."""

    params: str | list[str] = ".*"
    """Regular expressions of names."""

    lr: Annotated[float, Strict(), Ge(0), Le(1000)] | Literal["default"] = "default"
    betas: Betas | Literal["default"] = "default"
    eps: AboveZero | Literal["default"] = "default"
    weight_decay: Annotated[float, Strict(), Ge(0)] | Literal["default"] = "default"


@dataclass(kw_only=True)
class LeanAdamWConfig(Section):
    """The settings of `adamw_8bit` and `adamw_offload`, and those that AdamW shares with them."""

    lr: Rate = 5e-05
    """The highest learning rate of the schedule."""

    betas: Betas = field(default_factory=lambda: [0.9, 0.98])
    """Decay of the two averages of the gradient."""

    eps: AboveZero = 1e-08
    """Added to the denominator."""

    weight_decay: Annotated[float, Strict(), Ge(0)] = 0.0
    """How much weights shrink in a step, times the rate."""

    groups: list[GroupConfig] = field(default_factory=list)
    """Values of their own for parameters: a list with `params`, a pattern of names."""


@dataclass(kw_only=True)
class AdamWConfig(LeanAdamWConfig):
    """The settings of `adamw`."""

    amsgrad: Bool = False
    """The variant AMSGrad."""

    maximize: Literal[False] = False
    """The loss is minimised."""

    capturable: Literal[False] = False
    """For CUDA graphs, which torch refuses in the step."""

    differentiable: Literal[False] = False
    """For gradients of a step itself, which torch refuses in the step."""

    impl: Literal["auto", "foreach", "fused", "naive"] = "auto"
    """PyTorch's implementation; auto is fused on a GPU."""


@dataclass(kw_only=True)
class AdafactorConfig(Section):
    """The settings of `adafactor`."""

    lr: Rate = 1e-2
    beta2_decay: Annotated[float, Strict(), Le(0)] = -0.8
    eps: list[AboveZero | None] = field(default_factory=lambda: [None, 0.001])
    d: AboveZero = 1.0
    weight_decay: Annotated[float, Strict(), Ge(0)] = 0.0
    foreach: Bool | None = None
    maximize: Literal[False] = False
    groups: list[GroupConfig] = field(default_factory=list)


OPTIMIZERS: Final[dict[str, type]] = {
    "adamw": AdamWConfig,
    "adamw_8bit": LeanAdamWConfig,
    "adamw_offload": LeanAdamWConfig,
    "adafactor": AdafactorConfig,
}
"""The settings in ``optimizer.config`` for each ``optimizer.name``."""


@dataclass(kw_only=True)
class OptimizerSection(Section):
    """The optimizer."""

    name: Literal["adamw", "adamw_8bit", "adamw_offload", "adafactor"] = "adamw"
    """adamw_8bit needs a quarter of the memory for its moments, adamw_offload keeps them in the
    host's memory."""

    config: Any = field(default_factory=AdamWConfig)
    """Its settings; those of adamw are below."""


Scale = Annotated[float, Strict(), Ge(0)]
Scales = Scale | list[Scale]
FinalScale = Annotated[float, Strict(), Gt(0), Le(1000)]  # at 0 fairseq2 takes its log


@dataclass(kw_only=True)
class TriStageConfig(Section):
    """Warm-up, hold, exponential decay."""

    stage_ratio: list[Share] = field(default_factory=lambda: [0.1, 0.4, 0.5])
    """The shares of warm-up, hold and decay in `num_steps`; their sum: 1."""

    start_lr_scale: Scales = 0.01
    """The first rate, as a part of `lr`."""

    final_lr_scale: FinalScale | list[FinalScale] = 0.05
    """The last rate, as a part of `lr`."""


@dataclass(kw_only=True)
class CosineConfig(Section):
    """Warm-up, then a cosine."""

    cycle_len: AtLeastOne | None = None
    num_warmup_steps: Count = 0
    cycle_mul: AboveZero = 1.0
    lr_mul: AboveZero = 1.0
    start_lr: Scales = 0.0
    final_lr: Scales | None = None
    final_lr_scale: Scales | None = 0.2


@dataclass(kw_only=True)
class PolynomialConfig(Section):
    """Warm-up, then a polynomial."""

    num_warmup_steps: Count = 0
    power: AboveZero = 1.0
    start_lr: Scales = 0.0
    final_lr: Scales = 0.0


@dataclass(kw_only=True)
class NoamConfig(Section):
    """Warm-up, then the inverse square root of the step."""

    num_warmup_steps: Count = 0


@dataclass(kw_only=True)
class MyleConfig(Section):
    """Warm-up, then the inverse square root of the step, from `lr` on."""

    num_warmup_steps: AtLeastOne = 1
    start_lr: Scales = 0.0


SCHEDULES: Final[dict[str, type]] = {
    "tri_stage": TriStageConfig,
    "cosine_annealing": CosineConfig,
    "polynomial_decay": PolynomialConfig,
    "noam": NoamConfig,
    "myle": MyleConfig,
    "passthrough": type(None),
}
"""The settings in ``lr_scheduler.config`` for each ``lr_scheduler.name``."""


@dataclass(kw_only=True)
class ScheduleSection(Section):
    """The course of the learning rate; its length is `regime.num_steps`."""

    name: Literal[
        "tri_stage", "cosine_annealing", "polynomial_decay", "noam", "myle", "passthrough"
    ] = "tri_stage"
    """noam and myle fall with the inverse square root of the step; passthrough keeps the rate."""

    config: Any = field(default_factory=TriStageConfig)
    """Its settings; those of tri_stage are below."""


@dataclass(kw_only=True)
class RegimeSection(Section):
    """How long to train, and when to validate, to save and to report."""

    num_steps: AtLeastOne | None = 20_000
    """The length of the run and of its schedule. Null: `num_data_epochs` ends the run."""

    num_data_epochs: AtLeastOne | None = None
    """End after this many passes over the training data. Null: no limit."""

    validate_at_start: Bool = False
    """Validate before the first step too."""

    validate_after_n_steps: Count = 0
    """No validation before this step."""

    validate_every_n_steps: AtLeastOne | None = 1_000
    """Steps between validations; a multiple of `publish_metrics_every_n_steps`."""

    validate_after_n_data_epochs: Count = 0
    """No validation before this epoch."""

    validate_every_n_data_epochs: AboveZero | None = None
    """Validate after so many passes over the training data. A part of one, such as 0.5, takes the
    place of `validate_every_n_steps` and `checkpoint_every_n_steps`: so many steps, rounded to a
    multiple of `publish_metrics_every_n_steps`."""

    score_metric: Literal["wer", "cer", "worst_group_wer", "loss"] = "wer"
    """What the best checkpoint is best by."""

    score_profile: str = "coral"
    """The text normalisation under which validation computes WER and CER."""

    early_stopping_patience: AtLeastOne | None = None
    """Stop after this many validations in a row without a new best score. Null: never."""

    stop_at_step: AtLeastOne | None = None
    """Save and exit after this step, with status 0; a higher value or null continues. The schedule
    stays that of `num_steps`. Null: never."""

    checkpoint_after_n_steps: Count = 0
    """No checkpoint before this step."""

    checkpoint_every_n_steps: AtLeastOne | None = 1_000
    """Steps between checkpoints."""

    checkpoint_after_n_data_epochs: Count = 0
    """No checkpoint before this epoch."""

    checkpoint_every_n_data_epochs: AtLeastOne | None = None
    """Epochs between checkpoints."""

    save_model_only: Bool | Literal["all", "all_but_last"] = False
    """all_but_last: of all but the newest checkpoint only the model. true or all: of all, so that
    no run can continue."""

    export_hugging_face: Literal[False] = False
    """`danish-asr export` does it."""

    keep_last_n_checkpoints: AtLeastOne | None = 2
    """How many of the newest are kept. With this, `keep_best_n_checkpoints` and
    `keep_checkpoint_every_n_steps` all null, all checkpoints are kept."""

    keep_best_n_checkpoints: AtLeastOne | None = 1
    """How many of the best by `score_metric` are kept, beside the newest ones."""

    keep_checkpoint_every_n_steps: AtLeastOne | None = None
    """Keep those of every n-th step too."""

    publish_metrics_after_n_steps: Count = 0
    """No report before this step."""

    publish_metrics_every_n_steps: AtLeastOne | None = 100
    """Steps between reports."""

    publish_metrics_after_n_data_epochs: Count = 0
    """No report before this epoch."""

    publish_metrics_every_n_data_epochs: AtLeastOne | None = None
    """Epochs between reports."""

    def with_steps(self, epoch: int) -> "RegimeSection":
        """Return the section with a part of an epoch, which has so many steps, in steps."""
        if self.part_of_epoch is None:
            return self
        unit = self.publish_metrics_every_n_steps or 1
        steps = max(round(self.part_of_epoch * epoch / unit), 1) * unit
        return replace(
            self,
            validate_every_n_data_epochs=None,
            validate_every_n_steps=steps,
            checkpoint_every_n_steps=steps,
        )

    @property
    def part_of_epoch(self) -> float | None:
        """``validate_every_n_data_epochs`` if it is no whole number."""
        every = self.validate_every_n_data_epochs
        return every if every is not None and every != int(every) else None


@dataclass(kw_only=True)
class EvaluatorSection(Section):
    """What the evaluation recipe scores."""

    amp: Bool = True
    """Evaluate with autocast on a GPU."""

    amp_dtype: DataType = "bfloat16"
    """Its type; float16 on GPUs without bfloat16."""

    checkpoint: str | None = None
    """`best`, `last` or `step_<n>` of the run in OUTDIR, or `none` for `model.name` itself. Null:
    `best`, or `none` if OUTDIR holds no run and a model is named."""

    split: str | None = None
    """The splits to score, separated by commas. Null: `test`, but for the checkpoint `none`
    without `dataset.train_split`, as upstream evaluates, `dataset.valid_split`."""

    where: str | None = None
    """Score the rows that fulfil this SQL condition, in the directory of `label`. Null: all."""

    label: str | None = None
    """The directory of the results, beside those of greedy. Null: the decoder's name; needed for
    the second of two configurations of a decoder, and for a part of the rows."""


@dataclass(kw_only=True)
class DecoderSection(Section):
    """From log-probabilities to text, when validating and scoring (docs/howto/add-a-decoder.md)."""

    name: str = "greedy"
    """`greedy`, `beam`, or `package.module:name` of your own."""

    config: dict[str, Any] = field(default_factory=dict)
    """Its settings; those of `beam` are below."""


Number = Annotated[float, Strict()]


@dataclass(kw_only=True)
class BeamConfig(Section):
    """The settings of the decoder `beam`."""

    lm: str | Path | list[str] | None = None
    """The directory or file of a language model (docs/howto/language-model.md), or null."""

    hotwords: str | Path | list[str] = field(default_factory=list)
    """Words that are expected, or a file with one per line."""

    hotword_weight: Number = 5.0
    """Added to the score for each hotword, in nats."""

    alpha: Number | None = None
    """Weight of the language model."""

    beta: Number | None = None
    """Added for each word."""

    unknown: Number = -10.0
    """Added for a word that the language model does not know, in log10."""

    beam: AtLeastOne | None = None
    """Texts that are kept."""

    beam_prune: Number = -10.0
    """Texts this much worse than the best one are dropped, in nats."""

    symbol_prune: Number = -5.0
    """Symbols with a smaller log-probability are not tried in a frame."""

    text_profile: str | None = None
    """How hotwords are normalised: as the model's training texts."""

    workers: AtLeastOne | None = None
    """Processes. null: all usable CPUs, once it has decoded for some seconds."""


@dataclass(kw_only=True)
class TorchConfig(Section):
    """Threads and precision."""

    num_threads: AtLeastOne | None = None
    """CPU threads of PyTorch. Null: OMP_NUM_THREADS, else the CPUs at hand."""

    allow_tf32: Bool = True
    """Use TF32 for float32 matrices on a GPU."""

    fp16_reduced_precision: Bool = True
    """Sum float16 products in float16."""

    bf16_reduced_precision: Bool = True
    """Sum bfloat16 products in bfloat16."""

    default_sdpa: Literal[
        "torch", "torch_math", "torch_mem_efficient", "torch_flash", "flash2", "flash3", "naive"
    ] = "torch"
    """The implementation of attention."""


@dataclass(kw_only=True)
class TensorBoardConfig(Section):
    """Curves in OUTDIR/tb."""

    enabled: Bool = True
    """Write curves to OUTDIR/tb."""


@dataclass(kw_only=True)
class WandbConfig(Section):
    """Curves in Weights & Biases."""

    enabled: Bool = False
    """Write curves to Weights & Biases; needs the extra wandb."""

    entity: str | None = None
    """The user or team there."""

    project: str | None = None
    """The project there."""

    run_id: str | None = "persistent"
    """persistent: a run that continues keeps its id."""

    run_name: str | None = None
    """The name that is shown. Null: a random one."""

    group: str | None = None
    """A group of runs."""

    job_type: str | None = None
    """A kind of run."""

    resume_mode: Literal["allow", "never", "must", "auto"] | None = "allow"
    """What W&B does with an id that it knows."""


@dataclass(kw_only=True)
class RecordersConfig(Section):
    """Where curves are written, beside OUTDIR/metrics."""

    tensorboard: TensorBoardConfig = field(default_factory=TensorBoardConfig)
    wandb: WandbConfig = field(default_factory=WandbConfig)


@dataclass(kw_only=True)
class TorchProfilerConfig(Section):
    """A trace of some steps."""

    enabled: Bool = False
    """Write a trace of some steps to OUTDIR/tb."""

    skip_n_steps: Count = 4
    """Steps before the first trace."""

    wait_n_steps: Count = 0
    """Steps between traces."""

    num_warmup_steps: Count = 1
    """Steps that are traced and dropped."""

    num_active_steps: AtLeastOne = 4
    """Steps in a trace."""

    repeat: AtLeastOne = 1
    """How many traces."""


@dataclass(kw_only=True)
class ProfilersConfig(Section):
    """Where time goes."""

    torch: TorchProfilerConfig = field(default_factory=TorchProfilerConfig)


@dataclass(kw_only=True)
class AssetsConfig(Section):
    """Where cards are searched."""

    extra_paths: list[Path] = field(default_factory=list)
    """Directories of cards, beside those of $DANISH_ASR_ASSETS."""

    prev_checkpoint_dir: Path | None = None
    """Set by the evaluation: the checkpoints of the run."""


@dataclass(kw_only=True)
class CommonSection(Section):
    """Threads, curves, traces, cards and the seed."""

    torch: TorchConfig = field(default_factory=TorchConfig)
    metric_recorders: RecordersConfig = field(default_factory=RecordersConfig)
    profilers: ProfilersConfig = field(default_factory=ProfilersConfig)
    assets: AssetsConfig = field(default_factory=AssetsConfig)

    seed: Annotated[int, Strict(), Ge(0), Lt(4_000_000_000)] = 2
    """The seed of weights, batches and transforms. fairseq2 takes 32 bits, and adds to it."""

    debug: Bool = False
    """Print what otherwise stands in OUTDIR/logs only."""

    no_sweep_dir: Literal[True] = True
    """OUTDIR is the directory of one run."""


@dataclass(kw_only=True)
class AsrConfig(Section):
    """The configuration of training and evaluation: one file serves both."""

    model: ModelSection = field(default_factory=ModelSection)
    pretrained_encoder: EncoderSection = field(default_factory=EncoderSection)
    masking: MaskingSection = field(default_factory=MaskingSection)
    dataset: DatasetSection = field(default_factory=DatasetSection)
    tokenizer: TokenizerSection = field(default_factory=TokenizerSection)
    gang: GangSection = field(default_factory=GangSection)
    trainer: TrainerSection = field(default_factory=TrainerSection)
    optimizer: OptimizerSection = field(default_factory=OptimizerSection)
    lr_scheduler: ScheduleSection = field(default_factory=ScheduleSection)
    regime: RegimeSection = field(default_factory=RegimeSection)
    evaluator: EvaluatorSection = field(default_factory=EvaluatorSection)
    decoder: DecoderSection = field(default_factory=DecoderSection)
    common: CommonSection = field(default_factory=CommonSection)

    @property
    def trains(self) -> bool:
        """Whether a model is trained: an evaluation has no optimizer."""
        return getattr(self, "optimizer", None) is not None

    def stages(self) -> "dict[int, AsrConfig]":
        """The configuration of each stage of training, by the steps before it, from 0 on."""
        stages = {0: self}
        for first, stage in sorted(self.trainer.stages.items()):
            rows = replace(self.dataset, train_where=stage.where, train_subset=stage.subset)
            stages[first] = replace(self, dataset=rows)
        return stages


WITHOUT_EFFECT: Final = (
    *("model.compile_options", "pretrained_encoder.compile_options", "pretrained_encoder.dtype"),
    *("pretrained_encoder.compile", "dataset.manifest_storage_config", "dataset.task_mode"),
    *(
        f"dataset.mixture_parquet_storage_config.{key}"
        for key in (
            *("sync_batches", "sync_mode", "fragment_streaming", "fragment_loading"),
            *("dataset_summary_path", "beta_language", "pa_cpu_count", "max_workers"),
            *("num_prefetch", "parquet_path_name", "sampling_seed"),
        )
    ),
    *(
        f"dataset.asr_task_config.{key}"
        for key in ("batch_size", "unified_audio_feature_keys", "npc", "seed", "num_prefetch")
    ),
    *("common.torch.compiled_region_activation_memory_budget", "common.cluster"),
    "common.sweep_format",
)
"""Upstream's keys and sections that are accepted, and named in one note."""

_STORAGE: Final = "dataset.mixture_parquet_storage_config"
_TASK: Final = "dataset.asr_task_config"

ONLY_DEFAULT: Final[dict[str, object]] = {
    "dataset.storage_mode": "MIXTURE_PARQUET",
    f"{_STORAGE}.split_column": "split",
    f"{_STORAGE}.fragment_streaming.partition_filters": None,
    f"{_STORAGE}.fragment_streaming.limit": None,
    f"{_STORAGE}.fragment_loading.filters": None,
    f"{_STORAGE}.fragment_loading.drop_null": False,
    f"{_TASK}.batching_strategy": "LENGTH",
    f"{_TASK}.max_bucket_size": None,
    f"{_TASK}.drop_remainder": False,
    f"{_TASK}.filter_long_text_threshold": None,
    f"{_TASK}.remove_unknown": False,
    f"{_TASK}.use_fbank": False,
    f"{_TASK}.no_padding": False,
    f"{_TASK}.max_num_batches": None,
}
"""Upstream's keys that would change rows or labels, with the one value that is accepted."""
