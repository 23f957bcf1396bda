"""The recipe's configuration: every default, and the rules between sections.

The keys are upstream's (omnilingual-asr's recipe of the same name), so that its YAML files load
unchanged; what is ours stands in the classes of ``sections.py``. Defaults live there and here: a
YAML file holds only what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY
from fairseq2.recipe.config import (
    ADAMW_OPTIMIZER,
    TRI_STAGE_LR,
    AdamWConfig,
    CommonSection,
    CompileOptions,
    CosineAnnealingLRConfig,
    GangSection,
    GradAccumulationConfig,
    LRSchedulerSection,
    MixedPrecisionConfig,
    ModelSection,
    OptimizerSection,
    PolynomialDecayLRConfig,
    ReferenceModelSection,
    TriStageLRConfig,
)
from fairseq2.utils.validation import ValidationResult

from danish_asr.recipe.sections import (
    AsrDatasetSection,
    AsrEvaluatorSection,
    AsrRegimeSection,
    AsrTokenizerSection,
    AsrTrainerSection,
    DecoderSection,
)

_MINUTES_OF_A_DAY = 24 * 60


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

    decoder: DecoderSection = field(default_factory=DecoderSection)

    common: CommonSection = field(
        # One output directory is one run: no hashed directory below it.
        default_factory=lambda: CommonSection(no_sweep_dir=True)
    )

    def validate(self) -> ValidationResult:
        """Refuse the models that this recipe does not train, and numbers that lead nowhere."""
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
        if self.gang.tensor_parallel_size > 1:
            result.add_error(
                "gang.tensor_parallel_size must be 1: the layers of this family are not split, and "
                f"processes would repeat each other's work, but is {self.gang.tensor_parallel_size}"
            )
        if self.gang.timeout > _MINUTES_OF_A_DAY:
            result.add_error(
                f"gang.timeout must be at most {_MINUTES_OF_A_DAY}, for it is in minutes, "
                f"but is {self.gang.timeout}"
            )
        if self.regime.export_hugging_face:
            result.add_error(
                "regime.export_hugging_face must be false: fairseq2 0.6 exports no model of this "
                "family."
            )
        for fault in (*self._impossible_numbers(), *self._impossible_schedules()):
            result.add_error(fault)
        return result

    def _impossible_schedules(self) -> Iterator[str]:
        """What fairseq2 would find out when it makes the schedule, after the model is loaded."""
        scheduler, steps = self.lr_scheduler, self.regime.num_steps
        schedule = getattr(scheduler, "config", None)
        ends = isinstance(schedule, TriStageLRConfig | PolynomialDecayLRConfig) or (
            isinstance(schedule, CosineAnnealingLRConfig) and schedule.cycle_len is None
        )
        if ends and steps is None:
            yield f"regime.num_steps must be given for the schedule {scheduler.name}"
        warmup = getattr(schedule, "num_warmup_steps", 0)
        if ends and steps and warmup >= steps:
            yield (
                f"lr_scheduler.config.num_warmup_steps must be below regime.num_steps ({steps}), "
                f"but is {warmup}"
            )

    def _impossible_numbers(self) -> Iterator[str]:
        optimizer = getattr(self.optimizer, "config", None)
        above_zero = {
            "optimizer.config.lr": getattr(optimizer, "lr", None),
            "common.torch.num_threads": self.common.torch.num_threads,
        }
        for key, value in above_zero.items():
            if value == 0:
                yield f"{key} must be above 0, but is 0"
        if self.model.dtype is torch.float16:
            yield "model.dtype must be float32: trainer.mixed_precision chooses what is computed in"
        betas = getattr(optimizer, "betas", ())
        if any(beta >= 1 for beta in betas):
            yield f"optimizer.config.betas must be below 1, but are {list(betas)}"
        for name in ("model", "pretrained_encoder", "dataset", "tokenizer"):
            overrides = getattr(self, name).config_overrides
            if not isinstance(overrides, Mapping | None):
                yield (
                    f"{name}.config_overrides must be a mapping of keys or null, "
                    f"but is {overrides!r}"
                )


@dataclass(kw_only=True)
class AsrEvalConfig(AsrConfig):
    """Configuration of the evaluation recipe: a training configuration does as it stands."""

    model: ReferenceModelSection = field(  # type: ignore[assignment] # same keys, by design
        default_factory=lambda: ReferenceModelSection(name="omniASR_CTC_300M")
    )

    dataset: AsrDatasetSection = field(
        default_factory=lambda: AsrDatasetSection(valid_split="test")
    )
