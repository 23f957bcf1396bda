"""``danish-asr report``: one offline page about a run, at any time after its start."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import isnan, nan
from os.path import relpath
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from danish_asr.base.errors import DanishAsrError, RunError
from danish_asr.base.progress import plain_console
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.run.advice import CHANCE, LOSS, best_validation
from danish_asr.recipe.run.evaluations import Evaluation
from danish_asr.recipe.run.run import TENSORBOARD
from danish_asr.report.components import Curve, Panel, curves_chart, render_template
from danish_asr.report.outputs import Content, declared, write_all
from danish_asr.report.runs import STOPPED, ListedRun
from danish_asr.report.tables import say, warn

_DIALECT: Final = "wer/dialect/"  # the beginning of a validation's key of a dialect's WER
_WORST: Final = 4  # dialects with a curve; the table has all

_LOSSES: Final = {
    "training": ("train", LOSS),
    "validation": ("valid", LOSS),
    "chance": ("train", CHANCE),
}
_RATES: Final = {
    "WER": ("valid", "Word Error Rate (WER)"),
    "CER": ("valid", "Character Error Rate (CER)"),
    "WER, worst dialect": ("valid", "WER of the worst dialect"),
}
"""Curves, each with its file and its key."""


class _Dialect(NamedTuple):
    """A dialect's rates in validation, in percent."""

    name: str
    first: float
    best: float
    last: float
    cer: float


def report_run(folder: Path, console: Console | None = None) -> None:
    """Write the page of a run, to ``OUTDIR/report.html``.

    Raises:
        RunError: The directory is not that of a run.
        ConfigError: The page is a link to a file of the run.
    """
    console = console or plain_console(stderr=True)
    run, page = ListedRun(folder), folder / "report.html"
    writes = [(page, lambda scored: Content.of_text(render_run(run, scored)))]
    functions = declared(writes, run.own.files(), option="place for it")
    if run.refused:
        raise RunError(f"{folder}: the run was refused before it began: {run.reason}")
    scored = [_scored(run, evaluation, page) for evaluation in run.own.evaluations()]
    write_all(functions, scored)
    for one in scored:
        if one["fault"]:
            warn(f"not scored: {one['fault']}", console)
    say(f"{run.name}: step {run.step:,}, {run.state}; wrote {page}", console)


def render_run(run: ListedRun, scored: Sequence[Mapping[str, Any]]) -> str:
    """Return the page; ``scored`` has what it shows of each evaluation."""
    return render_template(
        "run_page.html",
        run=run,
        stopped=STOPPED,
        numbers=_numbers(run),
        is_loss=run.score == LOSS,
        charts={panel.title: curves_chart(panel) for panel in panels(run)},
        dialects=dialects_of(run),
        scored=scored,
        tensorboard=run.folder / TENSORBOARD,
    )


def _scored(run: ListedRun, evaluation: Evaluation, page: Path) -> dict[str, Any]:
    """Return what the page shows of an evaluation, which may have a page of its own."""
    about, what, model = evaluation.about, evaluation.rows, evaluation.about.get("model")
    if about.get("step") is not None:
        model = f"{about.get('checkpoint')}, step {about['step']}"
    if "decoder" in about:
        what += f" ({evaluation.decoder})"
    report = evaluation.predictions.with_name("report.html")
    link = relpath(report, page.resolve().parent) if report.is_file() else None
    fault, overall = evaluation.fault, None
    if not fault:
        try:
            overall = run.scores(evaluation).overall
        except DanishAsrError as error:  # one evaluation must not hide the others
            fault = str(error)
    return {
        "model": model or "unknown",
        "overall": overall,
        "what": what,
        "page": link,
        "fault": fault,
    }


