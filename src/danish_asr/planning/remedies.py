"""The changes that make a run fit a GPU, those first that cost least speed and quality.

The message of a run whose GPU is too small names their keys in the same order.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from fairseq2.recipe.config import ADAMW_OPTIMIZER
from omnilingual_asr.datasets.utils.batching import BatchingStrategy

from danish_asr.base.config_tree import Tree
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.optimizers import ADAMW_8BIT, ADAMW_OFFLOAD
from danish_asr.recipe.config.sections import FULL

_ENOUGH: Final = 60 * SAMPLE_RATE
"""Samples; with less in a batch, checkpointing of activations costs less speed than halving it."""


class Remedy(NamedTuple):
    """A key, what it costs, and the change; None if it does not help, or not again.

    The change takes the configuration and the number of encoder layers.
    """

    key: str
    cost: str
    change: Callable[[AsrConfig, int], Tree | None]


def _danish_head(config: AsrConfig, _: int) -> Tree | None:
    trained = config.model.name or config.model.path
    return {"model": {"head": "danish"}} if trained and config.model.head == FULL else None


def _8bit(config: AsrConfig, _: int) -> Tree | None:
    replaces = config.optimizer.name == ADAMW_OPTIMIZER
    return {"optimizer": {"name": ADAMW_8BIT}} if replaces else None


def _offload(config: AsrConfig, _: int) -> Tree | None:
    replaces = config.optimizer.name in {ADAMW_OPTIMIZER, ADAMW_8BIT}
    return {"optimizer": {"name": ADAMW_OFFLOAD}} if replaces else None


def _smaller_batches(config: AsrConfig, _: int, *, least: int) -> Tree | None:
    task, trainer = config.dataset.asr_task_config, config.trainer
    half = task.max_num_elements // 2
    if task.batching_strategy is BatchingStrategy.STATIC or half < max(task.max_audio_len, least):
        return None
    tree: Tree = {"dataset": {"asr_task_config": {"max_num_elements": half}}}
    if trainer.effective_audio_minutes is None:
        batches = 2 * trainer.grad_accumulation.num_batches
        tree["trainer"] = {"grad_accumulation": {"num_batches": batches}}
    return tree


def _checkpointing(config: AsrConfig, _: int) -> Tree | None:
    section = config.trainer.activation_checkpointing
    if section.mode == "layerwise" and section.every_nth_layer == 1:
        return None
    return {"trainer": {"activation_checkpointing": {"mode": "layerwise", "every_nth_layer": 1}}}


def _freezing(config: AsrConfig, layers: int) -> Tree | None:
    for number in (layers // 2, layers - 8):
        if number > config.trainer.freeze_encoder_layers:
            return {"trainer": {"freeze_encoder_layers": number}}
    return None


_BATCHES: Final = "dataset.asr_task_config.max_num_elements"

REMEDIES: Final = (
    Remedy("model.head=danish", "none: fewer symbols, and faster", _danish_head),
    Remedy("optimizer.name=adamw_8bit", "little: rounded moments", _8bit),
    Remedy(
        _BATCHES,
        "little: more and smaller batches in a step",
        partial(_smaller_batches, least=_ENOUGH),
    ),
    Remedy(
        "trainer.activation_checkpointing.mode=layerwise",
        "a third more time: activations are computed twice",
        _checkpointing,
    ),
    Remedy(_BATCHES, "time: batches of less than a minute", partial(_smaller_batches, least=0)),
    Remedy(
        "optimizer.name=adamw_offload", "time: the host computes the optimizer's step", _offload
    ),
    Remedy("trainer.freeze_encoder_layers", "accuracy: these layers do not learn", _freezing),
)
"""All of them, those first that cost least."""
