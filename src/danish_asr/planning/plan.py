"""What a run needs, before it is queued: memory, disk, steps and epochs; and what makes it fit.

`make_plan` needs neither weights nor a GPU, and names what it cannot know without the dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple, cast

from danish_asr.base.config_tree import Tree, flatten, merge
from danish_asr.base.errors import ConfigError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.planning.activations import Batch
from danish_asr.planning.gpus import NO_BFLOAT16, Card
from danish_asr.planning.inputs import Inputs
from danish_asr.planning.memory import (
    REMEDIES,
    Model,
    host_memory,
    largest_batch,
    mixed_precision,
    parameters_by_part,
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
"""With more epochs a note names the number of steps for the first number."""

_AUDIO: Final = 3.7e11
"""Hours of audio in an hour on an A100 of 40 GB, times the parameters: the runs of the guide's own
project (1,150 h for 300M, 350 h for 1B, 135 h for 3B on 80 GB) are within 13 % of it."""

_RECOMPUTATION: Final = 4 / 3
"""The time of a step that computes its activations twice."""

_MEASURED_FROM: Final = 100_000_000
"""Parameters; of smaller models no throughput is known."""


class AppliedRemedy(NamedTuple):
    """A change of the configuration, what it costs, and the bytes that it gives back."""

    change: Tree
    cost: str
    gives: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What training with a configuration needs; sizes in bytes.

    Attributes:
        config: With the accumulation that `trainer.effective_audio_minutes` sets.
        parameters: Of each part of the model: how many, and how many of them learn.
        memory: Of each GPU, by component.
        card: The GPU that it should fit; None: none was named.
        batch: The batch that needs most memory.
        epoch: None if the dataset cannot be read here.
        minutes: Of audio in a step; without the dataset as many as there can be.
        host: Of one process.
        remedies: What makes it fit, the cheapest first; empty if it fits, or nothing does.
        notes: What could not be known, and what would not work.
    """

    config: AsrConfig
    gpus: int
    parameters: Mapping[str, tuple[int, int]]
    memory: Mapping[str, int]
    card: Card | None
    batch: Batch
    epoch: EpochSize | None
    minutes: float
    disk: CheckpointSpace
    host: int
    remedies: Sequence[AppliedRemedy] = ()
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
    def bfloat16(self) -> bool:
        """Whether layers compute in bfloat16."""
        return str(mixed_precision(self.config)) == "torch.bfloat16"

    @property
    def batches(self) -> int:
        """Of each GPU in a step; a short epoch has fewer than the accumulation asks for."""
        most = self.config.trainer.grad_accumulation.num_batches
        return min(most, ceil(self.epoch.batches / self.gpus)) if self.epoch else most

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
        """An estimate of the hours of training, at least and at most; None if nothing is known.

        It is that of published runs, by the number of parameters and the card's speed.
        """
        parameters = sum(total for total, _ in self.parameters.values())
        known = self.card and self.card.speed and parameters >= _MEASURED_FROM
        if not known or self.audio_hours is None:
            return None
        layerwise = self.config.trainer.activation_checkpointing.mode == "layerwise"
        on_a100 = self.audio_hours * parameters / _AUDIO / self.gpus
        on_a100 *= _RECOMPUTATION if layerwise else 1
        slow, fast = cast(Card, self.card).speed or (1.0, 1.0)
        return on_a100 / fast, on_a100 / slow

    @property
    def overlay(self) -> Tree:
        """The configuration to lay over this one so that it fits."""
        return merge(*(remedy.change for remedy in self.remedies))


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
        plan = _plan(config, inputs, card, gpus, run)
        if card is None or plan.fits:
            return plan
        return replace(plan, remedies=_remedies(tree, inputs, plan, card))
    except ConfigError as error:
        raise ConfigError(error.faults, where=where) from None


