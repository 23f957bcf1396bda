"""What a run needs, before it is queued: memory, disk, steps and epochs; and what makes it fit.

`make_plan` needs neither weights nor a GPU, and names what it cannot know without the dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple, cast

from fairseq2.assets import AssetCard
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.device import CPU
from fairseq2.gang import FakeGang, create_fake_gangs
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig

from danish_asr.base.config_tree import Tree, merge
from danish_asr.base.errors import ConfigError, DanishAsrError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.planning.activations import Batch
from danish_asr.planning.gpus import NO_BFLOAT16, Card
from danish_asr.planning.memory import (
    REMEDIES,
    Model,
    host_memory,
    largest_batch,
    mixed_precision,
    parameters_by_part,
    step_memory,
)
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.loading import load_with_faults
from danish_asr.recipe.config.sections import FULL
from danish_asr.recipe.data.dataset import AsrDataset
from danish_asr.recipe.data.reader import EpochSize
from danish_asr.recipe.models.assets import Assets, training_rows
from danish_asr.recipe.models.cards import tokenizer_of, with_named_model
from danish_asr.recipe.train.preflight import with_accumulation
from danish_asr.recipe.train.readers import ReaderSetup, model_frames, open_reader
from danish_asr.recipe.train.record import CheckpointSpace, checkpoint_space

_EPOCHS: Final = 30
_TOO_MANY: Final = 200
"""With more epochs a note names the number of steps for the first number."""

_DANISH_SYMBOLS: Final = 100
"""More symbols than ``model.head: danish`` keeps."""


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
    config, faults = load_with_faults(AsrConfig, tree)
    config = with_accumulation(config, faults, gpus)
    if faults:
        raise ConfigError(faults, where=where)
    try:
        inputs = _Inputs(config)
        plan = _plan(config, inputs, card, gpus, run)
        if card is None or plan.fits:
            return plan
        return replace(plan, remedies=_remedies(tree, inputs, plan, card))
    except ConfigError as error:
        raise ConfigError(error.faults, where=where) from None


def _plan(
    config: AsrConfig, inputs: _Inputs, card: Card | None, gpus: int, run: Path | None
) -> Plan:
    model = inputs.model(config)
    epoch = inputs.epoch(config, model, gpus)
    batch, memory = _memory(config, model, epoch, gpus)
    module = model.build(config)
    if epoch:
        minutes = epoch.hours * 60 / max(epoch.steps, 1)
    else:
        accumulated = config.trainer.grad_accumulation.num_batches
        minutes = gpus * accumulated * batch.rows * batch.samples / SAMPLE_RATE / 60
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


def _remedies(tree: Tree, inputs: _Inputs, plan: Plan, card: Card) -> list[AppliedRemedy]:
    """Change the configuration until it fits; empty if nothing makes it fit."""
    layers = inputs.model(plan.config).config.encoder_config.num_encoder_layers

    def total(chosen: Sequence[AppliedRemedy]) -> int:
        """Return the memory with some changes; as much as without them if they are refused."""
        config, faults = load_with_faults(
            AsrConfig, merge(tree, *(remedy.change for remedy in chosen))
        )
        config = with_accumulation(config, faults, plan.gpus)
        if faults:  # another optimizer lacks a key, or the batches do not make up a step
            return plan.total
        _, memory = _memory(config, inputs.model(config), plan.epoch, plan.gpus)
        return sum(memory.values())

    applied: list[AppliedRemedy] = []
    needed = plan.total
    for remedy in REMEDIES:
        while needed > card.free:
            config, _ = load_with_faults(
                AsrConfig, merge(tree, *(earlier.change for earlier in applied))
            )
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


class _Inputs:
    """The cards that a configuration names, opened once for all changes of other keys.

    ``notes`` say what cannot be known here. Raises ConfigError if there is no such model.
    """

    def __init__(self, config: AsrConfig) -> None:
        config, faults, section = with_named_model(config), list[str](), config.dataset
        self._assets, self.notes = Assets(config), list[str]()
        name = config.model.name
        self._model_card = self._assets.find("model.name", name, faults) if name else None
        if faults:
            raise ConfigError(faults)
        self._dataset_card: AssetCard | None = None
        self._dataset: AsrDataset | None = None
        try:
            if section.name:
                self._dataset_card = self._assets.find("dataset.name", section.name, faults)
                if faults:
                    fault = f"dataset.name: no dataset '{section.name}' is known here"
                    raise ConfigError([fault])
            dataset = self._assets.open_dataset(section, self._dataset_card)
            self._index = training_rows(dataset, section)
            self._dataset = dataset
        except (DanishAsrError, OSError) as error:
            self._note(f"{_first_fault(error)}. Steps and padding of an epoch are unknown")

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def model(self, config: AsrConfig) -> Model:
        """Return the model of a configuration, with the head that it will have."""
        section, faults = config.model, list[str]()
        description = self._assets.describe_model(section, self._model_card, faults)
        if description is None:
            raise ConfigError(faults)
        model: Wav2Vec2AsrConfig = description.config
        overrides = cast(Mapping[str, object], section.config_overrides or {})
        if description.has_new_head and "target_vocab_size" not in overrides:
            model = replace(model, target_vocab_size=self._tokenizer_size(config))
        if section.head != FULL:
            size = min(model.target_vocab_size, _DANISH_SYMBOLS)
            model = replace(model, target_vocab_size=size)
        return Model(description.family, model)

    def _tokenizer_size(self, config: AsrConfig) -> int:
        tokenizer = self._tokenizer(config)
        if tokenizer is not None:
            return tokenizer.vocab_info.size
        self._note(f"the tokenizer is not here: the new head counts with {_DANISH_SYMBOLS} symbols")
        return _DANISH_SYMBOLS

    def _tokenizer(self, config: AsrConfig) -> Tokenizer | None:
        """Return the dataset's own, which is here if the dataset is, or the one that is named."""
        section, own = config.tokenizer, tokenizer_of(self._dataset_card)
        if section.path is None and own is not None:
            section = type(section)(name=own)
        return self._assets.open_tokenizer(section, [])

    def epoch(self, config: AsrConfig, model: Model, gpus: int) -> EpochSize | None:
        """Return the first epoch of a run on so many GPUs; None, with a note, if it is unknown."""
        tokenizer = self._tokenizer(config) if self._dataset else None
        if self._dataset is None or tokenizer is None:
            return None
        gangs = replace(create_fake_gangs(CPU), dp=FakeGang(CPU, size=gpus))
        setup = ReaderSetup(self._dataset, tokenizer, gangs, model_frames(model.config))
        try:
            return open_reader(setup, config, self._index, training=True).epoch_size()
        except DanishAsrError as error:
            self._note(f"a run would be refused: {_first_fault(error)}")
            return None


def _first_fault(error: Exception) -> str:
    return error.faults[0] if isinstance(error, ConfigError) else str(error)
