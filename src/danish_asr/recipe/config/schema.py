"""The configuration: sections, keys, defaults, and what each key may be.

The keys are upstream's (omnilingual-asr's recipe of the same name) with ours beside them. The text
below a field is its help. No PyTorch and no fairseq2 is imported, so that faults and help come at
once: `fairseq2.py` turns these sections into those of fairseq2.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import AfterValidator, BeforeValidator, ConfigDict, PlainSerializer, Strict

from danish_asr.base.config_tree import Tree, flatten
from danish_asr.base.files import from_yaml

# Strict: without it pydantic takes "5" for a number, and 1 for true.
Bool = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Ge(0)]
AtLeastOne = Annotated[int, Strict(), Ge(1)]
AboveZero = Annotated[float, Strict(), Gt(0)]
Share = Annotated[float, Strict(), Ge(0), Le(1)]
SpeedFactor = Annotated[float, Strict(), Ge(0.5), Le(2)]
File = Annotated[Path, PlainSerializer(str)]


def _without_module(value: object) -> object:
    """Upstream's YAML files write ``torch.bfloat16``."""
    return value.removeprefix("torch.") if isinstance(value, str) else value


DataType = Annotated[Literal["float32", "float16", "bfloat16"], BeforeValidator(_without_module)]

FULL: Final = "full"
ADAMW_8BIT: Final = "adamw_8bit"
ADAMW_OFFLOAD: Final = "adamw_offload"


class Section:
    """Pydantic refuses keys that a section does not have."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(kw_only=True)
class ModelSection(Section):
    """The model to train: ``name`` fine-tunes a checkpoint, ``arch`` alone starts from scratch."""

    name: str | None = None
    """A model's card, such as omniASR_CTC_300M_v2: `danish-asr fetch` says how to look one up."""

    path: File | None = None
    """A run, one of its checkpoints, or a directory of Hugging Face, instead of a name."""

    arch: str | None = None
    """An architecture without weights, such as tiny or 300m."""

    config_overrides: dict[str, Any] | None = None
    """Changes to the architecture, such as other dropout."""

    head: Literal["full", "danish"] = FULL
    """`danish` keeps those rows of a trained head whose symbols the training text uses."""

    keep_layers: list[Count] = field(default_factory=list)
    """Take these encoder layers alone, counted from 0: `[0, 2, 4]`. Empty: all."""


@dataclass(kw_only=True)
class EncoderSection(Section):
    """With `model.arch`: a pretrained encoder below a new head."""

    name: str | None = ""
    """A model's card, such as omniASR_W2V_300M."""


@dataclass(kw_only=True)
class MaskingSection(Section):
    """Which share of the encoder's input is masked in training; null: as the model has it."""

    time: Share | None = None
    """Spans are drawn for this share of the frames; as they overlap, 0.5 masks about 0.4."""

    time_span: AtLeastOne | None = None
    """Frames in a span; 10 in wav2vec 2.0."""

    channel: Share | None = None
    """The same for channels."""

    channel_span: AtLeastOne | None = None
    """Channels in a span; 64 in wav2vec 2.0."""


@dataclass(kw_only=True)
class StorageSection(Section):
    """How the shares of corpora are balanced."""

    beta_corpus: Share | None = None
    """0: equal shares, 1: by hours, 0.5: by their square root, null: all rows once in an epoch."""


@dataclass(kw_only=True)
class TaskSection(Section):
    """Filters, batching, shuffling and SpecAugment. Lengths are in samples at 16 kHz."""

    min_audio_len: AtLeastOne = 1
    """Shorter training utterances are left out."""

    max_audio_len: AtLeastOne = 800_000
    """Longer training utterances are left out."""

    max_num_elements: AtLeastOne = 3_200_000
    """Samples in a batch, padding included; they set the memory of a step."""

    num_seqs_multiple_of: AtLeastOne = 8
    """A batch with more rows than this has a multiple of it."""

    min_samples_per_char: Count = 160
    """Training rows with fewer samples for each character, text of other audio, are left out."""

    normalize_audio: Bool = True
    """Give each waveform a mean of 0 and a variance of 1, as omniASR's models were trained."""

    spec_aug_p: Share | None = None
    """The share of training rows with SpecAugment. Null: none."""

    example_shuffle_window: Literal[0, 1] = 0
    """0: shuffle the rows of an epoch, 1: only its row groups."""

    batch_shuffle_window: Literal[0, 1, 1000] = 1000
    """1: batches come in the order of their first rows. Others: they are shuffled."""


