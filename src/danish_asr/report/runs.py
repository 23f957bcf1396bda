"""Training runs as their files are now, and all below a directory as a table.

In: the output directories of runs. Out: state, best validation, speed, test score of each.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
from rich.console import Console

from danish_asr.base.config_tree import flatten, short_names
from danish_asr.base.errors import DanishAsrError, RunError
from danish_asr.base.files import is_written
from danish_asr.base.schema import CARDS_DIR, SAMPLE_RATE
from danish_asr.recipe.config.schema import DecoderSection
from danish_asr.recipe.run.advice import LOSS, Rows, best_validation
from danish_asr.recipe.run.evaluations import BEST, Choice, Evaluation
from danish_asr.recipe.run.run import CONFIG_FILE, ENVIRONMENT, FAILED, Run, score_title
from danish_asr.report.outputs import Content, declared, write_all
from danish_asr.report.request import Request
from danish_asr.report.score import scored, to_csv
from danish_asr.report.tables import (
    Terminal,
    fitting,
    light_table,
    percent,
    print_table,
    say,
    short,
)
from danish_asr.scoring.scores import Scores
from danish_asr.scoring.settings import DEFAULT_PROFILE
from danish_asr.text.profiles import profile_in

COMPLETE: Final = "finished"
TRAINING: Final = "running"
STOPPED: Final = "stopped"
FAILED_STATE: Final = "failed"

_LEFT_OUT: Final = ("trainer.max_wall_minutes", "common.assets.")
"""Keys, or their beginnings, that say nothing about what a run learns."""

_DEV_ROWS: Final = (
    *("dataset.name", "dataset.config_overrides.data"),
    *("dataset.valid_split", "dataset.valid_where", "dataset.valid_subset"),
)
"""Keys that choose the rows of a validation."""

_LONGEST: Final = 24  # characters of a value in the table

_TIMES: Final = ("hours", "audio h/h")
"""Columns of the hours of training, and of the hours of audio in one of them."""


class BestModel(NamedTuple):
    """The best validation."""

    score: float
    step: int
    loss: float


class ListedRun:
    """A run as it is reported; one that was refused has neither configuration nor metrics."""

    def __init__(self, folder: Path, name: str = "") -> None:
        """Read the configuration and the metrics.

        Raises:
            RunError: The directory is not that of a run.
            ConfigError: Its configuration cannot be read.
        """
        missing = [file for file in (CONFIG_FILE, ENVIRONMENT) if not (folder / file).is_file()]
        self.refused = bool(missing) and (folder / FAILED).is_file()
        if missing and not self.refused:
            raise RunError(f"{folder}: no run of a training; no {' and no '.join(missing)}")
        self.own = Run(folder.resolve())
        self.folder = self.own.folder
        self.name = name or self.folder.name
        self.choice: Choice | None = None  # that `test` is of, once that was read
        self.fault = ""  # why its test split has no score, then
        self.config: Mapping[str, Any] = {} if self.refused else dict(flatten(self.own.config))
        self.reports, self.validations = self.own.metrics("train"), self.own.metrics("valid")
        self.score = score_title(self.config.get("regime.score_metric"))
        self.steps: int | None = self.config.get("regime.num_steps")
        lasts = [rows[-1]["Step"] for rows in (self.reports, self.validations) if rows]
        self.step: int = max(lasts, default=0)

    @cached_property
    def state(self) -> str:
        """Whether the run is complete, in training, failed or stopped.

        A process that trains refreshes its lock; a complete run has a card for its best model.
        """
        if is_written(self.folder):
            return TRAINING
        if self.own.completion(self.config) and [*self.folder.glob(f"{CARDS_DIR}/*.yaml")]:
            return COMPLETE
        return FAILED_STATE if (self.folder / FAILED).is_file() else STOPPED

    @property
    def reason(self) -> str:
        """Why the run failed; empty if it did not."""
        if self.state != FAILED_STATE:
            return ""
        return (self.folder / FAILED).read_text(encoding="utf-8").strip()

    @property
    def reached(self) -> int:
        """The last step; of a stopped run, the one that it continues from."""
        if self.state == STOPPED:
            return max(self.own.resumable_steps, default=0)
        return self.step

    @property
    def scored(self) -> Rows:
        """The validations that have the run's score."""
        return [row for row in self.validations if self.score in row]

    @property
    def best(self) -> BestModel | None:
        """The best validation so far, if there is one."""
        if not self.scored:
            return None
        row = best_validation(self.scored, self.score)
        return BestModel(row[self.score], row["Step"], row.get(LOSS, inf))

    @property
    def hours(self) -> float:
        """Of training, without validations."""
        seconds: float = sum(row["Lapse Time"] for row in self.reports)
        return seconds / 3600

    @property
    def speed(self) -> float:
        """Hours of audio in an hour of training."""
        samples: float = sum(row["Number of Source Elements"] for row in self.reports)
        return samples / SAMPLE_RATE / 3600 / self.hours

    @property
    def profile(self) -> str:
        """The text profile of the run's scores."""
        return str(self.config.get("regime.score_profile") or DEFAULT_PROFILE)

    def scores(self, evaluation: Evaluation) -> Scores:
        """Return the scores of an evaluation under the run's profile.

        Raises:
            ConfigError: The run's configuration names code as its profile.
            PredictionsError: The evaluation cannot be scored.
        """
        command = shlex.join(["score", str(self.folder), "--profile", self.profile])
        remedy = f"if you trust it, `danish-asr {command}` calls it"
        profile = profile_in(self.folder / CONFIG_FILE, self.profile, remedy)
        return scored([evaluation.predictions], Request(by=(), profile=profile))

    @cached_property
    def test(self) -> Scores | None:
        """The scores of the run's own test split, by its evaluation `choice`."""
        if not self.own.evaluations():
            return None
        try:
            self.choice = self.own.test()
            return self.scores(self.choice.taken)
        except DanishAsrError as error:  # one run must not hide the others
            self.fault = str(error)
            return None

    @property
    def is_unusual(self) -> bool:
        """Whether `test` may be of another evaluation than its reader expects."""
        if self.choice is None:
            return False
        taken = self.choice.taken
        own_decoder = self.config.get("decoder.name") or DecoderSection.name
        expected = (own_decoder, BEST)
        is_expected = (taken.decoder, taken.about.get("checkpoint")) == expected
        is_old = self.choice.newer_best is not None
        return not is_expected or is_old or bool(self.choice.others or self.choice.broken)

    def line(self) -> dict[str, Any]:
        """Return what a table for programs has of the run."""
        wer = self.test.overall.wer if self.test else None
        low, high = (wer.interval if wer else None) or (None, None)
        return {
            "run": self.name,
            "state": self.state,
            "reason": self.reason,
            "step": self.reached,
            "num_steps": self.steps,
            "metric": self.score,
            "dev": self.best.score if self.best else None,
            "dev_step": self.best.step if self.best else None,
            "hours": self.hours if self.reports else None,
            "audio_hours_per_hour": self.speed if self.reports else None,
            "test_wer": wer.value if wer else None,
            "test_wer_low": low,
            "test_wer_high": high,
            "test_evaluation": self.choice.taken.predictions if self.choice and wer else None,
            "score_profile": self.profile,
        }


