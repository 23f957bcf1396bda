"""The recipe's configuration: sections, keys, defaults and the rules between values.

The keys are upstream's (omnilingual-asr's recipe of the same name), so its YAML files load
unchanged. Defaults are defined here; a YAML file holds only what differs.
"""

import math
import re
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import torch
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY
from fairseq2.recipe import config as base
from fairseq2.utils.validation import ValidationResult

from danish_asr.base.errors import ConfigError, LanguageModelError
from danish_asr.decoding.decoders import GREEDY, find_decoder
from danish_asr.recipe.config.optimizers import AsrOptimizerSection
from danish_asr.recipe.config.sections import (
    AsrDatasetSection,
    AsrModelSection,
    AsrTokenizerSection,
    MaskingSection,
    with_broken,
)
from danish_asr.recipe.config.training import AsrRegimeSection, AsrTrainerSection

_SEEDS: Final = 4_000_000_000
"""fairseq2 takes 32 bits, and adds the process and the use to the seed."""

_MINUTES: Final = 10_000_000
"""PyTorch waits in nanoseconds, of which 64 bits hold fifteen times as many minutes."""


@dataclass(kw_only=True)
class DecoderSection:
    """How logits become text, in validation and in evaluation (docs/howto/add-a-decoder.md)."""

    name: str = GREEDY
    """``greedy``, ``beam``, or ``package.module:name`` of your own."""

    config: dict[str, object] = field(default_factory=dict)
    """Its settings; those of ``beam`` are below."""

    def validate(self) -> ValidationResult:
        """Check that the decoder can be imported and takes its configuration."""
        try:
            find_decoder(self.name, self.config)
        except ConfigError as error:
            return with_broken(dict.fromkeys(error.faults, False), ValidationResult())
        except LanguageModelError as error:
            return with_broken({f"decoder.config.lm: {error}": False}, ValidationResult())
        return ValidationResult()


@dataclass(kw_only=True)
class AsrEvaluatorSection(base.EvaluatorSection):
    """What the evaluation recipe scores."""

    checkpoint: str | None = None
    """``best``, ``last`` or ``step_<n>`` of the run in OUTDIR, or ``none`` for the model that
    ``model`` names. Null: ``best``, and ``none`` if OUTDIR holds no run and a model is named."""

    split: str | None = None
    """The splits to score, separated by commas. Null: ``test``, but for the checkpoint ``none``
    without ``dataset.train_split``, as upstream evaluates, ``dataset.valid_split``."""

    where: str | None = None
    """Score the rows that fulfil this SQL condition, in the directory of ``label``. Null: all."""

    label: str | None = None
    """The directory of the results, beside those of greedy. Null: the decoder's name; needed for
    the second of two configurations of a decoder, and for a part of the rows."""

    def validate(self) -> ValidationResult:
        """Check that the label names a directory."""
        rules = {
            "`label` must be letters, digits, `_`, `-`, `+` and `.`": (
                self.label is None or re.fullmatch(r"\w[\w.+-]*", self.label) is not None
            ),
            "`label` must name a directory for the rows of evaluator.where": bool(
                self.label or not self.where
            ),
        }
        return with_broken(rules, ValidationResult())


