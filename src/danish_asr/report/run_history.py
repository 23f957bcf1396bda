"""A run's directory as its files are now: configuration, metrics, and whether it continues."""

import json
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.base.config_tree import flatten, merge, parse_override, read_yaml
from danish_asr.base.errors import ConfigError, RunError
from danish_asr.base.lease import LOCK_FILE, SECONDS
from danish_asr.base.schema import CARDS_DIR
from danish_asr.recipe.config.keys import defaults
from danish_asr.recipe.run.advice import Rows, best_validation
from danish_asr.recipe.run.run_directory import (
    AVERAGES,
    CONFIG_FILE,
    EMA,
    ENVIRONMENT,
    FAILED,
    METRICS,
    SCORE_TITLES,
    checkpoint_scores,
    recorded,
)

COMPLETE: Final = "complete"
TRAINING: Final = "in training"
STOPPED: Final = "not running; the command that started it continues it"
FAILED_STATE: Final = "failed"

_COMPONENTS: Final = ("optimizer", "lr_scheduler")
_COMMAND_LINE: Final = "command line"
_START: Final = "model.path"


class BestModel(NamedTuple):
    """The best validation of the weights or of an average."""

    score: float
    name: str
    step: int


class Change(NamedTuple):
    """A value that is not the default; ``layers`` has what each file or command line says of it."""

    key: str
    value: str
    default: str
    layers: dict[str, str]


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
        self.config: dict[str, Any] = dict(flatten(read_yaml(run / CONFIG_FILE)))
        self.reports, self.validations = self._rows("train"), self._rows("valid")
        self.score = SCORE_TITLES[self.config.get("regime.score_metric") or "wer"]
        self.steps: int | None = self.config.get("regime.num_steps")
        steps = [rows[-1]["Step"] for rows in (self.reports, self.validations) if rows]
        self.step: int = max(steps, default=0)

    def _rows(self, name: str) -> Rows:
        return [row for _, row in recorded(self.run / METRICS / f"{name}.jsonl")]

    @property
    def scored(self) -> Rows:
        """The validations that have the run's score."""
        return [row for row in self.validations if self.score in row]

    @property
    def models(self) -> list[BestModel]:
        """The best score of the weights and of each average, the best first.

        The average over steps is a model of its own in ``averages`` when the run is complete.
        """
        validated = {"weights": self.scored}
        if not (self.run / AVERAGES / EMA).is_dir():
            validated["EMA"] = [row for row in self._rows(f"valid/{EMA}") if self.score in row]
        models = []
        for name, rows in validated.items():
            if rows:
                _, row = best_validation(rows, self.score)
                models.append(BestModel(row[self.score], name, row["Step"]))
        for folder in sorted((self.run / AVERAGES).glob("*")):
            for step, score in checkpoint_scores(folder).items():
                models.append(BestModel(-score, f"{AVERAGES}/{folder.name}", step))
        # Of equals the weights come first, as in the card.
        return sorted(models, key=lambda model: model.score)

    @cached_property
    def state(self) -> str:
        """Whether the run is complete, in training, failed or stopped.

        A process that trains refreshes its lock; a complete run has a card for its best model.
        """
        lock = self.run / LOCK_FILE
        if lock.exists() and time.time() - lock.stat().st_mtime < SECONDS:
            return TRAINING
        early = ("regime.early_stopping_patience", "regime.num_data_epochs")
        ended = self.step >= (self.steps or 0) or any(self.config.get(key) for key in early)
        if ended and [*self.run.glob(f"{CARDS_DIR}/*.yaml")]:
            return COMPLETE
        return FAILED_STATE if (self.run / FAILED).is_file() else STOPPED

    @property
    def ended(self) -> bool:
        """Whether the run has nothing left to do, or failed."""
        return self.state in {COMPLETE, FAILED_STATE}

    @property
    def reason(self) -> str:
        """Why the run failed; empty if it did not."""
        if self.state != FAILED_STATE:
            return ""
        return (self.run / FAILED).read_text(encoding="utf-8").strip()

    def changes(self) -> list[Change]:
        """Return the values that are not the defaults, and the files that set them."""
        usual, layers = _defaults(self.config), _layers(self.run)
        config = self.config
        started = [layer[_START] for layer in layers.values() if layer.get(_START)]
        if started:  # config.yaml has the name of its card, in model.name
            config = {**config, _START: str(started[-1])}
        changes = []
        for key, value in config.items():
            if key not in usual or value != usual[key]:
                own = {name: as_text(layer[key]) for name, layer in layers.items() if key in layer}
                default = as_text(usual[key]) if key in usual else ""
                changes.append(Change(key, as_text(value), default, own))
        return changes


def _defaults(config: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults; another optimizer or schedule than the usual one has none."""
    usual = defaults()
    for section in _COMPONENTS:
        if config.get(f"{section}.name") != usual[f"{section}.name"]:
            settings = f"{section}.config."
            usual = {key: value for key, value in usual.items() if not key.startswith(settings)}
    return usual


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
                    layers[Path(text).name] = dict(flatten(read_yaml(Path(text))))
    if overrides:
        layers[_COMMAND_LINE] = dict(flatten(merge(*overrides)))
    return layers


def as_text(value: Any) -> str:
    """Return a value of a configuration as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
