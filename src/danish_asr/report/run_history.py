"""A run's directory as its files are now: configuration, state, metrics, curves, evaluations."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from danish_asr.base.config_tree import flatten, merge, parse_override, read_yaml
from danish_asr.base.errors import ConfigError, RunError
from danish_asr.base.files import LOCK_FILE, LOCK_SECONDS
from danish_asr.base.schema import CARDS_DIR, SAMPLE_RATE
from danish_asr.recipe.config.keys import defaults
from danish_asr.recipe.run.advice import CHANCE, LOSS, Rows, best_validation
from danish_asr.recipe.run.run_directory import (
    CONFIG_FILE,
    ENVIRONMENT,
    EVALUATION,
    FAILED,
    METRICS,
    SCORE_TITLES,
    evaluation_of,
    read_evaluation,
    recorded,
)
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scores import Scores, score_predictions

COMPLETE: Final = "complete"
TRAINING: Final = "in training"
STOPPED: Final = "not running; the command that started it continues it"
FAILED_STATE: Final = "failed"

_BY_STEP: Final = ("unfreeze", "stages")
"""Keys of ``trainer`` with a mapping of steps, which is one value."""

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

Curve: TypeAlias = "pd.Series[Any]"
"""Values; the index holds steps, in order."""


class BestModel(NamedTuple):
    """The best validation."""

    score: float
    step: int


class Change(NamedTuple):
    """A value that is not the default; ``layers`` has what each file or command line says of it."""

    key: str
    value: str
    default: str
    layers: dict[str, str]


class Panel(NamedTuple):
    """Curves with common axes."""

    title: str
    unit: str
    curves: Mapping[str, Curve]
    logarithmic: bool = False
    noisy: bool = False


class Evaluation(NamedTuple):
    """Scores of ``predictions`` with the default settings, and what was scored."""

    predictions: Path
    about: dict[str, Any]
    scores: Scores
    decoder: str

    @property
    def split(self) -> str:
        """The splits that were scored, and which rows of them if not all."""
        condition = self.about.get("where")
        splits = ", ".join(self.about["rows_in_split"])
        return f"{splits}, where {condition}" if condition else splits


class History:
    """A run, as its files are now."""

    def __init__(self, run: Path) -> None:
        """Read the configuration and the metrics.

        Raises:
            RunError: The directory is not that of a run.
            ConfigError: Its configuration cannot be read.
        """
        missing = [name for name in (CONFIG_FILE, ENVIRONMENT) if not (run / name).is_file()]
        if missing:
            raise RunError(
                f"{run}: no {' and no '.join(missing)} there; expected OUTDIR of a training run, "
                "which has both soon after its start"
            )
        self.run = run.resolve()
        self.config = _flat(read_yaml(run / CONFIG_FILE))
        self.reports, self.validations = _metrics(run, "train"), _metrics(run, "valid")
        self.score = SCORE_TITLES[self.config.get("regime.score_metric") or "wer"]
        self.steps: int | None = self.config.get("regime.num_steps")
        steps = [rows[-1]["Step"] for rows in (self.reports, self.validations) if rows]
        self.step: int = max(steps, default=0)

    @property
    def scored(self) -> Rows:
        """The validations that have the run's score."""
        return [row for row in self.validations if self.score in row]

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
    def best(self) -> BestModel | None:
        """The best validation so far, if there is one."""
        if not self.scored:
            return None
        _, row = best_validation(self.scored, self.score)
        return BestModel(row[self.score], row["Step"])

    @cached_property
    def state(self) -> str:
        """Whether the run is complete, in training, failed or stopped.

        A process that trains refreshes its lock; a complete run has a card for its best model.
        """
        lock = self.run / LOCK_FILE
        if lock.exists() and time.time() - lock.stat().st_mtime < LOCK_SECONDS:
            return TRAINING
        early = ("regime.early_stopping_patience", "regime.num_data_epochs")
        ended = self.step >= (self.steps or 0) or any(self.config.get(key) for key in early)
        if ended and [*self.run.glob(f"{CARDS_DIR}/*.yaml")]:
            return COMPLETE
        return FAILED_STATE if (self.run / FAILED).is_file() else STOPPED

    @property
    def reason(self) -> str:
        """Why the run failed; empty if it did not."""
        if self.state != FAILED_STATE:
            return ""
        return (self.run / FAILED).read_text(encoding="utf-8").strip()

    def changes(self) -> list[Change]:
        """Return the values that are not the defaults, and the files that set them."""
        usual, layers = defaults(), _layers(self.run)
        for section in ("optimizer", "lr_scheduler"):  # another one has other keys
            if self.config.get(f"{section}.name") != usual[f"{section}.name"]:
                settings = f"{section}.config."
                usual = {key: value for key, value in usual.items() if not key.startswith(settings)}
        config = dict(self.config)
        for layer in layers.values():  # config.yaml has the name of its card, in model.name
            if layer.get("model.path"):
                config["model.path"] = str(layer["model.path"])
        changes = []
        for key, value in config.items():
            if key not in usual or value != usual[key]:
                own = {name: as_text(layer[key]) for name, layer in layers.items() if key in layer}
                default = as_text(usual[key]) if key in usual else ""
                changes.append(Change(key, as_text(value), default, own))
        return changes


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by dotted key; what begins at which step is one value."""
    trainer = tree.get("trainer")
    if not isinstance(trainer, Mapping):
        return dict(flatten(tree))
    by_step = {f"trainer.{name}": trainer[name] for name in _BY_STEP if trainer.get(name)}
    rest = {name: value for name, value in trainer.items() if name not in _BY_STEP}
    return dict(flatten({**tree, "trainer": rest})) | by_step


def _metrics(run: Path, name: str) -> Rows:
    return [row for _, row in recorded(run / METRICS / f"{name}.jsonl")]


def _layers(run: Path) -> dict[str, dict[str, Any]]:
    """Return the flat configurations in the commands of the run's starts, the last one wins.

    A file that is gone has no layer.
    """
    layers: dict[str, dict[str, Any]] = {}
    overrides = []
    for start in json.loads((run / ENVIRONMENT).read_text(encoding="utf-8")):
        for argument in start["command"][1:]:
            # --config-file=FILE and -c FILE name files, key=value needs no option or --config.
            text = argument.partition("=")[2] if argument.startswith("-") else argument
            if "=" in text:
                overrides.append(parse_override(text))
            elif text.endswith((".yaml", ".yml")):
                with suppress(ConfigError):  # moved, or named from another directory
                    layers[Path(text).name] = _flat(read_yaml(Path(text)))
    if overrides:
        layers["command line"] = _flat(merge(*overrides))
    return layers


def as_text(value: Any) -> str:
    """Return a value of a configuration as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_panels(run: Path, *, detailed: bool = False) -> list[Panel]:
    """Return the curves of a run's metrics, those that have values.

    ``detailed``: also what a step takes.

    Raises:
        RunError: There are no metrics.
    """
    if not any((run / METRICS).glob("*.jsonl")):
        raise RunError(f"{run}: no {METRICS}/*.jsonl; expected the OUTDIR of a training run")
    names = ("train", "valid")
    frames = {name: pd.DataFrame(_metrics(run, name)) for name in names}
    panels = [
        Panel("Loss", "nats per character", _curves(frames, _LOSSES), logarithmic=True, noisy=True),
        Panel("Error rates in validation", "%", _curves(frames, _RATES)),
    ]
    if detailed:
        panels += _step_panels(frames["train"])
    shown = []
    for panel in panels:
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