def _plan(
    config: AsrConfig, inputs: Inputs, card: Card | None, gpus: int, run: Path | None
) -> Plan:
    model = inputs.model(config)
    epoch = inputs.epoch(config, model, gpus)
    batch, memory = _memory(config, model, epoch, gpus)
    module = model.build(config)
    if epoch:
        minutes = epoch.hours * 60 / max(epoch.steps, 1)
    else:
        task, accumulated = config.dataset.asr_task_config, config.trainer.grad_accumulation
        samples = task.max_num_elements  # which shorter utterances fill best
        minutes = gpus * accumulated.num_batches * samples / SAMPLE_RATE / 60
    notes = list(inputs.notes)
    plan = Plan(
        config=config,
        gpus=gpus,
        parameters=parameters_by_part(module),
        memory=memory,
        card=card,
        batch=batch,
        epoch=epoch,
        minutes=minutes,
        disk=checkpoint_space(run, module, config),
        host=host_memory(config, module, batch),
        notes=notes,
    )
    if card and card.name in NO_BFLOAT16 and plan.bfloat16:
        notes.append(
            f"{card.name} has no bfloat16: set trainer.mixed_precision.dtype=torch.float16 "
            "evaluator.amp_dtype=torch.float16"
        )
    if warmup := long_warmup(dict(flatten(unstructure(config)))):
        notes.append(warmup)
    if epoch and plan.epochs and plan.epochs > _TOO_MANY:
        notes.append(
            f"each utterance would be read {plan.epochs:,.0f} times, and the model overfits; "
            f"{_EPOCHS} epochs are regime.num_steps={_EPOCHS * epoch.steps}. With less audio "
            "in a step (trainer.effective_audio_minutes) an epoch has more steps"
        )
    return plan


def _memory(
    config: AsrConfig, model: Model, epoch: EpochSize | None, gpus: int
) -> tuple[Batch, dict[str, int]]:
    batch = largest_batch(config, *((epoch.longest, epoch.rows) if epoch else ()))
    return batch, step_memory(config, model, batch, gpus=gpus)


def _remedies(tree: Tree, inputs: Inputs, plan: Plan, card: Card) -> list[AppliedRemedy]:
    """Change the configuration until it fits; empty if nothing makes it fit."""
    model = inputs.model(plan.config).config
    kept = len(plan.config.model.keep_layers)
    layers = kept or model.encoder_config.num_encoder_layers

    def total(chosen: Sequence[AppliedRemedy]) -> int:
        """Return the memory with some changes; as much as without them if they are refused."""
        try:
            config = load(merge(tree, *(remedy.change for remedy in chosen)), where="the plan")
            config = with_accumulation(config, plan.gpus)
        except ConfigError:  # another optimizer lacks a key, or the batches make up no step
            return plan.total
        _, memory = _memory(config, inputs.model(config), plan.epoch, plan.gpus)
        return sum(memory.values())

    applied: list[AppliedRemedy] = []
    needed = plan.total
    for remedy in REMEDIES:
        while needed > card.free:
            config = load(merge(tree, *(earlier.change for earlier in applied)), where="the plan")
            change = remedy.change(config, layers)
            if change is None:
                break
            candidate = AppliedRemedy(change, remedy.cost, 0)
            less = total([*applied, candidate])
            if less >= needed:
                break
            applied.append(candidate)
            needed = less
    if needed > card.free:
        return []
    return _needed_remedies(applied, total, card)


def _needed_remedies(
    applied: list[AppliedRemedy], total: Callable[[Sequence[AppliedRemedy]], int], card: Card
) -> list[AppliedRemedy]:
    """Leave out what is not needed, and note what each of the others gives back."""
    for remedy in applied[-2::-1]:  # without the last one it did not fit
        others = [other for other in applied if other is not remedy]
        if total(others) <= card.free:
            applied = others
    needed = []
    before = total([])
    for number, remedy in enumerate(applied, 1):
        after = total(applied[:number])
        needed.append(remedy._replace(gives=before - after))
        before = after
    return needed