def find_runs(root: Path) -> list[ListedRun]:
    """Return the runs in a directory or below it, the best dev score first, without one last.

    If they were validated on different rows, as folds are, they are in the order of their names.

    Raises:
        RunError: There is none.
    """
    runs = []
    for folder in _folders(root):
        name = folder.relative_to(root).as_posix()
        runs.append(ListedRun(folder, "" if name == "." else name))
    if not runs:
        raise RunError(
            f"{root}: no run in it or below it; expected the OUTDIR of `danish-asr train` or "
            "`danish-asr sweep`, or a directory above several"
        )
    if not have_same_dev_rows(runs):
        return runs
    return sorted(runs, key=lambda run: (run.best.score, run.best.loss) if run.best else (inf, inf))


def have_same_dev_rows(runs: Iterable[ListedRun]) -> bool:
    """Whether runs were validated on the same rows, so that their scores can be ranked."""
    rows = {tuple(map(run.config.get, _DEV_ROWS)) for run in runs if not run.refused}
    return len(rows) < 2


def _folders(root: Path) -> Iterator[Path]:
    """Yield the directories of runs in ``root`` or below it, also of those that were refused."""
    for folder, folders, files in os.walk(root):
        if {CONFIG_FILE, ENVIRONMENT} <= {*files} or FAILED in files:
            yield Path(folder)
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def is_run(folder: Path) -> bool:
    """Whether a directory is that of a run, also of one that was refused."""
    return any((folder / file).is_file() for file in (CONFIG_FILE, FAILED))


