"""``danish-asr plan``: prints a plan."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.planning.doctor import run_directory
from danish_asr.planning.gpus import CARDS, Card, here
from danish_asr.recipe.entry import Request, note, read_configuration, refuse

if TYPE_CHECKING:
    from danish_asr.planning.plan import Plan

_GIB: Final = 2**30

_USUAL: Final = "1 to 5 of 2,000 h, 6 to 80 of 470 h"
"""Epochs of published fine-tuning (docs/background/measurements.md)."""


def show_plan(
    request: Request, gpu: str | None, gpus: int, *, price_per_hour: float | None = None
) -> "Plan":
    """Print a plan for ``gpus`` cards ``gpu``, by default this machine's, and return it.

    A faulty configuration ends the program with status 2, as the training command does.
    """
    try:
        card = Card.of(gpu) if gpu else None
        tree = read_configuration(request)
        if sys.stderr.isatty():
            note("loading PyTorch and fairseq2")
        from danish_asr.planning.plan import make_plan  # noqa: PLC0415 - slow

        plan = make_plan(
            tree, where=request.where, card=card or here(), gpus=gpus, run=run_directory()
        )
    except ConfigError as error:
        refuse(error)
    console = Console(markup=False, highlight=False, soft_wrap=True)
    for name, size in plan.memory.items():
        console.print(f"{size / _GIB:8.2f} GiB  {name}")
    console.print(f"{plan.total / _GIB:8.2f} GiB  on each GPU at its peak, estimated\n")
    for name, text in _facts(plan, price_per_hour):
        console.print(f"{name:14}{text}")
    for text in plan.notes:
        console.print(f"note: {text}", style="yellow")
    for text in _verdict(plan):
        console.print(text)
    return plan


def _facts(plan: "Plan", price_per_hour: float | None) -> Iterator[tuple[str, str]]:
    total, learning = plan.parameters
    yield "parameters", f"{total / 1e6:,.1f} M, of which {learning / 1e6:,.1f} M learn"
    yield "largest batch", f"{plan.batch.rows} x {plan.batch.samples / SAMPLE_RATE:.1f} s"
    most = "" if plan.epoch else "at most "
    batches = f"{plan.gpus} x {plan.config.trainer.grad_accumulation.num_batches:,}"
    yield "a step", f"{most}{plan.minutes:.3g} min of audio (GPUs x batches: {batches})"
    if epoch := plan.epoch:
        steps = f"{epoch.steps:,} steps, {epoch.hours:,.3g} h"
        yield "an epoch", f"{steps}, {epoch.padding:.1%} padding"
    if plan.audio_hours:
        steps = f"{plan.config.regime.num_steps:,} steps, {most}{plan.audio_hours:,.0f} h of audio"
        epochs = f", {plan.epochs:,.1f} epochs (usual: {_USUAL})" if plan.epochs else ""
        yield "in all", steps + epochs
    disk = plan.disk
    sizes = f"{disk.one / _GIB:.2f}, of which the model is {disk.model / _GIB:.2f}"
    yield "disk", f"{disk.total / _GIB:.2f} GiB: {disk.number} checkpoints of {sizes}"
    if plan.hours is None:
        yield (
            "hours",
            "not known: they need a card by name (--gpu a100-40), 300M or more, and num_steps",
        )
        return
    scaling = f", if {plan.gpus} GPUs are {plan.gpus} times as fast" if plan.gpus > 1 else ""
    yield "hours", f"{_range(plan.hours)}, without validations{scaling}"
    if price_per_hour is not None:
        cost = _range([hours * plan.gpus * price_per_hour for hours in plan.hours])
        yield "cost", f"{cost}, at {price_per_hour:g} per GPU and hour"


def _range(values: Sequence[float]) -> str:
    return " to ".join(f"{value:,.2g}" if value < 10 else f"{value:,.0f}" for value in values)


def _verdict(plan: "Plan") -> Iterator[str]:
    """Yield whether it fits, and what makes it fit."""
    if plan.card is None:
        fitting = [name for name, card in CARDS.items() if plan.total <= card.gib * _GIB]
        yield f"Fits: {', '.join(fitting) or 'no card that is listed here'}. Name one: --gpu"
        return
    total, free = f"{plan.total / _GIB:.1f}", plan.card.free
    fits = "It fits" if plan.fits else "It does not fit"
    yield f"{fits} {plan.card.name}: {total} of {free / _GIB:.1f} GiB."
    for hint in plan.hints:
        fits = "fits" if hint.total <= free else "does not fit"
        yield f"  {hint.name}: {hint.values}"
        yield f"      {total} becomes {hint.total / _GIB:.1f} GiB, which {fits}; costs {hint.cost}"
    if plan.hints and all(hint.total > free for hint in plan.hints):
        yield (
            "Take a larger card, a smaller model, more GPUs with trainer.data_parallelism=fsdp, or "
            "add optimizer.name=adamw_offload and trainer.freeze_encoder_layers"
        )