def _numbers(run: ListedRun) -> dict[str, tuple[str, str]]:
    """Return what the reports have as a number and a note."""
    if not run.reports:
        return {}
    *before, last = run.reports
    steps = max(last["Step"] - (before[-1]["Step"] if before else 0), 1)
    memory = max(row.get("Peak Reserved Device Memory", 0) for row in run.reports)
    chance = f"nats per character; chance {last[CHANCE]:.1f}"
    trained = str(timedelta(seconds=round(3600 * run.hours)))
    numbers = {
        "Training loss": (f"{last[LOSS]:.3f}", chance),
        "Seconds per step": (f"{last['Lapse Time'] / steps:.2f}", "mean, in the last report"),
        "Audio in an hour": (f"{run.speed:,.0f}", "hours, without validations"),
        "Time in training": (trained, "without validations"),
    }
    if memory:
        numbers["GPU memory"] = (f"{memory / 2**30:.1f}", "GiB, peak")
    return numbers


def panels(run: ListedRun) -> list[Panel]:
    """Return the curves of a run's metrics, those that have values."""
    frames = {"train": pd.DataFrame(run.reports), "valid": pd.DataFrame(run.validations)}
    losses, rates = _curves(frames, _LOSSES), _curves(frames, _RATES)
    worst = [dialect.name for dialect in dialects_of(run)[:_WORST]]
    dialects = _curves(frames, {name: ("valid", f"{_DIALECT}{name}") for name in worst})
    all_panels = [
        Panel("Loss", "nats per character", losses, logarithmic=True, noisy=True),
        Panel("Error rates in validation", "%", rates),
        Panel("WER of the worst dialects", "%", dialects),
        *_step_panels(frames["train"]),
    ]
    shown = []
    for panel in all_panels:
        curves = {name: curve.dropna() for name, curve in panel.curves.items()}
        curves = {name: curve for name, curve in curves.items() if len(curve)}
        if curves:
            shown.append(panel._replace(curves=curves))
    return shown


def _curves(
    frames: Mapping[str, pd.DataFrame], keys: Mapping[str, tuple[str, str]]
) -> dict[str, Curve]:
    return {name: _curve(frames[file], key) for name, (file, key) in keys.items()}


def _curve(lines: pd.DataFrame, key: str) -> Curve:
    # A resumed run may log a step twice; training continued from the later line.
    return lines.reindex(columns=["Step", key]).groupby("Step")[key].last()


def _step_panels(lines: pd.DataFrame) -> list[Panel]:
    """Return what each step takes; the lines hold sums since the line before."""

    def per_step(key: str) -> Curve:
        sums = _curve(lines, key)
        means: Curve = sums / np.diff(sums.index, prepend=0)
        return means

    rate = _curve(lines, "Learning Rate").map(np.max)  # of all groups
    minutes = per_step("Number of Source Elements") / SAMPLE_RATE / 60
    times = {"all": per_step("Lapse Time"), "waiting for data": per_step("Data Time")}
    memory = _curve(lines, "Peak Reserved Device Memory") / 2**30
    norm = {"norm": _curve(lines, "Gradient Norm")}
    return [
        Panel("Learning rate", "", {"learning rate": rate}),
        Panel("Gradient norm", "before clipping", norm, logarithmic=True, noisy=True),
        Panel("Audio per step", "minutes", {"audio": minutes}),
        Panel("Time per step", "seconds", times),
        Panel("GPU memory, peak", "GiB", {"reserved": memory}),
    ]


def dialects_of(run: ListedRun) -> list[_Dialect]:
    """Return the dialects of the validations, the worst of the best validation first."""
    best: Mapping[str, Any] = best_validation(run.scored, run.score) if run.scored else {}
    dialects = []
    for key in dict.fromkeys(key for row in run.validations for key in row):
        if key.startswith(_DIALECT):
            rates = [row[key] for row in run.validations if key in row]
            name = key.removeprefix(_DIALECT)
            cer = best.get(f"cer/dialect/{name}", nan)
            dialects.append(_Dialect(name, rates[0], best.get(key, nan), rates[-1], cer))
    return sorted(dialects, key=lambda dialect: (isnan(dialect.best), -dialect.best))