@dataclass(kw_only=True)
class WeightConfig(Section):
    """How often an epoch shows the rows that fulfil a condition."""

    where: Annotated[str, MinLen(1)]
    """An SQL condition, as `dataset.train_where`: `corpus = 'ftspeech'`."""

    factor: Annotated[float, Strict(), Gt(0), Le(1000)]
    """So many times as often as without it; the factors of several conditions multiply."""


def names_of_splits(text: str | None) -> list[str]:
    """The names in a comma-separated list of splits, each once."""
    return [*dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip())]


@dataclass(kw_only=True)
class DatasetSection(Section):
    """Which utterances are read, and how they become batches."""

    name: str | None = None
    """The dataset's card, as `danish-asr convert --name` wrote it; `--dataset DIR` sets it."""

    config_overrides: dict[Literal["data"], File] | None = None
    """`{data: DIRECTORY}` in place of the card's directory."""

    train_split: str = "train"
    """The split to train on; `train_<corpus>` is one corpus."""

    train_where: str | None = None
    """Train on the rows that fulfil this SQL condition: `dialect = 'Fynsk' and age >= 60`."""

    train_subset: AtLeastOne | None = None
    """Train on about this many rows, each dialect in its share. Null: all."""

    train_share: Annotated[float, Strict(), Gt(0), Le(1)] | None = None
    """Train on this share of each dialect's hours, of speakers that `common.seed` draws."""

    weights: list[WeightConfig] = field(default_factory=list)
    """Show rows more or less often: `[{where: "corpus = 'ftspeech'", factor: 0.3}]`."""

    valid_split: str | None = "dev"
    """The splits to validate on, separated by commas; `test_<corpus>` is one corpus."""

    valid_where: str | None = None
    """Validate on the rows that fulfil this SQL condition. Null: all rows."""

    valid_subset: AtLeastOne | None = None
    """Validate on about this many rows of each split, always the same. Null: all."""

    quadratic_seconds: AboveZero | None = None
    """q: an utterance of L seconds counts as L + L²/q in `max_num_elements`. Null: as L."""

    valid_max_num_elements: AtLeastOne | Annotated[str, MinLen(2)] | None = None
    """`max_num_elements` of validation and evaluation, or a multiple of it. `3x` is safe."""

    mixture_parquet_storage_config: StorageSection = field(default_factory=StorageSection)
    asr_task_config: TaskSection = field(default_factory=TaskSection)

    text_profile: str = "raw"
    """The normalisation of targets, or `package.module:function`; v1 tokenizers need `coral`."""

    speed_factors: Annotated[list[SpeedFactor], MaxLen(255)] = field(default_factory=list)
    """Speeds to draw from for each training row in each epoch: 1.1 is 10 % faster and higher."""

    transforms: list[dict[str, Any]] = field(default_factory=list)
    """Other changes to training waveforms: each a `name` and its settings."""

    max_unknown_share: Share = 0.2
    """Refuse to train if a larger share of the target text is unknown to the tokenizer."""

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

    path: File | None = None
    """The file of a tokenizer of characters, instead of a name."""


@dataclass(kw_only=True)
class GangSection(Section):
    """The processes of a run."""

    timeout: Annotated[int, Strict(), Ge(1), Le(10_000_000)] = 15
    """Minutes, not seconds, that a process waits for the others. NCCL's limit too."""


@dataclass(kw_only=True)
class MixedPrecisionConfig(Section):
    """In which type layers compute."""

    mode: Literal["off", "static", "auto"] = "static"
    """off: float32. static, auto: autocast to `dtype`; with fsdp, static shards in `dtype`."""

    dtype: DataType = "bfloat16"
    """float16 on GPUs without bfloat16, such as a V100."""


@dataclass(kw_only=True)
class AccumulationConfig(Section):
    """Batches in a step."""

    num_batches: AtLeastOne = 4
    """Batches that a process sums in a step."""


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
    """The learning rate in place of `optimizer.config.lr`. Null: that one."""


