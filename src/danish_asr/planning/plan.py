"""``danish-asr plan``: what a run needs, before it is queued, and what would stop it here.

`make_plan` needs neither weights nor a GPU, and names what it cannot know without the dataset;
`show_plan` prints memory, disk, steps, hours and what makes a run fit. Checks are of this machine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.device import CPU
from fairseq2.gang import FakeGang, create_fake_gangs

from danish_asr.base.config_tree import Tree, flatten, merge, nested, read_yaml
from danish_asr.base.errors import ConfigError, DanishAsrError, IncompleteDatasetError
from danish_asr.base.progress import plain_console
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.planning.fetch import downloads
from danish_asr.planning.gpus import CARDS, Card, card_of, here
from danish_asr.planning.memory import (
    CUDA_BYTES,
    Batch,
    build,
    count_learning,
    half_precision,
    largest_batch,
    step_memory,
)
from danish_asr.recipe.config.load import load, unstructure
from danish_asr.recipe.config.schema import FULL, AsrConfig
from danish_asr.recipe.data.index import Index, training_rows
from danish_asr.recipe.data.reader import EpochSize, ReaderSetup, open_reader
from danish_asr.recipe.entry import Request, read_configuration
from danish_asr.recipe.models.cards import (
    Assets,
    ModelDescription,
    open_tokenizer,
    tokenizer_of,
    with_named_model,
)
from danish_asr.recipe.run.advice import never_reached, of_values
from danish_asr.recipe.train.learning import Freezing
from danish_asr.recipe.train.preflight import resolve, with_accumulation
from danish_asr.recipe.train.readers import model_frames
from danish_asr.recipe.train.record import CheckpointSpace, checkpoint_space

_GIB: Final = 2**30

_CONSOLE: Final = plain_console()

_DANISH_SYMBOLS: Final = 100
"""More symbols than ``model.head: danish`` keeps."""

_AUDIO: Final = 3.7e11
"""Hours of audio in an hour on an A100 of 40 GB, times the parameters: the runs of the guide's own
project (1,150 h for 300M, 350 h for 1B, 135 h for 3B on 80 GB), which are within 13 % of it."""


def show_plan(
    request: Request, gpu: str | None, gpus: int, *, price_per_hour: float | None = None
) -> bool:
    """Print a plan for ``gpus`` cards ``gpu``; without ``gpu`` for this machine, and check it.

    Returns whether the run fits and would work. Raises as `make_plan`.
    """
    card = card_of(gpu) if gpu else here()
    plan = make_plan(read_configuration(request), where=request.where, card=card, gpus=gpus)
    for name, size in plan.memory.items():
        _CONSOLE.print(f"{size / _GIB:8.2f} GiB  {name}")
    _CONSOLE.print(f"{plan.total / _GIB:8.2f} GiB  on each GPU at its peak, estimated\n")
    for name, text in _facts(plan, price_per_hour):
        _CONSOLE.print(f"{name:14}{text}")
    for text in [*(f"note: {note}" for note in plan.notes), *_verdict(plan)]:
        _CONSOLE.print(text)
    works = gpu is not None or check_machine(plan)
    return works and plan.fits is not False


def _facts(plan: Plan, price_per_hour: float | None) -> Iterator[tuple[str, str]]:
    counts = f"{plan.parameters / 1e6:,.1f} M, of which {plan.learning / 1e6:,.1f} M learn"
    yield "parameters", counts
    yield "largest batch", f"{plan.batch.rows} x {plan.batch.samples / SAMPLE_RATE:.1f} s"
    most = "" if plan.epoch else "at most "
    batches = f"{plan.gpus} x {plan.config.trainer.grad_accumulation.num_batches:,}"
    yield "a step", f"{most}{plan.minutes:.3g} min of audio (GPUs x batches: {batches})"
    if epoch := plan.epoch:
        size = f"{epoch.steps:,} steps, {epoch.hours:,.3g} h, {epoch.padding:.1%} padding"
        yield "an epoch", size
    if plan.audio_hours:
        steps = f"{plan.config.regime.num_steps:,} steps, {most}{plan.audio_hours:,.0f} h of audio"
        if plan.epochs:  # those of published runs: docs/background/measurements.md
            steps += f", {plan.epochs:,.1f} epochs (usual: 1 to 5 of 2,000 h, 6 to 80 of 470 h)"
        yield "in all", steps
    disk = plan.disk
    sizes = f"{disk.one / _GIB:.2f}, of which the model is {disk.model / _GIB:.2f}"
    yield "disk", f"{disk.total / _GIB:.2f} GiB: {disk.number} checkpoints of {sizes}"
    if plan.hours is None:
        yield "hours", "not known: they need a card by name, 300M or more, and num_steps"
        return
    scaling = f", if {plan.gpus} GPUs are {plan.gpus} times as fast" if plan.gpus > 1 else ""
    yield "hours", f"{_range(plan.hours)}, without validations{scaling}"
    if price_per_hour is not None:
        cost = _range([hours * plan.gpus * price_per_hour for hours in plan.hours])
        yield "cost", f"{cost}, at {price_per_hour:g} per GPU and hour"


def _range(values: Sequence[float]) -> str:
    return " to ".join(f"{value:,.2g}" if value < 10 else f"{value:,.0f}" for value in values)


def _verdict(plan: Plan) -> Iterator[str]:
    """Yield whether it fits, and what makes it fit."""
    if plan.card is None:
        return
    total, gib = f"{plan.total / _GIB:.1f}", plan.card.gib
    fits = "It fits" if plan.fits else "It does not fit"
    yield f"{fits} {plan.card.name}: {total} of {gib:.1f} GiB."
    for hint in plan.hints:
        then = "fits" if hint.total <= gib * _GIB else "does not fit"
        yield f"  {hint.name}: {hint.values}"
        yield f"      {total} becomes {hint.total / _GIB:.1f} GiB, which {then}; costs {hint.cost}"


def check_machine(plan: Plan | None = None) -> bool:
    """Print what would stop a run on this machine, or a plan's; return whether it would work.

    Raises ConfigError for a name in the plan's configuration that does not exist here.
    """
    levels = set()
    for level, text in [*_checks(plan)]:
        levels.add(level)
        _CONSOLE.print(f"{level:8}{text}", style="red" if level == "error" else None)
    return "error" not in levels


def _checks(plan: Plan | None) -> Iterator[tuple[str, str]]:
    """Check the GPU, and of a plan what it names, and free memory and disk."""
    if torch.cuda.is_available():
        yield "ok", f"gpu: {torch.cuda.get_device_name()}; CUDA {torch.version.cuda}"
    else:
        level = "error" if os.environ.get("CUDA_VISIBLE_DEVICES") else "warning"
        fix = "request one, with a driver of CUDA 12.8 or later; a CPU is enough for the demo"
        yield level, f"gpu: torch {torch.__version__} finds none; {fix}"
    if plan is None:
        return
    resolve(plan.config, where="the plan")
    config, placed = with_named_model(plan.config)
    assets = Assets(config.common.assets, placed)
    missing = [file.name for file in downloads(assets, config) if not file.is_here]
    if missing:
        fix = "`danish-asr fetch --config ...` gets it where there is internet access"
        yield "warning", f"weights: no {' and no '.join(missing)} in fairseq2's cache; {fix}"
    if plan.fits and torch.cuda.is_available():
        # What CUDA takes for this process is free for the run, whose plan counts it.
        free = torch.cuda.mem_get_info()[0] + CUDA_BYTES
        if plan.total > free:
            yield "error", f"memory: other programs leave {free / _GIB:.1f} GiB; end them"
    run = Path(os.environ.get("ASR_RUN") or ".").expanduser().resolve()
    folder = next(folder for folder in [run, *run.parents] if folder.is_dir())
    free, need = shutil.disk_usage(folder).free, plan.disk.total
    text = f"disk: checkpoints need {need / _GIB:.2f} GiB, {free / _GIB:.1f} are free in {folder}"
    yield ("ok" if free >= need else "error"), f"{text}; a quota may be less"


class Hint(NamedTuple):
    """A change as ``key=value``, to paste; what it costs, and the bytes of each GPU with it."""

    name: str
    values: str
    cost: str
    total: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What training with a configuration needs; sizes in bytes."""

    config: AsrConfig  # with the accumulation that `trainer.effective_audio_minutes` sets
    gpus: int
    card: Card | None  # that it should fit
    parameters: int
    learning: int  # of the parameters
    batch: Batch  # that needs most memory
    epoch: EpochSize | None  # None: the dataset cannot be read here
    minutes: float  # of audio in a step; without the dataset as many as there can be
    memory: Mapping[str, int]  # of each GPU, by component
    disk: CheckpointSpace
    hints: Sequence[Hint] = ()  # what makes it smaller, in a fixed order, unless it fits
    notes: Sequence[str] = ()  # what could not be known, and what would not work

    @property
    def total(self) -> int:
        """Bytes of each GPU."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool | None:
        """Whether the card has room; None: no card was named."""
        return None if self.card is None else self.total <= self.card.gib * _GIB

    @property
    def epochs(self) -> float:
        """Passes over the training data in ``regime.num_steps``; 0: not known."""
        steps = self.config.regime.num_steps or 0
        return steps / self.epoch.steps if self.epoch and self.epoch.steps else 0

    @property
    def audio_hours(self) -> float:
        """Hours of audio in ``regime.num_steps``; 0: not known."""
        return (self.config.regime.num_steps or 0) * self.minutes / 60

    @property
    def hours(self) -> tuple[float, float] | None:
        """The hours of training, at least and at most; None: not known.

        They are those of published runs, by the number of parameters and the speed of the card:
        that of its matrix products, or of its memory. A backward pass takes twice the time of a
        forward pass, and none below what learns.
        """
        card, a100 = self.card, CARDS["a100-40"]
        if not (card and card.tflops and self.audio_hours and self.parameters >= 100_000_000):
            return None
        layerwise = self.config.trainer.activation_checkpointing.mode == "layerwise"
        passes = 1 + (3 if layerwise else 2) * self.learning / self.parameters
        on_a100 = self.audio_hours * self.parameters / _AUDIO / self.gpus * passes / 3
        speeds = card.tflops / a100.tflops, card.bandwidth / a100.bandwidth
        return 0.87 * on_a100 / max(speeds), 1.13 * on_a100 / min(speeds)


def make_plan(tree: Tree, *, where: str, card: Card | None = None, gpus: int = 1) -> Plan:
    """Plan a run of the configuration ``tree``, which errors call ``where``, on ``gpus`` cards.

    Raises:
        ConfigError: A value is wrong, or the model is not known.
        IncompleteDatasetError: The dataset lacks shards, or has others.
    """
    asked = with_accumulation(load(tree, where=where), gpus)
    config, placed = with_named_model(asked)
    assets, name = Assets(config.common.assets, placed), config.model.name
    description = assets.describe_model(
        config.model, assets.find("model.name", name) if name else None
    )
    epoch, symbols, notes = None, _DANISH_SYMBOLS, list[str]()
    try:
        rows, tokenizer = _open_dataset(assets, config)
        symbols = tokenizer.vocab_info.size
        gangs = replace(create_fake_gangs(CPU), dp=FakeGang(CPU, size=gpus))
        setup = ReaderSetup(tokenizer, gangs, model_frames(description.config))
        epoch = open_reader(setup, config, rows, training=True).epoch_size()
    except IncompleteDatasetError:
        raise  # what is planned for other rows is wrong
    except (DanishAsrError, OSError) as error:
        fault = error.faults[0] if isinstance(error, ConfigError) else str(error)
        notes.append(f"{fault.split(';')[0]}. Steps and padding of an epoch are unknown")
    model = _with_head(description, config, symbols)
    module = build(model, config)
    batch = largest_batch(config, epoch)
    samples = config.dataset.asr_task_config.max_num_elements
    minutes = gpus * config.trainer.grad_accumulation.num_batches * samples / SAMPLE_RATE / 60
    if epoch:
        minutes = epoch.hours * 60 / max(epoch.steps, 1)
    plan = Plan(
        config=asked,
        gpus=gpus,
        card=card,
        parameters=sum(p.numel() for p in module.parameters()),
        learning=count_learning(module),
        batch=batch,
        epoch=epoch,
        minutes=minutes,
        memory=step_memory(config, model, batch, gpus=gpus),
        disk=checkpoint_space(None, module, config),
        notes=notes,
    )
    hints = [*_hints(tree, description, symbols, plan)] if plan.fits is False else []
    return replace(plan, hints=hints, notes=[*notes, *_notes(plan)])


def _open_dataset(assets: Assets, config: AsrConfig) -> tuple[Index, Tokenizer]:
    """Open the rows of the largest stage and the tokenizer: the dataset's own, which is here."""
    section, card = config.dataset, None
    if section.name:
        card = assets.find("dataset.name", section.name)
    dataset = assets.open_dataset(section, card)
    stages = [training_rows(dataset, stage) for stage in config.stages().values()]
    tokenizer = config.tokenizer
    if tokenizer.path is None and (own := tokenizer_of(card)):
        tokenizer = replace(tokenizer, name=own)
    return max(stages, key=len), open_tokenizer(assets.tokenizer_file(tokenizer))


