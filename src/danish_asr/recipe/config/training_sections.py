"""The sections of a training: processes, trainer, optimizer, schedule and regime.

Before them, what a value of any section may be. The text below a field is its help, see `schema`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainSerializer, Strict

from danish_asr.base.errors import ConfigError
from danish_asr.text.profiles import normalizer

# Strict: without it pydantic takes "5" for a number, and 1 for true.
Bool = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Ge(0)]
AtLeastOne = Annotated[int, Strict(), Ge(1)]
AboveZero = Annotated[float, Strict(), Gt(0)]
Share = Annotated[float, Strict(), Ge(0), Le(1)]


def _place(path: Path) -> Path:
    """A path from anywhere else, so that two of them can be compared."""
    return path.expanduser().resolve()


def _not_empty(path: object) -> object:
    """``Path("")`` would be the current directory."""
    if path == "":
        raise ValueError("must be a path, but is empty")
    return path


File = Annotated[Path, BeforeValidator(_not_empty), AfterValidator(_place), PlainSerializer(str)]


def _without_module(value: object) -> object:
    """Upstream's YAML files write ``torch.bfloat16``."""
    return value.removeprefix("torch.") if isinstance(value, str) else value


DataType = Annotated[Literal["float32", "float16", "bfloat16"], BeforeValidator(_without_module)]


def _profile(name: str) -> str:
    try:
        normalizer(name)
    except ConfigError as error:
        raise ValueError(error.faults[0].removeprefix("profile").lstrip(": ")) from None
    return name


Profile = Annotated[str, AfterValidator(_profile)]


class Section:
    """Pydantic refuses keys that a section does not have."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


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


Epochs = Annotated[str, Field(pattern=r"^\d+(\.\d+)? epochs?$")]
Learning = Annotated[str, Field(pattern=r"^(head|top [1-9]\d*|all)$")]


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

    unfreeze: dict[Count | Epochs, Learning] = field(default_factory=dict)
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
    """Save and exit with status 75 after this many minutes; the same command continues. An
    evaluation saves nothing, and fails."""


Betas = Annotated[list[Annotated[float, Strict(), Ge(0), Lt(1)]], MinLen(2), MaxLen(2)]
Rate = Annotated[float, Strict(), Gt(0), Le(1000)]
Scale = Annotated[float, Strict(), Ge(0)]


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


class OptimizerKind(NamedTuple):
    """What there is to know about an optimizer before its code is read."""

    code: str | None = None  # ``package.module:Class``; None: fairseq2 makes it
    on_host: bool = False  # its state is in the host's memory
    extra: str | None = None  # the optional dependency, also the name of its library

    def state_bytes(self, shape: Sequence[int]) -> int:
        """Return the bytes of the two moments of a tensor that learns."""
        elements = math.prod(shape)
        if self.extra != "bitsandbytes" or elements < 4096:
            return 8 * elements  # in float32, as bitsandbytes keeps those of small tensors too
        # Two codes for each element, and two scales for each block of 256.
        return 2 * elements + 2 * 4 * math.ceil(elements / 256)


OPTIMIZERS: Final = {
    "adamw": OptimizerKind(),
    "adamw_8bit": OptimizerKind("bitsandbytes.optim:AdamW8bit", extra="bitsandbytes"),
    "adamw_offload": OptimizerKind("danish_asr.recipe.train.learning:OffloadedAdamW", on_host=True),
}
"""By ``optimizer.name``."""


@dataclass(kw_only=True)
class OptimizerSection(Section):
    """The optimizer."""

    name: Literal["adamw", "adamw_8bit", "adamw_offload"] = "adamw"
    """adamw_8bit: moments in a quarter of the memory, not with fsdp; adamw_offload: on the host."""

    config: AdamWConfig = field(default_factory=AdamWConfig)


def _shares_of_one(ratio: list[float]) -> list[float]:
    if len(ratio) != 3 or not math.isclose(sum(ratio), 1.0):
        raise ValueError(f"must be three numbers whose sum is 1, but is {ratio}")
    return ratio


@dataclass(kw_only=True)
class TriStageLRConfig(Section):
    """Warm-up, hold, exponential decay."""

    stage_ratio: Annotated[list[Share], AfterValidator(_shares_of_one)] = field(
        default_factory=lambda: [0.1, 0.4, 0.5]
    )
    """The shares of warm-up, hold and decay in `num_steps`; their sum: 1."""

    start_lr_scale: Scale = 0.01
    """The first rate, as a part of `lr`."""

    final_lr_scale: Rate = 0.05
    """The last rate, as a part of `lr`."""


@dataclass(kw_only=True)
class MyleLRConfig(Section):
    """Warm-up, then the inverse square root of the step, from `lr` on."""

    num_warmup_steps: AtLeastOne = 1
    """Steps in which the rate rises."""

    start_lr: Scale = 0.0
    """The first rate."""


@dataclass(kw_only=True)
class ConstantRate(Section):
    """The rate stays; there are no settings."""


SCHEDULES: Final[dict[str, type[Section]]] = {
    "tri_stage": TriStageLRConfig,
    "myle": MyleLRConfig,
    "passthrough": ConstantRate,
}
"""The settings of a schedule by ``lr_scheduler.name``; the classes have fairseq2's names."""

WITHOUT_END: Final = ("myle", "passthrough")
"""The schedules that need no ``regime.num_steps``."""


@dataclass(kw_only=True)
class ScheduleSection(Section):
    """The course of the learning rate; its length is `regime.num_steps`."""

    name: Literal[*SCHEDULES] = "tri_stage"  # type: ignore[valid-type]
    """myle falls with the inverse square root of the step; passthrough keeps the rate."""

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
    """No validation up to this step."""

    validate_every_n_steps: AtLeastOne | None = 1_000
    """Steps between validations; a multiple of `publish_metrics_every_n_steps`."""

    validate_every_n_data_epochs: AboveZero | None = None
    """Validate and save after so many epochs, such as 0.5, at the nearest report. It sets
    `validate_every_n_steps` and `checkpoint_every_n_steps`."""

    score_metric: Literal["wer", "cer", "worst_group_wer", "loss"] = "wer"
    """What the best checkpoint is best by."""

    score_profile: Profile = "coral"
    """The text normalisation under which validation computes WER and CER."""

    early_stopping_patience: AtLeastOne | None = None
    """Stop after this many validations in a row without a new best score; an equal one is new, but
    one of 100 % or more is not. Null: never."""

    checkpoint_after_n_steps: Count = 0
    """No checkpoint up to this step."""

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
    """No report up to this step."""

    publish_metrics_every_n_steps: AtLeastOne | None = 100
    """Steps between reports."""
