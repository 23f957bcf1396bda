"""Stop when validation has not improved for a while."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import final

from fairseq2.early_stopper import EarlyStopper
from fairseq2.logging import log
from typing_extensions import override

from danish_asr.recipe.run_directory import validation_scores
from danish_asr.recipe.sections import AsrRegimeSection


@final
class PatienceStopper(EarlyStopper):
    """Ends training after ``patience`` validations in a row without a new best score.

    Args:
        patience: Validations to wait for an improvement.
        history: Scores of earlier validations of the same run, oldest first; higher is better. A
            run that continues must not start to wait anew.
    """

    def __init__(self, patience: int, history: Iterable[float] = ()) -> None:
        self._patience = patience
        self._best = float("-inf")
        self._waited = 0
        for score in history:
            self._count(score)

    def _count(self, score: float) -> None:
        self._waited = 0 if score > self._best else self._waited + 1
        self._best = max(self._best, score)

    @property
    def exhausted(self) -> bool:
        """Whether the last ``patience`` validations all failed to improve."""
        return self._waited >= self._patience

    @override
    def should_stop(self, step_nr: int, score: float) -> bool:
        self._count(score)
        if not self.exhausted:
            return False
        log.info("No better validation score in {} validations; stopping.", self._waited)
        return True


def patience_stopper(output_dir: Path, regime: AsrRegimeSection) -> PatienceStopper | None:
    """The stopper of a run, with what it has validated so far; None if it has no patience set."""
    if regime.early_stopping_patience is None:
        return None
    history = validation_scores(output_dir, regime.score_metric or "")
    return PatienceStopper(regime.early_stopping_patience, history)


def out_of_patience(output_dir: Path, regime: AsrRegimeSection) -> bool:
    """Whether a run has stopped early already; the same command then has nothing to do."""
    stopper = patience_stopper(output_dir, regime)
    return stopper is not None and stopper.exhausted
