"""``danish-asr runs`` and ``advise``: all runs below a directory, as a table, CSV and a page."""

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pandas as pd
from rich.console import Console

from danish_asr.base.config_tree import short_names
from danish_asr.base.errors import RunError
from danish_asr.base.files import publish_text
from danish_asr.recipe.run.advice import LOSS, Advice
from danish_asr.recipe.run.run_directory import (
    CONFIG_FILE,
    ENVIRONMENT,
    FAILED,
    SWEEP,
    resumable_steps,
)
from danish_asr.report import wording
from danish_asr.report.curves import Curve, Panel
from danish_asr.report.run_advice import advise_run, advise_values, standing_of
from danish_asr.report.run_evaluations import Evaluation, evaluations
from danish_asr.report.run_history import (
    COMPLETE,
    FAILED_STATE,
    STOPPED,
    TRAINING,
    BestModel,
    History,
    as_text,
)
from danish_asr.report.tables import fitting, light_table, print_table, say, to_csv

_STATES: Final = {
    COMPLETE: "finished",
    TRAINING: "running",
    STOPPED: "stopped",
    FAILED_STATE: "failed",
}
_LEFT_OUT: Final = ("trainer.max_wall_minutes", "regime.stop_at_step", "common.assets.")
"""Keys, or their beginnings, that say nothing about what a run learns."""

_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07c00", "#3f9fd6", "#7f7f7f")
"""Of Okabe and Ito, the yellow ones darker: colour-blind readers can distinguish them too."""

_LINES: Final = ("-", "--", ":", "-.")


class Row:
    """A run among others; one that was refused has neither configuration nor metrics."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.history = History(folder) if (folder / CONFIG_FILE).is_file() else None
        if self.history:
            self.state, self.reason = _STATES[self.history.state], self.history.reason
        else:
            self.state = "failed"
            self.reason = (folder / FAILED).read_text(encoding="utf-8").strip()

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration by dotted key."""
        return self.history.config if self.history else {}

    @property
    def reached(self) -> int | None:
        """The last step; of a stopped run the one that it continues from."""
        if self.history and self.history.state == STOPPED:
            return max(resumable_steps(self.history.run), default=0)
        return self.history.step if self.history else None

    @property
    def best(self) -> BestModel | None:
        """The best score in validation."""
        return self.history.models[0] if self.history and self.history.models else None

    @cached_property
    def test(self) -> Evaluation | None:
        """The first evaluation of the whole test split."""
        for evaluation in evaluations(self.history.run) if self.history else []:
            if "where" not in evaluation.about and "test" in evaluation.split:
                return evaluation
        return None

    @property
    def test_wer(self) -> str:
        """The WER of the test split in per cent; empty without an evaluation."""
        return wording.percent(self.test.scores.overall.wer.value) if self.test else ""

    def curve(self, title: str) -> Curve:
        """A metric of the validations over steps."""
        rows = self.history.validations if self.history else []
        return pd.Series({row["Step"]: row[title] for row in rows if title in row}, dtype=float)


