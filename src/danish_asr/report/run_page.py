"""``danish-asr report``: one offline page about a run, also while it trains."""

import time
from datetime import timedelta
from math import nan
from os.path import relpath
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console

from danish_asr.base.files import publish_text
from danish_asr.metrics import align_counts, split_words
from danish_asr.recipe.run.advice import CHANCE, LOSS, best_validation
from danish_asr.recipe.run.run_directory import (
    CONFIG_FILE,
    ENVIRONMENT,
    METRICS,
    SCORE_TITLES,
    TENSORBOARD,
)
from danish_asr.report.components import curves_chart, render_template
from danish_asr.report.corpora_table import corpora_table
from danish_asr.report.run_history import (
    COMPLETE,
    FAILED_STATE,
    Evaluation,
    History,
    evaluations,
    read_panels,
)
from danish_asr.report.tables import say
from danish_asr.scoring.error_analysis import WorstUtterance
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.settings import Settings

DIALECT: Final = "wer/dialect/"
"""The beginning of a validation's key of a dialect's WER."""

RELOAD: Final = 30
"""Seconds after which a page that is followed is written, and loaded, again."""

_LISTED: Final = 5
"""Utterances of each list."""


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
        RunError: The directory is not that of a run.
        PredictionsError: An evaluation of the run cannot be scored.
    """
    console = console or Console(stderr=True)
    page = page or run / "report.html"
    if follow:
        say(f"writing {page} every {seconds} s until the run ends; Ctrl-C stops it", console)
        while not ((run / CONFIG_FILE).is_file() and (run / ENVIRONMENT).is_file()):
            time.sleep(1)
    history = History(run)
    try:
        while follow and history.state not in {COMPLETE, FAILED_STATE}:
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
        numbers=_numbers(history),
        best=history.best,
        titles=SCORE_TITLES,
        charts={panel.title: curves_chart(panel) for panel in panels},
        dialects=_dialects(history),
        evaluations=finished,
        corpora=corpora_table(finished[0].scores) if finished else None,
        pages=pages,
        utterances=_utterances(finished[0]) if finished else {},
        changes=history.changes(),
        tensorboard=run / TENSORBOARD,
    )


def _numbers(history: History) -> dict[str, tuple[str, str]]:
    """Return what the reports have as a number and a note."""
    if not history.reports:
        return {}
    *before, last = history.reports
    steps = max(last["Step"] - (before[-1]["Step"] if before else 0), 1)
    memory = max(row.get("Peak Reserved Device Memory", 0) for row in history.reports)
    chance = f"nats per character; chance {last[CHANCE]:.1f}"
    numbers = {
        "Training loss": (f"{last[LOSS]:.3f}", chance),
        "Seconds per step": (f"{last['Lapse Time'] / steps:.2f}", "mean, in the last report"),
        "Audio in an hour": (f"{history.speed:,.0f}", "hours, without validations"),
        "Time in training": (
            str(timedelta(seconds=round(3600 * history.hours))),
            "without validations",
        ),
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
    dialects = []
    for key in keys:
        rates = {row["Step"]: row[key] for row in rows if key in row}
        points = " ".join(
            f"{4 + 192 * step / max(history.step, 1):.1f},{36 - 32 * rate / highest:.1f}"
            for step, rate in rates.items()
        )
        values = list(rates.values())
        name = key.removeprefix(DIALECT)
        cer = best.get(f"cer/dialect/{name}", nan)
        dialects.append(Dialect(name, points, values[0], best.get(key, nan), values[-1], cer))
    return sorted(dialects, key=lambda dialect: -dialect.best)


def _utterances(evaluation: Evaluation) -> dict[str, list[WorstUtterance]]:
    """Return the utterances with most errors, and some from the lowest to the highest WER."""
    utterances = []
    scored = Settings().scored(read_predictions(evaluation.predictions))
    for prediction, reference, hypothesis in scored:
        words = split_words(reference), split_words(hypothesis)
        counts = align_counts(*words)
        length = counts.reference_length
        utterances.append(WorstUtterance(prediction, counts.errors, length, counts.rate(), *words))
    worst = sorted(utterances, key=lambda one: (one.word_errors, one.wer), reverse=True)[:_LISTED]
    worst = [utterance for utterance in worst if utterance.word_errors]
    ordered = sorted(utterances, key=lambda utterance: utterance.wer)
    places = sorted({len(ordered) * percent // 100 for percent in range(10, 100, 20)})
    typical = [ordered[place] for place in places if ordered[place] not in worst]
    title = "Typical, if not listed above: at 10, 30, 50, 70, 90 % in order of WER"
    return {"Worst: most word errors": worst, title: typical}
