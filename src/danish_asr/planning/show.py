"""``danish-asr plan``: prints a plan, and writes what makes it fit."""

import json
import sys
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from danish_asr.base.config_tree import flatten
from danish_asr.base.errors import ConfigError
from danish_asr.base.files import publish_text, to_yaml
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.planning.gpus import CARDS, NO_BFLOAT16, Card, here
from danish_asr.recipe.entry import Request, note, read_configuration, refuse

if TYPE_CHECKING:
    from danish_asr.planning.plan import Plan

_GIB: Final = 2**30

_USUAL: Final = "1 to 5 of 2,000 h, 6 to 80 of 470 h"
"""Epochs of published fine-tuning (docs/background/measurements.md)."""


def show_plan(
    request: Request,
    gpu: str | None,
    gpus: int,
    *,
    write: Path | None,
    as_json: bool,
    price_per_hour: float | None = None,
) -> bool:
    """Print a plan for ``gpus`` cards ``gpu``, by default this machine's; return whether it fits.

    ``write`` gets the changes that make it fit. A faulty configuration ends the program with
    status 2, as the training command does.
    """
    try:
        card = Card.of(gpu) if gpu else None
        tree = read_configuration(request)
        if sys.stderr.isatty():
            note("loading PyTorch and fairseq2")
        from danish_asr.planning.plan import make_plan  # noqa: PLC0415 - slow

        card = card or here()
        plan = make_plan(tree, where=request.where, card=card, gpus=gpus)
    except ConfigError as error:
        refuse(error)
    console = Console()
    if as_json:
        text = json.dumps(_as_json(plan, price_per_hour), indent=1, ensure_ascii=False)
        console.out(text, highlight=False)
    else:
        _print(console, plan, price_per_hour)
    if write and card and plan.remedies:
        title = f"Over {request.where}, to fit {gpus} x {card.name}: `danish-asr plan`"
        publish_text(write, f"# {title}\n{to_yaml(plan.overlay)}")
        note(f"wrote {write}; lay it over the configuration with --config")
    elif write:
        note(f"{write} not written: there is nothing to change")
    return plan.fits is not False


def _print(console: Console, plan: "Plan", price_per_hour: float | None) -> None:
    subject = "the GPU" if plan.gpus == 1 else f"each of {plan.gpus} GPUs"
    table = Table(title=f"Memory of {subject} at its peak, calculated", title_justify="left")
    table.add_column("component")
    table.add_column("GiB", justify="right")
    for name, size in plan.memory.items():
        table.add_row(name, f"{size / _GIB:.2f}")
    table.add_section()
    table.add_row("total", f"{plan.total / _GIB:.2f}")
    if plan.card:
        table.add_row(f"{plan.card.name} has", f"{plan.card.free / _GIB:.2f}")
    console.print(table)
    facts = Table.grid(padding=(0, 2))
    for name, text in (_facts(plan) | _estimate(plan, price_per_hour)).items():
        facts.add_row(name, text)
    console.print(facts, highlight=False)
    for text in plan.notes:  # one line each, to be copied
        console.print(f"note: {text}", style="yellow", markup=False, soft_wrap=True)
    for text in _verdict(plan):
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _facts(plan: "Plan") -> dict[str, str]:
    parts = ", ".join(f"{part} {_millions(total)}" for part, (total, _) in plan.parameters.items())
    total = sum(total for total, _ in plan.parameters.values())
    learning = sum(learning for _, learning in plan.parameters.values())
    most = "" if plan.epoch else "at most "
    batches = f"{plan.gpus} x {plan.batches:,}"
    disk = plan.disk
    sizes = f"{disk.one / _GIB:.1f}, of which the model is {disk.model / _GIB:.1f}"
    facts = {
        "parameters": f"{_millions(total)} ({parts}); {_millions(learning)} learn",
        "largest batch": f"{plan.batch.rows} x {plan.batch.samples / SAMPLE_RATE:.1f} s",
        "a step": f"{most}{plan.minutes:.3g} min of audio (GPUs x batches: {batches})",
        "disk": f"{disk.total / _GIB:.1f} GiB: {disk.number} checkpoints of {sizes}",
        "host": f"{ceil(plan.gpus * plan.host / _GIB)} GiB of memory, {2 * plan.gpus} cores",
    }
    if plan.epoch:
        text = f"{plan.epoch.steps:,} steps, {plan.epoch.hours:,.3g} h, "
        text += f"{plan.epoch.padding:.1%} padding"
        if plan.epochs:
            text += f"; {plan.config.regime.num_steps:,} steps are {plan.epochs:,.1f} epochs"
            text += f" (usual: {_USUAL})"
        facts["an epoch"] = text
    if plan.audio_hours:
        facts["audio in all"] = f"{plan.audio_hours:,.0f} h"
    return facts


