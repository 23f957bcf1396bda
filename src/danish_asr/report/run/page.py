"""The page of a run: one file without external links, like the page of scores."""

from datetime import timedelta
from math import nan
from os.path import relpath
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.recipe.run.advice import CHANCE, LOSS, best_validation
from danish_asr.recipe.run.run_directory import METRICS, SCORE_TITLES, TENSORBOARD
from danish_asr.report.components import curves_chart, render_template
from danish_asr.report.curves import read_panels
from danish_asr.report.run.advice import advise_run
from danish_asr.report.run.configuration import changes
from danish_asr.report.run.evaluations import evaluations, utterances
from danish_asr.report.run.history import History

_DIALECT: Final = "wer/dialect/"


class Dialect(NamedTuple):
    """A dialect's WER in validation, in percent, and its curve in a box of 200 by 40."""

    name: str
    curve: str
    first: float
    best: float
    last: float
    cer: float


def render(history: History, page: Path, *, reload: int | None = None) -> str:
    """Return the page, which will be at ``page``; it reloads itself each ``reload`` seconds."""
    run, scored = history.run, history.scored
    best = dict(best_validation(scored, history.score)[1]) if scored else None
    found = evaluations(run)
    panels = []
    if any((run / METRICS).glob("*.jsonl")):
        panels = read_panels(run, detailed=True)
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
        dialects=_dialects(history, best or {}),
        evaluations=found,
        pages={
            each.predictions: relpath(report, page.resolve().parent)
            for each in found
            if (report := each.predictions.with_name("report.html")).is_file()
        },
        utterances=utterances(found[0]) if found else {},
        changes=changes(run, history.config),
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
    numbers = {
        "Seconds per step": (f"{last['Lapse Time'] / steps:.2f}", "mean, in the last report"),
        "Time in training": (str(timedelta(seconds=round(seconds))), "without validations"),
    }
    note = f"nats per character; chance {last[CHANCE]:.1f}"
    numbers = {"Training loss": (f"{last[LOSS]:.3f}", note)} | numbers
    if memory:
        numbers["GPU memory"] = (f"{memory / 2**30:.1f}", "GiB, peak")
    return numbers


def _dialects(history: History, best: dict[str, Any]) -> list[Dialect]:
    """Return the dialects of the validations, the worst of the best validation first."""
    rows = history.validations
    names = dict.fromkeys(key for row in rows for key in row if key.startswith(_DIALECT))
    most = max((row[key] for row in rows for key in names if key in row), default=0) or 1
    steps = max((row["Step"] for row in rows), default=0) or 1
    found = []
    for key in names:
        known = [(row["Step"], row[key]) for row in rows if key in row]
        points = " ".join(
            f"{4 + 192 * step / steps:.1f},{36 - 32 * rate / most:.1f}" for step, rate in known
        )
        rates = known[0][1], best.get(key, nan), known[-1][1], best.get(f"c{key[1:]}", nan)
        found.append(Dialect(key.removeprefix(_DIALECT), points, *rates))
    return sorted(found, key=lambda each: -each.best)
