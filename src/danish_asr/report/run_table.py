"""``danish-asr runs``: all runs below a directory, as a table, CSV and a page."""

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import cycle
from math import inf
from pathlib import Path
from typing import Any, Final

import pandas as pd
from rich.console import Console

from danish_asr.base.config_tree import short_names
from danish_asr.base.errors import RunError
from danish_asr.base.files import publish_text
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.run.run_directory import (
    CONFIG_FILE,
    ENVIRONMENT,
    FAILED,
    resumable_steps,
)
from danish_asr.report import wording
from danish_asr.report.run_history import (
    COMPLETE,
    FAILED_STATE,
    STOPPED,
    TRAINING,
    Curve,
    Evaluation,
    History,
    Panel,
    as_text,
    evaluations,
)
from danish_asr.report.tables import fitting, light_table, print_table, say, to_csv

_STATES: Final = {
    COMPLETE: "finished",
    TRAINING: "running",
    STOPPED: "stopped",
    FAILED_STATE: "failed",
}
_LEFT_OUT: Final = ("trainer.max_wall_minutes", "common.assets.")
"""Keys, or their beginnings, that say nothing about what a run learns."""

_TIMES: Final = ("hours", "audio h/h")
"""Columns of the hours of training, and of the hours of audio in one of them."""

_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07c00", "#3f9fd6", "#7f7f7f")
"""Of Okabe and Ito, the yellow ones darker: colour-blind readers can distinguish them too."""

_SATURATED: Final = 80.0
"""Per cent; above it the loss says more than an error rate."""

_LINES: Final = ("-", "--", ":", "-.")


class Row:
    """A run among others; one that was refused has neither configuration nor metrics."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.history = History(folder) if (folder / CONFIG_FILE).is_file() else None
        self.config: Mapping[str, Any] = {}
        if self.history is None:
            self.state = "failed"
            self.reason = (folder / FAILED).read_text(encoding="utf-8").strip()
            self.reached = self.best = None
        else:
            self.config, self.reason = self.history.config, self.history.reason
            self.state, self.reached = _STATES[self.history.state], self.history.step
            self.best = self.history.best
            if self.history.state == STOPPED:  # the step that it continues from
                self.reached = max(resumable_steps(folder), default=0)

    @cached_property
    def test(self) -> Evaluation | None:
        """The first evaluation of the whole test split."""
        for evaluation in evaluations(self.history.run) if self.history else []:
            if "where" not in evaluation.about and "test" in evaluation.split:
                return evaluation
        return None

    def curve(self, title: str) -> Curve:
        """Return a metric of the validations over steps."""
        rows = self.history.validations if self.history else []
        return pd.Series({row["Step"]: row[title] for row in rows if title in row}, dtype=float)

    def line(self) -> dict[str, Any]:
        """Return what a table for programs has of the run."""
        wer = self.test.scores.overall.wer if self.test else None
        interval = wer.interval if wer else None
        trained = self.history if self.history and self.history.reports else None
        return {
            "run": self.name,
            "state": self.state,
            "reason": self.reason,
            "step": self.reached,
            "num_steps": self.history.steps if self.history else None,
            "metric": self.history.score if self.history else None,
            "dev": self.best.score if self.best else None,
            "dev_step": self.best.step if self.best else None,
            "hours": trained.hours if trained else None,
            "audio_hours_per_hour": trained.speed if trained else None,
            "test_wer": wer.value if wer else None,
            "test_wer_low": interval.low if interval else None,
            "test_wer_high": interval.high if interval else None,
        }


class Runs:
    """The runs below a directory, the best dev score first; ``keys`` are those that differ."""

    def __init__(self, root: Path) -> None:
        """Read the files of all runs.

        Raises:
            RunError: There is none.
        """
        rows = []
        for folder in _find_runs(root):
            name = folder.relative_to(root).as_posix()
            rows.append(Row(folder, folder.resolve().name if name == "." else name))
        if not rows:
            raise RunError(
                f"{root}: no run in it or below it; expected the OUTDIR of `danish-asr train` or "
                "`danish-asr sweep`, or a directory above several"
            )
        self.root = root.resolve()
        self.rows = sorted(
            rows, key=lambda row: _standing(row.history) if row.history else (True, (1.0, 0.0))
        )
        self.histories = [row.history for row in self.rows if row.history]
        self.keys: list[str] = []
        for key in dict.fromkeys(key for history in self.histories for key in history.config):
            first, *others = [history.config.get(key) for history in self.histories]
            if any(value != first for value in others) and not key.startswith(_LEFT_OUT):
                self.keys.append(key)
        self.metric = " or ".join(dict.fromkeys(history.score for history in self.histories))

    def values(self, row: Row) -> dict[str, str]:
        """Return what a run has of the keys that differ."""
        return {key: as_text(row.config[key]) for key in self.keys if key in row.config}

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return headings and cells; the keys in which the runs differ come last."""
        tested = any(row.test for row in self.rows)
        headings = ["run", "state", "step", "best dev", "at step"]
        headings += [*["test WER %"] * tested, *_TIMES, *short_names(self.keys).values()]
        table = []
        for row in self.rows:
            step = f"{row.reached}/{row.history.steps or '?'}" if row.history else ""
            cells = [row.name, row.state, step]
            cells += [f"{row.best.score:.2f}", str(row.best.step)] if row.best else ["", ""]
            if tested:
                wer = row.test.scores.overall.wer.value if row.test else None
                cells.append("" if wer is None else wording.percent(wer))
            trained = row.history if row.history and row.history.reports else None
            cells += [f"{trained.hours:.2f}", f"{trained.speed:,.0f}"] if trained else ["", ""]
            values = self.values(row)
            cells += [values.get(key, "") for key in self.keys]
            table.append(cells)
        return headings, table

    def panels(self) -> Iterator[Panel]:
        """Yield the curves of all runs, laid over one another."""
        titles = {history.score: "%" for history in self.histories if history.score != LOSS}
        for title, unit in {**titles, LOSS: "nats per character"}.items():
            curves = {row.name: row.curve(title) for row in self.rows}
            curves = {name: curve for name, curve in curves.items() if len(curve)}
            if curves:
                yield Panel(f"{title}, dev", unit, curves, logarithmic=title == LOSS)