@dataclass(kw_only=True)
class AsrConfig:
    """Configuration of the training recipe."""

    model: AsrModelSection = field(
        default_factory=lambda: AsrModelSection(
            family=WAV2VEC2_ASR_FAMILY,
            compile_options=base.CompileOptions(fullgraph=False, dynamic=False),
        )
    )
    """``name`` fine-tunes a checkpoint; ``arch`` alone starts from scratch."""

    pretrained_encoder: base.ReferenceModelSection = field(
        default_factory=lambda: base.ReferenceModelSection(name="", family="wav2vec2_ssl")
    )
    """With ``model.arch``: a pretrained encoder below a new head."""

    masking: MaskingSection = field(default_factory=MaskingSection)

    dataset: AsrDatasetSection = field(default_factory=AsrDatasetSection)
    tokenizer: AsrTokenizerSection = field(default_factory=AsrTokenizerSection)
    gang: base.GangSection = field(default_factory=base.GangSection)

    trainer: AsrTrainerSection = field(
        default_factory=lambda: AsrTrainerSection(
            mixed_precision=base.MixedPrecisionConfig(dtype=torch.bfloat16),
            grad_accumulation=base.GradAccumulationConfig(num_batches=4),
            # Without clipping a single bad batch can ruin a run.
            max_grad_norm=1.0,
        )
    )

    optimizer: AsrOptimizerSection = field(
        default_factory=lambda: AsrOptimizerSection(
            name=base.ADAMW_OPTIMIZER,
            config=base.AdamWConfig(lr=5e-05, betas=(0.9, 0.98), eps=1e-08, weight_decay=0.0),
        )
    )

    lr_scheduler: base.LRSchedulerSection = field(
        default_factory=lambda: base.LRSchedulerSection(
            name=base.TRI_STAGE_LR,
            config=base.TriStageLRConfig(
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
            # Keeping all checkpoints fills a quota, and a full quota kills the run silently.
            keep_best_n_checkpoints=1,
            keep_last_n_checkpoints=2,
        )
    )

    evaluator: AsrEvaluatorSection = field(
        default_factory=lambda: AsrEvaluatorSection(amp=True, amp_dtype=torch.bfloat16)
    )
    """Used by the evaluation recipe only; it is here so that one file serves both."""

    decoder: DecoderSection = field(default_factory=DecoderSection)

    common: base.CommonSection = field(
        # One output directory is one run: no hashed directory below it.
        default_factory=lambda: base.CommonSection(
            no_sweep_dir=True,
            # A run that continues goes on in W&B too.
            metric_recorders=base.MetricRecordersConfig(
                wandb=base.WandbConfig(resume_mode="allow")
            ),
        )
    )

    def stages(self) -> "dict[int, AsrConfig]":
        """The configuration of each stage of training, by the steps before it, from 0 on."""
        stages = {0: self}
        for first, stage in sorted(self.trainer.stages.items()):
            rows = replace(self.dataset, train_where=stage.where, train_subset=stage.subset)
            stages[first] = replace(self, dataset=rows)
        return stages

    def validate(self) -> ValidationResult:
        """Refuse what this recipe cannot do, and what fairseq2 ignores or finds late."""
        schedule = getattr(self.lr_scheduler, "config", None)  # an evaluation has none
        endless = isinstance(schedule, base.NoamLRConfig | base.MyleLRConfig | None) or bool(
            getattr(schedule, "cycle_len", None)
        )
        final = schedule.final_lr_scale if isinstance(schedule, base.TriStageLRConfig) else 1.0
        validates = self.regime.validate_every_n_steps or self.regime.validate_every_n_data_epochs
        rules = {
            f"`model.family` must be {WAV2VEC2_ASR_FAMILY} (CTC models, not LLM models)": (
                bool(self.model.name) or self.model.family == WAV2VEC2_ASR_FAMILY
            ),
            "`model.compile` must be false": not self.model.compile,
            "`model.dtype` must be float32": self.model.dtype is torch.float32,
            # At 0 fairseq2 takes its log, when the last stage of the schedule begins.
            "`lr_scheduler.config.final_lr_scale` must be above 0": bool(np.all(final)),
            "`lr_scheduler.config.final_lr_scale` must be at most 1000": (
                float(np.max(final)) <= 1000
            ),
            "`regime.export_hugging_face` must be false": not self.regime.export_hugging_face,
            "`common.no_sweep_dir` must be true: OUTDIR is the directory of one run": (
                self.common.no_sweep_dir
            ),
            f"`common.seed` must be below {_SEEDS}": self.common.seed < _SEEDS,
            "`gang.tensor_parallel_size` must be 1": self.gang.tensor_parallel_size <= 1,
            f"`gang.timeout` must be at most {_MINUTES} (minutes)": self.gang.timeout <= _MINUTES,
            "`regime.num_steps` must be given for this schedule": (
                endless or self.regime.num_steps is not None
            ),
            "`trainer.stages` must begin before regime.num_steps": (
                max(self.trainer.stages, default=-math.inf) < (self.regime.num_steps or math.inf)
            ),
            "`regime.validate_at_start` must be false without `dataset.valid_split`": (
                not self.regime.validate_at_start or self.dataset.valid_split is not None
            ),
            # An epoch that a stage cuts short is no pass over the training data.
            "`regime.num_data_epochs` must be null with `trainer.stages` (set regime.num_steps)": (
                self.regime.num_data_epochs is None or not self.trainer.stages
            ),
            "`regime.early_stopping_patience` must be null without validation "
            "(`dataset.valid_split` and `regime.validate_every_n_steps`)": (
                self.regime.early_stopping_patience is None
                or bool(self.dataset.valid_split and validates)
            ),
        }
        return with_broken(rules, ValidationResult())


@dataclass(kw_only=True)
class AsrEvalConfig(AsrConfig):
    """Configuration of the evaluation recipe: a training configuration works unchanged."""

    model: base.ReferenceModelSection = field(  # type: ignore[assignment] # same keys, by design
        default_factory=lambda: base.ReferenceModelSection(
            name="omniASR_CTC_300M", family=WAV2VEC2_ASR_FAMILY
        )
    )

    dataset: AsrDatasetSection = field(
        default_factory=lambda: AsrDatasetSection(valid_split="test")
    )
