"""``danish-asr plan``: prints a plan, and writes what makes it fit."""

import json
import sys
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from shlex import quote
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

_CLOSE: Final = 0.95

_NOTHING: Final = (
    "No key makes it fit: take a larger card, a smaller model, or more GPUs with "
    "trainer.data_parallelism=fsdp"
)


def show_plan(
    request: Request, gpu: str | None, gpus: int, *, write: Path | None, as_json: bool
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
        console.out(json.dumps(_as_json(plan), indent=1, ensure_ascii=False), highlight=False)
    else:
        _print(console, plan)
    if write and card and plan.steps:
        needed = f"# Over {request.where}, to fit {gpus} x {card.name}: `danish-asr plan`"
        publish_text(write, f"{needed}\n{to_yaml(plan.overlay)}")
        changed = dict(flatten(plan.overlay))
        values = [each for each in request.overrides if each.partition("=")[0] not in changed]
        files = [f"--config {file}" for file in [*request.config_files, write]]
        note(f"{write} written; use it with {' '.join([*files, *map(quote, values)])}")
    elif write:
        note(f"{write} not written: there is nothing to change")
    return plan.fits is not False


def _print(console: Console, plan: "Plan") -> None:
    which = "the GPU" if plan.gpus == 1 else f"each of {plan.gpus} GPUs"
    title = f"Memory of {which} at its peak, calculated"
    table = Table(title=title, title_justify="left")
    table.add_column("component")
    table.add_column("GiB", justify="right")
    for name, size in plan.memory.items():
        table.add_row(name, f"{size / _GIB:.2f}")
    table.add_section()
    table.add_row("total", f"{plan.total / _GIB:.2f}")
    if plan.card:
        table.add_row(f"{plan.card.name} has", f"{plan.card.free / _GIB:.2f}")
    console.print(table)
    grid = Table.grid(padding=(0, 2))
    for name, text in _facts(plan):
        grid.add_row(name, text)
    console.print(grid, highlight=False)
    notes = [(f"note: {text}", "yellow") for text in plan.notes]
    for text, style in [*notes, *_verdict(plan)]:  # one line each, to be copied
        console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _facts(plan: "Plan") -> Iterator[tuple[str, str]]:
    parts = plan.parameters.items()
    counts = ", ".join(f"{part} {_millions(every)}" for part, (every, _) in parts)
    every, learning = (sum(pair[n] for _, pair in parts) for n in (0, 1))
    yield "parameters", f"{_millions(every)} ({counts}); {_millions(learning)} learn"
    rows, seconds = plan.batch.rows, plan.batch.samples / SAMPLE_RATE
    yield "largest batch", f"{rows} x {seconds:.1f} s"
    end = plan.config.regime.num_steps
    most = "" if plan.epoch else "at most "
    batches = _count(plan.batches, "batch", "es")
    yield "a step", f"{most}{plan.minutes:.3g} min of audio: {plan.gpus} x {batches}"
    if plan.epoch:
        number = f"{plan.epochs or 0:{',.0f' if (plan.epochs or 0) >= 100 else '.3g'}}"
        epochs = f"; {end:,} steps are {number} epochs" if end else ""
        padding = f"{plan.epoch.padding:.1%} padding"
        hours = f"{plan.epoch.hours:,.3g} h"
        yield "an epoch", f"{_count(plan.epoch.steps, 'step')}, {hours}, {padding}{epochs}"
    one, model, count, total = plan.disk
    sizes = f"{one / _GIB:.1f}, of which the model is {model / _GIB:.1f}"
    yield "disk", f"{total / _GIB:.1f} GiB: {count} checkpoints of {sizes}"
    yield (
        "host",
        f"{ceil(plan.gpus * plan.host / _GIB)} GiB of memory, {2 * plan.gpus} cores or more",
    )


def _verdict(plan: "Plan") -> Iterator[tuple[str, str]]:
    """Whether it fits, and what makes it fit; each text with its style."""
    if plan.card is None:
        lacking = NO_BFLOAT16 if plan.bfloat16 else ()
        fitting = [
            name
            for name, free in CARDS.items()
            if plan.total <= free * _GIB and name not in lacking
        ]
        yield f"Fits: {', '.join(fitting) or 'no card that is known here'}. Name one: --gpu", "bold"
        return
    sizes = f"{plan.total / _GIB:.1f} of {plan.card.free / _GIB:.1f} GiB"
    if plan.fits:
        close = " That is close for a calculation." if plan.total > _CLOSE * plan.card.free else ""
        yield f"It fits {plan.card.name}: {sizes}.{close}", "bold green"
        return
    yield f"It does not fit {plan.card.name}: {sizes}.", "bold red"
    left = plan.total
    for step in plan.steps:
        left -= step.gives
        values = " ".join(f"{key}={value}" for key, value in flatten(step.change))
        yield f"  {values}", ""
        given = f"gives back {step.gives / _GIB:.1f} GiB, then {left / _GIB:.1f}"
        if step.gives < 0.05 * _GIB:
            given = "gives back little alone, but the others are not enough without it"
        yield f"      {given}; costs {step.cost}", ""
    if not plan.steps:
        yield _NOTHING, ""


def _as_json(plan: "Plan") -> dict[str, Any]:
    return {
        "fits": plan.fits,
        "total": plan.total,
        "card": plan.card and plan.card._asdict(),
        "gpus": plan.gpus,
        "memory": plan.memory,
        "parameters": {
            part: {"all": every, "learning": learning}
            for part, (every, learning) in plan.parameters.items()
        },
        "batch": plan.batch._asdict(),
        "minutes_per_step": plan.minutes,
        "epoch": plan.epoch and plan.epoch._asdict(),
        "epochs": plan.epochs,
        "disk": plan.disk._asdict(),
        "host": plan.host,
        "steps": [step._asdict() for step in plan.steps],
        "notes": plan.notes,
    }


def _count(number: int, name: str, plural: str = "s") -> str:
    return f"{number:,} {name}{plural * (number != 1)}"


def _millions(count: int) -> str:
    return f"{count / 1e6:,.1f} M"