def _standing(history: History) -> tuple[bool, tuple[float, float]]:
    """Return what orders runs, the best first; those that were not validated come last."""
    standings = []
    for row in history.validations:
        if history.score in row:
            score = row[history.score]
            if history.score != LOSS:
                score = min(score, _SATURATED)
            standings.append((score, row.get(LOSS, inf)))
    return not standings, min(standings, default=(0.0, 0.0))


def _find_runs(root: Path) -> Iterator[Path]:
    """Yield the directories of runs in ``root`` or below it, also of those that were refused."""
    for folder, folders, files in os.walk(root):
        if {CONFIG_FILE, ENVIRONMENT} <= {*files} or FAILED in files:
            yield Path(folder)
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def report_runs(
    root: Path,
    *,
    csv: Path | None = None,
    html: Path | None = None,
    console: Console | None = None,
) -> None:
    """Print the runs below ``root``, and why some failed; write a table and a page.

    Raises:
        RunError: There is no run.
        PredictionsError: An evaluation of a run cannot be scored.
    """
    console, runs = console or Console(), Runs(root)
    headings, rows = runs.table()
    say(f"runs in {root}: {len(rows)}. Best dev: {runs.metric}, lower is better", console)
    columns = [*zip(headings, *rows, strict=True)]
    shown = fitting(columns, len(columns) - len(runs.keys) - len(_TIMES), console)
    headings, *rows = map(list, zip(*shown, strict=True))
    print_table(light_table(headings), {"": rows}, [""], console)
    if left_out := [column[0] for column in columns if column not in shown]:
        names = ", ".join(left_out)
        say(f"the terminal is too narrow: {names} left out; --csv and --html have all", console)
    for row in runs.rows:
        if row.reason:
            say(f"{row.name}: {row.state}: {row.reason}", console)
    if csv:
        publish_text(
            csv, to_csv(pd.DataFrame([row.line() | runs.values(row) for row in runs.rows]))
        )
        say(f"wrote {csv}", console)
    if html:
        publish_text(html, render_runs(runs, html))
        say(f"wrote {html}", console)


def render_runs(runs: Runs, file: Path) -> str:
    """Return the page, which will be at ``file``."""
    from danish_asr.report.components import (  # noqa: PLC0415 - slow: matplotlib
        curves_chart,
        render_template,
    )

    headings, cells = runs.table()
    own = len(headings) - len(runs.keys)
    looks = cycle((colour, line) for line in _LINES for colour in _COLOURS)
    styles = {row.name: look for row, look in zip(runs.rows, looks, strict=False)}
    links = {}
    for row in runs.rows:
        page = runs.root / row.name / "report.html"
        if page.is_file():
            links[row.name] = os.path.relpath(page, file.resolve().parent)
    return render_template(
        "runs_page.html",
        name=runs.root.name,
        rows=runs.rows,
        metric=runs.metric,
        headings=[*map(wording.sentence, headings[:own]), *headings[own:]],
        cells=cells,
        styles=styles,
        links=links,
        charts={panel.title: curves_chart(panel, styles) for panel in runs.panels()},
    )