@dataclass(kw_only=True)
class TrainerSection(Section):
    """The trainer, and which parameters are frozen for how long."""

    data_parallelism: Literal["ddp", "fsdp"] = "ddp"
    """On several GPUs: ddp copies the model to each, fsdp shards it."""

    mixed_precision: MixedPrecisionConfig = field(default_factory=MixedPrecisionConfig)
    grad_accumulation: AccumulationConfig = field(default_factory=AccumulationConfig)
    activation_checkpointing: CheckpointingConfig = field(default_factory=CheckpointingConfig)

    max_grad_norm: AboveZero | None = 1.0
    """Clip gradients to this norm: without it a single bad batch can ruin a run. Null: none."""

    freeze_encoder_for_n_steps: Count = 0
    """The encoder is frozen for the first n steps, while the new head settles."""

    unfreeze: dict[Count | str, str] = field(default_factory=dict)
    """What learns after so many steps, `{0: head, 1000: top 8, 3000: all}`, or after so many
    epochs, `{0: head, 1 epoch: top 8, 2.5 epochs: all}`."""

    stages: dict[AtLeastOne, StageConfig] = field(default_factory=dict)
    """Rows and learning rate after so many steps: `{5000: {subset: 500_000}, 9000: {lr: 1e-5}}`."""

    effective_audio_minutes: AboveZero | None = None
    """Minutes of audio in a step of all processes: sets `grad_accumulation.num_batches`."""

    freeze_encoder_layers: Count = 0
    """The lowest n encoder layers, and everything below them, stay frozen for the whole run."""

    freeze_feature_extractor: Bool | None = None
    """Whether the convolutions below the encoder are frozen. Null: if they are pretrained."""

    max_wall_minutes: AboveZero | None = None
    """Save and exit with status 75 after this many minutes; the same command continues."""


Betas = Annotated[list[Annotated[float, Strict(), Ge(0), Lt(1)]], MinLen(2)]
Rate = Annotated[float, Strict(), Gt(0), Le(1000)]
Scale = Annotated[float, Strict(), Ge(0)]


@dataclass(kw_only=True)
class GroupConfig(Section):
    """Values of their own for the parameters whose names match."""

    params: str | list[str] = ".*"
    """Regular expressions of names."""

    lr: Annotated[float, Strict(), Ge(0), Le(1000)] | Literal["default"] = "default"
    weight_decay: Scale | Literal["default"] = "default"


@dataclass(kw_only=True)
class AdamWConfig(Section):
    """The settings of `adamw`, `adamw_8bit` and `adamw_offload`."""

    lr: Rate = 5e-05
    """The highest learning rate of the schedule."""

    betas: Betas = field(default_factory=lambda: [0.9, 0.98])
    """Decay of the two averages of the gradient."""

    eps: AboveZero = 1e-08
    """Added to the denominator."""

    weight_decay: Scale = 0.0
    """How much weights shrink in a step, times the rate."""

    groups: list[GroupConfig] = field(default_factory=list)
    """Values of their own for parameters: a list with `params`, a pattern of names."""


def _adamw_bytes(shape: Sequence[int]) -> int:
    return 8 * math.prod(shape)  # two moments in float32


def _8bit_bytes(shape: Sequence[int]) -> int:
    elements = math.prod(shape)
    if elements < 4096:  # bitsandbytes keeps the moments of smaller tensors in float32
        return _adamw_bytes(shape)
    # Two codes for each element, and two scales for each block of 256.
    return 2 * elements + 2 * 4 * math.ceil(elements / 256)


class OptimizerKind(NamedTuple):
    """What is known about an optimizer before its code is read."""

    state_bytes: Callable[[Sequence[int]], int] = _adamw_bytes  # of a shape that learns
    code: str | None = None  # ``package.module:Class``; None: fairseq2 makes it
    on_host: bool = False  # its state is in the host's memory
    extra: str | None = None  # the optional dependency, also the name of its library


_CODE: Final = "danish_asr.recipe.train"

OPTIMIZERS: Final = {
    "adamw": OptimizerKind(),
    ADAMW_8BIT: OptimizerKind(_8bit_bytes, f"{_CODE}.adamw_8bit:AdamW8bit", extra="bitsandbytes"),
    ADAMW_OFFLOAD: OptimizerKind(code=f"{_CODE}.learning:OffloadedAdamW", on_host=True),
}
"""By ``optimizer.name``."""


@dataclass(kw_only=True)
class OptimizerSection(Section):
    """The optimizer."""

    name: Literal["adamw", "adamw_8bit", "adamw_offload"] = "adamw"
    """adamw_8bit needs a quarter of the memory of moments, adamw_offload keeps them on the host."""

    config: AdamWConfig = field(default_factory=AdamWConfig)