def _with_head(description: ModelDescription, config: AsrConfig, symbols: int) -> ModelDescription:
    """Return the model of a configuration; a new head gets so many ``symbols``."""
    size, overrides = description.config.target_vocab_size, config.model.config_overrides or {}
    if description.has_new_head and "target_vocab_size" not in overrides:
        size = symbols
    if config.model.head != FULL:
        size = min(size, _DANISH_SYMBOLS)
    return description._replace(config=replace(description.config, target_vocab_size=size))


def _notes(plan: Plan) -> Iterator[str]:
    card, epoch = plan.card, plan.epoch
    if card and not card.bfloat16 and half_precision(plan.config) == "bfloat16":
        values = "trainer.mixed_precision.dtype=float16 evaluator.amp_dtype=float16"
        yield f"{card.name} has no bfloat16: set {values}"
    config = dict(flatten(unstructure(plan.config)))
    yield from of_values(config)
    if epoch and epoch.steps:
        stages = {*plan.config.trainer.stages, *Freezing(plan.config, epoch.steps).stages}
        yield from never_reached(config, epoch.steps, stages)
    if epoch and plan.epochs > 200:
        yield (
            f"each utterance would be read {plan.epochs:,.0f} times, and the model overfits; "
            f"30 epochs are regime.num_steps={30 * epoch.steps}"
        )


