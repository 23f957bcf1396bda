"""What a run's directory says of its training: configuration, metrics, and whether it continues."""

import time
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.base.config_tree import flatten, read_yaml
from danish_asr.base.errors import RunError
from danish_asr.base.lease import LOCK_FILE, SECONDS
from danish_asr.base.schema import CARDS_DIR
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


class BestModel(NamedTuple):
    """The best validation of the weights or of an average."""

    score: float
    name: str
    step: int


class History:
    """A run, as its files are now."""

    def __init__(self, run: Path) -> None:
        """Read the configuration and the metrics.

        Raises:
            RunError: The directory is not that of a run.
            ConfigError: Its configuration cannot be read.
        """
        if not run.is_dir():
            raise RunError(f"{run}: no such directory; expected OUTDIR of a training run")
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
        self.step: int = max(
            (rows[-1]["Step"] for rows in (self.reports, self.validations) if rows), default=0
        )

    def _rows(self, name: str) -> Rows:
        return [row for _, row in recorded(self.run / METRICS / f"{name}.jsonl")]

    @property
    def scored(self) -> Rows:
        """The validations that have the run's score."""
        return [row for row in self.validations if self.score in row]

    @property
    def models(self) -> list[BestModel]:
        """The best score of the weights and of each average, its name and step, the best first.

        The average over steps is a model of its own in ``averages`` when the run is complete.
        """
        validated = {"weights": self.scored}
        if not (self.run / AVERAGES / EMA).is_dir():
            validated["EMA"] = [row for row in self._rows(f"valid/{EMA}") if self.score in row]
        best = {
            name: best_validation(rows, self.score)[1] for name, rows in validated.items() if rows
        }
        found = [BestModel(row[self.score], name, row["Step"]) for name, row in best.items()]
        for folder in sorted((self.run / AVERAGES).glob("*")):
            scores = checkpoint_scores(folder).items()
            found += [
                BestModel(-score, f"{AVERAGES}/{folder.name}", step) for step, score in scores
            ]
        return sorted(found, key=lambda model: model.score)  # of equals the weights, as in the card

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