FinalScale = Annotated[float, Strict(), Gt(0), Le(1000)]  # at 0 fairseq2 takes its log


def _shares_of_one(ratio: list[float]) -> list[float]:
    if len(ratio) != 3 or not math.isclose(sum(ratio), 1.0):
        raise ValueError(f"must be three numbers whose sum is 1, but is {ratio}")
    return ratio


class Schedule(Section):
    """The settings of a schedule; the class has the name of fairseq2's."""

    has_no_end: ClassVar[bool] = False
    """Whether it needs no ``regime.num_steps``."""


@dataclass(kw_only=True)
class TriStageLRConfig(Schedule):
    """Warm-up, hold, exponential decay."""

    stage_ratio: Annotated[list[Share], AfterValidator(_shares_of_one)] = field(
        default_factory=lambda: [0.1, 0.4, 0.5]
    )
    """The shares of warm-up, hold and decay in `num_steps`; their sum: 1."""

    start_lr_scale: Scale = 0.01
    """The first rate, as a part of `lr`."""

    final_lr_scale: FinalScale = 0.05
    """The last rate, as a part of `lr`."""


@dataclass(kw_only=True)
class CosineAnnealingLRConfig(Schedule):
    """Warm-up, then a cosine."""

    num_warmup_steps: Count = 0
    """Steps in which the rate rises."""

    start_lr: Scale = 0.0
    """The first rate."""

    final_lr_scale: Scale = 0.2
    """The last rate, as a part of `lr`."""


@dataclass(kw_only=True)
class PolynomialDecayLRConfig(Schedule):
    """Warm-up, then a polynomial."""

    num_warmup_steps: Count = 0
    """Steps in which the rate rises."""

    power: AboveZero = 1.0
    """The exponent; 1 is a straight line."""

    start_lr: Scale = 0.0
    """The first rate."""

    final_lr: Scale = 0.0
    """The last rate."""


@dataclass(kw_only=True)
class NoamLRConfig(Schedule):
    """Warm-up, then the inverse square root of the step."""

    has_no_end = True

    num_warmup_steps: Count = 0
    """Steps in which the rate rises."""


@dataclass(kw_only=True)
class MyleLRConfig(Schedule):
    """Warm-up, then the inverse square root of the step, from `lr` on."""

    has_no_end = True

    num_warmup_steps: AtLeastOne = 1
    """Steps in which the rate rises."""

    start_lr: Scale = 0.0
    """The first rate."""


@dataclass(kw_only=True)
class ConstantRate(Schedule):
    """The rate stays; there are no settings."""

    has_no_end = True


SCHEDULES: Final[dict[str, type[Schedule]]] = {
    "tri_stage": TriStageLRConfig,
    "cosine_annealing": CosineAnnealingLRConfig,
    "polynomial_decay": PolynomialDecayLRConfig,
    "noam": NoamLRConfig,
    "myle": MyleLRConfig,
    "passthrough": ConstantRate,
}
"""The settings in ``lr_scheduler.config`` by ``lr_scheduler.name``; its values are these names."""


@dataclass(kw_only=True)
class ScheduleSection(Section):
    """The course of the learning rate; its length is `regime.num_steps`."""

    name: Literal[*SCHEDULES] = "tri_stage"  # type: ignore[valid-type]
    """noam and myle fall with the inverse square root of the step; passthrough keeps the rate."""

    config: Any = field(default_factory=TriStageLRConfig)
    """Its settings; those of each schedule are below."""