def _estimate(plan: "Plan", price_per_hour: float | None) -> dict[str, str]:
    if not plan.hours:
        missing = "not known: name a card (--gpu a100-40), a model of 300M or more and num_steps"
        return {} if price_per_hour is None else {"cost": missing}
    text = f"{_range(plan.hours)}: an estimate, without validations"
    if plan.gpus > 1:
        text += f"; assumes perfect scaling to {plan.gpus} GPUs"
    if price_per_hour is not None:
        cost = _range([hours * plan.gpus * price_per_hour for hours in plan.hours])
        text += f"; cost {cost}, at {price_per_hour:g} per GPU and hour"
    return {"hours": text}


def _range(values: Sequence[float]) -> str:
    return " to ".join(
        dict.fromkeys(f"{value:,.2g}" if value < 10 else f"{value:,.0f}" for value in values)
    )


def _verdict(plan: "Plan") -> Iterator[str]:
    """Yield whether it fits, and what makes it fit."""
    if plan.card is None:
        without = NO_BFLOAT16 if plan.bfloat16 else ()
        cards = {name: card for name, card in CARDS.items() if name not in without}
        fitting = [name for name, card in cards.items() if plan.total <= card.gib * _GIB]
        yield f"Fits: {', '.join(fitting) or 'no card that is known here'}. Name one: --gpu"
        return
    sizes = f"{plan.total / _GIB:.1f} of {plan.card.free / _GIB:.1f} GiB"
    if plan.fits:
        yield f"It fits {plan.card.name}: {sizes}."
        return
    yield f"It does not fit {plan.card.name}: {sizes}."
    left = plan.total
    for remedy in plan.remedies:
        left -= remedy.gives
        yield "  " + " ".join(f"{key}={value}" for key, value in flatten(remedy.change))
        gives = f"gives back {remedy.gives / _GIB:.1f} GiB, then {left / _GIB:.1f}"
        yield f"      {gives}; costs {remedy.cost}"
    if not plan.remedies:
        yield (
            "No key makes it fit: take a larger card, a smaller model, or more GPUs with "
            "trainer.data_parallelism=fsdp"
        )


def _as_json(plan: "Plan", price_per_hour: float | None) -> dict[str, Any]:
    parameters = {}
    for part, (total, learning) in plan.parameters.items():
        parameters[part] = {"all": total, "learning": learning}
    return {
        "fits": plan.fits,
        "total": plan.total,
        "card": plan.card and plan.card._asdict(),
        "gpus": plan.gpus,
        "memory": plan.memory,
        "parameters": parameters,
        "batch": plan.batch._asdict(),
        "minutes_per_step": plan.minutes,
        "epoch": plan.epoch and plan.epoch._asdict(),
        "epochs": plan.epochs,
        "audio_hours": plan.audio_hours,
        "hours": plan.hours,
        "cost": plan.hours
        and price_per_hour
        and [price_per_hour * plan.gpus * h for h in plan.hours],
        "disk": plan.disk._asdict(),
        "host": plan.host,
        "steps": [remedy._asdict() for remedy in plan.remedies],
        "notes": plan.notes,
    }


def _millions(count: int) -> str:
    return f"{count / 1e6:,.1f} M"
