"""``danish-asr report``: one offline page about a run, also while it trains."""

import time
from datetime import timedelta
from math import nan
from os.path import relpath
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console

from danish_asr.base.files import publish_text
from danish_asr.recipe.run.advice import CHANCE, LOSS, best_validation
from danish_asr.recipe.run.run_directory import (
    CONFIG_FILE,
    ENVIRONMENT,
    METRICS,
    SCORE_TITLES,
    TENSORBOARD,
)
from danish_asr.report.components import curves_chart, render_template
from danish_asr.report.curves import read_panels
from danish_asr.report.run_advice import DIALECT, advise_run
from danish_asr.report.run_evaluations import evaluations, utterances
from danish_asr.report.run_history import History
from danish_asr.report.tables import say

RELOAD: Final = 30
"""Seconds after which a page that is followed is written, and loaded, again."""


class Dialect(NamedTuple):
    """A dialect's WER in validation, in percent, and its curve in a box of 200 by 40."""

    name: str
    curve: str
    first: float
    best: float
    last: float
    cer: float


def report_run(
    run: Path,
    page: Path | None = None,
    *,
    follow: bool = False,
    seconds: int = RELOAD,
    console: Console | None = None,
) -> None:
    """Write the page of a run, to ``OUTDIR/report.html`` by default.

    ``follow`` writes it again every ``seconds`` until the run has ended or Ctrl-C; the page reloads
    itself. It waits for a run that has not begun.

    Raises:
        RunError: The directory is not that of a run, or a metrics file is damaged.
        PredictionsError: An evaluation of the run cannot be scored.
    """
    console = console or Console(stderr=True)
    page = page or run / "report.html"
    begun = (run / CONFIG_FILE, run / ENVIRONMENT)
    if follow and not all(file.is_file() for file in begun):
        say(f"waiting until a run begins in {run}; Ctrl-C stops it", console)
        while not all(file.is_file() for file in begun):
            time.sleep(1)
    history = History(run)
    if follow and not history.ended:
        say(f"writing {page} every {seconds} s until the run ends; Ctrl-C stops it", console)
    try:
        while follow and not history.ended:
            publish_text(page, render_run(history, page, reload=seconds))
            time.sleep(seconds)
            history = History(run)
    finally:
        publish_text(page, render_run(history, page))
        say(f"{history.run.name}: step {history.step:,}, {history.state}; wrote {page}", console)


def render_run(history: History, page: Path, *, reload: int | None = None) -> str:
    """Return the page, which will be at ``page``; it reloads itself each ``reload`` seconds."""
    run = history.run
    finished = evaluations(run)
    panels = read_panels(run, detailed=True) if any((run / METRICS).glob("*.jsonl")) else []
    pages = {}
    for evaluation in finished:
        report = evaluation.predictions.with_name("report.html")
        if report.is_file():
            pages[evaluation.predictions] = relpath(report, page.resolve().parent)
    return render_template(
        "run_page.html",
        name=run.name,
        history=history,
        reload=reload,
        advice=advise_run(history),
        numbers=_numbers(history),
        models=history.models,
        titles=SCORE_TITLES,
        charts={panel.title: curves_chart(panel) for panel in panels},
        dialects=_dialects(history),
        evaluations=finished,
        pages=pages,
        utterances=utterances(finished[0]) if finished else {},
        changes=history.changes(),
        tensorboard=run / TENSORBOARD,
    )


def _numbers(history: History) -> dict[str, tuple[str, str]]:
    """Return what the reports have as a number and a note."""
    if not history.reports:
        return {}
    *before, last = history.reports
    steps = max(last["Step"] - (before[-1]["Step"] if before else 0), 1)
    seconds = sum(row["Lapse Time"] for row in history.reports)
    memory = max(row.get("Peak Reserved Device Memory", 0) for row in history.reports)
    chance = f"nats per character; chance {last[CHANCE]:.1f}"
    numbers = {
        "Training loss": (f"{last[LOSS]:.3f}", chance),
        "Seconds per step": (f"{last['Lapse Time'] / steps:.2f}", "mean, in the last report"),
        "Time in training": (str(timedelta(seconds=round(seconds))), "without validations"),
    }
    if memory:
        numbers["GPU memory"] = (f"{memory / 2**30:.1f}", "GiB, peak")
    return numbers


def _dialects(history: History) -> list[Dialect]:
    """Return the dialects of the validations, the worst of the best validation first."""
    rows = history.validations
    best = best_validation(history.scored, history.score)[1] if history.scored else {}
    keys = dict.fromkeys(key for row in rows for key in row if key.startswith(DIALECT))
    highest = max((row[key] for row in rows for key in keys if key in row), default=0) or 1
    last_step = max((row["Step"] for row in rows), default=0) or 1
    dialects = []
    for key in keys:
        rates = {row["Step"]: row[key] for row in rows if key in row}
        values = list(rates.values())
        points = " ".join(
            f"{4 + 192 * step / last_step:.1f},{36 - 32 * rate / highest:.1f}"
            for step, rate in rates.items()
        )
        name = key.removeprefix(DIALECT)
        cer = best.get(f"cer/dialect/{name}", nan)
        dialects.append(Dialect(name, points, values[0], best.get(key, nan), values[-1], cer))
    return sorted(dialects, key=lambda dialect: -dialect.best)
