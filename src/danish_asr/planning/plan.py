"""What a run needs, before it is queued: memory, disk, steps, hours; and what makes it fit.

`make_plan` needs neither weights nor a GPU, and names what it cannot know without the dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from danish_asr.base.config_tree import Tree, flatten, merge, read_yaml
from danish_asr.base.errors import ConfigError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.planning.gpus import Card
from danish_asr.planning.inputs import Inputs
from danish_asr.planning.memory import (
    Batch,
    half_precision,
    largest_batch,
    step_memory,
)
from danish_asr.recipe.config.load import load, unstructure
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.data.reader import EpochSize
from danish_asr.recipe.run.advice import long_warmup
from danish_asr.recipe.train.preflight import with_accumulation
from danish_asr.recipe.train.record import CheckpointSpace, checkpoint_space

_EPOCHS: Final = 30
_TOO_MANY: Final = 200
"""With more epochs a note names the steps of 30."""

_AUDIO: Final = 3.7e11
"""Hours of audio in an hour on an A100 of 40 GB, times the parameters: the runs of the guide's own
project (1,150 h for 300M, 350 h for 1B, 135 h for 3B on 80 GB)."""

_OFF: Final = 0.13
"""Those runs are within this share of it."""

_LAYERWISE: Final = {"trainer": {"activation_checkpointing": {"mode": "layerwise"}}}


class Hint(NamedTuple):
    """A change of the configuration, and what it costs."""

    name: str
    change: Tree
    cost: str
    total: int  # bytes of each GPU with it

    @property
    def values(self) -> str:
        """The change as ``key=value``, to paste."""
        return " ".join(f"{key}={value}" for key, value in flatten(self.change))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What training with a configuration needs; sizes in bytes.

    Attributes:
        config: With the accumulation that `trainer.effective_audio_minutes` sets.
        parameters: How many the model has, and how many of them learn.
        memory: Of each GPU, by component.
        card: The GPU that it should fit; None: none was named.
        batch: The batch that needs most memory.
        epoch: None if the dataset cannot be read here.
        minutes: Of audio in a step; without the dataset as many as there can be.
        hints: What makes it smaller, in a fixed order; empty if it fits.
        notes: What could not be known, and what would not work.
    """

    config: AsrConfig
    gpus: int
    parameters: tuple[int, int]
    memory: Mapping[str, int]
    card: Card | None
    batch: Batch
    epoch: EpochSize | None
    minutes: float
    disk: CheckpointSpace
    hints: Sequence[Hint] = ()
    notes: Sequence[str] = ()

    @property
    def total(self) -> int:
        """Bytes of each GPU."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool | None:
        """Whether the card has room; None: no card was named."""
        return None if self.card is None else self.total <= self.card.free

    @property
    def epochs(self) -> float | None:
        """Passes over the training data in ``regime.num_steps``; None: not known."""
        end = self.config.regime.num_steps
        return end / self.epoch.steps if self.epoch and self.epoch.steps and end else None

    @property
    def audio_hours(self) -> float | None:
        """Of audio in all steps; None if the run has no number of steps."""
        steps = self.config.regime.num_steps
        return steps * self.minutes / 60 if steps else None

    @property
    def hours(self) -> tuple[float, float] | None:
        """The hours of training, at least and at most; None if nothing is known of them.

        They are those of published runs, by the number of parameters and the speed of the card. A
        backward pass takes twice the time of a forward pass, and none below what learns.
        """
        total, learning = self.parameters
        published = total >= 100_000_000
        if self.card is None or self.card.speed is None or not self.audio_hours or not published:
            return None
        layerwise = self.config.trainer.activation_checkpointing.mode == "layerwise"
        passes = 1 + (3 if layerwise else 2) * learning / total
        on_a100 = self.audio_hours * total / _AUDIO / self.gpus * passes / 3
        slow, fast = self.card.speed
        return on_a100 / fast * (1 - _OFF), on_a100 / slow * (1 + _OFF)


def make_plan(
    tree: Tree, *, where: str, card: Card | None = None, gpus: int = 1, run: Path | None = None
) -> Plan:
    """Plan a run of the configuration ``tree``, which errors call ``where``, on ``gpus`` cards.

    ``run`` is its directory, whose checkpoints count for the disk.

    Raises:
        ConfigError: A value is wrong, or the model is not known.
    """
    try:
        config = with_accumulation(load(tree, where=where), gpus)
        inputs = Inputs(config)
        model = inputs.model(config)
    except ConfigError as error:
        raise ConfigError(error.faults, where=where) from None
    module = model.build(config)
    epoch = inputs.epoch(config, model, gpus)
    batch = _largest(config, epoch)
    if epoch:
        minutes = epoch.hours * 60 / max(epoch.steps, 1)
    else:
        samples = config.dataset.asr_task_config.max_num_elements
        minutes = gpus * config.trainer.grad_accumulation.num_batches * samples / SAMPLE_RATE / 60
    total = sum(p.numel() for p in module.parameters())
    learning = sum(p.numel() for p in module.parameters() if p.requires_grad)
    plan = Plan(
        config=config,
        gpus=gpus,
        parameters=(total, learning),
        memory=step_memory(config, model, batch, gpus=gpus),
        card=card,
        batch=batch,
        epoch=epoch,
        minutes=minutes,
        disk=checkpoint_space(run, module, config),
    )
    hints = list(_hints(tree, inputs, plan)) if plan.fits is False else []
    return replace(plan, hints=hints, notes=[*inputs.notes, *_notes(plan)])


def _largest(config: AsrConfig, epoch: EpochSize | None) -> Batch:
    return largest_batch(config, *((epoch.longest, epoch.rows) if epoch else ()))


def _notes(plan: Plan) -> Iterator[str]:
    card, epoch = plan.card, plan.epoch
    if card and not card.bfloat16 and half_precision(plan.config) == "bfloat16":
        yield (
            f"{card.name} has no bfloat16: set trainer.mixed_precision.dtype=float16 "
            "evaluator.amp_dtype=float16"
        )
    if warmup := long_warmup(dict(flatten(unstructure(plan.config)))):
        yield warmup
    if epoch and plan.epochs and plan.epochs > _TOO_MANY:
        yield (
            f"each utterance would be read {plan.epochs:,.0f} times, and the model overfits; "
            f"{_EPOCHS} epochs are regime.num_steps={_EPOCHS * epoch.steps}. With less audio "
            "in a step (trainer.effective_audio_minutes) an epoch has more steps"
        )


def _hints(tree: Tree, inputs: Inputs, plan: Plan) -> Iterator[Hint]:
    """Yield each change that makes the plan smaller, and then all of them together."""
    lean = read_yaml(Path("configs/lean.yaml"))
    if not (plan.config.model.name or plan.config.model.path):
        del lean["model"]  # a head of a model from scratch is that of its tokenizer
    half = _half_batch(plan.config)
    third = "a third more time"
    totals: list[int] = []
    for name, change, cost in (
        ("configs/lean.yaml", lean, third),
        ("layerwise", _LAYERWISE, third),
        ("half the batch", half, "little: the step stays as large"),
        ("all of it", merge(lean, half), third),
    ):
        try:
            config = with_accumulation(load(merge(tree, change), where="the plan"), plan.gpus)
        except ConfigError:  # other values forbid it
            continue
        batch = _largest(config, plan.epoch)
        total = sum(step_memory(config, inputs.model(config), batch, gpus=plan.gpus).values())
        if total < plan.total and total not in totals:
            totals.append(total)
            yield Hint(name, change, cost, total)


def _half_batch(config: AsrConfig) -> Tree:
    """Half the batch with twice the accumulation; nothing if the longest row would not fit."""
    task, trainer = config.dataset.asr_task_config, config.trainer
    half = task.max_num_elements // 2
    if half < task.max_audio_len:
        return {}
    change: Tree = {"dataset": {"asr_task_config": {"max_num_elements": half}}}
    if trainer.effective_audio_minutes is None:  # which sets it
        batches = 2 * trainer.grad_accumulation.num_batches
        change["trainer"] = {"grad_accumulation": {"num_batches": batches}}
    return change