@dataclass(kw_only=True)
class RegimeSection(Section):
    """How long to train, and when to validate, to save and to report."""

    num_steps: AtLeastOne | None = 20_000
    """The length of the run and of its schedule. Null: `num_data_epochs` ends the run."""

    num_data_epochs: AtLeastOne | None = None
    """End after this many passes over the training data. Null: no limit."""

    validate_after_n_steps: Count = 0
    """No validation before this step."""

    validate_every_n_steps: AtLeastOne | None = 1_000
    """Steps between validations; a multiple of `publish_metrics_every_n_steps`."""

    validate_every_n_data_epochs: AboveZero | None = None
    """Validate and save after so many epochs, such as 0.5, at the nearest report. It sets
    `validate_every_n_steps` and `checkpoint_every_n_steps`."""

    score_metric: Literal["wer", "cer", "worst_group_wer", "loss"] = "wer"
    """What the best checkpoint is best by."""

    score_profile: str = "coral"
    """The text normalisation under which validation computes WER and CER."""

    early_stopping_patience: AtLeastOne | None = None
    """Stop after this many validations in a row without a new best score. Null: never."""

    checkpoint_after_n_steps: Count = 0
    """No checkpoint before this step."""

    checkpoint_every_n_steps: AtLeastOne | None = 1_000
    """Steps between checkpoints."""

    save_model_only: Bool | Literal["all", "all_but_last"] = False
    """all_but_last: only the newest checkpoint can be continued. true or all: none can."""

    keep_last_n_checkpoints: AtLeastOne | None = 2
    """How many of the newest are kept; with this and the next two null, all checkpoints are."""

    keep_best_n_checkpoints: AtLeastOne | None = 1
    """How many of the best by `score_metric` are kept, beside the newest ones."""

    keep_checkpoint_every_n_steps: AtLeastOne | None = None
    """Keep those of every n-th step too."""

    publish_metrics_after_n_steps: Count = 0
    """No report before this step."""

    publish_metrics_every_n_steps: AtLeastOne | None = 100
    """Steps between reports."""

    def with_steps(self, epoch: int) -> "RegimeSection":
        """Return the section with its epochs, of so many steps each, in steps."""
        if self.validate_every_n_data_epochs is None:
            return self
        unit = self.publish_metrics_every_n_steps or 1
        steps = max(round(self.validate_every_n_data_epochs * epoch / unit), 1) * unit
        return replace(
            self,
            validate_every_n_data_epochs=None,
            validate_every_n_steps=steps,
            checkpoint_every_n_steps=steps,
        )


@dataclass(kw_only=True)
class EvaluatorSection(Section):
    """What the evaluation recipe scores."""

    amp: Bool = True
    """Evaluate with autocast on a GPU."""

    amp_dtype: DataType = "bfloat16"
    """Its type; float16 on GPUs without bfloat16."""

    checkpoint: str | None = None
    """`best` (default), `last` or `step_<n>` of the run in OUTDIR, or `none`: `model.name` itself
    (default without a run)."""

    split: str | None = None
    """The splits to score, separated by commas. Null: `test`, of upstream's evaluation files
    `dataset.valid_split`."""

    where: str | None = None
    """Score the rows that fulfil this SQL condition, in the directory of `label`. Null: all."""

    label: str | None = None
    """The directory of the results, for a part of the rows or another configuration. Null: the
    decoder's name."""


@dataclass(kw_only=True)
class DecoderSection(Section):
    """From log-probabilities to text, when validating and scoring (docs/howto/extend.md)."""

    name: str = "greedy"
    """`greedy`, `beam`, or `package.module:name` of your own."""

    config: dict[str, Any] = field(default_factory=dict)
    """Its settings; those of `beam` are in docs/howto/language-model.md."""


@dataclass(kw_only=True)
class TorchConfig(Section):
    """Threads and precision."""

    num_threads: AtLeastOne | None = None
    """CPU threads of PyTorch. Null: OMP_NUM_THREADS, else the CPUs at hand."""


@dataclass(kw_only=True)
class WandbConfig(Section):
    """Curves in Weights & Biases."""

    enabled: Bool = False
    """Write curves to Weights & Biases; needs the extra wandb."""

    entity: str | None = None
    """The user or team there."""

    project: str | None = None
    """The project there."""


@dataclass(kw_only=True)
class RecordersConfig(Section):
    """Where curves are written, beside OUTDIR/metrics and OUTDIR/tb."""

    wandb: WandbConfig = field(default_factory=WandbConfig)


@dataclass(kw_only=True)
class AssetsConfig(Section):
    """Where cards are searched."""

    extra_paths: list[File] = field(default_factory=list)
    """Directories of cards, beside those of $DANISH_ASR_ASSETS."""

    prev_checkpoint_dir: File | None = None
    """Set by the evaluation: the checkpoints of the run."""


@dataclass(kw_only=True)
class CommonSection(Section):
    """Threads, curves, traces, cards and the seed."""

    torch: TorchConfig = field(default_factory=TorchConfig)
    metric_recorders: RecordersConfig = field(default_factory=RecordersConfig)
    assets: AssetsConfig = field(default_factory=AssetsConfig)

    seed: Annotated[int, Strict(), Ge(0), Lt(4_000_000_000)] = (
        2  # fairseq2 takes 32 bits, and adds to it
    )
    """The seed of weights, batches and transforms."""


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
