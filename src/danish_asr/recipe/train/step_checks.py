"""Checks of a training step against the model and the processes: what learns, and how much."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from omnilingual_asr.datasets.utils.batching import BatchingStrategy

from danish_asr.base.cluster import rank_info
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.sections import top_layers
from danish_asr.recipe.train.optimizers import group_faults, layer_groups


def training_faults(config: AsrConfig, module: Any, known: Sequence[str]) -> Iterator[str]:
    """Compare the layers to freeze and the groups of parameters with the model."""
    layers, frozen = len(module.encoder.layers), config.trainer.freeze_encoder_layers
    if frozen > layers:
        rule = f"must be at most {layers}, the number of encoder layers"
        yield f"trainer.freeze_encoder_layers {rule}, but is {frozen}"
    if "trainer.unfreeze" not in " ".join(known):
        most = max((top_layers(what) or 0 for what in config.trainer.unfreeze.values()), default=0)
        if most > layers:
            yield f"trainer.unfreeze must name at most {layers} encoder layers, but names {most}"
    optimizer: Any = config.optimizer.config
    if not any(fault.startswith(("optimizer.config.groups", "optimizer.layer")) for fault in known):
        names = (name for name, _ in module.named_parameters())
        decay, groups = config.optimizer.layer_decay, optimizer.groups
        if decay is not None:
            if groups:
                yield "optimizer.layer_decay must be null with optimizer.config.groups"
            groups = layer_groups(optimizer, decay, layers)
        yield from group_faults(groups, config.lr_scheduler.config, names)


def with_accumulation(
    config: AsrConfig, faults: list[str], processes: int | None = None
) -> AsrConfig:
    """Set the batches in a step of each process from ``trainer.effective_audio_minutes``.

    ``processes`` is by default their number in this run.
    """
    minutes, task = config.trainer.effective_audio_minutes, config.dataset.asr_task_config
    if minutes is None or faults:
        return config
    if task.batching_strategy is not BatchingStrategy.LENGTH:
        rule = "must be null with dataset.asr_task_config.batching_strategy=STATIC"
        faults.append(f"trainer.effective_audio_minutes {rule}, but is {minutes:g}")
        return config
    processes = processes or rank_info(config.common.cluster).world_size
    each = processes * task.max_num_elements / SAMPLE_RATE / 60
    batches = max(round(minutes / each), 1)
    if abs(batches * each / minutes - 1) > 0.01:
        lower = max(int(minutes / each), 1)
        faults.append(
            f"trainer.effective_audio_minutes must be a multiple of {each:g}, the minutes in "
            f"{processes} batches of dataset.asr_task_config.max_num_elements samples, but is "
            f"{minutes:g}; the nearest are {lower * each:g} and {(lower + 1) * each:g}"
        )
        return config
    accumulation = replace(config.trainer.grad_accumulation, num_batches=batches)
    return replace(config, trainer=replace(config.trainer, grad_accumulation=accumulation))