def report_runs(root: Path, *, csv: Path | None = None, console: Console | None = None) -> None:
    """Print the runs below ``root``, why some failed or have no score; write a table.

    Raises:
        RunError: There is no run.
        ConfigError: The table would overwrite a file of a run.
    """
    console, runs = console or Terminal(), find_runs(root)
    writes = [(csv, _table)] if csv else []
    read = [path for run in runs for path in run.own.files()]
    functions = declared(writes, read, option="--csv")
    keys = _different_keys(runs)
    metrics = " or ".join(dict.fromkeys(run.score for run in runs if not run.refused))
    order = "lower is better" if have_same_dev_rows(runs) else "of different rows: not ranked"
    say(f"runs in {root}: {len(runs)}. Best dev: {metrics}, {order}", console)
    if any(run.test for run in runs):
        profiles = " or ".join(dict.fromkeys(run.profile for run in runs if run.test))
        say(f"test WER under profile {profiles}", console)
    columns = [*zip(*_cells(runs, keys), strict=True)]
    shown = fitting(columns, len(columns) - len(keys) - len(_TIMES), console)
    headings, *rows = map(list, zip(*shown, strict=True))
    print_table(light_table(headings), {"": rows}, console)
    say("", console)
    if left_out := [column[0] for column in columns if column not in shown]:
        names = ", ".join(left_out)
        say(f"too wide for the table: {names}; --csv has all", console)
    for run in runs:
        if run.reason:
            say(f"{run.name}: {run.state}: {run.reason}", console)
        if run.fault:
            say(f"{run.name}: test score not computed: {run.fault}", console)
        elif run.choice and run.is_unusual:
            say(f"test WER: {run.choice.in_words()}", console)
    write_all(functions, runs)
    for path in functions:
        say(f"wrote {path}", console)


def _table(runs: Sequence[ListedRun]) -> Content:
    keys = _different_keys(runs)
    lines = [run.line() | _values(run, keys) for run in runs]
    # As objects: beside a run without one, a step would become a float.
    return Content.of_text(to_csv(pd.DataFrame(lines, dtype=object)))


def _different_keys(runs: Sequence[ListedRun]) -> list[str]:
    configs = [run.config for run in runs if not run.refused]
    return [
        key
        for key in dict.fromkeys(key for config in configs for key in config)
        if not key.startswith(_LEFT_OUT)
        and any(config.get(key) != configs[0].get(key) for config in configs)
    ]


def _values(run: ListedRun, keys: Sequence[str]) -> dict[str, str]:
    return {key: str(run.config[key]) for key in keys if key in run.config}


def _cells(runs: Sequence[ListedRun], keys: Sequence[str]) -> list[list[str]]:
    """Return headings and rows; the keys in which the runs differ come last."""
    tested = any(run.test for run in runs)
    headings = ["run", "state", "step", "best dev", "at step"]
    headings += [*["test WER %"] * tested, *_TIMES, *short_names(keys).values()]
    table = [headings]
    for run in runs:
        cells = [run.name, run.state, "" if run.refused else f"{run.reached}/{run.steps or '?'}"]
        cells += [f"{run.best.score:.2f}", str(run.best.step)] if run.best else ["", ""]
        if tested:
            cells.append(percent(run.test.overall.wer.value) if run.test else "")
        cells += [f"{run.hours:.2f}", f"{run.speed:,.0f}"] if run.reports else ["", ""]
        values = _values(run, keys)
        table.append(cells + [short(values.get(key), _LONGEST) for key in keys])
    return table