class Runs:
    """The runs below a directory, the best dev score first."""

    def __init__(self, root: Path) -> None:
        """Read the files of all runs.

        Raises:
            RunError: There is none, or a metrics file is damaged.
        """
        rows = []
        for folder in find_runs(root):
            name = folder.relative_to(root).as_posix()
            rows.append(Row(folder, folder.resolve().name if name == "." else name))
        if not rows:
            raise RunError(
                f"{root}: no run in it or below it; expected the OUTDIR of `danish-asr train` or "
                "`danish-asr sweep`, or a directory above several"
            )
        self.root = root.resolve()
        self.rows = sorted(
            rows, key=lambda row: standing_of(row.history) if row.history else (True, (1.0, 0.0))
        )
        self.histories = [row.history for row in self.rows if row.history]
        self.keys: list[str] = []
        """Those in which the runs differ."""
        for key in dict.fromkeys(key for history in self.histories for key in history.config):
            first, *others = [history.config.get(key) for history in self.histories]
            if any(value != first for value in others) and not key.startswith(_LEFT_OUT):
                self.keys.append(key)

    @property
    def is_sweep(self) -> bool:
        """Whether the runs differ only in what is compared."""
        return (self.root / SWEEP).is_file()

    @property
    def metric(self) -> str:
        """The names of the dev scores in the table."""
        return " or ".join(dict.fromkeys(history.score for history in self.histories)) or "none"

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return headings and cells; the keys in which the runs differ come last."""
        tested = any(row.test for row in self.rows)
        headings = ["run", "state", "step", "best dev", "at step"]
        headings += [*["test WER %"] * tested, *short_names(self.keys).values()]
        table = []
        for row in self.rows:
            step = f"{row.reached}/{row.history.steps or '?'}" if row.history else ""
            cells = [row.name, row.state, step]
            cells += [f"{row.best.score:.2f}", str(row.best.step)] if row.best else ["", ""]
            cells += [row.test_wer] * tested
            cells += [as_text(row.config[key]) if key in row.config else "" for key in self.keys]
            table.append(cells)
        return headings, table

    def frame(self) -> pd.DataFrame:
        """Return a line per run, for programs."""
        lines = []
        for row in self.rows:
            values = {key: as_text(row.config[key]) for key in self.keys if key in row.config}
            lines.append(_line(row) | values)
        return pd.DataFrame(lines)

    @cached_property
    def advice(self) -> list[Advice]:
        """What the runs of a sweep together say, or what the only run does."""
        if len(self.rows) == 1 and self.histories:
            return advise_run(self.histories[0])
        return advise_values(self.histories, self.keys) if self.is_sweep else []

    def styles(self) -> dict[str, tuple[str, str]]:
        """Return the colour and the line of each run."""
        styles = cycle((colour, line) for line in _LINES for colour in _COLOURS)
        return dict(zip((row.name for row in self.rows), styles, strict=False))

    def panels(self) -> Iterator[Panel]:
        """Yield the curves of all runs, laid over one another."""
        titles = {history.score: "%" for history in self.histories if history.score != LOSS}
        for title, unit in {**titles, LOSS: "nats per character"}.items():
            curves = {row.name: row.curve(title) for row in self.rows}
            curves = {name: curve for name, curve in curves.items() if len(curve)}
            if curves:
                yield Panel(f"{title}, dev", unit, curves, logarithmic=title == LOSS)


def _line(row: Row) -> dict[str, Any]:
    history, best = row.history, row.best
    wer = row.test.scores.overall.wer if row.test else None
    interval = wer.interval if wer else None
    return {
        "run": row.name,
        "state": row.state,
        "reason": row.reason,
        "step": row.reached,
        "num_steps": history.steps if history else None,
        "metric": history.score if history else None,
        "dev": best.score if best else None,
        "dev_step": best.step if best else None,
        "dev_of": best.name if best else None,
        "test_wer": wer.value if wer else None,
        "test_wer_low": interval.low if interval else None,
        "test_wer_high": interval.high if interval else None,
    }


def find_runs(root: Path) -> Iterator[Path]:
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
    """Print the runs below ``root``, why some failed, and advice; write a table and a page.

    Raises:
        RunError: There is no run, or a metrics file is damaged.
        PredictionsError: An evaluation of a run cannot be scored.
    """
    console, runs = console or Console(), Runs(root)
    headings, rows = runs.table()
    say(f"runs in {root}: {len(rows)}. Best dev: {runs.metric}, lower is better", console)
    columns = [*zip(headings, *rows, strict=True)]
    shown = fitting(columns, len(columns) - len(runs.keys), console)
    headings, *rows = map(list, zip(*shown, strict=True))
    print_table(light_table(headings), {"": rows}, [""], console)
    if left_out := [column[0] for column in columns if column not in shown]:
        names = ", ".join(left_out)
        say(f"the terminal is too narrow: {names} left out; --csv and --html have all", console)
    _print(runs, console)
    if csv:
        publish_text(csv, to_csv(runs.frame()))
        say(f"wrote {csv}", console)
    if html:
        publish_text(html, render_runs(runs, html))
        say(f"wrote {html}", console)


def report_advice(root: Path, console: Console | None = None) -> None:
    """Print what a run shows, or what the runs below a directory do.

    Raises:
        RunError: There is no run, or a metrics file is damaged.
        PredictionsError: An evaluation of a run cannot be scored.
    """
    console, runs = console or Console(), Runs(root)
    _print(runs, console)
    if not runs.advice and not any(row.reason for row in runs.rows):
        if len(runs.rows) > 1 and not runs.is_sweep:
            say(f"{root} is no sweep, so its runs are not compared; name one of them", console)
        else:
            say("nothing to say: neither the metrics nor the evaluations show a problem", console)


def _print(runs: Runs, console: Console) -> None:
    for row in runs.rows:
        if row.reason:
            say(f"{row.name}: {row.state}: {row.reason}", console)
    for advice in runs.advice:
        say(f"advice: {advice}", console)


def render_runs(runs: Runs, file: Path) -> str:
    """Return the page, which will be at ``file``."""
    from danish_asr.report.components import (  # noqa: PLC0415 - slow: matplotlib
        curves_chart,
        render_template,
    )

    headings, cells = runs.table()
    styles = runs.styles()
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
        headings=[
            heading if heading in short_names(runs.keys).values() else wording.sentence(heading)
            for heading in headings
        ],
        cells=cells,
        styles=styles,
        links=links,
        advice=runs.advice,
        charts={panel.title: curves_chart(panel, styles) for panel in runs.panels()},
    )
