"""``danish-asr plan``: prints a plan, and what would stop the run on this machine.

Torch and fairseq2 are imported when the configuration is read: that they load is the first check.
"""

# ruff: noqa: PLC0415

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from danish_asr.base.errors import ConfigError, DanishAsrError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.planning.gpus import CARDS, card_of, here
from danish_asr.recipe.entry import Request, read_configuration

if TYPE_CHECKING:
    from danish_asr.planning.plan import Plan

_GIB: Final = 2**30

_CONSOLE: Final = Console(markup=False, highlight=False, soft_wrap=True)

Finding = tuple[str, str]
"""A level (``error``: a run would fail; ``warning``; ``ok``), and what a check says."""


def show_plan(
    request: Request, gpu: str | None, gpus: int, *, price_per_hour: float | None = None
) -> bool:
    """Print a plan for ``gpus`` cards ``gpu``; without ``gpu`` for this machine, and check it.

    Returns whether the run fits and would work. Raises ConfigError.
    """
    card = card_of(gpu) if gpu else None
    tree = read_configuration(request)
    if gpu is None and not show_findings(check_machine()):
        return False
    from danish_asr.planning.plan import make_plan

    plan = make_plan(tree, where=request.where, card=card or here(), gpus=gpus)
    for name, size in plan.memory.items():
        _CONSOLE.print(f"{size / _GIB:8.2f} GiB  {name}")
    _CONSOLE.print(f"{plan.total / _GIB:8.2f} GiB  on each GPU at its peak, estimated\n")
    for name, text in _facts(plan, price_per_hour):
        _CONSOLE.print(f"{name:14}{text}")
    for text in [*(f"note: {note}" for note in plan.notes), *_verdict(plan)]:
        _CONSOLE.print(text)
    works = gpu is not None or show_findings(check_run(plan))
    return works and plan.fits is not False


def _facts(plan: "Plan", price_per_hour: float | None) -> Iterator[tuple[str, str]]:
    counts = f"{plan.parameters / 1e6:,.1f} M, of which {plan.learning / 1e6:,.1f} M learn"
    yield "parameters", counts
    yield "largest batch", f"{plan.batch.rows} x {plan.batch.samples / SAMPLE_RATE:.1f} s"
    most = "" if plan.epoch else "at most "
    batches = f"{plan.gpus} x {plan.config.trainer.grad_accumulation.num_batches:,}"
    yield "a step", f"{most}{plan.minutes:.3g} min of audio (GPUs x batches: {batches})"
    if epoch := plan.epoch:
        steps = f"{epoch.steps:,} steps, {epoch.hours:,.3g} h"
        yield "an epoch", f"{steps}, {epoch.padding:.1%} padding"
    if plan.audio_hours:
        steps = f"{plan.config.regime.num_steps:,} steps, {most}{plan.audio_hours:,.0f} h of audio"
        if plan.epochs:  # those of published runs: docs/background/measurements.md
            steps += f", {plan.epochs:,.1f} epochs (usual: 1 to 5 of 2,000 h, 6 to 80 of 470 h)"
        yield "in all", steps
    disk = plan.disk
    sizes = f"{disk.one / _GIB:.2f}, of which the model is {disk.model / _GIB:.2f}"
    yield "disk", f"{disk.total / _GIB:.2f} GiB: {disk.number} checkpoints of {sizes}"
    if plan.hours is None:
        needs = "a card by name (--gpu a100-40), 300M or more, and num_steps"
        yield "hours", f"not known: they need {needs}"
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
        fitting = [name for name, card in CARDS.items() if plan.total <= card.free]
        yield f"Fits: {', '.join(fitting) or 'no card that is listed here'}. Name one: --gpu"
        return
    total, free = f"{plan.total / _GIB:.1f}", plan.card.free
    fits = "It fits" if plan.fits else "It does not fit"
    yield f"{fits} {plan.card.name}: {total} of {free / _GIB:.1f} GiB."
    for hint in plan.hints:
        fits = "fits" if hint.total <= free else "does not fit"
        yield f"  {hint.name}: {hint.values}"
        yield f"      {total} becomes {hint.total / _GIB:.1f} GiB, which {fits}; costs {hint.cost}"


def show_findings(findings: Iterable[Finding]) -> bool:
    """Print what checks say; return whether a run would work."""
    levels = set()
    for level, text in findings:
        levels.add(level)
        _CONSOLE.print(f"{level:8}{text}", style="red" if level == "error" else None)
    return "error" not in levels


def check_machine() -> Iterator[Finding]:
    """Check that the libraries load, and that torch can use the GPU, if there is one."""
    try:
        import fairseq2.models  # noqa: F401
        import pyarrow.parquet  # noqa: F401
        import torch
        import torchaudio  # noqa: F401
    except (ImportError, OSError) as problem:
        yield "error", f"libraries: {problem}; run `make setup` in a fresh checkout"
        return
    yield "ok", "libraries: all load"
    if torch.cuda.is_available():
        yield "ok", f"gpu: {torch.cuda.get_device_name()}; CUDA {torch.version.cuda}"
    elif os.environ.get("CUDA_VISIBLE_DEVICES"):
        fix = "request one (ASR_GPUS=1), or choose a node whose driver has CUDA 12.8 or later"
        yield "error", f"gpu: torch {torch.__version__} finds none; {fix}"
    else:
        fix = "a CPU is enough for the demo; --gpu NAME plans for another machine"
        yield "warning", f"gpu: torch {torch.__version__} finds none; {fix}"


def check_run(plan: "Plan") -> Iterator[Finding]:
    """Check what a run needs of this machine: what it names, and free memory and disk."""
    import torch

    from danish_asr.planning.fetch import downloads
    from danish_asr.planning.memory import CUDA_BYTES
    from danish_asr.recipe.models.cards import Assets
    from danish_asr.recipe.train.preflight import resolve

    try:
        resolve(plan.config, where="the plan")
        assets = Assets(plan.config.common.assets)
        missing = [file.name for file in downloads(assets, plan.config) if not file.is_here]
        if missing:
            fix = "`danish-asr fetch --config ...` gets it where there is internet access"
            yield "warning", f"weights: no {' and no '.join(missing)} in fairseq2's cache; {fix}"
        yield "ok", "configuration: no faults"
    except DanishAsrError as problem:
        for fault in problem.faults if isinstance(problem, ConfigError) else [problem]:
            yield "error", f"configuration: {fault}"
    if plan.fits and torch.cuda.is_available():
        # What CUDA takes for this process is free for the run, whose plan counts it.
        free = torch.cuda.mem_get_info()[0] + CUDA_BYTES
        if plan.total > free:
            yield "error", f"memory: other programs leave {free / _GIB:.1f} GiB; end them"
    run = Path(os.environ.get("ASR_RUN") or ".").expanduser().resolve()
    folder = next(folder for folder in [run, *run.parents] if folder.is_dir())
    free, need = shutil.disk_usage(folder).free, plan.disk.total
    text = f"disk: checkpoints need {need / _GIB:.2f} GiB, {free / _GIB:.1f} are free in {folder}"
    if free < need:
        yield "error", f"{text}; choose another ASR_RUN, or regime.keep_last_n_checkpoints=1"
    else:
        yield "ok", f"{text}; a quota may be less"