def _hints(tree: Tree, description: ModelDescription, symbols: int, plan: Plan) -> Iterator[Hint]:
    """Yield each change that makes the plan smaller."""
    lean = read_yaml(Path("configs/lean.yaml"))
    if description.has_new_head:
        del lean["model"]  # whose symbols are those of its tokenizer
    layerwise = {"trainer.activation_checkpointing.mode": "layerwise"}
    task, batches = plan.config.dataset.asr_task_config, plan.config.trainer.grad_accumulation
    half_batch = {
        "dataset.asr_task_config.max_num_elements": task.max_num_elements // 2,
        "trainer.grad_accumulation.num_batches": 2 * batches.num_batches,
    }
    if task.max_num_elements // 2 < task.max_audio_len:  # the longest row would not fit
        half_batch = {}
    for name, change, cost in (
        ("configs/lean.yaml", dict(flatten(lean)), "a third more time"),
        ("layerwise", layerwise, "a third more time"),
        ("half the batch", half_batch, "little: the step stays as large"),
    ):
        changed = merge(tree, *(nested(key, value) for key, value in change.items()))
        try:
            config = with_accumulation(load(changed, where=name), plan.gpus)
        except ConfigError:  # other values forbid it
            continue
        model, batch = _with_head(description, config, symbols), largest_batch(config, plan.epoch)
        total = sum(step_memory(config, model, batch, gpus=plan.gpus).values())
        if total < plan.total:
            values = " ".join(f"{key}={value}" for key, value in change.items())
            yield Hint(name, values, cost, total)
