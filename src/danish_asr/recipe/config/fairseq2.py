"""Our configuration in the sections of fairseq2, which its trainer reads."""

from dataclasses import dataclass, fields
from typing import Any, TypeVar, cast

import torch
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY
from fairseq2.recipe import config as base
from fairseq2.utils.structured import StandardValueConverter

from danish_asr.recipe.config.load import unstructure
from danish_asr.recipe.config.schema import AsrConfig

SectionT = TypeVar("SectionT")

_converter = StandardValueConverter()


@dataclass(kw_only=True)
class Processes:
    """The sections of an evaluation, for which fairseq2 starts the processes and their logs."""

    gang: base.GangSection
    common: base.CommonSection


@dataclass(kw_only=True)
class Fairseq2Config(Processes):
    """The sections by the names that fairseq2 looks up, and ``asr``, which they were made of."""

    asr: AsrConfig
    model: base.ModelSection
    pretrained_encoder: base.ReferenceModelSection
    trainer: base.TrainerSection
    optimizer: base.OptimizerSection
    lr_scheduler: base.LRSchedulerSection
    regime: base.RegimeSection


def processes_of(config: AsrConfig) -> Processes:
    """Return the sections of a checked configuration that an evaluation needs too."""
    common = unstructure(config.common)
    # torchrun gives ranks; fairseq2 would take those of Slurm, also in a job's own shell.
    common |= {"cluster": "none", "no_sweep_dir": True}
    common["metric_recorders"]["wandb"]["resume_mode"] = "allow"
    return Processes(
        gang=_section(base.GangSection, unstructure(config.gang)),
        common=_section(base.CommonSection, common),
    )


def sections_of(config: AsrConfig) -> Fairseq2Config:
    """Return the sections of a checked configuration."""
    tree = unstructure(config)
    tree["model"] |= {"family": WAV2VEC2_ASR_FAMILY}
    # Epochs are set, or counted in steps, when the data is open.
    tree["regime"] |= {"num_data_epochs": None, "validate_every_n_data_epochs": None}
    return Fairseq2Config(
        **vars(processes_of(config)),
        asr=config,
        model=_section(base.ModelSection, tree["model"]),
        pretrained_encoder=_section(base.ReferenceModelSection, tree["pretrained_encoder"]),
        trainer=_section(base.TrainerSection, tree["trainer"]),
        optimizer=_optimizer(config),
        lr_scheduler=_schedule(config),
        regime=_section(base.RegimeSection, tree["regime"]),
    )


def _section(kind: type[SectionT], tree: dict[str, Any]) -> SectionT:
    """Return a section of fairseq2 with those of our keys that it has."""
    own = {f.name: tree[f.name] for f in fields(cast(Any, kind)) if f.name in tree}
    return cast(SectionT, _converter.structure(own, kind))


def _optimizer(config: AsrConfig) -> base.OptimizerSection:
    """AdamW as fairseq2 has it; our own optimizers take our settings."""
    name, settings = config.optimizer.name, config.optimizer.config
    if name != "adamw":
        return base.OptimizerSection(name=name, config=settings)
    # On GPUs one pass over memory. On a CPU PyTorch's choice can be repeated bit for bit.
    implementation = "fused" if torch.cuda.is_available() else "auto"
    own = _section(base.AdamWConfig, {**unstructure(settings), "impl": implementation})
    return base.OptimizerSection(name=name, config=own)


def _schedule(config: AsrConfig) -> base.LRSchedulerSection:
    """The schedule with fairseq2's settings, a class of the same name; others take ours."""
    name, settings = config.lr_scheduler.name, config.lr_scheduler.config
    kind = getattr(base, type(settings).__name__, None)
    section = _section(kind, unstructure(settings)) if kind else settings
    return base.LRSchedulerSection(name=name, config=section if fields(settings) else None)