def evaluations(run: Path) -> list[Evaluation]:
    """Return the finished evaluations of a run; greedy's of the whole test split come first."""
    finished = [
        _evaluation(file, file.stat().st_mtime_ns, about.stat().st_mtime_ns)
        for file in sorted(run.glob("eval/**/predictions.jsonl"))
        if (about := file.with_name(EVALUATION)).is_file()
    ]
    special = ("where", "decoder")
    return sorted(
        finished,
        key=lambda each: ("test" not in each.split, *(key in each.about for key in special)),
    )


@lru_cache(maxsize=64)
def _evaluation(predictions: Path, *_changed: int) -> Evaluation:
    about = read_evaluation(predictions.with_name(EVALUATION))
    rows = sum((about.get("rows_in_split") or {}).values()) or None
    scores = score_predictions(read_predictions(predictions), by=["dialect"], rows_in_split=rows)
    evaluation_of(predictions, scores.rows.digests)  # refuses predictions that were changed
    decoder = str((about.get("decoder") or {}).get("name", "greedy"))
    # eval/<checkpoint>/<split>/predictions.jsonl, or in a directory below with a label of its own
    label = predictions.parent.name if predictions.parents[3].name == "eval" else decoder
    named = decoder if label == decoder else f"{decoder} ({label})"
    return Evaluation(predictions, about, scores, named)
